"""Trees that are drawn and weighed by the label: how much each counts, and where pointer and cell go."""

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch

from ordered_memory.classifier import Classifier
from ordered_memory.config import ClassifierConfig, OrderedMemoryConfig
from ordered_memory.tasks.listops import ListOps, ListOpsConfig
from ordered_memory.training.batching import Dataset
from ordered_memory.training.draws import drawn_losses, weigh
from ordered_memory.training.evaluation import evaluate
from ordered_memory.training.optimisation import update
from ordered_memory.trees import Tree
from ordered_memory.vocabulary import PADDING, Vocabulary

ROWS = {1: [[1, 2, 3, 1], [2, 1, 3, 3]], 2: [[1, 2, 3, 1], [2, 1], [3], [3, 1, 2]]}
"""Token ids: of two single sentences, and of two pairs."""


def model_of(sentences: int, size: int = 8) -> Classifier:
    torch.manual_seed(3)
    encoder = OrderedMemoryConfig(hidden_size=size, num_slots=4, dropout=0.0, attention_dropout=0.0)
    config = ClassifierConfig(embedding_size=size, input_dropout=0.0, output_dropout=0.0)
    return Classifier(
        Vocabulary(("a", "b", "c")), ("x", "y", "z"), "ordered-memory", encoder, config, None, None, sentences
    )


def batch_of(model: Classifier):
    return model.collate(ROWS[model.sentences], [0, 2])


def is_pointer(name: str) -> bool:
    return ".attention." in name


def all_trees(tokens: tuple[int, int]):
    """Every binary tree over the tokens from one to another, as lists of its nodes."""
    start, end = tokens
    if end - start == 1:
        yield []
    for middle in range(start + 1, end):
        for left, right in product(all_trees((start, middle)), all_trees((middle, end))):
            yield [(start, end), *left, *right]


class TestWeights:
    @pytest.mark.parametrize("sentences", [1, 2])
    def test_each_combination_counts_by_how_likely_it_makes_the_label(self, sentences):
        model, draws, labels = model_of(sentences), 3, torch.tensor([0, 2])
        vectors = torch.randn(sentences * 2 * draws, 8)
        posterior, combinations = weigh(model, vectors, labels, draws)
        assert combinations.tolist() == [list(places) for places in product(range(draws), repeat=sentences)]
        for example, label in enumerate(labels):
            likely = []
            for places in combinations.tolist():
                rows = [(sentence * 2 + example) * draws + place for sentence, place in enumerate(places)]
                likely.append(model.answer(vectors[rows]).softmax(-1)[0, label])
            assert torch.allclose(posterior[example], torch.stack(likely) / sum(likely), atol=1e-6)


class TestDistances:
    def test_they_are_the_trees_probabilities(self):
        """Those of all trees add up to one, and trees are drawn as often as they say."""
        model = model_of(1)
        trees = [np.array(nodes, dtype=np.int32) for nodes in all_trees((0, 4))]
        assert len(trees) == 5
        rows = model.collate([ROWS[1][0]] * 5, trees=trees)
        likely = (-model.distances_of_trees(rows)).exp().detach()
        assert likely.sum() == pytest.approx(1.0, abs=1e-5)
        drawn = model.draw_trees(model.collate([ROWS[1][0]] * 4000)).spans
        counts = [sum(np.array_equal(tree, one) for one in drawn) for tree in trees]
        assert np.array(counts) / 4000 == pytest.approx(likely.numpy(), abs=0.035)

    def test_all_but_the_pointer_is_held(self):
        model = model_of(2)
        batch = batch_of(model)
        with torch.no_grad():
            drawn = model.draw_trees(batch)
        model.distances_of_trees(batch._replace(trees=drawn.spans)).sum().backward()
        assert {is_pointer(name) for name, weight in model.named_parameters() if weight.grad is not None} == {True}


class TestLosses:
    @pytest.mark.parametrize("sentences", [1, 2])
    def test_one_is_the_cell_s_and_one_the_pointer_s(self, sentences):
        model = model_of(sentences)
        moved = []
        for loss in drawn_losses(model, batch_of(model), draws=4, hidden=0.2):
            model.zero_grad()
            loss.backward()
            weights = [(name, weight.grad) for name, weight in model.named_parameters() if weight.grad is not None]
            moved.append({is_pointer(name) for name, gradient in weights if gradient.abs().sum() > 0})
        assert moved == [{False}, {True}]

    def test_the_pointer_goes_where_the_label_becomes_likelier(self):
        """In the mean, and the nearer the more are drawn: against all trees, gone through."""
        model = model_of(1)
        with torch.no_grad():  # so that trees matter to the label
            for weight in model.head.parameters():
                weight *= 6
        row, label = ROWS[1][0], torch.tensor([1])
        trees = [np.array(nodes, dtype=np.int32) for nodes in all_trees((0, 4))]
        every = model.collate([row] * 5, [1] * 5, trees)
        pointer = [weight for name, weight in model.named_parameters() if is_pointer(name)]
        with torch.no_grad():
            likely = model(every).logits.softmax(-1)[:, 1]
        assert likely.max() > 1.5 * likely.min()
        exact = -((-model.distances_of_trees(every)).exp() * likely).sum().log()
        wanted = torch.cat([part.flatten() for part in torch.autograd.grad(exact, pointer)])
        found = torch.zeros_like(wanted)
        for _ in range(150):
            _, loss = drawn_losses(model, model.collate([row], label), draws=64, hidden=0.0)
            found += torch.cat([part.flatten() for part in torch.autograd.grad(loss, pointer)]) / 150
        assert torch.cosine_similarity(found, wanted, 0) > 0.97
        assert found.norm() == pytest.approx(wanted.norm().item(), rel=0.15)

    @pytest.mark.parametrize("hidden", [0.0, 0.3])
    def test_a_share_of_the_tokens_is_hidden_from_the_cell_alone(self, monkeypatch, hidden):
        model = model_of(1)
        batch = model.collate([[1, 2, 3, 1]] * 500, [0] * 500)
        seen, losses = [], Classifier.losses

        def watched(self, shown):
            seen.append(shown)
            return losses(self, shown)

        monkeypatch.setattr(Classifier, "losses", watched)
        drawn, draw = [], Classifier.draw_trees
        monkeypatch.setattr(Classifier, "draw_trees", lambda self, rows: drawn.append(rows) or draw(self, rows))
        next(drawn_losses(model, batch, 2, hidden))
        unseen = seen[0].tokens == PADDING
        assert unseen.float().mean() == pytest.approx(hidden, abs=0.04)
        assert torch.equal(seen[0].tokens[~unseen], batch.tokens[~unseen])
        assert not (drawn[0].tokens == PADDING).any()

    def test_rows_of_one_token_have_nothing_to_decide(self):
        model = model_of(2)
        batch = model.collate([[1], [2], [3], [1]], [0, 1])
        optimiser = torch.optim.Adam(model.parameters(), 0.01)
        _, whole = update(model, optimiser, batch, 1.0, partial(drawn_losses, draws=3, hidden=0.1))
        assert whole


def test_a_pointer_learns_trees_from_labels():
    """Beside a cell that knows gold trees, from one that knows nothing."""
    data = ListOpsConfig(
        pool_size=700, test_size=50, validation_size=50, max_depth=3, max_arguments=3, operators=("MIN", "MAX")
    )
    task = ListOps(data)
    torch.manual_seed(2)
    encoder = OrderedMemoryConfig(hidden_size=24, num_slots=8, dropout=0.0, attention_dropout=0.0)
    config = ClassifierConfig(embedding_size=24, input_dropout=0.0, output_dropout=0.0)
    model = Classifier(task.vocabulary, task.labels, "ordered-memory", encoder, config, "listops")
    examples = task.splits()["train"]
    dataset = Dataset.encode(examples, model)
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)
    generator = np.random.default_rng(0)
    f1 = []
    for steps, drawn in ((150, False), (240, True)):
        for _ in range(steps):
            indices = generator.integers(len(examples), size=40)
            batch = dataset.batch(indices, model)
            if drawn:
                update(model, optimiser, batch, 1.0, partial(drawn_losses, draws=6, hidden=0.1))
            else:
                gold = [Tree(examples[index].sentences[0], examples[index].trees[0].spans).spans for index in indices]
                update(model, optimiser, batch._replace(trees=gold), 1.0)
        f1.append(evaluate(model, task.splits()["test"], task.bucket, pointer="hard").f1)
    assert f1[1] > f1[0] + 0.2

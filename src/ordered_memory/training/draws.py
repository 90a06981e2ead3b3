"""Trees that are drawn, and weighed by what the label says of them.

Of each sentence several trees are drawn by the pointer's weights. The more likely the label is along a tree, the more
it counts: the pointer learns to build those that count more than the average, and the cell learns along one that is
drawn by how much they count. In the mean the pointer goes where the label becomes likelier, as in the E-step and the
M-step of EM, and no soft memory comes into it, whose blur a cell that learns along whole trees does not know.

A cell learns mistakes by heart, where it can tell from tokens inside a sub-tree what should have been joined to it, and
then the label says nothing against them. So some tokens are hidden from it: what it cannot see it cannot lean on, and
what is left is that a tree is right.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ordered_memory.classifier import Batch, Classifier
from ordered_memory.vocabulary import PADDING


def drawn_losses(model: Classifier, batch: Batch, draws: int, hidden: float) -> Iterator[Tensor]:
    """Two losses, each to be followed by an update: the cell's and the pointer's, of which the other knows nothing.

    The cell is shown the batch with a share of `hidden` tokens read as padding.
    """
    rows = batch._replace(
        tokens=batch.tokens.repeat_interleave(draws, 1), lengths=batch.lengths.repeat_interleave(draws), trees=None
    )
    with torch.no_grad():
        vectors, trees, _ = model.draw_trees(rows)
        assert trees is not None  # a model with a pointer
        posterior, combinations = weigh(model, vectors, batch.labels, draws)  # (examples, combinations)
        shares = [posterior @ one_hot(of_sentence, draws).to(posterior) for of_sentence in combinations.T]
        advantages = torch.cat(shares).flatten() - 1 / draws  # (rows,): sentence by sentence, as rows are
        chosen = combinations[torch.multinomial(posterior, 1)[:, 0].cpu()].T.flatten()  # (sentences * examples,)
    places = torch.arange(len(chosen)) * draws + chosen
    pointer_loss = (model.distances_of_trees(rows._replace(trees=trees)) * advantages).sum() / len(batch.labels)
    unseen = torch.rand(batch.tokens.shape).to(batch.tokens.device) < hidden
    seen = batch._replace(
        tokens=batch.tokens.masked_fill(unseen, PADDING), trees=[trees[place] for place in places.tolist()]
    )
    yield from model.losses(seen)
    yield pointer_loss


def weigh(model: Classifier, vectors: Tensor, labels: Tensor, draws: int) -> tuple[Tensor, Tensor]:
    """How much each combination of one tree of each sentence counts, by the label, and which trees it is of.

    `vectors` are those of the trees: sentence by sentence, of each all examples, of each all its draws.
    """
    combinations = torch.cartesian_prod(*[torch.arange(draws)] * model.sentences).view(-1, model.sentences)
    by_draw = vectors.view(model.sentences, len(labels), draws, -1)
    combined = [of_one[:, which] for of_one, which in zip(by_draw, combinations.T, strict=True)]
    logits = model.answer(torch.cat(combined).flatten(0, 1)).view(len(labels), len(combinations), -1)
    likelihood = logits.log_softmax(-1)[torch.arange(len(labels)), :, labels]
    return likelihood.softmax(-1), combinations

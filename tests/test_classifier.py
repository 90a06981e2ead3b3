"""The classifier: what it predicts, what it learns from, and how pairs and embeddings go through it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ordered_memory.classifier import Classifier, make_head
from ordered_memory.config import (
    ClassifierConfig,
    CooperativeConfig,
    GumbelTreeConfig,
    LSTMConfig,
    OrderedMemoryConfig,
    SPINNConfig,
)
from ordered_memory.encoders import Encoding, SharedTrees
from ordered_memory.errors import InputError
from ordered_memory.tasks import propositions
from ordered_memory.tasks.listops import VOCABULARY
from ordered_memory.training.optimisation import set_dropout
from ordered_memory.trees import Tree
from ordered_memory.vectors import WordVectors
from ordered_memory.vocabulary import PADDING, Vocabulary

LABELS = tuple("0123456789")
ENCODERS = {
    "ordered-memory": OrderedMemoryConfig(hidden_size=6, num_slots=4),
    "lstm": LSTMConfig(hidden_size=6, num_layers=2, dropout=0.1),
    "gumbel-tree": GumbelTreeConfig(hidden_size=6),
    "rl-spinn": SPINNConfig(hidden_size=6, tracking_size=4),
    "cooperative": CooperativeConfig(hidden_size=6, parser_size=4),
}
TEXT = "[MAX 2 9 [MIN 4 7 ] 0 ]"


def make(model="ordered-memory", seed=0, **config) -> Classifier:
    torch.manual_seed(seed)
    sizes = ClassifierConfig(embedding_size=5, **config)
    return Classifier(VOCABULARY, LABELS, model, ENCODERS[model], sizes, task="listops", card={"seed": seed}).eval()


@pytest.fixture(params=list(ENCODERS))
def model(request) -> Classifier:
    return make(request.param)


class TestPredict:
    def test_probabilities_are_the_softmax_of_the_logits(self, model):
        prediction = model.predict(TEXT)
        batch = model.collate([VOCABULARY.encode(TEXT.split())])
        logits = model(batch).logits[0].detach()
        assert list(prediction.probabilities) == list(LABELS)
        np.testing.assert_allclose(list(prediction.probabilities.values()), logits.double().softmax(-1), rtol=1e-5)
        assert prediction.label == LABELS[logits.argmax()]
        assert prediction.tokens == tuple(TEXT.split())

    def test_ordered_memory_gives_a_binary_tree_and_a_pointer(self):
        prediction = make().predict(TEXT)
        assert prediction.tree.tokens == prediction.tokens
        assert prediction.tree.is_binary
        assert prediction.pointer.shape == (9, 4)
        assert not prediction.pointer[0].any()
        np.testing.assert_allclose(prediction.pointer[1:].sum(1), 1, rtol=1e-5)
        assert prediction.pointer[1].argmax() == 3  # after one token there is one sub-tree, at the bottom

    def test_an_lstm_gives_neither(self):
        prediction = make("lstm").predict(TEXT)
        assert (prediction.tree, prediction.pointer) == (None, None)

    def test_text_and_tokens_are_the_same_and_round_brackets_are_dropped(self, model):
        from_tokens = model.predict(TEXT.split())
        assert model.predict(TEXT).to_dict() == from_tokens.to_dict()
        assert model.predict("( ( [MAX 2 ) 9 [MIN 4 7 ] 0 ] )").to_dict() == from_tokens.to_dict()

    def test_plain_values_for_json(self, model):
        prediction = model.predict(TEXT)
        values = json.loads(json.dumps(prediction.to_dict(), allow_nan=False))
        assert values.keys() == {"label", "probabilities", "tokens", "tree", "pointer"}
        assert values["tokens"] == TEXT.split()
        if prediction.tree is not None:
            assert values["tree"] == prediction.tree.to_brackets()
        if prediction.pointer is not None:
            np.testing.assert_allclose(values["pointer"], prediction.pointer, atol=1e-6)

    def test_a_lone_token(self, model):
        prediction = model.predict("7")
        assert prediction.tokens == ("7",)
        assert prediction.tree is None or len(prediction.tree.spans) == 0

    def test_a_hard_pointer_is_all_on_one_slot(self):
        prediction = make().predict(TEXT, pointer="hard")
        assert set(np.unique(prediction.pointer)) == {0.0, 1.0}
        assert (prediction.pointer[1:].sum(1) == 1).all()

    def test_more_slots_change_the_pointers_width_and_nothing_else(self):
        few, many = make().predict("[MAX 2 ]"), make().predict("[MAX 2 ]", num_slots=9)
        assert many.pointer.shape == (3, 9)
        np.testing.assert_allclose(many.pointer[:, -4:], few.pointer, rtol=1e-5)
        np.testing.assert_allclose(list(many.probabilities.values()), list(few.probabilities.values()), rtol=1e-5)
        assert many.tree == few.tree

    @pytest.mark.parametrize("options", [{"pointer": "hard"}, {"num_slots": 3}])
    def test_an_lstm_refuses_options_that_it_does_not_know(self, options):
        with pytest.raises(TypeError, match=next(iter(options))):
            make("lstm").predict(TEXT, **options)

    def test_dropout_does_not_reach_a_prediction(self):
        model = make(input_dropout=0.5, output_dropout=0.5).train()
        assert model.predict(TEXT).to_dict() == model.predict(TEXT).to_dict()

    @pytest.mark.parametrize("text", ["", "   ", "( )", [], ()])
    def test_an_empty_text_is_refused(self, model, text):
        with pytest.raises(InputError, match="is empty: there is no token to read"):
            model.predict(text)

    def test_an_unknown_token_is_told_by_its_place(self, model):
        with pytest.raises(InputError, match=r"unknown token '\[MXA' at token 1: did you mean '\[MAX'\?"):
            model.predict("[MXA 1 2 ]")

    def test_an_unknown_token_may_have_a_stand_in(self):
        model = Classifier(Vocabulary(["<unk>", "good", "bad"], unknown="<unk>"), ["0", "1"], "lstm", LSTMConfig(4))
        assert model.predict("splendid").probabilities == model.predict("<unk>").probabilities


class Reading(torch.nn.Module):
    """Stands in for an encoder: mean vectors of the rows, and whatever else the test wants of an encoding."""

    trees, joint, output_size = "none", False, 5

    def __init__(self, **encoding) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, embedded, lengths, _trees):
        there = torch.arange(len(embedded))[:, None, None] < lengths[:, None]
        return Encoding((embedded * there).sum(0) / lengths[:, None], **self.encoding)


class TestLosses:
    def classifier_and_batch(self, sentences=1, **encoding):
        torch.manual_seed(0)
        config = ClassifierConfig(embedding_size=5, input_dropout=0.0, output_dropout=0.0)
        model = Classifier(VOCABULARY, LABELS, "lstm", LSTMConfig(hidden_size=5), config, sentences=sentences).train()
        model.encoder = Reading(**encoding)
        return model, model.collate([[1, 2, 3], [4], [5, 6], [7, 8]], [7, 8, 9, 1][: 4 // sentences])

    def cross_entropies(self, model, batch):
        logits = model(batch).logits.detach()
        return -logits.log_softmax(-1)[torch.arange(len(batch.labels)), batch.labels], logits.argmax(-1) == batch.labels

    def test_one_and_no_more_where_the_encoder_learns_nothing_by_itself(self):
        model, batch = self.classifier_and_batch()
        (loss,) = model.losses(batch)
        torch.testing.assert_close(loss.detach(), self.cross_entropies(model, batch)[0].mean())
        assert loss.requires_grad

    def test_the_auxiliary_loss_is_added(self):
        model, batch = self.classifier_and_batch(auxiliary_loss=torch.tensor(3.0))
        (loss,) = model.losses(batch)
        torch.testing.assert_close(loss.detach(), 3 + self.cross_entropies(model, batch)[0].mean())

    def test_the_first_loss_joins_the_classifiers_and_the_others_come_one_by_one(self):
        asked = []

        def learn(_outcome):
            for number in (10.0, 20.0, 30.0):
                asked.append(number)
                yield torch.tensor(number, requires_grad=True)

        model, batch = self.classifier_and_batch(learn=learn)
        own = self.cross_entropies(model, batch)[0].mean()
        losses = []
        for count, loss in enumerate(model.losses(batch), 1):
            assert len(asked) == count  # the next is not made before this one's update
            losses.append(loss.detach())
        torch.testing.assert_close(torch.stack(losses), torch.tensor([10.0 + own, 20.0, 30.0]))

    @pytest.mark.parametrize("with_baseline", [False, True])
    def test_the_outcome_is_each_rows_loss_and_whether_it_is_right_without_gradient(self, with_baseline):
        outcomes = []

        def learn(outcome):
            outcomes.append(outcome)
            yield torch.zeros(())

        other = torch.randn(4, 5, requires_grad=True)
        model, batch = self.classifier_and_batch(learn=learn, baseline=other if with_baseline else None)
        list(model.losses(batch))
        losses, right = self.cross_entropies(model, batch)
        batch = batch._replace(labels=model(batch).logits.argmax(-1) * torch.tensor([1, 1, 1, 0]))  # most are right
        list(model.losses(batch))
        torch.testing.assert_close(outcomes[0].loss, losses)
        assert torch.equal(outcomes[0].right, right)
        assert outcomes[1].right[:3].all()
        if not with_baseline:
            assert outcomes[1].baseline_loss is None
            return
        expected = torch.nn.functional.cross_entropy(model.head(other), batch.labels, reduction="none").detach()
        torch.testing.assert_close(outcomes[1].baseline_loss, expected)
        assert not any(part.requires_grad for part in outcomes[1])

    def test_both_sentences_of_a_pair_get_the_pairs_outcome(self):
        outcomes = []

        def learn(outcome):
            outcomes.append(outcome)
            yield torch.zeros(())

        model, batch = self.classifier_and_batch(2, learn=learn, baseline=torch.randn(4, 5))
        (loss,) = model.losses(batch)
        losses, right = self.cross_entropies(model, batch)
        torch.testing.assert_close(outcomes[0].loss, torch.cat((losses, losses)))
        assert outcomes[0].right.tolist() == [*right, *right]
        assert outcomes[0].baseline_loss[:2].tolist() == outcomes[0].baseline_loss[2:].tolist()
        assert outcomes[0].baseline_loss[0] != outcomes[0].baseline_loss[1]
        torch.testing.assert_close(loss.detach(), losses.mean())

    @pytest.mark.parametrize("name", ["gumbel-tree", "rl-spinn", "cooperative"])
    def test_pairs_are_learned_from_by_encoders_that_draw_trees(self, name):
        model = Classifier(VOCABULARY, LABELS, name, ENCODERS[name], ClassifierConfig(5), sentences=2).train()
        batch = model.collate([[1, 2, 3], [4], [5, 6], [7, 8, 9]], [7, 8])
        next(model.losses(batch)).backward()
        assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


ROWS = st.lists(st.lists(st.integers(1, len(VOCABULARY) - 1), min_size=1, max_size=7), min_size=1, max_size=5)


class TestBatches:
    def test_collate_pads_with_padding(self):
        batch = make().collate([[1, 2, 3], [4]], [7, 8])
        assert batch.tokens.tolist() == [[1, 4], [2, PADDING], [3, PADDING]]
        assert batch.lengths.tolist() == [3, 1]
        assert batch.labels.tolist() == [7, 8]

    @settings(deadline=None, max_examples=25)
    @given(rows=ROWS, name=st.sampled_from(list(ENCODERS)))
    def test_neither_padding_nor_company_changes_a_row(self, rows, name):
        model = make(name).double()
        together = model.parse(model.collate(rows))
        torch.testing.assert_close(model(model.collate(rows)).logits, together.logits)
        for number, row in enumerate(rows):
            alone = model.parse(model.collate([row]))
            torch.testing.assert_close(together.logits[number], alone.logits[0], rtol=1e-9, atol=1e-9)
            if alone.spans is not None:
                np.testing.assert_array_equal(together.spans[number], alone.spans[0])

    def test_sub_trees_are_shared_only_where_equal_tokens_have_equal_embeddings(self, monkeypatch):
        model = make(input_dropout=0.5)
        seen = []
        monkeypatch.setattr(
            model.encoder, "forward", lambda *given: seen.append(given[2]) or Encoding(torch.zeros(1, 6))
        )
        batch = model.collate([[1, 2]], trees=[np.array([[0, 2]])])
        model.train()
        model(batch)
        set_dropout(model, False)
        model(batch)
        model.eval()
        model(batch)
        model(batch._replace(trees=None))
        assert [type(trees) for trees in seen] == [list, SharedTrees, SharedTrees, type(None)]
        assert seen[1].tokens is batch.tokens

    def test_padding_gets_no_gradient(self):
        model = make().train()
        model(model.collate([[1, 2, 3], [4]])).logits.sum().backward()
        assert not model.embedding.weight.grad[PADDING].any()
        assert model.embedding.weight.grad[4].any()

    def test_heads(self):
        linear, mlp = (make_head(ClassifierConfig(head=head), 4, 4, 3) for head in ("linear", "mlp"))
        kinds = [[type(layer).__name__ for layer in head] for head in (linear, mlp)]
        assert kinds == [["Dropout", "Linear"], ["Dropout", "Linear", "ReLU", "Dropout", "Linear"]]
        assert mlp(torch.zeros(2, 4)).shape == (2, 3)


class TestEmbedding:
    def dropped(self, **config):
        """(time, rows, size): which of the embeddings' numbers dropout has put to zero, in training."""
        model = make(input_dropout=0.5, **config).train()
        batch = model.collate([VOCABULARY.encode(["7"] * 40)] * 6)
        return model._embed(batch) == 0

    def test_dropout_may_have_one_mask_for_all_tokens_of_a_sentence(self):
        shared = self.dropped(shared_input_dropout=True)
        assert (shared == shared[0]).all()
        assert 0 < shared[0].float().mean() < 1
        assert not (shared[0] == shared[0, 0]).all()  # each row has a mask of its own
        each = self.dropped()
        assert not (each == each[0]).all()

    def test_what_is_kept_is_scaled_up(self):
        model = make(input_dropout=0.5, shared_input_dropout=True)
        batch = model.collate([VOCABULARY.encode(TEXT.split())])
        plain, dropped = model._embed(batch), model.train()._embed(batch)
        torch.testing.assert_close(dropped, torch.where(dropped == 0, 0.0, 2 * plain))

    def test_vectors_take_their_words_places(self):
        values = np.arange(15, dtype=np.float32).reshape(3, 5)
        model = make(vectors="some.txt")
        former = model.embedding.weight.detach().clone()
        model.set_vectors(WordVectors(("7", "seven", "[MAX"), values, Path("some.txt"), ""))
        rows = VOCABULARY.encode(["7", "[MAX"])
        torch.testing.assert_close(model.embedding.weight[rows].detach(), torch.from_numpy(values[[0, 2]]))
        others = [row for row in range(len(VOCABULARY)) if row not in rows]
        assert torch.equal(model.embedding.weight[others], former[others])
        assert former.abs().max() <= 0.1

    @pytest.mark.parametrize(("config", "frozen"), [({"vectors": "some.txt"}, True), ({}, False)])
    def test_only_vectors_are_frozen(self, config, frozen):
        model = make(freeze_vectors=True, **config).train()
        batch = model.collate([VOCABULARY.encode(TEXT.split())], [3])
        next(model.losses(batch)).backward()
        assert (model.embedding.weight.grad is None) == frozen


class TestPairs:
    LEFT, RIGHT = "( a ( and b ) )", "( not a )"

    def make(self, name: str, **config) -> Classifier:
        torch.manual_seed(0)
        sizes = ClassifierConfig(embedding_size=5, **config)
        return Classifier(
            propositions.VOCABULARY, "<>=^|#v", name, ENCODERS[name], sizes, task="logic", sentences=2
        ).eval()

    @pytest.mark.parametrize("name", ENCODERS)
    def test_the_head_reads_the_papers_features(self, name):
        model = self.make(name)
        rows = [propositions.VOCABULARY.encode(text.split()) for text in (self.LEFT, "b", self.RIGHT, "c")]
        batch = model.collate(rows, [0, 1])
        assert batch.tokens.shape == (7, 4)
        vectors = [
            model.encoder(model.embedding(torch.tensor([row]).T), torch.tensor([len(row)])).vector for row in rows
        ]
        logits = model(batch).logits
        assert logits.shape == (2, 7)
        for place in range(2):
            first, second = vectors[place], vectors[place + 2]
            features = torch.cat([first, second, first * second, (first - second).abs()], -1)
            torch.testing.assert_close(logits[place], model.head(features)[0])

    @pytest.mark.parametrize("name", ENCODERS)
    def test_the_order_of_a_pair_matters(self, name):
        model = self.make(name)
        one, other = model.predict(self.LEFT, self.RIGHT), model.predict(self.RIGHT, self.LEFT)
        assert one.probabilities != other.probabilities
        assert one.sentences[0].tokens == other.sentences[1].tokens == tuple(self.LEFT.split())

    def test_both_sentences_are_parsed(self):
        model = self.make("ordered-memory")
        prediction = model.predict(self.LEFT, self.RIGHT)
        assert [len(sentence.tree) for sentence in prediction.sentences] == [7, 4]
        assert [sentence.pointer.shape for sentence in prediction.sentences] == [(7, 4), (4, 4)]
        assert all(sentence.tree.is_binary for sentence in prediction.sentences)
        values = json.loads(json.dumps(prediction.to_dict()))
        assert values.keys() == {"label", "probabilities", "sentences"}
        spelt = [sentence["tree"].split() for sentence in values["sentences"]]
        assert [(words.count("-LRB-"), words.count("-RRB-")) for words in spelt] == [(2, 2), (1, 1)]
        assert len(Tree.from_brackets(values["sentences"][0]["tree"])) == 7

    def test_test_slots_hold_when_it_does_not_train(self):
        torch.manual_seed(0)
        encoder = OrderedMemoryConfig(hidden_size=6, num_slots=4, test_slots=9)
        model = Classifier(
            propositions.VOCABULARY, "<>", "ordered-memory", encoder, ClassifierConfig(embedding_size=5), sentences=2
        )
        assert model.predict(self.LEFT, self.RIGHT).pointer.shape == (7, 9)
        assert model.predict(self.LEFT, self.RIGHT, num_slots=5).pointer.shape == (7, 5)

    @pytest.mark.parametrize("texts", [(), ("a",), ("a", "b", "c")])
    def test_another_number_of_sentences_is_refused(self, texts):
        with pytest.raises(InputError, match=rf"reads two texts: predict\(left, right\); here (is|are) {len(texts)}$"):
            self.make("lstm").predict(*texts)
        with pytest.raises(InputError, match=r"reads one text: predict\(text\); here are 2$"):
            make().predict("1", "2")

    def test_saved_and_loaded(self, tmp_path):
        model = self.make("ordered-memory", head="mlp", activation="elu", embedding_range=0.1)
        assert isinstance(model.head[2], torch.nn.ELU)
        assert model.embedding.weight.abs().max() <= 0.1
        assert not model.embedding.weight[PADDING].any()
        model.save_pretrained(tmp_path / "model")
        again = Classifier.from_pretrained(tmp_path / "model")
        assert again.sentences == 2
        assert again.predict(self.LEFT, self.RIGHT).probabilities == model.predict(self.LEFT, self.RIGHT).probabilities


class TestRecommended:
    """What a model's card recommends is what `predict` does, unless something else is said."""

    DEEP = "[MIN 4 " * 24 + "7 " + "] " * 24

    def test_the_pointer(self):
        model = make()
        soft, hard = (model.predict(TEXT, pointer=pointer) for pointer in ("soft", "hard"))
        assert soft.to_dict() != hard.to_dict()
        assert model.predict(TEXT).to_dict() == soft.to_dict()
        model.card["recommends"] = {"pointer": "hard"}
        assert model.predict(TEXT).to_dict() == hard.to_dict()
        assert model.predict(TEXT, pointer="soft").to_dict() == soft.to_dict()

    def test_as_many_slots_as_needed(self):
        model = Classifier.from_pretrained("listops")
        assert model.predict(self.DEEP).label == "4"
        assert model.predict(self.DEEP).tree == model.predict(self.DEEP, num_slots=40).tree
        assert model.predict(self.DEEP).pointer.shape[-1] > 21
        assert model.predict(self.DEEP, num_slots=21).pointer.shape[-1] == 21
        assert model.predict("[MIN 4 7 ]").pointer.shape[-1] == 21
        del model.card["recommends"]["num_slots"]
        assert model.predict(self.DEEP).pointer.shape[-1] == 21

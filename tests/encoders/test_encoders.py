"""Every encoder through the one interface: vectors, lengths, parses, and options of its own."""

import numpy as np
import pytest
import torch

from ordered_memory.classifier import Classifier
from ordered_memory.config import (
    ENCODER_CONFIGS,
    ClassifierConfig,
    CooperativeConfig,
    GumbelTreeConfig,
    LSTMConfig,
    ONLSTMConfig,
    OrderedMemoryConfig,
    RRNetConfig,
    SPINNConfig,
    TransformerConfig,
    TreeCellConfig,
    TreeLSTMConfig,
    TreeRNNConfig,
    UniversalTransformerConfig,
)
from ordered_memory.encoders import ENCODERS, Outcome, make_encoder
from ordered_memory.encoders.lstm import cheapest_cut
from ordered_memory.trees import Tree, induce_trees, random_tree, right_branching
from ordered_memory.vocabulary import Vocabulary

CONFIGS = {
    "ordered-memory": OrderedMemoryConfig(hidden_size=6, num_slots=4, dropout=0.2, attention_dropout=0.2),
    "lstm": LSTMConfig(hidden_size=6, num_layers=2, dropout=0.2),
    "on-lstm": ONLSTMConfig(hidden_size=6, chunk_size=2, dropout=0.2),
    "rrnet": RRNetConfig(hidden_size=6, depth=3, dropout=0.2),
    "transformer": TransformerConfig(hidden_size=6, num_layers=2, num_heads=2, feed_forward_size=8, dropout=0.2),
    "universal-transformer": UniversalTransformerConfig(
        hidden_size=6, num_steps=3, num_heads=2, feed_forward_size=8, dropout=0.2, halting=True
    ),
    "tree-rnn": TreeRNNConfig(hidden_size=6, dropout=0.2),
    "tree-lstm": TreeLSTMConfig(hidden_size=6, dropout=0.2),
    "tree-cell": TreeCellConfig(hidden_size=6, dropout=0.2),
    "gumbel-tree": GumbelTreeConfig(hidden_size=6),
    "rl-spinn": SPINNConfig(hidden_size=6, tracking_size=4),
    "cooperative": CooperativeConfig(hidden_size=6, parser_size=4),
}
LENGTHS = torch.tensor([3, 7, 1, 7, 2])
GENERATOR = np.random.default_rng(0)
GOLD = [random_tree(tuple(map(str, range(length))), GENERATOR).spans for length in LENGTHS.tolist()]


def encoder_and_input(name, config=None):
    torch.manual_seed(0)
    encoder = make_encoder(name, 5, config or CONFIGS[name]).double().eval()
    return encoder, torch.randn(7, len(LENGTHS), 5, dtype=torch.float64)


def gold(encoder):
    """Trees for an encoder that needs them."""
    return GOLD if encoder.trees == "gold" else None


def test_each_config_has_its_encoder():
    assert ENCODERS.keys() == ENCODER_CONFIGS.keys() == CONFIGS.keys()


@pytest.mark.parametrize("name", list(ENCODERS))
class TestInterface:
    def test_one_vector_for_each_row(self, name):
        encoder, x = encoder_and_input(name)
        encoding = encoder(x, LENGTHS, gold(encoder))
        assert encoding.vector.shape == (len(LENGTHS), encoder.output_size)
        assert encoding.auxiliary_loss is None or encoding.auxiliary_loss.shape == ()
        assert encoding.learn is None  # nothing is sampled when it is not training

    def test_parse_gives_the_same_vector(self, name):
        encoder, x = encoder_and_input(name)
        trees = gold(encoder)
        torch.testing.assert_close(encoder.parse(x, LENGTHS, trees).vector, encoder(x, LENGTHS, trees).vector)

    def test_trees_are_there_where_the_encoder_induces_them(self, name):
        encoder, x = encoder_and_input(name)
        parse = encoder.parse(x, LENGTHS, gold(encoder))
        assert (parse.spans is not None) == (encoder.trees == "latent")
        assert parse.pointer is None or parse.spans is not None
        for length, spans in zip(LENGTHS.tolist(), parse.spans or [], strict=parse.spans is not None):
            tokens = tuple(map(str, range(length)))
            assert Tree.from_spans(tokens, spans) == Tree(tokens, spans)  # nested, whole, and in preorder
            assert Tree(tokens, spans).is_binary

    def test_what_lies_past_a_rows_end_does_not_matter(self, name):
        encoder, x = encoder_and_input(name)
        other = torch.where((torch.arange(7)[:, None] < LENGTHS)[..., None], x, 1e6)
        one, two = (encoder(rows, LENGTHS, gold(encoder)).vector for rows in (x, other))
        torch.testing.assert_close(one, two)

    def test_rows_may_come_in_any_order(self, name):
        encoder, x = encoder_and_input(name)
        order = torch.tensor([4, 0, 3, 1, 2])
        trees = gold(encoder)
        shuffled = None if trees is None else [trees[row] for row in order.tolist()]
        mixed = encoder(x[:, order], LENGTHS[order], shuffled).vector
        torch.testing.assert_close(mixed, encoder(x, LENGTHS, trees).vector[order])

    def test_every_parameter_is_used(self, name):
        encoder, x = encoder_and_input(name)
        encoding = encoder.train()(x, LENGTHS, gold(encoder))
        loss = encoding.vector.square().sum()
        if encoding.learn is not None:
            rows = len(LENGTHS)
            losses = torch.linspace(0, 1, rows, dtype=torch.float64)
            loss = loss + sum(encoding.learn(Outcome(losses, losses < 0.5, losses.flip(0))))
        loss.backward()
        for parameter_name, parameter in encoder.named_parameters():
            assert parameter.grad is not None, parameter_name
            assert torch.isfinite(parameter.grad).all(), parameter_name

    def test_dropout_and_drawing_are_for_training_only(self, name):
        encoder, x = encoder_and_input(name)
        trees = gold(encoder)
        assert torch.equal(encoder(x, LENGTHS, trees).vector, encoder(x, LENGTHS, trees).vector)
        encoder.train()
        assert not torch.equal(encoder(x, LENGTHS, trees).vector, encoder(x, LENGTHS, trees).vector)

    def test_an_unknown_option_is_refused(self, name):
        encoder, x = encoder_and_input(name)
        with pytest.raises(TypeError, match="beams"):
            encoder.parse(x, LENGTHS, gold(encoder), beams=3)

    def test_rows_of_one_token_are_trained_on_too(self, name):
        model = Classifier(
            Vocabulary(("a", "b")), ("no", "yes"), name, CONFIGS[name], ClassifierConfig(embedding_size=5)
        )
        trees = [random_tree(("a",), GENERATOR).spans] * 3 if model.encoder.trees == "gold" else None
        losses = 0
        for loss in model.losses(model.collate([[1], [2], [1]], [0, 1, 0], trees)):
            loss.backward()
            losses += 1
        assert losses == 1  # there is no tree to learn more from
        assert model.embedding.weight.grad.abs().sum() > 0

    def test_one_row_of_one_token(self, name):
        encoder, x = encoder_and_input(name)
        trees = None if gold(encoder) is None else [GOLD[2]]
        assert torch.isfinite(encoder.parse(x[:1, :1], LENGTHS[2:3], trees).vector).all()


class TestOrderedMemory:
    def test_the_vector_is_the_bottom_candidate_after_the_last_token(self):
        encoder, x = encoder_and_input("ordered-memory")
        trace = encoder.memory.trace(x, lengths=LENGTHS)
        for row, length in enumerate(LENGTHS.tolist()):
            torch.testing.assert_close(encoder(x, LENGTHS).vector[row], trace.M_hat[0, length - 1, row, -1])

    def test_spans_are_those_of_the_pointers_in_preorder(self):
        encoder, x = encoder_and_input("ordered-memory")
        parse = encoder.parse(x, LENGTHS)
        for row, length in enumerate(LENGTHS.tolist()):
            tokens = tuple(map(str, range(length)))
            pointers = parse.pointer[row, :length].argmax(-1).numpy()
            assert Tree(tokens, parse.spans[row]) == induce_trees([tokens], pointers[None], 4)[0]
            assert Tree.from_spans(tokens, parse.spans[row]) == Tree(tokens, parse.spans[row])

    def test_a_hard_pointer_and_another_number_of_slots(self):
        encoder, x = encoder_and_input("ordered-memory")
        parse = encoder.parse(x, LENGTHS, pointer="hard", num_slots=9)
        assert parse.pointer.shape == (5, 7, 9)
        assert set(np.unique(parse.pointer.detach())) == {0.0, 1.0}

    def test_wrong_options_are_refused(self):
        encoder, x = encoder_and_input("ordered-memory")
        with pytest.raises(ValueError, match="pointer must be 'soft', 'hard' or 'sampled', got 'firm'"):
            encoder.parse(x, LENGTHS, pointer="firm")
        with pytest.raises(ValueError, match="num_slots must be greater than zero, got 0"):
            encoder.parse(x, LENGTHS, num_slots=0)

    def test_the_entropy_of_the_pointer_joins_the_loss_in_training_only(self):
        config = OrderedMemoryConfig(hidden_size=6, num_slots=4, dropout=0, attention_dropout=0, entropy_weight=0.5)
        encoder, x = encoder_and_input("ordered-memory", config)
        assert encoder(x, LENGTHS).auxiliary_loss is None
        encoding = encoder.train()(x, LENGTHS)
        torch.testing.assert_close(encoding.vector, encoder.eval()(x, LENGTHS).vector)
        pointers = encoder.parse(x, LENGTHS).pointer.detach()
        entropies = [
            -sum(float(weight) * np.log(float(weight)) for weight in pointers[row, token] if weight > 0)
            for row, length in enumerate(LENGTHS.tolist())
            for token in range(1, length)
        ]
        assert float(encoding.auxiliary_loss.detach()) == pytest.approx(0.5 * np.mean(entropies), abs=1e-3)

    def test_less_entropy_is_learned(self):
        config = OrderedMemoryConfig(hidden_size=6, num_slots=4, dropout=0, attention_dropout=0, entropy_weight=1.0)
        encoder, x = encoder_and_input("ordered-memory", config)
        optimiser = torch.optim.Adam(encoder.train().parameters(), 0.01)
        losses = []
        for _ in range(30):
            optimiser.zero_grad()
            loss = encoder(x, LENGTHS).auxiliary_loss
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
        assert losses[-1] < 0.7 * losses[0]

    def test_a_training_step_may_have_another_pointer(self):
        config = OrderedMemoryConfig(hidden_size=6, num_slots=4, dropout=0, attention_dropout=0)
        encoder, x = encoder_and_input("ordered-memory", config)
        soft, hard = (encoder.parse(x, LENGTHS, pointer=pointer).vector for pointer in ("soft", "hard"))
        assert not torch.allclose(soft, hard)
        encoder.step_pointer = "hard"
        torch.testing.assert_close(encoder(x, LENGTHS).vector, soft)
        torch.testing.assert_close(encoder.train()(x, LENGTHS).vector, hard)
        encoder.step_pointer = "sampled"
        assert not torch.equal(encoder(x, LENGTHS).vector, encoder(x, LENGTHS).vector)

    @pytest.mark.parametrize("cell", ["gated", "tree-rnn"])
    def test_given_trees_it_composes_as_a_pointer_that_built_them_would(self, cell):
        config = OrderedMemoryConfig(hidden_size=6, num_slots=9, dropout=0, attention_dropout=0, cell=cell)
        encoder, x = encoder_and_input("ordered-memory", config)
        parse = encoder.parse(x, LENGTHS, pointer="hard")
        torch.testing.assert_close(encoder.train()(x, LENGTHS, parse.spans).vector, parse.vector)
        others = [right_branching(["x"] * length).spans for length in LENGTHS.tolist()]
        assert not torch.allclose(encoder(x, LENGTHS, others).vector, parse.vector)

    @pytest.mark.parametrize("changed", [{"attention": "paper"}, {"cell": "tree-rnn"}, {"threshold": 0.0}])
    def test_the_config_reaches_the_layer(self, changed):
        config = OrderedMemoryConfig(hidden_size=6, num_slots=4, **changed)
        encoder, _ = encoder_and_input("ordered-memory", config)
        for name, value in changed.items():
            assert getattr(encoder.memory, name) == value
        assert encoder.memory.num_slots == 4


class TestLSTM:
    def test_the_vector_is_the_last_layers_last_state(self):
        encoder, x = encoder_and_input("lstm")
        for row, length in enumerate(LENGTHS.tolist()):
            output, _ = encoder.lstm(x[:length, row])
            torch.testing.assert_close(encoder(x, LENGTHS).vector[row], output[-1])

    @pytest.mark.parametrize(
        ("lengths", "cut"), [([1, 1, 2, 9, 10], 3), ([7, 7, 7], 0), ([4], 0), ([1, 9, 9, 9], 1), ([9, 10], 1)]
    )
    def test_short_rows_are_read_apart_where_that_saves_most(self, lengths, cut):
        tokens = [low * lengths[max(low - 1, 0)] + (len(lengths) - low) * lengths[-1] for low in range(len(lengths))]
        assert cheapest_cut(torch.tensor(lengths)) == cut == tokens.index(min(tokens))

    def test_one_layer_with_dropout_does_not_warn(self):
        make_encoder("lstm", 5, LSTMConfig(hidden_size=6, num_layers=1, dropout=0.5))

    def test_options_are_refused(self):
        encoder, x = encoder_and_input("lstm")
        with pytest.raises(TypeError, match="pointer"):
            encoder.parse(x, LENGTHS, pointer="hard")

"""The readable model: against the released code's numbers, against autograd, and as users of nn.LSTM expect it."""

import copy
import io
import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

from ordered_memory.memory import OrderedMemory, State

RELEASED_NAMES = {
    "norm": "activation",
    "projection": "input_projection.0",
    "attention.score.query": "distribution.query.1",
    "attention.score.query_norm": "distribution.query.2",
    "attention.score.key": "distribution.key.1",
    "attention.score.key_norm": "distribution.key.2",
    "attention.score.weight": "distribution.beta.2",
    "cell.inner": "cell.input_t.1",
    "cell.outer": "cell.input_t.4",
}


def released_name(name: str) -> str:
    module, _, parameter = name.removeprefix("directions.0.").rpartition(".")
    return f"{RELEASED_NAMES[module]}.{parameter}"


@pytest.fixture(autouse=True, scope="module", params=["readable", "native"])
def backend(request):
    """Everything here holds for the readable model and for the engine that takes its place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OrderedMemory, "_is_native", lambda *_: request.param == "native")
        yield request.param


def layer(input_size=3, hidden_size=4, num_slots=3, seed=0, **options) -> OrderedMemory:
    torch.manual_seed(seed)
    made = OrderedMemory(input_size, hidden_size, num_slots, dtype=torch.float64, **options).eval()
    with torch.no_grad():  # larger weights than at the start, so that pointers differ from uniform
        for name, parameter in made.named_parameters():
            parameter.mul_(8.0 if "attention" in name and parameter.dim() > 1 else 1.5).add_(0.05)
    return made


def assert_equal(actual, expected, tolerance=1e-12):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


class TestReleasedCode:
    @pytest.mark.parametrize("threshold", [0.0, 1e-12])
    @pytest.mark.parametrize("case", ["tiny", "deep", "listops_size"])
    def test_outputs_pointers_and_every_gradient_agree(self, shared, case, threshold):
        folder = shared / "golden" / "released_code"
        sizes = json.loads((folder / "cases.json").read_text())[case]
        golden = load_file(folder / f"{case}.safetensors")
        om = OrderedMemory(sizes["din"], sizes["D"], sizes["N"], threshold=threshold, dtype=torch.float64)
        om.load_state_dict({name: golden[f"weight.{released_name(name)}"] for name in om.state_dict()})
        x = golden["input"].requires_grad_()
        lengths = golden["lengths"]

        reading = om.read(x, lengths=lengths)
        final = reading.state.M_hat[0, :, -1]
        loss = (final * golden["loss_weight"]).sum()
        loss.backward()

        real = torch.arange(len(x))[:, None] < lengths  # the released code computes p past the end, we do not
        assert_equal(reading.output, golden["outputs"], 1e-9)
        assert_equal(reading.p[0][real], golden["p"][real], 1e-9)
        assert_equal(final, golden["final"], 1e-9)
        assert_equal(loss, golden["loss"].squeeze(), 1e-9)
        assert_equal(x.grad, golden["grad_input"], 1e-9)
        for name, parameter in om.named_parameters():
            assert_equal(parameter.grad, golden[f"grad.{released_name(name)}"], 1e-9)

    def test_parameter_count_is_the_released_model_s(self):
        embedding, head = 20 * 128, 128 * 10 + 10
        assert sum(p.numel() for p in OrderedMemory(128, 128, 21).parameters()) + embedding + head == 448_523


PATHS = [
    {},
    {"attention": "paper"},
    {"cell": "tree-rnn"},
    {"threshold": 0.0},
    {"bidirectional": True},
    {"batch_first": True},
]


class TestGradients:
    @pytest.mark.parametrize("options", PATHS, ids=str)
    def test_gradcheck_of_input_and_parameters(self, options):
        om = layer(2, 3, **options)
        lengths = torch.tensor([4, 2])
        x = torch.randn(*((2, 4) if om.batch_first else (4, 2)), 2, dtype=torch.float64, requires_grad=True)
        names = [name for name, _ in om.named_parameters()]

        def run(x, *parameters):
            reading = torch.func.functional_call(
                _Reader(om), {f"om.{n}": p for n, p in zip(names, parameters, strict=True)}, (x, lengths)
            )
            return reading.output, *reading.state, reading.p

        assert torch.autograd.gradcheck(run, (x, *(p.detach().requires_grad_() for p in om.parameters())))

    @pytest.mark.parametrize("options", PATHS, ids=str)
    def test_gradcheck_of_the_initial_state(self, options):
        om = layer(**options)
        x, more = (torch.randn(2, 2, 3, dtype=torch.float64) for _ in range(2))
        _, state = om(x)
        state = State(*(part.detach().requires_grad_() for part in state))

        def run(*parts):
            output, state = om(more, State(*parts))
            return output, *state

        assert torch.autograd.gradcheck(run, tuple(state))

    def test_hard_pointer_keeps_gradients_of_the_cell(self):
        om = layer()
        x = torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
        output, _ = om(x, pointer="hard")
        (output * torch.randn_like(output)).sum().backward()  # a plain sum of LayerNorm's output has no gradient
        assert x.grad.abs().sum() > 0
        assert om.directions[0].cell.outer.weight.grad.abs().sum() > 0
        grad = om.directions[0].attention.score.key.weight.grad
        assert grad is None or grad.eq(0).all()


class _Reader(torch.nn.Module):
    """Lets functional_call reach `read`."""

    def __init__(self, om):
        super().__init__()
        self.om = om

    def forward(self, x, lengths):
        return self.om.read(x, lengths=lengths)


ragged = st.lists(st.integers(1, 9), min_size=1, max_size=5)
seeds = st.integers(0, 2**16)
options = st.sampled_from(PATHS)


def batch_of(lengths, seed, size=3):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, size, dtype=torch.float64, generator=generator) for n in lengths]


def run_padded(om, rows, lengths, fill=0.0, **call):
    x = torch.full((max(lengths) + 2, len(rows), 3), fill, dtype=torch.float64)
    for i, row in enumerate(rows):
        x[: len(row), i] = row
    reading = om.read(x.transpose(0, 1) if om.batch_first else x, lengths=torch.tensor(lengths), **call)
    if om.batch_first:
        reading = reading._replace(output=reading.output.transpose(0, 1), p=reading.p.transpose(1, 2))
    return reading


class TestNothingElseChangesAResult:
    @settings(max_examples=30, deadline=None)
    @given(ragged, seeds, options)
    def test_padding_and_company(self, lengths, seed, options):
        om, rows = layer(seed=seed, **options), batch_of(lengths, seed)
        together = run_padded(om, rows, lengths, fill=float("nan"))
        assert len(together.output) == together.p.shape[1] == max(lengths) + 2  # as long as what came in
        for i, row in enumerate(rows):
            alone = om.read(row)
            assert_equal(together.output[: len(row), i], alone.output)
            assert_equal(together.p[:, : len(row), i], alone.p)
            assert not together.output[len(row) :, i].any()
            for part, expected in zip(together.state, alone.state, strict=True):
                assert_equal(part[:, i], expected)

    @settings(max_examples=20, deadline=None)
    @given(ragged, seeds, options, st.randoms(use_true_random=False))
    def test_order_in_the_batch(self, lengths, seed, options, random):
        om, rows = layer(seed=seed, **options), batch_of(lengths, seed)
        order = list(range(len(rows)))
        random.shuffle(order)
        straight = run_padded(om, rows, lengths)
        shuffled = run_padded(om, [rows[i] for i in order], [lengths[i] for i in order])
        assert_equal(shuffled.output, straight.output[:, order])
        for part, expected in zip(shuffled.state, straight.state, strict=True):
            assert_equal(part, expected[:, order])

    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=4), seeds, options)
    def test_splitting_a_sequence_between_two_calls(self, parts, seed, options):
        om = layer(seed=seed, **(options | {"bidirectional": False}))  # reading backwards must see the end first
        first, second = (batch_of(lengths, seed + k) for k, lengths in enumerate(zip(*parts, strict=True)))
        whole = [torch.cat(pair) for pair in zip(first, second, strict=True)]
        once = run_padded(om, whole, [len(row) for row in whole])
        before = run_padded(om, first, [len(row) for row in first])
        after = run_padded(om, second, [len(row) for row in second], state=before.state)
        for i, (a, b) in enumerate(parts):
            assert_equal(once.output[:a, i], before.output[:a, i])
            assert_equal(once.output[a : a + b, i], after.output[:b, i])
        for part, expected in zip(after.state, once.state, strict=True):
            assert_equal(part, expected)

    @settings(max_examples=30, deadline=None)
    @given(ragged, seeds, options, st.integers(0, 5), st.sampled_from(["soft", "hard"]))
    def test_spare_slots(self, lengths, seed, options, spare, pointer):
        # T tokens never need more than T - 1 slots; the paper's score divides by sqrt(N), so it is left out.
        om = layer(seed=seed, num_slots=9, **{k: v for k, v in options.items() if k != "attention"})
        rows = batch_of(lengths, seed)
        enough = run_padded(om, rows, lengths, pointer=pointer)
        more = run_padded(om, rows, lengths, pointer=pointer, num_slots=9 + spare)
        assert_equal(more.output, enough.output)
        assert_equal(more.p[..., spare:], enough.p)
        assert not more.p[..., :spare].any()


class TestLikeLSTM:
    def test_shapes_of_each_kind_of_input(self):
        om, both = layer(), layer(bidirectional=True, batch_first=True)
        x = torch.randn(5, 2, 3, dtype=torch.float64)
        output, state = om(x)
        assert output.shape == (5, 2, 4)
        assert state.M.shape == state.M_hat.shape == (1, 2, 3, 4)
        assert state.p.shape == (1, 2, 3)
        output, state = both(x.transpose(0, 1))
        assert output.shape == (2, 5, 8)
        assert state.M.shape == (2, 2, 3, 4)
        output, state = om(x[:, 0])
        assert output.shape == (5, 4)
        assert state.M.shape == (1, 3, 4)
        assert_equal(om(x[:1, 0], state)[0], om(x[:1, :1], State(*(part[:, None] for part in state)))[0][:, 0])

    @pytest.mark.parametrize("batch_first", [False, True])
    @pytest.mark.parametrize("enforce_sorted", [False, True])
    def test_packed_input_gives_packed_output(self, batch_first, enforce_sorted):
        om = layer(batch_first=batch_first, bidirectional=True)
        rows = batch_of([6, 4, 4, 1] if enforce_sorted else [4, 1, 6, 4], 7)
        packed = pack_sequence(rows, enforce_sorted=enforce_sorted)
        output, state = om(packed)
        assert output.batch_sizes.equal(packed.batch_sizes)
        padded, lengths = pad_packed_sequence(output)
        for i, row in enumerate(rows):
            alone, alone_state = om(row)
            assert_equal(padded[: lengths[i], i], alone)
            assert_equal(state.M[:, i], alone_state.M)
        again, _ = om(packed, state)
        assert_equal(pad_packed_sequence(again)[0][: len(rows[0]), 0], om(rows[0], State(*(s[:, 0] for s in state)))[0])

    def test_refuses_what_lstm_refuses_in_the_same_words(self):
        om, lstm = OrderedMemory(3, 4, 3), torch.nn.LSTM(3, 4)
        for bad in (torch.randn(0, 2, 3), torch.randn(5, 2, 7), torch.randn(1, 5, 2, 3)):
            with pytest.raises((RuntimeError, ValueError)) as theirs:
                lstm(bad)
            with pytest.raises(theirs.type) as ours:
                om(bad)
            assert str(ours.value).replace("OrderedMemory", "LSTM") == str(theirs.value)
        with pytest.raises(RuntimeError, match="Length of all samples has to be greater than 0"):
            om(torch.randn(5, 2, 3), lengths=torch.tensor([5, 0]))

    def test_an_empty_batch_is_as_lstm_has_it(self):
        om, lstm = OrderedMemory(3, 4, 3), torch.nn.LSTM(3, 4)
        assert om(torch.randn(5, 0, 3))[0].shape == lstm(torch.randn(5, 0, 3))[0].shape

    def test_refuses_a_state_that_does_not_fit(self):
        om = OrderedMemory(3, 4, 3)
        _, state = om(torch.randn(5, 2, 3))
        with pytest.raises(RuntimeError, match=r"Expected state.M size \(1, 3, 3, 4\), got \(1, 2, 3, 4\)"):
            om(torch.randn(5, 3, 3), state)
        with pytest.raises(RuntimeError, match=r"Expected state.M size \(1, 2, 8, 4\)"):
            om(torch.randn(5, 2, 3), state, num_slots=8)

    @pytest.mark.parametrize(
        ("lengths", "error", "message"),
        [
            (torch.tensor([7, 2]), ValueError, "a length is 7, and the input has 5 steps"),
            (torch.tensor([5]), ValueError, r"Expected lengths of size \(2,\), one for each row, got \(1,\)"),
            (torch.tensor([5, 2, 1]), ValueError, r"got \(3,\)"),
            (torch.tensor([5.0, 2.0]), TypeError, "whole numbers"),
            (torch.tensor([True, True]), TypeError, "whole numbers"),
        ],
    )
    def test_refuses_lengths_that_do_not_fit(self, lengths, error, message):
        with pytest.raises(error, match=message):
            OrderedMemory(3, 4, 3)(torch.randn(5, 2, 3), lengths=lengths)

    def test_takes_lengths_as_a_list(self):
        om, x = layer(), torch.randn(5, 2, 3, dtype=torch.float64)
        assert_equal(om(x, lengths=[5, 2])[0], om(x, lengths=torch.tensor([5, 2]))[0])

    def test_refuses_the_state_of_another_layer_s_kind(self):
        with pytest.raises(TypeError, match="state must be the State that an earlier call returned, got tuple"):
            OrderedMemory(3, 4, 3)(torch.randn(5, 2, 3), (torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)))

    def test_a_detached_state_has_no_history(self):
        om = layer()
        _, state = om(torch.randn(5, 2, 3, dtype=torch.float64))
        assert state.M_hat.requires_grad
        assert not any(part.requires_grad for part in state.detach())

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"hidden_size": 0}, "hidden_size must be greater than zero"),
            ({"attention": "both"}, "attention must be one of 'released', 'paper', got 'both'"),
            ({"cell": "gru"}, "cell must be one of"),
            ({"threshold": 1.5}, "threshold must be"),
        ],
    )
    def test_refuses_bad_arguments(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            OrderedMemory(**({"input_size": 3, "hidden_size": 4, "num_slots": 3} | arguments))

    def test_hard_pointer_is_one_slot_and_learns_nothing(self):
        om = layer()
        x = torch.randn(6, 2, 3, dtype=torch.float64)
        p = om.read(x, pointer="hard").p[0]
        assert p[0].eq(0).all()
        assert p[1:].max(-1).values.eq(1).all()
        assert p[1:].sum(-1).eq(1).all()
        (om.train().last_state(x, pointer="hard").M_hat * torch.randn(4, dtype=torch.float64)).sum().backward()
        for name, parameter in om.named_parameters():
            learned = parameter.grad is not None and bool(parameter.grad.any())
            assert learned == ("attention" not in name), name

    def test_copies_pickles_and_state_dicts(self):
        om = layer(bidirectional=True)
        x = torch.randn(5, 2, 3, dtype=torch.float64)
        expected = om(x)[0]
        buffer = io.BytesIO()
        torch.save(om, buffer)
        buffer.seek(0)
        fresh = OrderedMemory(3, 4, 3, bidirectional=True, dtype=torch.float64)
        fresh.load_state_dict(om.state_dict())
        for other in (copy.deepcopy(om), torch.load(buffer, weights_only=False), fresh):
            assert other.eval()(x)[0].equal(expected)

    def test_reset_parameters_draws_what_construction_draws(self):
        torch.manual_seed(3)
        om = OrderedMemory(3, 4, 3, attention="paper", bidirectional=True)
        expected = om.state_dict()
        other = OrderedMemory(3, 4, 3, attention="paper", bidirectional=True)
        torch.manual_seed(3)
        other.reset_parameters()
        assert all(value.equal(expected[name]) for name, value in other.state_dict().items())

    def test_repr_names_what_is_not_default(self):
        text = repr(OrderedMemory(3, 4, 5, bidirectional=True, cell="tree-rnn"))
        assert "3, 4, num_slots=5, bidirectional=True, cell='tree-rnn'" in text

    @pytest.mark.filterwarnings("ignore")  # the compiler's own
    def test_compiles(self):
        om = layer()
        x = torch.randn(4, 2, 3, dtype=torch.float64)
        compiled = torch.compile(om, backend="eager")
        assert_equal(compiled(x)[0], om(x)[0])
        for steps, rows in ((6, 2), (6, 3), (3, 4)):  # a last, smaller batch is enough to change the shape
            other = torch.randn(steps, rows, 3, dtype=torch.float64)
            assert_equal(compiled(other)[0], om(other)[0])

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="no cuda device")
    def test_cuda(self):
        om = layer(bidirectional=True)
        x = torch.randn(6, 3, 3, dtype=torch.float64)
        lengths = torch.tensor([6, 2, 4])
        expected = om(x, lengths=lengths)[0]
        assert_equal(om.cuda()(x.cuda(), lengths=lengths)[0].cpu(), expected, 1e-9)


class TestTraceAndThreshold:
    def test_trace_holds_what_reading_gives(self):
        om = layer(batch_first=True)
        x, lengths = torch.randn(2, 5, 3, dtype=torch.float64), torch.tensor([3, 5])
        trace, reading = om.trace(x, lengths=lengths), om.read(x, lengths=lengths)
        assert trace.M.shape == trace.M_hat.shape == (1, 2, 5, 3, 4)
        assert_equal(trace.p, reading.p)
        assert_equal(trace.output, reading.output)
        assert_equal(trace.M_hat[0, 0, 2], reading.state.M_hat[0, 0])
        assert_equal(trace.output, trace.M_hat[0, :, :, -1])

    def test_first_token_fills_every_candidate_and_second_points_at_the_bottom(self):
        trace = layer().trace(torch.randn(2, 1, 3, dtype=torch.float64))
        assert_equal(trace.M_hat[0, 0, 0], trace.output[0].expand(3, 4))
        assert trace.p[0, 0].eq(0).all()
        assert trace.p[0, 1, 0].tolist() == [0, 0, 1]

    def test_a_skipped_cell_leaves_the_token(self):
        om = layer(num_slots=6, threshold=0.3)
        trace = om.trace(torch.randn(8, 3, 3, dtype=torch.float64))
        cp = trace.p[0].cumsum(-1)
        x = om.directions[0].norm(om.directions[0].projection(torch.zeros(3, dtype=torch.float64)))
        assert x.shape == (4,)
        skipped = cp < 0.3
        assert skipped[1:].any()
        leaf = trace.M_hat[0, :, :, :1].expand_as(trace.M_hat[0])  # slot 1 is never reached in 8 sharp steps or less
        assert_equal(trace.M_hat[0][skipped], leaf[skipped])

    @settings(max_examples=20, deadline=None)
    @given(ragged, seeds)
    def test_a_small_threshold_changes_little(self, lengths, seed):
        rows = batch_of(lengths, seed)
        full, skipping = layer(seed=seed, threshold=0.0), layer(seed=seed, threshold=1e-5)
        assert_equal(run_padded(skipping, rows, lengths).output, run_padded(full, rows, lengths).output, 1e-2)


class TestDropout:
    @pytest.mark.parametrize("kind", ["dropout", "attention_dropout"])
    def test_each_dropout_acts_in_training_only(self, kind):
        om = layer(**{kind: 0.5})
        x = torch.randn(6, 2, 3, dtype=torch.float64)
        assert_equal(om(x)[0], om(x)[0])
        om.train()
        assert not om(x)[0].equal(om(x)[0])


def test_padded_with_lengths_equals_packed():
    om = layer()
    x, lengths = torch.randn(7, 3, 3, dtype=torch.float64), torch.tensor([2, 7, 5])
    packed, _ = om(pack_padded_sequence(x, lengths, enforce_sorted=False))
    assert_equal(pad_packed_sequence(packed)[0], om(x, lengths=lengths)[0])

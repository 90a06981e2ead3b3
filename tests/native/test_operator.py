"""The engine against the readable model: outputs, states and every gradient, on sizes that hypothesis makes up."""

import copy
import ctypes
import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ordered_memory import native
from ordered_memory.memory import OrderedMemory, State
from ordered_memory.native import engine, operator


def layer(*sizes, sharpness=4.0, seed=0, **options) -> OrderedMemory:
    torch.manual_seed(seed)
    made = OrderedMemory(*sizes, **{"dtype": torch.float64, "backend": "native"} | options)
    with torch.no_grad():  # larger weights than at the start, so that pointers differ from uniform
        for name, parameter in made.named_parameters():
            parameter.mul_(sharpness if "attention" in name and parameter.dim() > 1 else 1.3).add_(0.03)
    return made


def everything(om, x, lengths=None, state=None, backend="native", pointer="soft"):
    """All that comes out of a reading, and the gradients of all that goes in, of a loss that all of it enters."""
    om = copy.deepcopy(om)
    om.backend = backend
    x = x.detach().clone().requires_grad_()
    state = None if state is None else State(*(part.detach().clone().requires_grad_() for part in state))
    reading = om.read(x, state, lengths=lengths, pointer=pointer)
    found = {"output": reading.output, "pointers": reading.p, **reading.state._asdict()}
    generator = torch.Generator().manual_seed(7)
    weights = {
        name: torch.randn(value.shape, generator=generator, dtype=torch.float64) for name, value in found.items()
    }
    loss = sum((value * weights[name].to(value)).sum() for name, value in found.items())
    loss.backward()
    inputs = {"x": x, **dict(om.named_parameters())}
    if state is not None:
        inputs |= {f"start {name}": part for name, part in state._asdict().items()}
    gradients = {name: torch.zeros_like(value) if value.grad is None else value.grad for name, value in inputs.items()}
    return {k: v.detach() for k, v in found.items()} | {f"gradient of {k}": v for k, v in gradients.items()}


def assert_agree(actual, expected, tolerance):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        # The gradient of the score's bias is zero, but for the rounding of sums of the size of its weight's.
        measure = expected[name.replace("score.weight.bias", "score.weight.weight")]
        scale = measure.abs().max().item() + 1e-3
        error = (actual[name].double() - value.double()).abs().max().item() / scale
        assert error < tolerance, f"{name} is off by {error:.1e}"


@st.composite
def problems(draw):
    """A layer and a ragged batch for it."""
    sizes = [draw(st.integers(1, 9)), draw(st.sampled_from([3, 7, 8, 13, 16, 19, 33])), draw(st.integers(1, 7))]
    options = {
        "attention": draw(st.sampled_from(["released", "paper"])),
        "cell": draw(st.sampled_from(["gated", "tree-rnn"])),
        "threshold": draw(st.sampled_from([0.0, 1e-5, 0.05])),
        "bidirectional": draw(st.booleans()),
        "recompute": draw(st.booleans()),
        "sharpness": draw(st.sampled_from([1.0, 4.0, 20.0])),
    }
    om = layer(*sizes, seed=draw(st.integers(0, 1000)), **options)
    lengths = torch.tensor(draw(st.lists(st.integers(1, 12), min_size=1, max_size=9)))
    x = torch.randn(int(lengths.max()), len(lengths), sizes[0], dtype=torch.float64)
    return om, x, lengths


class TestAgreement:
    @given(problems(), st.booleans(), st.integers(1, 3))
    @settings(max_examples=60, deadline=None)
    def test_float64_agrees_to_1e_9_with_and_without_a_state(self, problem, with_state, threads):
        om, x, lengths = problem
        state = om.read(x, lengths=lengths).state if with_state else None
        expected = everything(om, x, lengths, state, "readable")
        torch.set_num_threads(threads)
        try:
            actual = everything(om, x, lengths, state)
        finally:
            torch.set_num_threads(1)
        assert_agree(actual, expected, 1e-9)

    @pytest.mark.parametrize("attention", ["released", "paper"])
    @pytest.mark.parametrize("cell", ["gated", "tree-rnn"])
    @pytest.mark.parametrize("sizes", [(5, 24, 4), (8, 37, 6)])
    def test_float32_agrees_to_1e_4(self, sizes, cell, attention):
        om = layer(*sizes, cell=cell, attention=attention, sharpness=2.0)
        x, lengths = torch.randn(14, 9, sizes[0], dtype=torch.float64), torch.tensor([14, 3, 14, 1, 9, 9, 2, 12, 7])
        expected = everything(om, x, lengths, backend="readable")
        assert_agree(everything(om.float(), x.float(), lengths), expected, 1e-4)

    def test_one_slot_and_one_token(self):
        om = layer(3, 5, 1)
        for x in (torch.randn(1, 1, 3, dtype=torch.float64), torch.randn(6, 2, 3, dtype=torch.float64)):
            assert_agree(everything(om, x), everything(om, x, backend="readable"), 1e-9)

    @pytest.mark.parametrize("hidden_size", [1, 2])
    def test_sizes_at_which_layer_norm_leaves_little_but_rounding(self, hidden_size):
        om, x = layer(3, hidden_size, 4), torch.randn(6, 2, 3, dtype=torch.float64)
        assert_agree(everything(om, x), everything(om, x, backend="readable"), 1e-6)

    def test_fresh_memory_full_of_nan_changes_nothing(self):
        om, x, lengths = layer(3, 19, 5), torch.randn(9, 6, 3, dtype=torch.float64), torch.tensor([9, 2, 5, 9, 1, 4])
        expected = everything(om, x, lengths)
        engine.library().om_poison(1)
        try:
            actual = everything(om, x, lengths)
        finally:
            engine.library().om_poison(0)
        assert_agree(actual, expected, 1e-15)

    def test_hard_pointers(self):
        om, x = layer(3, 8, 5), torch.randn(12, 4, 3, dtype=torch.float64)
        lengths = torch.tensor([12, 3, 9, 1])
        fast, slow = (everything(om, x, lengths, backend=name, pointer="hard") for name in ("native", "readable"))
        assert_agree(fast, slow, 1e-9)
        assert not any(value.any() for name, value in fast.items() if "gradient" in name and "attention" in name)

    @pytest.mark.parametrize("backend", ["native", "readable"])
    def test_sampled_pointers_come_as_often_as_their_weights_say(self, backend):
        om, rows = layer(3, 8, 4, backend=backend), 4000
        x = torch.randn(3, 1, 3, dtype=torch.float64).expand(3, rows, 3)
        drawn = om.read(x, pointer="sampled").p[0]
        assert drawn[0].eq(0).all()
        assert drawn[1:].max(-1).values.eq(1).all()
        assert drawn[1:].sum(-1).eq(1).all()
        # One slot is in reach of the second token: only from the third on is there a choice.
        before = om.read(x[:2], pointer="hard").state
        soft, drawn = (om.read(x[2:], before, pointer=pointer).p[0, 0] for pointer in ("soft", "sampled"))
        assert soft[0].max() < 0.95
        assert drawn.mean(0).tolist() == pytest.approx(soft[0].tolist(), abs=0.03)

    @pytest.mark.parametrize("recompute", [False, True])
    def test_sampled_pointers_that_are_sure_are_hard_ones(self, recompute):
        om, x = layer(3, 8, 5, recompute=recompute), torch.randn(12, 4, 3, dtype=torch.float64)
        om.sharpen(1e9)
        lengths = torch.tensor([12, 3, 9, 1])
        drawn, hard = (everything(om, x, lengths, pointer=pointer) for pointer in ("sampled", "hard"))
        assert_agree(drawn, hard, 1e-12)

    def test_sampled_pointers_are_the_seed_s_and_the_cell_learns_along_them(self):
        om, x = layer(3, 8, 5, recompute=True), torch.randn(12, 4, 3, dtype=torch.float64)
        found = []
        for seed, recompute in ((1, True), (1, False), (2, False)):
            om.recompute = recompute
            torch.manual_seed(seed)
            found.append(everything(om, x, pointer="sampled"))
        assert_agree(found[0], found[1], 1e-12)
        assert not torch.equal(found[1]["pointers"], found[2]["pointers"])
        assert not any(value.any() for name, value in found[0].items() if "gradient" in name and "attention" in name)
        assert found[0]["gradient of directions.0.cell.outer.weight"].any()

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_extreme_weights_give_finite_numbers(self, dtype):
        om, x = layer(3, 16, 4, sharpness=1000.0, dtype=dtype), torch.randn(10, 4, 3, dtype=dtype)
        with torch.no_grad():
            om.directions[0].cell.outer.weight.mul_(1e4)
        for name, value in everything(om, x).items():
            assert value.isfinite().all(), name

    def test_extreme_gates_agree_in_float32(self):
        om, x = layer(3, 16, 4, dtype=torch.float32), torch.randn(10, 4, 3)
        with torch.no_grad():
            om.directions[0].cell.outer.weight.mul_(1e4)
        fast = om(x)[0]
        om.backend = "readable"
        torch.testing.assert_close(fast, om(x)[0], rtol=1e-3, atol=1e-3)


class TestThreadsAndMemory:
    def test_same_seed_and_threads_give_the_same_bits(self):
        om, x = layer(4, 24, 5, dropout=0.2, attention_dropout=0.1), torch.randn(9, 7, 4, dtype=torch.float64)
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            try:
                torch.manual_seed(3)
                one = everything(om, x)
                torch.manual_seed(3)
                two = everything(om, x)
            finally:
                torch.set_num_threads(1)
            assert all(torch.equal(one[name], two[name]) for name in one)

    def test_threads_do_not_change_dropout(self):
        om, x = layer(4, 24, 5, dropout=0.2, attention_dropout=0.1), torch.randn(9, 7, 4, dtype=torch.float64)
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            torch.manual_seed(3)
            found.append(everything(om, x))
        torch.set_num_threads(1)
        assert_agree(*found, 1e-12)

    def test_tapes_are_forgotten_with_the_graph_and_memory_is_used_again(self):
        om, x = layer(4, 24, 5), torch.randn(9, 7, 4, dtype=torch.float64)
        library = engine.library()
        native.release_memory()
        library.om_pooled.restype = ctypes.c_int64
        for _ in range(3):
            output, _state = om(x)
            held = library.om_pooled()
            del output, _state
            gc.collect()
            assert library.om_pooled() > held
        first = library.om_pooled()
        om(x)[0].sum().backward()
        gc.collect()
        assert library.om_pooled() <= 3 * first
        native.release_memory()
        assert library.om_pooled() == 0

    def test_a_float32_tape_from_the_pool_is_far_less_than_half_of_a_float64_one(self):
        library = engine.library()
        library.om_pooled.restype = ctypes.c_int64
        sizes = {}
        for dtype in (torch.float32, torch.float64):
            om = layer(4, 64, 8, dtype=dtype, threshold=0.0)
            native.release_memory()
            om.last_state(torch.randn(120, 32, 4, dtype=dtype))  # the graph is let go at once, and so is the tape
            gc.collect()
            sizes[dtype] = library.om_pooled()
        native.release_memory()
        assert sizes[torch.float64] > 2.3 * sizes[torch.float32]

    def test_a_long_sequence_through_one_row(self):
        om = layer(2, 8, 4, dtype=torch.float32).eval()
        with torch.no_grad():
            output, state = om(torch.randn(100_000, 2))
        assert output.shape == (100_000, 8)
        assert output.isfinite().all()
        assert state.M.isfinite().all()


class TestDropout:
    @staticmethod
    def mask(n, rate, seed=1, site=0, token=0, slot=0):
        values = torch.ones(n, dtype=torch.float64)
        numbers = (ctypes.c_uint64(seed), *(ctypes.c_int64(value) for value in (site, token, slot)))
        engine.library().om_drop(ctypes.c_void_p(values.data_ptr()), ctypes.c_int64(n), ctypes.c_double(rate), *numbers)
        return values

    @pytest.mark.parametrize("rate", [0.1, 0.2, 0.5])
    def test_keep_rate_and_scale(self, rate):
        masks = torch.stack([self.mask(512, rate, token=token) for token in range(2000)])
        assert set(masks.unique().tolist()) == {0.0, 1 / (1 - rate)}
        kept = masks.ne(0).double()
        error = (rate * (1 - rate)) ** 0.5
        assert abs(kept.mean() - (1 - rate)) < 5 * error / 1_024_000**0.5
        assert (kept.mean(0) - (1 - rate)).abs().max() < 5 * error / 2000**0.5  # of each unit
        assert (kept.mean(1) - (1 - rate)).abs().max() < 5 * error / 512**0.5  # of each token

    def test_masks_of_units_tokens_slots_sites_and_seeds_are_independent(self):
        n = 100_000
        one = self.mask(n, 0.5) - 1
        others = [self.mask(n, 0.5, **change) - 1 for change in ({"seed": 2}, {"site": 1}, {"token": 1}, {"slot": 1})]
        others += [one.roll(shift) for shift in (1, 2, 8, 16, 64, 128, 512)]
        for other in others:
            assert (one * other).mean().abs() < 5 / n**0.5

    def test_mean_over_masks_is_what_no_dropout_gives_to_first_order(self):
        om, x = layer(3, 32, 3, dropout=0.1, attention_dropout=0.1), torch.randn(4, 200, 3, dtype=torch.float64)
        x = x[:, :1].expand(-1, 2000, -1)
        with torch.no_grad():
            dropped = om(x)[0][1:]
            plain = om.eval()(x[:, :1])[0][1:]
        assert dropped.std(1).mean() > 0.01  # rows are dropped differently
        assert (dropped.mean(1) - plain[:, 0]).abs().mean() < 0.1

    def test_same_masks_forward_and_backward(self):
        om, x = layer(2, 5, 3, dropout=0.3, attention_dropout=0.3), torch.randn(6, 2, 2, dtype=torch.float64)

        def run(*inputs):
            torch.manual_seed(11)
            output, state = om(inputs[0])
            return output, state.M, state.M_hat, state.p

        assert torch.autograd.gradcheck(run, (x.requires_grad_(), *om.parameters()), fast_mode=True)

    def test_full_dropout_is_finite(self):
        om, x = layer(2, 5, 3, dropout=1.0, attention_dropout=1.0), torch.randn(6, 2, 2, dtype=torch.float64)
        assert all(value.isfinite().all() for value in everything(om, x).values())

    def test_recomputing_sees_the_same_masks(self):
        om, x = layer(2, 9, 3, dropout=0.3, attention_dropout=0.3), torch.randn(17, 5, 2, dtype=torch.float64)
        torch.manual_seed(1)
        expected = everything(om, x)
        om.recompute = True
        torch.manual_seed(1)
        assert_agree(everything(om, x), expected, 1e-12)


class TestOperator:
    def test_torch_s_own_checks_of_an_operator(self):
        sizes = torch.tensor([2, 2, 1])
        tensors = [torch.randn(5, 4, dtype=torch.float64) for _ in range(2)]
        om = layer(3, 4, 3)
        tensors.append(torch.cat([p.flatten() for p in operator._parameters(om.directions[0])]).detach())
        switches = operator.Switches(3, 2, 0, 0, 0, 1, 0, 0, 1, 1)
        arguments = ([t.requires_grad_() for t in tensors], sizes, torch.zeros(1, dtype=torch.int64), list(switches))
        torch.library.opcheck(
            operator._read, (*arguments, [1e-5, 0.0, 0.0]), test_utils=("test_schema", "test_faketensor")
        )

    def test_backward_twice_over_one_graph(self):
        om, x = layer(3, 6, 3), torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
        loss = om(x)[0].square().sum()
        (first,) = torch.autograd.grad(loss, x, retain_graph=True)
        (second,) = torch.autograd.grad(loss, x)
        assert torch.equal(first, second)

    def test_second_derivatives_are_refused_in_words(self):
        om, x = layer(3, 6, 3), torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(om(x)[0].square().sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="no second derivatives"):
            gradient.sum().backward()

    def test_only_what_needs_a_gradient_gets_one(self):
        om, x = layer(3, 6, 3), torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
        om.requires_grad_(False)
        om(x)[1].M.square().sum().backward()
        assert x.grad is not None
        assert all(parameter.grad is None for parameter in om.parameters())

    @pytest.mark.parametrize("options", [{}, {"cell": "tree-rnn"}, {"recompute": True}])
    @pytest.mark.parametrize("pointer", ["soft", "hard"])
    def test_the_gradients_of_the_rest_are_the_same_where_the_cell_does_not_learn(self, options, pointer, monkeypatch):
        of_all, backward = [], operator._read_backward
        monkeypatch.setattr(operator, "_read_backward", lambda *given: of_all.append(backward(*given)) or of_all[-1])
        om = layer(3, 6, 4, **options)
        x = torch.randn(7, 5, 3, dtype=torch.float64, requires_grad=True)
        others = [x, *(value for name, value in om.named_parameters() if ".cell." not in name)]
        lengths, weights = torch.tensor([7, 4, 7, 1, 2]), torch.randn(6, dtype=torch.float64)

        def gradients():
            output, _ = om(x, lengths=lengths, pointer=pointer)
            return torch.autograd.grad((output * weights).sum(), others, allow_unused=True, materialize_grads=True)

        expected = gradients()
        om.directions[0].cell.requires_grad_(False)
        torch.testing.assert_close(gradients(), expected, rtol=0, atol=0)
        of_cell = sum(parameter.numel() for parameter in om.directions[0].cell.parameters())
        learning, frozen = (results[2][-of_cell:] for results in of_all)
        assert learning.abs().sum() > 0
        assert frozen.abs().sum() == 0

    def test_autocast_regions_are_left_in_full_precision(self):
        om, x = layer(3, 6, 3, dtype=torch.float32), torch.randn(5, 2, 3)
        expected = om(x)[0]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            actual = om(x)[0]
        assert torch.equal(actual, expected)

    def test_torch_compile_around_it(self):
        om, x = layer(3, 6, 3), torch.randn(5, 2, 3, dtype=torch.float64)
        compiled = torch.compile(lambda x: om(2 * x)[0].tanh().square().sum(), backend="aot_eager", fullgraph=True)
        for _ in range(2):
            inputs = [x.clone().requires_grad_() for _ in range(2)]
            compiled(inputs[0]).backward()
            om(2 * inputs[1])[0].tanh().square().sum().backward()
            torch.testing.assert_close(inputs[0].grad, inputs[1].grad)

    def test_distributed_data_parallel_around_it(self, tmp_path):
        """In a process of its own: what gloo waits for, it waits for where no signal of the tests reaches it."""
        code = textwrap.dedent("""
            import sys
            import torch
            from ordered_memory import OrderedMemory
            torch.distributed.init_process_group("gloo", f"file://{sys.argv[1]}/store", rank=0, world_size=1)
            torch.manual_seed(0)
            om = OrderedMemory(3, 6, 3, dtype=torch.float64, backend="native")
            x, weights = torch.randn(5, 2, 3, dtype=torch.float64), torch.randn(5, 2, 6, dtype=torch.float64)
            (om(x)[0] * weights).sum().backward()
            alone = [parameter.grad.clone() for parameter in om.parameters()]
            om.zero_grad()
            (torch.nn.parallel.DistributedDataParallel(om)(x)[0] * weights).sum().backward()
            assert om.directions[0].cell.outer.weight.grad.abs().sum() > 0
            for parameter, expected in zip(om.parameters(), alone, strict=True):
                torch.testing.assert_close(parameter.grad, expected)
            print("agrees", flush=True)
        """)
        environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(Path(native.__file__).parents[2])}
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.stdout == "agrees\n", done.stderr

    def test_unknown_tape_is_an_error_not_a_crash(self):
        sizes, seed = torch.tensor([1]), torch.zeros(1, dtype=torch.int64)
        om = layer(3, 4, 3)
        parameters = torch.cat([p.flatten() for p in operator._parameters(om.directions[0])]).detach()
        tensors = [torch.randn(1, 4, dtype=torch.float64), torch.randn(1, 4, dtype=torch.float64), parameters]
        switches = list(operator.Switches(3, 1, 0, 0, 0, 1, 0, 0, 1, 0))
        with pytest.raises(RuntimeError, match="record of the forward pass is gone"):
            operator._read_backward([None] * 5, tensors, sizes, seed, torch.tensor([10**9]), switches, [1e-5, 0.0, 0.0])


class TestPieces:
    """Where no gradients are wanted, a sequence is read piece by piece, and memory does not grow with its length."""

    @given(problems(), st.booleans(), st.sampled_from([1, 2, 5]))
    @settings(max_examples=30)
    def test_pieces_change_nothing_but_the_rounding_of_torch_s_own_products(self, problem, with_state, steps):
        om, x, lengths = problem
        with torch.no_grad():
            state = om.read(x, lengths=lengths).state if with_state else None
            whole = om.read(x, state, lengths=lengths)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(operator, "STEPS_OF_A_PIECE", steps)
                patch.setattr(operator, "TOKENS_OF_A_PIECE", 1)
                cut = om.read(x, state, lengths=lengths)
                last = om.last_state(x, state, lengths=lengths)
        torch.testing.assert_close([cut.output, cut.p], [whole.output, whole.p], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(list(cut.state), list(whole.state), rtol=1e-9, atol=1e-9)
        assert all(torch.equal(alone, part) for alone, part in zip(last, cut.state, strict=True))

    def test_memory_does_not_grow_with_length(self):
        """In a process of its own, by the most that it ever held: 100,000 tokens need no more than 10,000."""
        code = textwrap.dedent("""
            import torch
            from ordered_memory import OrderedMemory
            from ordered_memory.bench.measure import most_memory
            torch.set_num_threads(1)
            om, x = OrderedMemory(128, 32, 4, backend="native").eval(), torch.randn(100_000, 128)
            with torch.no_grad():
                om.last_state(x[:10_000])
                before = most_memory()
                state = om.last_state(x)
            assert state.M_hat.isfinite().all()
            print(most_memory() - before)
        """)
        environment = os.environ | {"PYTHONPATH": str(Path(native.__file__).parents[2])}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        whole = 100_000 * 128 * 4  # bytes of one more tensor of the size of the input
        assert int(done.stdout) < whole / 4

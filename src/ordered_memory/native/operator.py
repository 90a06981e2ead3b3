"""The engine as a torch operator: what autograd, ``torch.compile`` and distributed training see of it.

``ordered_memory::read`` takes the projected tokens of a batch in the layout of a PackedSequence and all parameters as
one vector; ``torch.cat`` outside makes that vector, so that autograd hands each parameter its gradient.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ordered_memory.native import build, engine
from ordered_memory.native.engine import PRECISIONS

if TYPE_CHECKING:
    from ordered_memory.memory import Direction, Pointer, State

STEPS_OF_A_PIECE = 64  # at least; and of few rows so many that the engine has something to do
TOKENS_OF_A_PIECE = 4096
NO_SECOND_DERIVATIVE = "the native engine has no second derivatives: build the layer with backend='readable' for them"
_SIZES = ("D", "N", "rows", "steps", "tokens")
_SWITCHES = ("threads", "paper", "tree", "hard", "keep", "segment", "frozen")
_RATES = ("threshold", "dropout", "attention_dropout")
_INPUTS = ("x", "query", "parameters", "M_start", "M_hat_start", "p_start")
_OUTPUTS = ("output", "M", "M_hat", "p", "pointers")
_GRADIENTS = ("grad_output", "grad_M", "grad_M_hat", "grad_p", "grad_pointers")
_RESULTS = ("grad_x", "grad_query", "grad_parameters", "grad_M_start", "grad_M_hat_start", "grad_p_start")


class Call(ctypes.Structure):
    """The twin of ``Call`` in model.h, field by field."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _SIZES),
        ("sizes", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in _SWITCHES),
        *((name, ctypes.c_double) for name in _RATES),
        ("seed", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in _INPUTS + _OUTPUTS + _GRADIENTS + _RESULTS),
        ("tape", ctypes.c_int64),
    )


class Switches(NamedTuple):
    """The whole numbers that go with a call, in the order in which the operator takes them."""

    N: int
    rows: int
    paper: int
    tree: int
    hard: int  # 1, or 2 where the slot is drawn
    keep: int  # gradients will be asked for
    segment: int  # steps between kept states, the rest being computed again in backward; 0 keeps everything
    frozen: int  # the cell does not learn: backward leaves out its weights' gradients, a third of the arithmetic
    want_output: int
    want_pointers: int


def _call(
    inputs: Sequence[Tensor], sizes: Tensor, seed: Tensor, switches: Sequence[int], rates: Sequence[float]
) -> tuple[Call, list[Tensor]]:
    """The call without its results, and the tensors that it points to."""
    held = [tensor.detach().contiguous() for tensor in inputs]
    x, asked = held[0], Switches(*switches)
    if int(sizes.sum()) != len(x) or (sizes.diff() > 0).any() or (len(sizes) and int(sizes[0]) != asked.rows):
        raise ValueError("the rows at each step do not fit the tokens: not the layout of a PackedSequence")
    call = Call(D=x.shape[1], N=asked.N, rows=asked.rows, steps=len(sizes), tokens=len(x), seed=int(seed))
    call.sizes, call.threads = sizes.data_ptr(), torch.get_num_threads()
    call.paper, call.tree, call.hard, call.keep, call.segment, call.frozen = asked[2:8]
    call.threshold, call.dropout, call.attention_dropout = rates
    _point(call, _INPUTS, held)
    return call, held


def _point(call: Call, names: Sequence[str], tensors: Sequence[Tensor | None]) -> None:
    for name, tensor in zip(names, tensors, strict=False):
        setattr(call, name, tensor.data_ptr() if tensor is not None and tensor.numel() else None)


def _handle(tape: int, dtype: torch.dtype) -> Tensor:
    """The number of a tape as a tensor: once autograd lets go of it, so does the engine of the tape."""
    number = (ctypes.c_int64 * 1)(tape)
    if tape:
        weakref.finalize(number, getattr(engine.library(), f"om_forget_{PRECISIONS[dtype]}"), ctypes.c_int64(tape))
    return torch.frombuffer(number, dtype=torch.int64)


def _empty_results(x: Tensor, switches: Sequence[int]) -> list[Tensor]:
    asked = Switches(*switches)
    rows, N, D = asked.rows, asked.N, x.shape[1]
    outputs, pointers = (len(x) if wanted else 0 for wanted in (asked.want_output, asked.want_pointers))
    return [x.new_empty(shape) for shape in ((outputs, D), (rows, N, D), (rows, N, D), (rows, N), (pointers, N))]


def _forward(
    inputs: Sequence[Tensor], sizes: Tensor, seed: Tensor, switches: Sequence[int], rates: Sequence[float]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Inputs are x, query, parameters and, with a state, M, M_hat and p; results are those of _OUTPUTS, and a tape."""
    call, held = _call(inputs, sizes, seed, switches, rates)
    results = _empty_results(held[0], switches)
    _point(call, _OUTPUTS, results)
    tape = ctypes.c_int64(0)
    engine.run("forward", held[0].dtype, call, ctypes.byref(tape))
    output, M, M_hat, p, pointers = results
    return output, M, M_hat, p, pointers, _handle(tape.value, held[0].dtype)


_read = torch.library.custom_op("ordered_memory::read", _forward, mutates_args=(), device_types="cpu")


@_read.register_fake
def _(inputs: Sequence[Tensor], _sizes: Tensor, _seed: Tensor, switches: Sequence[int], _: Any) -> tuple[Tensor, ...]:
    return *_empty_results(inputs[0], switches), torch.empty(1, dtype=torch.int64)


@torch.library.custom_op("ordered_memory::read_backward", mutates_args=(), device_types="cpu")
def _read_backward(
    gradients: Sequence[Tensor | None],
    inputs: Sequence[Tensor],
    sizes: Tensor,
    seed: Tensor,
    tape: Tensor,
    switches: Sequence[int],
    rates: Sequence[float],
) -> list[Tensor]:
    call, held = _call(inputs, sizes, seed, switches, rates)
    given = [None if gradient is None else gradient.detach().contiguous() for gradient in gradients]
    results = [torch.zeros_like(tensor) for tensor in held]
    _point(call, _GRADIENTS, given)
    _point(call, _RESULTS, results)
    call.tape = int(tape)
    engine.run("backward", held[0].dtype, call)
    return results


@_read_backward.register_fake
def _(_gradients: Any, inputs: Sequence[Tensor], *_: Any) -> list[Tensor]:
    return [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in inputs]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    tensors, sizes, seed, switches, rates = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(sizes, seed, output[-1], *tensors)
    ctx.settings = switches, rates


def _differentiate(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
    sizes, seed, tape, *tensors = ctx.saved_tensors
    if not Switches(*ctx.settings[0]).keep:
        raise RuntimeError("the native engine was not told to keep what backward needs")
    results = _read_backward(gradients[:5], tensors, sizes, seed, tape, *ctx.settings)
    return results, None, None, None, None


def _no_second_derivative(_ctx: Any, *_: Any) -> tuple[Any, ...]:
    raise RuntimeError(NO_SECOND_DERIVATIVE)


_read.register_autograd(_differentiate, setup_context=_save)
_read_backward.register_autograd(_no_second_derivative)


def supports(device: torch.device, dtype: torch.dtype, required: bool = False) -> bool:
    """Whether the engine computes on this device and in this precision; builds it if that has not been done.

    Where it could be had and is not, one warning says how to get it; where it is ``required``, that is an error.
    """
    reason = None
    if device.type != "cpu":
        reason = f"it runs on the CPU, and the layer is on {device}"
    elif dtype not in PRECISIONS:
        reason = f"it computes in float32 and float64, and the layer is {dtype}"
    elif build.load()[0] is None:
        reason = build.status().reason
        if not required:
            build.warn_once(reason)
    if reason is not None and required:
        raise build.BuildError(f"the native engine cannot be used: {reason}")
    return reason is None


# What torch.compiler.assume_constant_result does, without importing the compiler: that takes two seconds.
supports._dynamo_marked_constant = True  # type: ignore[attr-defined]


def release_memory() -> None:
    """Gives the memory that waits for the next call back to the system."""
    engine.library().om_release()


def read(
    direction: Direction,
    inputs: Tensor,
    sizes: list[int],
    state: State | None,
    num_slots: int,
    pointer: Pointer,
    keep: tuple[str, ...] = ("output",),
    recompute: bool = False,
) -> tuple[list[Tensor], State]:
    """One direction over a whole batch: what ``keep`` names of all tokens, "output" and "p", and the last state."""
    from ordered_memory.memory import PaperScore, TreeRNNCell  # which imports this package

    given = [inputs, *direction.parameters(), *([] if state is None else state)]
    tape = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given)
    switches = Switches(
        N=num_slots,
        rows=sizes[0],
        paper=int(isinstance(direction.attention.score, PaperScore)),  # torch.compile takes no truth values here
        tree=int(isinstance(direction.cell, TreeRNNCell)),
        hard=("soft", "hard", "sampled").index(pointer),
        keep=int(tape),
        segment=max(1, round((len(sizes) / 4) ** 0.5)) if recompute and tape else 0,
        frozen=int(not any(parameter.requires_grad for parameter in direction.cell.parameters())),
        want_output=int("output" in keep),
        want_pointers=int("p" in keep),
    )
    pieces = [sizes] if tape else list(_pieces(sizes))
    with torch.autocast("cpu", enabled=False):
        parameters = torch.cat([parameter.flatten() for parameter in _parameters(direction)])
        run = functools.partial(_project_and_read, direction, parameters, switches)
        found, last = run(inputs, sizes, state) if len(pieces) == 1 else _piece_by_piece(run, inputs, pieces, state)
    return [found[("output", "p").index(name)] for name in keep], last


def _pieces(sizes: list[int]) -> Iterator[list[int]]:
    """Cuts a sequence where no gradients are wanted, so that its projected tokens take memory a piece at a time."""
    steps = max(STEPS_OF_A_PIECE, TOKENS_OF_A_PIECE // sizes[0])
    for start in range(0, len(sizes), steps):
        yield sizes[start : start + steps]


def _piece_by_piece(
    run: Callable[[Tensor, list[int], State | None], tuple[list[Tensor], State]],
    inputs: Tensor,
    pieces: list[list[int]],
    state: State | None,
) -> tuple[list[Tensor], State]:
    """Each piece goes on where the one before it stopped; rows are sorted by length, so the first ones go on."""
    done = sum(pieces[0])
    first, last = run(inputs[:done], pieces[0], state)
    found = [values.new_empty(len(inputs) if len(values) else 0, values.shape[1]) for values in first]
    for to, values in zip(found, first, strict=True):
        to[:done] = values
    for sizes in pieces[1:]:
        end = done + sum(sizes)
        going_on = type(last)(*(part[: sizes[0]] for part in last))
        more, after = run(inputs[done:end], sizes, going_on)
        for to, values in zip([*(whole[done:end] for whole in found), *going_on], [*more, *after], strict=True):
            to.copy_(values)
        done = end
    return found, last


def _project_and_read(
    direction: Direction,
    parameters: Tensor,
    switches: Switches,
    inputs: Tensor,
    sizes: list[int],
    state: State | None,
) -> tuple[list[Tensor], State]:
    """Tokens and queries, which are torch's work, and then the engine's: outputs, pointers and the last state."""
    from ordered_memory.memory import State

    score: Any = direction.attention.score
    x = direction.norm(direction.projection(inputs.to(direction.norm.weight.dtype)))
    tensors = [x, score.of_token(x), parameters, *([] if state is None else (part.to(x.dtype) for part in state))]
    dropouts: list[Any] = [direction.cell.dropout, score.dropout]
    dropped = [dropout.p if dropout.training else 0.0 for dropout in dropouts]
    seed = torch.randint(2**62, (1,)) if any(dropped) or switches.hard == 2 else torch.zeros(1, dtype=torch.int64)
    asked = list(switches._replace(rows=sizes[0]))
    # The operator is for autograd and the compiler. A first call of it imports the compiler, which takes two seconds:
    # where neither has a part in it the engine is called as it is.
    run = _read if torch.is_grad_enabled() or torch.compiler.is_compiling() else _forward
    rates = [direction.threshold, *dropped]
    output, M, M_hat, p, pointers, _ = run(tensors, torch.tensor(sizes), seed, asked, rates)
    return [output, pointers], State(M, M_hat, p)


def _parameters(direction: Direction) -> list[Tensor]:
    """All parameters that the engine works with, in the order of ``Parameters`` in model.h."""
    score: Any = direction.attention.score
    cell: Any = direction.cell
    linears = [score.key, *([score.key_norm] if hasattr(score, "key_norm") else []), score.weight]
    linears += [cell.inner, cell.outer] if hasattr(cell, "inner") else [cell.linear]
    return [*direction.norm.parameters(), *(p for linear in linears for p in linear.parameters())]

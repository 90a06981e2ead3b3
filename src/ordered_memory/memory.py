"""Ordered Memory, whole: section 3 of the paper in one file, in the paper's own symbols, used like ``nn.LSTM``.

Ordered Memory (Shen, Tan, Hosseini, Lin, Sordoni, Courville, NeurIPS 2019) keeps an ordered stack of sub-trees. At each
token a soft pointer over the slots says how many finished sub-trees to reduce; its cumulative sums erase and write the
stack; a gated recursive cell composes two sub-trees into one. Slot N is the bottom of the stack, slot 1 its far top.

    T, B, I     tokens, rows of the batch, size of the input
    N, D        slots, size of a slot
    x           the token at this step, projected and normalised                        (B, D)
    M           memory: the sub-trees waiting on the stack                              (B, N, D)
    M_hat       candidates: M_hat[i] is x reduced with every sub-tree up to slot i      (B, N, D)
    p           pointer: how far the previous token's sub-tree was reduced              (B, N)
    cp, rcp     its cumulative sum, from the left and from the right                    (B, N)
    o           what the cell makes of two sub-trees                                    (B, D)
    v, h, c, u  the cell's gates for its vertical and horizontal input and its proposal, and the proposal

Where the paper and its released code differ, the decision is written beside the line that takes it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

Pointer = Literal["soft", "hard", "sampled"]
Backend = Literal["auto", "native", "readable"]
Sequence = TypeVar("Sequence", Tensor, PackedSequence)  # the kind that comes in goes out

MASK_FLOOR = 1e-5  # a slot that the last pointer reached with less than this is out of reach (released code)


class State(NamedTuple):
    """All that a next call needs to go on; the leading axis counts directions, as in ``h_n`` of ``nn.LSTM``."""

    M: Tensor  # (directions, B, N, D)
    M_hat: Tensor  # (directions, B, N, D)
    p: Tensor  # (directions, B, N)

    def detach(self) -> State:
        """The same numbers without their history: for training on pieces of a long sequence."""
        return State(*(part.detach() for part in self))


class Reading(NamedTuple, Generic[Sequence]):
    """Output and state, as ``forward`` gives them, and the pointer of every step."""

    output: Sequence  # (T, B, directions * D), or packed
    state: State
    p: Tensor  # (directions, T, B, N)


class Trace(NamedTuple):
    """Everything that happened at every step, for trees and pictures; zero past a row's end."""

    p: Tensor  # (directions, T, B, N)
    M: Tensor  # (directions, T, B, N, D)
    M_hat: Tensor  # (directions, T, B, N, D)
    output: Tensor  # (T, B, directions * D)


class ReleasedScore(nn.Module):
    """Score of a slot in the released code, which made the published figures: w relu(LN(Wq x) + LN(Wk M_hat))."""

    def __init__(self, D: int, dropout: float, **factory: Any) -> None:
        super().__init__()
        self.query, self.query_norm = nn.Linear(D, D, **factory), nn.LayerNorm(D, **factory)
        self.key, self.key_norm = nn.Linear(D, D, **factory), nn.LayerNorm(D, **factory)
        self.weight = nn.Linear(D, 1, **factory)
        self.dropout = nn.Dropout(dropout)

    def of_token(self, x: Tensor) -> Tensor:
        query: Tensor = self.query_norm(self.query(self.dropout(x)))  # (..., D)
        return query

    def of_slot(self, M_hat: Tensor) -> Tensor:
        key: Tensor = self.key_norm(self.key(self.dropout(M_hat)))  # (..., D)
        return key

    def join(self, query: Tensor, key: Tensor, N: int) -> Tensor:  # noqa: ARG002 - the paper's form goes by it
        beta: Tensor = self.weight(self.dropout(functional.relu(query + key))).squeeze(-1)  # (..., D) to (...)
        return beta / math.sqrt(key.shape[-1])


class PaperScore(nn.Module):
    """Score of a slot as the paper prints it: w2 tanh(W1 [M_hat; x] + b1) + b2, over sqrt(N)."""

    def __init__(self, D: int, dropout: float, **factory: Any) -> None:
        super().__init__()
        self.query = nn.Linear(D, D, **factory)  # W1's half for x, with b1
        self.key = nn.Linear(D, D, bias=False, **factory)  # W1's half for M_hat
        self.weight = nn.Linear(D, 1, **factory)  # w2, b2
        self.dropout = nn.Dropout(dropout)

    def of_token(self, x: Tensor) -> Tensor:
        query: Tensor = self.query(self.dropout(x))  # (..., D)
        return query

    def of_slot(self, M_hat: Tensor) -> Tensor:
        key: Tensor = self.key(self.dropout(M_hat))  # (..., D)
        return key

    def join(self, query: Tensor, key: Tensor, N: int) -> Tensor:
        beta: Tensor = self.weight(self.dropout(torch.tanh(query + key))).squeeze(-1)  # eq. 8  (..., D) to (...)
        return beta / math.sqrt(N)


SCORES: dict[str, Callable[..., nn.Module]] = {"released": ReleasedScore, "paper": PaperScore}


class MaskedAttention(nn.Module):
    """Where the pointer goes next: a softmax over the slots that the last pointer left within reach."""

    def __init__(self, D: int, form: str = "released", dropout: float = 0.0, **factory: Any) -> None:
        super().__init__()
        self.score: Any = SCORES[form](D, dropout, **factory)

    def forward(self, x: Tensor, M_hat: Tensor, p: Tensor) -> Tensor:
        score = self.score
        beta = score.join(score.of_token(x)[:, None], score.of_slot(M_hat), M_hat.shape[1])  # eq. 8-9  (B, N)
        # One slot further up than the last pointer at most, for one token came; the bottom is always in reach.
        # Only p was zero, after the first token, leaves the bottom alone: there is one sub-tree to point at.
        mask = functional.pad(p.cumsum(-1)[:, 1:], (0, 1), value=1.0)  # eq. 10
        mask = mask.masked_fill(mask < MASK_FLOOR, 0.0)
        beta = beta.masked_fill(mask == 0, -math.inf)
        weight = torch.exp(beta - beta.detach().amax(-1, keepdim=True)) * mask
        return weight / weight.sum(-1, keepdim=True)  # eq. 11


class GatedRecursiveCell(nn.Module):
    """Composes the candidate below and the sub-tree in memory: gates over both and over a proposal (eq. 12-13)."""

    def __init__(self, D: int, dropout: float = 0.0, **factory: Any) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(2 * D, 4 * D, **factory), nn.Linear(4 * D, 4 * D, **factory)
        self.dropout = nn.Dropout(dropout)

    def forward(self, below: Tensor, memory: Tensor) -> Tensor:
        hidden = functional.relu(self.inner(self.dropout(torch.cat([below, memory], -1))))  # (B, 4D)
        v, h, c, u = self.outer(self.dropout(hidden)).chunk(4, -1)  # eq. 12
        o: Tensor = v.sigmoid() * below + h.sigmoid() * memory + c.sigmoid() * u  # eq. 13, before its LayerNorm
        return o


class TreeRNNCell(nn.Module):
    """The paper's ablation: tanh(W [below; memory] + b) in place of the gated cell."""

    def __init__(self, D: int, dropout: float = 0.0, **factory: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * D, D, **factory)
        self.dropout = nn.Dropout(dropout)

    def forward(self, below: Tensor, memory: Tensor) -> Tensor:
        return torch.tanh(self.linear(self.dropout(torch.cat([below, memory], -1))))


CELLS: dict[str, Callable[..., nn.Module]] = {"gated": GatedRecursiveCell, "tree-rnn": TreeRNNCell}


class Direction(nn.Module):
    """The recurrence over one reading direction, with all its parameters; none depends on the number of slots."""

    def __init__(
        self,
        input_size: int,
        D: int,
        dropout: float,
        attention_dropout: float,
        attention: str,
        cell: str,
        threshold: float,
        **factory: Any,
    ) -> None:
        super().__init__()
        self.projection = nn.Linear(input_size, D, **factory)
        self.norm = nn.LayerNorm(D, **factory)  # one for leaves and cell outputs: both live in the same slots
        self.attention = MaskedAttention(D, attention, attention_dropout, **factory)
        self.cell = CELLS[cell](D, dropout, **factory)
        self.threshold = threshold

    def first_step(self, x: Tensor, N: int) -> State:
        """The first token fills every candidate and points nowhere (the paper's figure and the released code)."""
        B, D = x.shape
        return State(x.new_zeros(B, N, D), x[:, None].expand(B, N, D), x.new_zeros(B, N))

    def step(self, x: Tensor, state: State, pointer: Pointer = "soft") -> State:
        """Algorithm 1: one token further."""
        p = self.attention(x, state.M_hat, state.p)  # eq. 2, 8-11  (B, N)
        if pointer != "soft":
            chosen = p.argmax(-1) if pointer == "hard" else self.draw(p.detach())
            p = functional.one_hot(chosen, p.shape[-1]).to(p)
        cp = p.cumsum(-1)  # eq. 3
        rcp = p.flip(-1).cumsum(-1).flip(-1)  # eq. 4
        M = torch.lerp(state.M, state.M_hat, rcp[..., None])  # eq. 5  (B, N, D)
        M_hat, below = [], x
        for i in range(M.shape[1]):
            below = self.candidate(x, below, M[:, i], cp[:, i, None])
            M_hat.append(below)
        return State(M, torch.stack(M_hat, 1), p)

    def draw(self, p: Tensor) -> Tensor:
        """A slot for each row, by its weight."""
        cp = p.cumsum(-1)
        u = torch.rand(len(p), 1, dtype=p.dtype, device=p.device)
        return (cp <= u * cp[:, -1:]).sum(-1).clamp(max=p.shape[-1] - 1)  # u is less than 1, but for rounding

    def candidate(self, x: Tensor, below: Tensor, memory: Tensor, cp: Tensor) -> Tensor:
        """Eq. 6-7 for one slot. Dynamic computation: a row whose cp is under the threshold keeps x, with no cell."""
        if self.threshold == 0:
            return torch.lerp(x, self.norm(self.cell(below, memory)), cp)  # eq. 6, 7  (B, D)
        rows = (cp[:, 0] >= self.threshold).nonzero()[:, 0]
        if len(rows) == 0:
            return x
        o = self.norm(self.cell(below[rows], memory[rows]))  # eq. 6
        return x.index_copy(0, rows, torch.lerp(x[rows], o, cp[rows]))  # eq. 7

    def forward(
        self, inputs: Tensor, batch_sizes: list[int], state: State | None, N: int, pointer: Pointer
    ) -> Iterator[State]:
        """The state after each step; a step has the rows that still go on, longest first, as in a PackedSequence."""
        projected = self.norm(self.projection(inputs))
        for x in projected.split(batch_sizes):
            if state is None:
                state = self.first_step(x, N)
            else:
                state = self.step(x, State(*(part[: len(x)] for part in state)), pointer)
            yield state


class OrderedMemory(nn.Module):
    """A layer used like ``nn.LSTM``: it reads a sequence and keeps an ordered stack of the sub-trees it has found.

    Args:
        input_size: size of each input vector.
        hidden_size: size of a slot, and of the output.
        num_slots: how deep the stack may grow. No parameter depends on it; a call may ask for another number.
        batch_first: input and output are (B, T, size) instead of (T, B, size).
        bidirectional: a second stack reads backwards; outputs are concatenated.
        dropout: dropout before each linear map of the cell, in training.
        attention_dropout: dropout before each linear map of the attention, in training.
        attention: ``"released"`` (the authors' code, which made the published figures) or ``"paper"`` (as printed).
        cell: ``"gated"`` (the paper's) or ``"tree-rnn"`` (its ablation).
        threshold: a cell is computed only where the pointer's cumulative probability reaches this; 0 computes all.
        backend: ``"readable"`` is this file, ``"native"`` the same in C++ for the CPU, ``"auto"`` the faster.
        recompute: the native engine keeps little for backward and computes it again: long sequences in less memory.

    Inputs are (T, B, I), (B, T, I) if ``batch_first``, (T, I) or a ``PackedSequence``; the same kind comes back. With
    ``lengths``, rows end early: their output is zero past the end, and their state stays as their last token left it.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_slots: int,
        batch_first: bool = False,
        bidirectional: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        attention: str = "released",
        cell: str = "gated",
        threshold: float = 1e-5,
        backend: Backend = "auto",
        recompute: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_slots", num_slots)):
            if size <= 0:
                raise ValueError(f"{name} must be greater than zero, got {size}")
        names = (("attention", attention, SCORES), ("cell", cell, CELLS), ("backend", backend, get_args(Backend)))
        for name, value, known in names:
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
        if not 0 <= threshold < 1:
            raise ValueError(f"threshold must be at least 0 and less than 1, got {threshold}")
        self.input_size, self.hidden_size, self.num_slots = input_size, hidden_size, num_slots
        self.batch_first, self.bidirectional = batch_first, bidirectional
        self.dropout, self.attention_dropout = dropout, attention_dropout
        self.attention, self.cell, self.threshold = attention, cell, threshold
        self.backend, self.recompute = backend, recompute
        shape = (input_size, hidden_size, dropout, attention_dropout, attention, cell, threshold)
        self.directions = nn.ModuleList(
            Direction(*shape, device=device, dtype=dtype) for _ in range(2 if bidirectional else 1)
        )

    def reset_parameters(self) -> None:
        """Draws every parameter anew, as at construction."""
        reset_parameters(self)

    @torch.no_grad()
    def sharpen(self, factor: float) -> None:
        """Multiplies the scores of all slots: the larger the factor, the nearer a soft pointer comes to a hard one."""
        for name, parameter in self.named_parameters():
            if ".score.weight." in name:
                parameter.mul_(factor)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}, num_slots={self.num_slots}"
        defaults = inspect.signature(type(self)).parameters
        names = ["batch_first", "bidirectional", "dropout", "attention_dropout", "attention", "cell", "threshold"]
        names += ["backend", "recompute"]
        changed = (name for name in names if getattr(self, name) != defaults[name].default)
        return text + "".join(f", {name}={getattr(self, name)!r}" for name in changed)

    def forward(
        self,
        x: Sequence,
        state: State | None = None,
        *,
        lengths: Tensor | None = None,
        num_slots: int | None = None,
        pointer: Pointer = "soft",
    ) -> tuple[Sequence, State]:
        """Output of every token and the state after the last; given a state, goes on where it stopped.

        Args:
            x: the input, in any of the shapes that the class names.
            state: what an earlier call returned.
            lengths: of each row, where ``x`` is padded; all rows are full without it.
            num_slots: another number of slots for this call.
            pointer: ``"hard"`` puts all weight on the likeliest slot, ``"sampled"`` on one that is drawn by the
                weights. No gradient reaches the pointer then, so that a model learns from it only beside soft ones, and
                what the model computes changes wherever its pointer is not yet sharp.
        """
        batch, kept, last = self._read(x, state, lengths, num_slots, pointer, keep=("output",))
        return batch.restore(_beside(kept["output"])), last

    def last_state(
        self,
        x: Tensor | PackedSequence,
        state: State | None = None,
        *,
        lengths: Tensor | None = None,
        num_slots: int | None = None,
        pointer: Pointer = "soft",
    ) -> State:
        """The state after the last token alone: at inference memory does not grow with length, as no output is kept."""
        return self._read(x, state, lengths, num_slots, pointer, keep=())[2]

    def read(
        self,
        x: Sequence,
        state: State | None = None,
        *,
        lengths: Tensor | None = None,
        num_slots: int | None = None,
        pointer: Pointer = "soft",
    ) -> Reading[Sequence]:
        """As ``forward``, with the pointer of every step: what trees are induced from."""
        batch, kept, last = self._read(x, state, lengths, num_slots, pointer, keep=("output", "p"))
        return Reading(batch.restore(_beside(kept["output"])), last, batch.pad(_stacked(kept["p"])))

    def trace(
        self,
        x: Tensor | PackedSequence,
        state: State | None = None,
        *,
        lengths: Tensor | None = None,
        num_slots: int | None = None,
        pointer: Pointer = "soft",
    ) -> Trace:
        """Pointer, memory and candidates of every step: T x N x D numbers a row, twice."""
        batch, kept, _ = self._read(x, state, lengths, num_slots, pointer, keep=("output", "p", "M", "M_hat"))
        p, M, M_hat = (batch.pad(_stacked(kept[name])) for name in ("p", "M", "M_hat"))
        return Trace(p, M, M_hat, batch.pad(_beside(kept["output"])[None])[0])

    def _read(
        self,
        x: Tensor | PackedSequence,
        state: State | None,
        lengths: Tensor | None,
        num_slots: int | None,
        pointer: Pointer,
        keep: tuple[str, ...],
    ) -> tuple[_Batch, dict[str, list[Tensor]], State]:
        """Runs every direction; gives what ``keep`` names of each step, packed, by direction, and the last state."""
        if pointer not in get_args(Pointer):
            raise ValueError(f"pointer must be 'soft', 'hard' or 'sampled', got {pointer!r}")
        batch = _Batch.of(x, lengths, self.batch_first, self.input_size)
        if state is not None:
            state = batch.sort(state, (len(self.directions), self.hidden_size), num_slots)
            num_slots = state.p.shape[-1]
        N = self.num_slots if num_slots is None else num_slots
        if N <= 0:
            raise ValueError(f"num_slots must be greater than zero, got {N}")

        native = self._is_native(next(self.parameters()))
        kept: dict[str, list[Tensor]] = {name: [] for name in keep}
        last = []
        for number, direction in enumerate(self.directions):
            order = batch.reversal() if number else slice(None)
            start = None if state is None else State(*(part[number] for part in state))
            run = self._native if native and "M" not in keep else self._readable
            values, end = run(direction, batch.data[order], batch.sizes, start, N, pointer, keep)
            for name, value in zip(keep, values, strict=True):
                kept[name].append(value[order])
            last.append(end)
        return batch, kept, batch.unsort(State(*(_stacked(parts) for parts in zip(*last, strict=True))))

    def _readable(
        self,
        direction: nn.Module,
        inputs: Tensor,
        sizes: list[int],
        state: State | None,
        N: int,
        pointer: Pointer,
        keep: tuple[str, ...],
    ) -> tuple[list[Tensor], State]:
        """One direction, in this file: what is kept of each step, and the state as each row ends."""
        steps, ended = [], []
        for rows_after, now in zip([*sizes[1:], 0], direction(inputs, sizes, state, N, pointer), strict=True):
            steps.append([now.M_hat[:, -1] if name == "output" else getattr(now, name) for name in keep])
            ended.append(State(*(part[rows_after:] for part in now)))
        last = (torch.cat(parts) for parts in zip(*ended[::-1], strict=True))  # the shortest rows ended first
        return [torch.cat(parts) for parts in zip(*steps, strict=True)], State(*last)

    def _native(
        self,
        direction: Any,
        inputs: Tensor,
        sizes: list[int],
        state: State | None,
        N: int,
        pointer: Pointer,
        keep: tuple[str, ...],
    ) -> tuple[list[Tensor], State]:
        """The same by the native engine, which can keep outputs and pointers, and no more."""
        from ordered_memory import native

        found, last = native.read(direction, inputs, sizes, state, N, pointer, keep, self.recompute)
        return found, last

    def _is_native(self, weight: Tensor) -> bool:
        """Whether the native engine takes the call; one warning where it could be had and is not."""
        if self.backend == "readable":
            return False
        from ordered_memory import native

        return bool(native.supports(weight.device, weight.dtype, self.backend == "native"))


def reset_parameters(part: nn.Module) -> None:
    """Draws every parameter of a part anew, as at construction: by PyTorch, for Linear and LayerNorm."""
    for module in part.modules():
        if isinstance(module, nn.Linear | nn.LayerNorm):
            module.reset_parameters()


def _beside(outputs: list[Tensor]) -> Tensor:
    """The outputs of all directions as one; without a copy where there is one direction."""
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)


def _stacked(parts: Iterable[Tensor]) -> Tensor:
    """The parts with a leading axis that counts directions; without a copy where there is one direction."""
    parts = list(parts)
    return parts[0][None] if len(parts) == 1 else torch.stack(parts)


class _Batch(NamedTuple):
    """A batch in the layout of PackedSequence (step by step, longest rows first) that knows how it came in.

    Only real tokens are in it, so that padding can cost nothing and change nothing.
    """

    data: Tensor  # (tokens of all rows, I)
    sizes: list[int]  # rows at each step
    kind: Literal["full", "padded", "packed", "unbatched"]
    packed: PackedSequence | None  # where rows differ in length: their order
    batch_first: bool
    steps: int  # of the padded result: as many as came in, be they all padding

    @classmethod
    def of(cls, x: Tensor | PackedSequence, lengths: Tensor | None, batch_first: bool, input_size: int) -> _Batch:
        size = (x.data if isinstance(x, PackedSequence) else x).shape[-1]
        dimensions = 3 if isinstance(x, PackedSequence) else x.dim()
        if dimensions not in (2, 3):
            raise ValueError(f"OrderedMemory: Expected input to be 2D or 3D, got {dimensions}D instead")
        if size != input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {input_size}, got {size}")
        if isinstance(x, PackedSequence):
            if lengths is not None:
                raise ValueError("a PackedSequence has its lengths already: do not give lengths too")
            return cls(x.data, x.batch_sizes.tolist(), "packed", x, batch_first, len(x.batch_sizes))
        if x.dim() == 3 and batch_first:
            x = x.transpose(0, 1)
        if len(x) == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        if x.dim() == 2:
            if lengths is not None:
                raise ValueError("lengths are for batches: cut an unbatched sequence to its length instead")
            return cls(x, [1] * len(x), "unbatched", None, batch_first, len(x))
        lengths = None if lengths is None else cls._checked(lengths, *x.shape[:2])
        if lengths is None or (not torch.compiler.is_compiling() and bool((lengths == len(x)).all()) and len(lengths)):
            return cls(x.flatten(0, 1), [x.shape[1]] * len(x), "full", None, batch_first, len(x))
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        return cls(packed.data, packed.batch_sizes.tolist(), "padded", packed, batch_first, len(x))

    @staticmethod
    def _checked(lengths: Tensor, steps: int, rows: int) -> Tensor:
        """The lengths on the CPU, once they fit the batch: packing itself would lose rows, or read past the end."""
        lengths = torch.as_tensor(lengths).cpu()
        if lengths.dtype.is_floating_point or lengths.dtype == torch.bool:
            raise TypeError(f"lengths must be whole numbers, got {lengths.dtype}")
        if lengths.shape != (rows,):
            raise ValueError(f"Expected lengths of size ({rows},), one for each row, got {tuple(lengths.shape)}")
        if not torch.compiler.is_compiling() and rows and int(lengths.max()) > steps:
            raise ValueError(f"a length is {int(lengths.max())}, and the input has {steps} steps")
        return lengths.long()

    def sort(self, state: State, sizes: tuple[int, int], num_slots: int | None) -> State:
        """The state with a batch axis and its rows in the order of the data, once it is found to fit."""
        if not isinstance(state, State):
            raise TypeError(f"state must be the State that an earlier call returned, got {type(state).__name__}")
        if self.kind == "unbatched":
            state = State(*(part.unsqueeze(1) for part in state))
        directions, D = sizes
        N = state.p.shape[-1] if num_slots is None else num_slots
        expected = State(*(torch.Size([directions, self.sizes[0], N, *rest]) for rest in ([D], [D], [])))  # type: ignore[arg-type]
        for name, part, shape in zip(State._fields, state, expected, strict=True):
            if part.shape != shape:
                raise RuntimeError(f"Expected state.{name} size {tuple(shape)}, got {tuple(part.shape)}")
        if self.packed is None or self.packed.sorted_indices is None:
            return state
        return State(*(part.index_select(1, self.packed.sorted_indices) for part in state))

    def unsort(self, state: State) -> State:
        """The rows in the order in which they came, without a batch axis where there was none."""
        if self.packed is not None and self.packed.unsorted_indices is not None:
            state = State(*(part.index_select(1, self.packed.unsorted_indices) for part in state))
        return State(*(part.squeeze(1) for part in state)) if self.kind == "unbatched" else state

    def restore(self, data: Tensor) -> Any:
        """Outputs as the kind of input that came."""
        return self.packed._replace(data=data) if self.packed and self.kind == "packed" else self.pad(data[None])[0]

    def pad(self, values: Tensor) -> Tensor:
        """(directions, tokens of all rows, ...) as (directions, T, B, ...), or however the input was laid out."""
        if self.kind == "unbatched":
            return values
        if self.packed is None:
            padded = values.view(len(values), len(self.sizes), self.sizes[0], *values.shape[2:])
        else:
            parts = (self.packed._replace(data=part) for part in values)
            padded = torch.stack([pad_packed_sequence(part, total_length=self.steps)[0] for part in parts])
        return padded.transpose(1, 2) if self.batch_first else padded

    def reversal(self) -> Tensor:
        """Index that turns every row around within its own length; its own inverse."""
        sizes = torch.tensor(self.sizes)
        offsets = sizes.cumsum(0) - sizes
        step = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        row = torch.arange(len(step)) - offsets[step]
        lengths = (sizes[:, None] > torch.arange(self.sizes[0])).sum(0)
        return (offsets[lengths[row] - 1 - step] + row).to(self.data.device)

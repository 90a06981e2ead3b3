"""Trees over tokens: brackets in and out, the trees that pointers stand for (the paper's algorithm 2), trivial trees.

A tree is flat: one array of spans in preorder. Nothing here recurses, so a left-branching tree of 10,000 tokens is no
deeper for Python than any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ordered_memory.errors import InputError

Style: TypeAlias = Literal["plain", "ptb"]
Spans: TypeAlias = NDArray[np.int32]  # (K, 2): half-open [start, end)

UNLABELLED = "X"  # what "ptb" brackets show where a tree has no labels

# The treebanks' spelling of characters that would break a bracketed line.
_ESCAPES = {"(": "-LRB-", ")": "-RRB-", "/": "\\/", "*": "\\*"}
_ESCAPED = re.compile(r"[()/*]")
_UNESCAPED = re.compile(r"-LRB-|-RRB-|\\/|\\\*")
# Only ASCII whitespace separates: some treebank tokens contain a no-break space.
_PIECES = {"plain": re.compile(r"\S+", re.ASCII), "ptb": re.compile(r"[()]|[^()\s]+", re.ASCII)}


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """An immutable tree over tokens; n-ary nodes and unary chains are welcome.

    Make one with `Tree.from_spans` or `Tree.from_brackets`, which check what they are given: the bare constructor
    trusts that the spans are nested, in preorder, and have a root.
    """

    tokens: tuple[str, ...]
    spans: Spans
    """[start, end) of every internal node, in preorder; a unary chain repeats its span, the upper node first."""
    labels: tuple[str, ...] | None = None
    """One for each internal node, in the same order."""
    leaf_labels: tuple[str, ...] | None = None
    """One for each token: part-of-speech tags, or the sentiment of a word."""

    def __post_init__(self) -> None:
        spans = np.array(self.spans, dtype=np.int32).reshape(-1, 2)
        spans.setflags(write=False)
        object.__setattr__(self, "spans", spans)

    @classmethod
    def from_spans(
        cls,
        tokens: Sequence[str],
        spans: ArrayLike,
        labels: Sequence[str] | None = None,
        leaf_labels: Sequence[str] | None = None,
    ) -> Tree:
        """Check the spans, in any order, and sort them into preorder. Two tokens or more need the root's span too."""
        array = np.asarray(spans, dtype=np.int64)
        if array.size and (array.ndim != 2 or array.shape[1] != 2):
            raise InputError(f"spans must be pairs of start and end, an array (K, 2), not {array.shape}")
        array = array.reshape(-1, 2)
        for name, given, wanted in (("label", labels, len(array)), ("leaf label", leaf_labels, len(tokens))):
            if given is not None and len(given) != wanted:
                raise InputError(f"{len(given)} {name}s for {wanted} {'nodes' if name == 'label' else 'tokens'}")
        order = _preorder(array)
        array = array[order]
        _check_spans(array, len(tokens))
        ordered = None if labels is None else tuple(labels[index] for index in order)
        return cls(tuple(tokens), array.astype(np.int32), ordered, None if leaf_labels is None else tuple(leaf_labels))

    @classmethod
    def from_brackets(cls, text: str, style: Style = "plain") -> Tree:
        """Read `( ( [MAX 2 ) 9 )` ("plain": brackets stand alone) or `(NP (DT the) (NN cat))` ("ptb")."""
        return _parse(text, style)

    def to_brackets(self, style: Style = "plain") -> str:
        """The tree on one line, as `from_brackets` reads it; "ptb" writes X where there are no labels."""
        for position, token in enumerate(self.tokens, 1):
            if not token or re.search(r"\s", token, re.ASCII) or (style == "plain" and token in ("(", ")")):
                hint = ': style="ptb", and str(), spell it out' if token in ("(", ")") else ""
                raise InputError(f"token {position}, {token!r}, cannot be written between {style} brackets{hint}")
        for label in (*(self.labels or ()), *(self.leaf_labels or ())) if style == "ptb" else ():
            if re.search(r"[()\s]", label, re.ASCII):
                raise InputError(f"label {label!r} has a bracket or a space: it cannot be written in ptb brackets")
        if style == "ptb" and "" in (self.leaf_labels or ()):
            raise InputError("a leaf label is empty: ptb brackets need a word for it")
        return self._write(style)

    def _write(self, style: Style) -> str:
        closing = np.bincount(self.spans[:, 1], minlength=len(self) + 1).tolist()
        opening = np.bincount(self.spans[:, 0], minlength=len(self) + 1).tolist()
        pieces: list[str] = []
        node = 0
        for position, token in enumerate(self.tokens):
            here = range(node, node + opening[position])
            node = here.stop
            if style == "plain":
                leaf = escape(token) if token in ("(", ")") else token  # or it would be taken for the tree's
                pieces += ["("] * len(here) + [leaf] + [")"] * closing[position + 1]
            else:
                pieces += [f"({self.labels[index] if self.labels else UNLABELLED}" for index in here]
                leaf_label = self.leaf_labels[position] if self.leaf_labels else UNLABELLED
                pieces.append(f"({leaf_label} {escape(token)})" + ")" * closing[position + 1])
        return " ".join(pieces)

    def __len__(self) -> int:
        """The number of tokens."""
        return len(self.tokens)

    def __repr__(self) -> str:
        text = self._write("ptb" if self.labels or self.leaf_labels else "plain")
        return f"Tree({text})" if len(text) <= 160 else f"Tree({text[:120]} ... {len(self)} tokens)"

    def __str__(self) -> str:
        return self._write("ptb" if self.labels or self.leaf_labels else "plain")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, so that a copy's spans are read-only as well.
        return Tree, (self.tokens, self.spans, self.labels, self.leaf_labels)

    @property
    def _values(self) -> tuple[Any, ...]:
        return self.tokens, self.spans.tobytes(), self.labels, self.leaf_labels

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The children of every internal node, left to right: node k as k, the leaf at position t as ~t (negative).

        A child's number is greater than its parent's, so `reversed(range(len(tree.children)))` walks from the leaves up
        and `range` from the root down. For a binary tree `np.array(tree.children)` is (K, 2): left and right.
        """
        top = [~position for position in range(len(self))]  # the highest node so far that starts here
        reach = list(range(1, len(self) + 1))  # and where it ends
        found: list[tuple[int, ...]] = []
        for node, (start, end) in reversed(list(enumerate(self.spans.tolist()))):
            members = []
            position = start
            while position < end:
                members.append(top[position])
                position = reach[position]
            top[start], reach[start] = node, end
            found.append(tuple(members))
        return tuple(reversed(found))

    @cached_property
    def depth(self) -> int:
        """Internal nodes on the longest way from root to leaf; 0 for a lone token."""
        starts, ends = self.spans[:, 0], np.sort(self.spans[:, 1])
        # Of the nodes before node k in preorder, those that do not end by its start are its ancestors.
        ancestors = np.arange(len(starts)) - np.searchsorted(ends, starts, side="right")
        return int(ancestors.max(initial=-1)) + 1

    @cached_property
    def is_binary(self) -> bool:
        """Whether every internal node has exactly two children."""
        if len(self.spans) != len(self) - 1:
            return False
        unary = (self.spans[1:] == self.spans[:-1]).all(axis=1)
        return not unary.any() and bool((self.spans[:, 1] - self.spans[:, 0] > 1).all())

    @cached_property
    def splits(self) -> NDArray[np.int32]:
        """(K,): where the right child of each node begins. Binary trees only."""
        if not self.is_binary:
            raise InputError(f"only a binary tree has splits: {self!r}; binarise(tree, 'left') makes one")
        return splits_of(self.spans)

    @cached_property
    def right_depths(self) -> NDArray[np.int64]:
        """(T,): for each token, in how many of its ancestors it lies in the right child. Binary trees only."""
        count = len(self) + 1
        change = np.bincount(self.splits, minlength=count) - np.bincount(self.spans[:, 1], minlength=count)
        return np.cumsum(change)[:-1]

    @property
    def slots_needed(self) -> int:
        """How many slots Ordered Memory needs to build exactly this tree. Binary trees only."""
        return max(1, int(self.right_depths.max()))


def splits_of(spans: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """`Tree.splits` of binary trees that are given by their nodes alone, in preorder, one after the other."""
    starts, ends = spans.T
    # A left child that is not a leaf comes next in preorder, and starts where its parent starts.
    has_left_node = np.append(starts[1:] == starts[:-1], False)[: len(starts)]
    found: NDArray[np.int32] = np.where(has_left_node, np.roll(ends, -1), starts + 1).astype(np.int32)
    return found


def escape(token: str) -> str:
    """Spell a token as the treebanks do: brackets as -LRB- and -RRB-, a backslash before / and *."""
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], token)


def unescape(token: str) -> str:
    """Undo `escape`."""
    if "\\" not in token and "RB-" not in token:
        return token
    back = {spelling: character for character, spelling in _ESCAPES.items()}
    return _UNESCAPED.sub(lambda match: back[match[0]], token)


def binarise(tree: Tree, direction: Literal["left", "right"]) -> Tree:
    """Split nodes of three or more children: left gives ((a b) c), right (a (b c)). Unary nodes go; of a chain the
    uppermost label stays, and a new node under NP is labelled @NP."""
    if direction not in ("left", "right"):
        raise InputError(f"direction must be 'left' or 'right', not {direction!r}")
    labels = tree.labels or ("",) * len(tree.spans)
    bounds = tree.spans.tolist()
    uppermost: dict[tuple[int, int], str] = {}
    spans: list[tuple[int, int]] = []
    new_labels: list[str] = []
    for (start, end), label, members in zip(bounds, labels, tree.children, strict=True):
        kept = uppermost.setdefault((start, end), label)
        if len(members) == 1:
            continue
        begins = [~child if child < 0 else bounds[child][0] for child in members]
        added = [(start, cut) for cut in begins[2:]] if direction == "left" else [(cut, end) for cut in begins[1:-1]]
        spans += [(start, end), *added]
        new_labels += [kept] + [f"@{kept}"] * len(added)
    array = np.array(spans, dtype=np.int32).reshape(-1, 2)
    order = _preorder(array)
    ordered = None if tree.labels is None else tuple(new_labels[index] for index in order)
    return Tree(tree.tokens, array[order], ordered, tree.leaf_labels)


def induce_spans(pointers: ArrayLike, lengths: ArrayLike, num_slots: int) -> Spans:
    """The nodes that a batch of hard pointers builds: algorithm 2 for all rows at once.

    pointers: (batch, time) slot of each token, column 0 ignored; lengths: (batch,). Returns (batch, time - 1, 2): entry
    t - 1 is the span of the node that joins what ends before token t with what begins there, (0, 0) past a row's end.

    Between tokens t - 1 and t lies a split as high as the pointer of t. Its node reaches back to the last earlier split
    that is higher, and on to the next later one that is at least as high; so one table of the last such split for each
    slot, swept once in each direction, gives all spans.
    """
    heights, ends = _check_pointers(np.asarray(pointers), np.asarray(lengths), num_slots)
    batch, time = heights.shape
    spans = np.zeros((batch, time - 1, 2), dtype=np.int32)
    forwards, backwards = range(1, time), range(time - 1, 0, -1)
    for first in range(0, batch, 512):  # a few hundred rows at a time keep the table in the processor's cache
        rows = slice(first, first + 512)
        block = np.ascontiguousarray(heights[rows].T)  # (time, rows)
        spans[rows, :, 0] = _latest(block, forwards, np.less, num_slots, otherwise=0)[1:].T
        spans[rows, :, 1] = _latest(block, backwards, np.less_equal, num_slots, otherwise=time)[1:].T
    spans[np.arange(1, time) >= ends[:, None]] = 0
    return spans


def _latest(
    heights: NDArray[np.int16], sweep: Iterable[int], over: np.ufunc, num_slots: int, otherwise: int
) -> NDArray[np.int32]:
    """For each split (time, rows), the split met last in this sweep whose height its own is `over` (< or <=)."""
    time, rows = heights.shape
    slots = np.arange(num_slots + 1, dtype=heights.dtype)
    table = np.full((rows, num_slots + 1), otherwise, dtype=np.int32)  # the answer for a split at each height
    flat, begins = table.reshape(-1), np.arange(rows) * (num_slots + 1)
    found = np.zeros((time, rows), dtype=np.int32)
    for position in sweep:
        found[position] = flat[begins + heights[position]]
        np.copyto(table, position, where=over(slots, heights[position, :, None]))
    return found


def induce_trees(tokens_of_rows: Sequence[Sequence[str]], pointers: ArrayLike, num_slots: int) -> list[Tree]:
    """The tree of every row: its tokens, joined as its pointers (batch, time) say."""
    spans = induce_spans(pointers, [len(tokens) for tokens in tokens_of_rows], num_slots)
    trees = []
    for tokens, row in zip(tokens_of_rows, spans, strict=True):
        nodes = row[: len(tokens) - 1]
        trees.append(Tree(tuple(tokens), nodes[_preorder(nodes)]))
    return trees


def gold_pointers(tree: Tree, num_slots: int) -> NDArray[np.int64]:
    """(T,): the slots that build this binary tree, the inverse of `induce_trees`. The first, unused, is num_slots."""
    if num_slots < tree.slots_needed:
        raise InputError(f"this tree of {len(tree)} tokens needs {tree.slots_needed} slots, not {num_slots}")
    return num_slots - tree.right_depths


def one_by_one(tokens: Sequence[str], opening: Container[str], closing: str) -> Spans:
    """The binary tree of nested lists that take their items one by one, `( ( ( [MAX 2 ) 9 ) ] )`.

    Whenever an item ends, so does a span that begins where its list was opened; what closes a list is an item too.
    """
    width = len(tokens) + 1
    opened: list[int] = []
    keys: list[int] = []  # start * width + width - end, which sorts into preorder
    for end, token in enumerate(tokens, 1):
        if token in opening:
            opened.append(end * width)
            continue
        if token == closing:
            keys.append(opened.pop() - end)
        if opened:
            keys.append(opened[-1] - end)
    keys.sort()
    spans = np.empty((len(keys), 2), dtype=np.int32)
    spans[:, 0], rest = np.divmod(np.array(keys, dtype=np.int64), width)
    spans[:, 1] = width - rest
    return spans


def kept_spans(spans: Spans, kept: NDArray[np.bool_]) -> Spans:
    """What is left of a tree's spans, in preorder, when only the kept tokens are there. A binary tree stays binary.

    Nodes of fewer than two tokens are gone, and so are those that would repeat the node above.
    """
    places = np.concatenate([[0], np.cumsum(kept)])
    left = places[spans].astype(np.int32)
    left = left[left[:, 1] - left[:, 0] > 1]
    # In preorder a node and the one that repeats it are neighbours: all that stood between them is gone.
    repeats = np.zeros(len(left), dtype=np.bool_)
    repeats[1:] = (left[1:] == left[:-1]).all(axis=1)
    return left[~repeats]


def without_tokens(tree: Tree, dropped: Container[str]) -> Tree:
    """The tree over the other tokens, such as an induced tree without its bracket tokens; labels are left behind."""
    kept = np.array([token not in dropped for token in tree.tokens])
    return Tree(_some([token for token in tree.tokens if token not in dropped]), kept_spans(tree.spans, kept))


def left_branching(tokens: Sequence[str]) -> Tree:
    """(((a b) c) d)."""
    ends = np.arange(len(tokens), 1, -1)
    return Tree(_some(tokens), np.stack([np.zeros_like(ends), ends], axis=1))


def right_branching(tokens: Sequence[str]) -> Tree:
    """(a (b (c d)))."""
    starts = np.arange(len(tokens) - 1)
    return Tree(_some(tokens), np.stack([starts, np.full_like(starts, len(tokens))], axis=1))


def balanced(tokens: Sequence[str]) -> Tree:
    """((a b) (c d)): every node is cut in the middle, the right half taking the odd token."""
    return _cut(tokens, lambda start, end: (start + end) // 2)


def random_tree(tokens: Sequence[str], rng: np.random.Generator, lean: float = 1.0) -> Tree:
    """Every node is cut at a place drawn uniformly; with a `lean` of more than 1 nearer to its start, so that the tree
    leans to the right."""
    draws = iter((rng.random(len(tokens)) ** lean).tolist())  # all at once: a call for each node is slow
    return _cut(tokens, lambda start, end: start + 1 + int(next(draws) * (end - start - 1)))


TRIVIAL: dict[str, Callable[[Sequence[str], np.random.Generator], Tree]] = {
    "left": lambda tokens, _rng: left_branching(tokens),
    "right": lambda tokens, _rng: right_branching(tokens),
    "balanced": lambda tokens, _rng: balanced(tokens),
    "random": random_tree,
}


def _some(tokens: Sequence[str]) -> tuple[str, ...]:
    if not tokens:
        raise InputError("a tree needs at least one token")
    return tuple(tokens)


def _cut(tokens: Sequence[str], choose: Callable[[int, int], int]) -> Tree:
    spans = []
    waiting = [(0, len(tokens))]
    while waiting:
        start, end = waiting.pop()
        if end - start > 1:
            spans.append((start, end))
            middle = choose(start, end)
            waiting += [(middle, end), (start, middle)]  # the left one is taken first: preorder
    return Tree(_some(tokens), np.array(spans, dtype=np.int32))


def _preorder(spans: NDArray[np.integer[Any]]) -> NDArray[np.intp]:
    return np.lexsort((-spans[:, 1], spans[:, 0]))  # stable: unary chains keep their order


def _check_spans(spans: NDArray[np.int64], length: int) -> None:
    if not length:
        raise InputError("a tree needs at least one token")
    if length > 1 and (not len(spans) or tuple(spans[0]) != (0, length)):
        raise InputError(f"the spans have no root: (0, {length}) is not among them")
    above: list[tuple[int, int]] = []
    for start, end in spans.tolist():
        if not 0 <= start < end <= length:
            raise InputError(f"span ({start}, {end}) does not lie inside a sequence of {length} tokens")
        while above and above[-1][1] <= start:
            above.pop()
        if above and end > above[-1][1]:
            raise InputError(f"span ({start}, {end}) crosses span {above[-1]}: spans must be nested")
        above.append((start, end))


def _check_pointers(
    pointers: NDArray[Any], lengths: NDArray[Any], num_slots: int
) -> tuple[NDArray[np.int16], NDArray[Any]]:
    """The heights of the splits, with walls as high as num_slots before the first token and past the last."""
    if not np.issubdtype(pointers.dtype, np.integer):
        raise InputError(
            f"pointers must be whole numbers, one slot for each token, not {pointers.dtype}: take the argmax"
        )
    if pointers.ndim != 2 or not pointers.shape[1] or lengths.shape != pointers.shape[:1]:
        raise InputError(f"pointers must be (batch, time) and lengths (batch,), not {pointers.shape}, {lengths.shape}")
    if not 1 <= num_slots < 2**15:
        raise InputError(f"num_slots must be between 1 and {2**15 - 1}, not {num_slots}")
    time = pointers.shape[1]
    for row in np.flatnonzero((lengths < 1) | (lengths > time))[:1]:
        raise InputError(f"row {row} has length {lengths[row]}: it must be between 1 and {time}")
    positions = np.arange(time)
    inside = (positions > 0) & (positions < lengths[:, None])
    bad = inside & ((pointers < 0) | (pointers >= num_slots))
    if bad.any():
        row, position = np.argwhere(bad)[0]
        slot = pointers[row, position]
        raise InputError(f"row {row}, token {position + 1}: there is no slot {slot} among {num_slots} (counted from 0)")
    return np.where(inside, pointers, num_slots).astype(np.int16), lengths


def _parse(text: str, style: Style) -> Tree:
    if style not in _PIECES:
        raise InputError(f"style must be 'plain' or 'ptb', not {style!r}")
    pieces = _PIECES[style].findall(text)
    words: list[str] = []
    bounds: list[list[int]] = []
    labels: list[str] = []
    leaf_labels: list[str] = []
    unclosed: list[tuple[int, int]] = []  # node, and where its bracket stands
    position = 0
    while position < len(pieces):
        piece = pieces[position]
        if position and not unclosed:
            raise _bracket_error("the tree is complete, yet more follows", pieces, position)
        if piece == ")":
            if not unclosed:
                raise _bracket_error("this bracket closes nothing", pieces, position)
            node, opened = unclosed.pop()
            if bounds[node][0] == len(words):
                raise _bracket_error("there is no word inside this bracket", pieces, opened)
            bounds[node][1] = len(words)
        elif piece != "(":
            if style == "ptb":
                raise _bracket_error("a word needs a bracket of its own, as in (NN cat)", pieces, position)
            words.append(piece)
        elif style == "ptb" and _is_leaf(pieces, position):
            leaf_labels.append(pieces[position + 1])
            words.append(unescape(pieces[position + 2]))
            position += 3
        else:
            unclosed.append((len(bounds), position))
            bounds.append([len(words), 0])
            if style == "ptb":
                labelled = position + 1 < len(pieces) and pieces[position + 1] not in "()"
                labels.append(pieces[position + 1] if labelled else "")
                position += labelled
        position += 1
    if unclosed:
        raise _bracket_error("this bracket is never closed", pieces, unclosed[-1][1])
    if not words:
        raise InputError("there is no tree here: the text is empty (token 1)")
    array = np.array(bounds, dtype=np.int32)
    return Tree(tuple(words), array, *((tuple(labels), tuple(leaf_labels)) if style == "ptb" else (None, None)))


def _is_leaf(pieces: list[str], position: int) -> bool:
    if position + 3 >= len(pieces) or pieces[position + 3] != ")":
        return False
    return pieces[position + 2] not in "()" and pieces[position + 1] not in "()"


def _bracket_error(problem: str, pieces: list[str], position: int) -> InputError:
    return InputError(f"token {position + 1}, {pieces[position]!r}: {problem}")

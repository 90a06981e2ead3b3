"""Trees of a whole batch composed level by level: the nodes of one level, in all rows, are one product.

Levels are counted from the root. A sub-tree that stands in several places, of one row or of many, is composed once, at
the deepest level where it stands, and is kept up to the highest: short phrases stand in many statements of logic. Where
every sub-tree is another, nothing is kept, and what one level makes is just what the next one takes. So memory and time
grow with the number of different nodes, however deep the trees are.

In training a cell's dropout is then the same wherever a sub-tree stands in the batch.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ordered_memory.errors import InputError
from ordered_memory.native import Composer
from ordered_memory.trees import Spans, splits_of

Indices = NDArray[np.int64]


class SharedTrees(Sequence[Spans]):
    """The trees of rows whose tokens are known: sub-trees of the same tokens and the same shape are one."""

    def __init__(self, spans: Sequence[Spans], tokens: Tensor) -> None:
        self.spans, self.tokens = spans, tokens  # (time, rows), padded

    @overload
    def __getitem__(self, index: int) -> Spans: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Spans]: ...
    def __getitem__(self, index: int | slice) -> Spans | Sequence[Spans]:
        return self.spans[index]

    def __len__(self) -> int:
        return len(self.spans)


class Level(NamedTuple):
    """How one level comes of that below it: its nodes are first, then its leaves, then what is kept from below."""

    nodes: int  # how many are composed
    leaves: int  # how many begin here
    taken: Tensor  # places in the level below: of all left children, of all right ones, and of what is kept


class Schedule(NamedTuple):
    """The order in which the trees of a batch are composed."""

    leaves: Tensor  # where each leaf stands in (time * batch), those of the deepest level first
    levels: list[Level]  # the deepest first
    roots: Tensor  # (rows,): places in the highest level


def compose_along(
    trees: Sequence[Spans] | None,
    embedded: Tensor,
    lengths: Tensor,
    leaf: Callable[[Tensor], Tensor],
    compose: Callable[[Tensor, Tensor], Tensor],
    engine: Composer | None = None,
) -> Tensor:
    """The root of each row's tree, given what a leaf is and how two nodes become one; an engine makes all nodes."""
    if engine is not None:
        nodes = nodes_of(trees, lengths.tolist())
        return engine(leaf(embedded.flatten(0, 1)[nodes.leaves]), nodes.steps)[nodes.roots]
    plan = schedule(trees, lengths.tolist())
    device = embedded.device
    leaves = leaf(embedded.flatten(0, 1).index_select(0, plan.leaves.to(device)))
    below = leaves[:0]
    for level, begun in zip(plan.levels, torch.split(leaves, [level.leaves for level in plan.levels]), strict=True):
        if level.nodes == 0:  # the deepest
            below = begun
            continue
        taken = below.index_select(0, level.taken.to(device))
        left, right, kept = taken.tensor_split((level.nodes, 2 * level.nodes))
        below = torch.cat((compose(left, right), begun, kept))
    return below.index_select(0, plan.roots.to(device))


def schedule(trees: Sequence[Spans] | None, lengths: Sequence[int]) -> Schedule:
    """The schedule of one binary tree for each row."""
    text = Text.of(trees, lengths)
    tokens, places = len(text.rows), text.places
    left, right = text.children()
    depths = text.depths()
    if isinstance(trees, SharedTrees):
        numbers, _ = numbered(text.kinds(trees), left, right, grouped(-depths[tokens:]))
    else:
        numbers = np.arange(len(depths))
    count = int(numbers.max()) + 1
    deepest, highest = np.zeros(count, dtype=np.int64), np.full(count, len(depths))
    np.maximum.at(deepest, numbers, depths)
    np.minimum.at(highest, numbers, depths)
    instance = np.empty(count, dtype=np.int64)  # of each different sub-tree: any one of the places where it stands
    instance[numbers] = np.arange(len(depths))

    # From the deepest level up; leaves have lower numbers than nodes, so that each level's come first.
    by_level = np.split(np.argsort(-deepest, kind="stable"), np.cumsum(np.bincount(deepest)[::-1])[:-1])
    levels, leaves = [], []
    alive, where = np.zeros(0, dtype=np.int64), np.empty(count, dtype=np.int64)
    for depth, begun in zip(range(len(by_level) - 1, -1, -1), by_level, strict=True):
        of_leaves = int(np.searchsorted(instance[begun] >= tokens, True))
        new_leaves, nodes = begun[:of_leaves], begun[of_leaves:]
        kept = alive[highest[alive] <= depth]
        inside = instance[nodes] - tokens
        taken = np.concatenate((numbers[left[inside]], numbers[right[inside]], kept))
        levels.append(Level(len(nodes), len(new_leaves), torch.from_numpy(where[taken])))
        leaves.append(places[instance[new_leaves]])
        alive = np.concatenate((nodes, new_leaves, kept))
        where[alive] = np.arange(len(alive))
    return Schedule(torch.from_numpy(np.concatenate(leaves)), levels, torch.from_numpy(where[numbers[text.roots]]))


class Nodes(NamedTuple):
    """The different sub-trees of a batch in one table: leaves, and then nodes, children in earlier steps."""

    leaves: Tensor  # where each different token stands in (time * batch)
    steps: list[tuple[Tensor, Tensor]]  # left and right children of each step's nodes
    roots: Tensor  # (rows,): places in the table


def nodes_of(trees: Sequence[Spans] | None, lengths: Sequence[int]) -> Nodes:
    """The nodes of one binary tree for each row."""
    text = Text.of(trees, lengths)
    assert trees is not None  # or the text would not be there
    tokens = len(text.rows)
    left, right = text.children()
    numbers, first = numbered(text.kinds(trees), left, right, grouped(-text.depths()[tokens:]))
    return Nodes(text.leaves(numbers), steps_of(numbers, left, right, first), torch.from_numpy(numbers[text.roots]))


class Text(NamedTuple):
    """All rows, one after the other, with their trees."""

    rows: Indices  # of each token
    begins: Indices  # of each row
    counts: Indices  # of the nodes of each row
    starts: Indices  # of each node, in preorder
    ends: Indices

    @classmethod
    def of(cls, trees: Sequence[Spans] | None, lengths: Sequence[int]) -> "Text":
        """The rows' trees are checked."""
        if trees is None:
            raise InputError("there are no gold trees, and the model reads them")
        if len(trees) != len(lengths):
            raise InputError(f"{len(trees)} gold trees for {len(lengths)} rows")
        sizes, counts = np.asarray(lengths, dtype=np.int64), np.array([len(spans) for spans in trees])
        begins = np.cumsum(sizes) - sizes
        of_node = np.repeat(np.arange(len(sizes)), counts)
        starts, ends = np.concatenate(list(trees), dtype=np.int64).reshape(-1, 2).T
        repeated = (of_node[1:] == of_node[:-1]) & (starts[1:] == starts[:-1]) & (ends[1:] == ends[:-1])
        unary = (ends - starts < 2) | np.append(False, repeated)[: len(starts)]
        outside = (starts < 0) | (ends > sizes[of_node])
        bad = (counts != sizes - 1) | (np.bincount(of_node, unary | outside, minlength=len(sizes)) > 0)
        for row in np.flatnonzero(bad)[:1]:
            raise InputError(
                f"row {row}: the gold tree is no binary tree of {sizes[row]} tokens; binarise(tree, 'left') makes one"
            )
        rows = np.repeat(np.arange(len(sizes)), sizes)
        return cls(rows, begins, counts, starts + begins[of_node], ends + begins[of_node])

    @property
    def places(self) -> Indices:
        """Of each token in (time, batch), flat."""
        return (np.arange(len(self.rows)) - self.begins[self.rows]) * len(self.begins) + self.rows

    @property
    def middles(self) -> Indices:
        """Where the right child of each node begins."""
        return splits_of(np.stack((self.starts, self.ends), 1)).astype(np.int64)

    def kinds(self, trees: Sequence[Spans]) -> Indices:
        """Of each token: those of the same kind are equal, as far as the trees that the text was made of know."""
        if not isinstance(trees, SharedTrees):
            return np.arange(len(self.rows))
        found: Indices = trees.tokens.flatten().cpu().numpy()[self.places]
        return found

    def leaves(self, numbers: Indices) -> Tensor:
        """Of each different token, in the order of their numbers: one of the places where it stands."""
        of_tokens = numbers[: len(self.rows)]
        found = np.empty(int(of_tokens.max()) + 1, dtype=np.int64)
        found[of_tokens] = self.places
        return torch.from_numpy(found)

    @property
    def roots(self) -> Indices:
        """Of each row: its first node, counted on from the last token; where there is none its token."""
        return np.where(self.counts > 0, len(self.rows) + np.cumsum(self.counts) - self.counts, self.begins)

    def children(self) -> tuple[Indices, Indices]:
        """Left and right child of each node: tokens, or nodes, which are counted on from the last token."""
        starts, ends, tokens, middles = self.starts, self.ends, len(self.rows), self.middles
        # In preorder a left child, if it is no token, comes next, and a right one is the first that starts there.
        left = np.where(starts + 1 < middles, tokens + 1 + np.arange(len(starts)), starts)
        return left, np.where(middles + 1 < ends, tokens + np.searchsorted(starts, middles), middles)

    def depths(self) -> Indices:
        """Of each token, and then of each node: how many nodes it stands in."""
        positions, ends = np.arange(len(self.rows)), np.sort(self.ends)
        above = np.searchsorted(self.starts, positions, side="right") - np.searchsorted(ends, positions, side="right")
        of_nodes = np.arange(len(self.starts)) - np.searchsorted(ends, self.starts, side="right")
        return np.concatenate((above, of_nodes))


def numbered(kinds: Indices, left: Indices, right: Indices, groups: Sequence[Indices]) -> tuple[Indices, list[Indices]]:
    """A number for each different sub-tree, given which tokens are equal.

    Children of a node are tokens or nodes, which are counted on from the last token. Nodes come in groups, children
    in earlier ones than their parents. Gives the number of each token and node, and which nodes first have each new
    number, height by height.
    """
    tokens = len(kinds)
    heights = np.zeros(tokens + len(left), dtype=np.int64)
    for nodes in groups:
        heights[tokens + nodes] = 1 + np.maximum(heights[left[nodes]], heights[right[nodes]])
    numbers = np.empty(len(heights), dtype=np.int64)
    found, numbers[:tokens] = np.unique(kinds, return_inverse=True)
    count, first = len(found), []
    for nodes in grouped(heights[tokens:]):
        pairs = numbers[left[nodes]] * len(heights) + numbers[right[nodes]]
        found, places, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        numbers[tokens + nodes] = count + inverse
        first.append(nodes[places])
        count += len(found)
    return numbers, first


def steps_of(numbers: Indices, left: Indices, right: Indices, groups: Sequence[Indices]) -> list[tuple[Tensor, Tensor]]:
    """The numbers of both children of each group of nodes."""
    return [(torch.from_numpy(numbers[left[group]]), torch.from_numpy(numbers[right[group]])) for group in groups]


def grouped(keys: Indices) -> list[Indices]:
    """Where each key stands, the lowest key first."""
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1) if len(keys) else []

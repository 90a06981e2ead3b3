"""Gold trees, a whole batch at once: nodes of the same depth, in all rows, are composed by one product.

Depths are counted from the root, so what one level makes is exactly what the next one takes, beside the leaves that
hang there. At each depth, nodes and leaves in the order of the text stand in pairs, left child and right child. So the
whole schedule is a sort, and memory and time grow with the number of nodes, however deep the trees are.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ordered_memory.encoders.encoder import Encoder, Encoding, Parse
from ordered_memory.errors import InputError
from ordered_memory.trees import Spans


class Schedule(NamedTuple):
    """The order in which the trees of a batch are composed, from the deepest level up."""

    leaves: Tensor  # (tokens,): where each leaf stands in (time * batch), deepest first, and in the order of the text
    sizes: list[int]  # of each level, deepest first: how many leaves hang there
    orders: list[Tensor]  # of each level: its nodes, and then its leaves, put in the order of the text


def schedule(trees: Sequence[Spans] | None, lengths: Sequence[int]) -> Schedule:
    """The schedule of one binary tree for each row."""
    rows, begins, starts, ends = _joined(trees, np.asarray(lengths, dtype=np.int64))
    # The rows one after the other are one long text, and nodes come in preorder: their starts are sorted already.
    ends = np.sort(ends)
    node_depths = np.arange(len(starts)) - np.searchsorted(ends, starts, side="right")
    positions = np.arange(len(rows))
    leaf_depths = np.searchsorted(starts, positions, side="right") - np.searchsorted(ends, positions, side="right")
    deepest_first = np.argsort(-leaf_depths, kind="stable")
    levels = int(leaf_depths.max()) + 1
    sizes = np.bincount(leaf_depths, minlength=levels)[::-1]
    counts = np.bincount(node_depths, minlength=levels)[::-1]
    leaves_of = np.split(deepest_first, np.cumsum(sizes)[:-1])
    nodes_of = np.split(starts[np.argsort(-node_depths, kind="stable")], np.cumsum(counts)[:-1])
    orders = [np.argsort(np.concatenate(level)) for level in zip(nodes_of, leaves_of, strict=True)]
    places = (positions - begins) * len(lengths) + rows  # in (time, batch), flat
    return Schedule(
        torch.from_numpy(places[deepest_first]), sizes.tolist(), [torch.from_numpy(order) for order in orders]
    )


def _joined(
    trees: Sequence[Spans] | None, lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """All rows as one text: each token's row and that row's begin; start and end of each node. Trees are checked."""
    if trees is None:
        raise InputError("there are no gold trees, and the model reads them")
    if len(trees) != len(lengths):
        raise InputError(f"{len(trees)} gold trees for {len(lengths)} rows")
    counts = np.array([len(spans) for spans in trees])
    begins = np.cumsum(lengths) - lengths
    rows = np.repeat(np.arange(len(lengths)), lengths)
    of_node = np.repeat(np.arange(len(lengths)), counts)
    starts, ends = np.concatenate(trees, dtype=np.int64).reshape(-1, 2).T
    repeated = (of_node[1:] == of_node[:-1]) & (starts[1:] == starts[:-1]) & (ends[1:] == ends[:-1])
    unary = (ends - starts < 2) | np.append(False, repeated)[: len(starts)]
    outside = (starts < 0) | (ends > lengths[of_node])
    bad = (counts != lengths - 1) | (np.bincount(of_node, unary | outside, minlength=len(lengths)) > 0)
    for row in np.flatnonzero(bad)[:1]:
        raise InputError(
            f"row {row}: the gold tree is no binary tree of {lengths[row]} tokens; binarise(tree, 'left') makes one"
        )
    return rows, begins[rows], starts + begins[of_node], ends + begins[of_node]


def compose_along(
    trees: Sequence[Spans] | None,
    embedded: Tensor,
    lengths: Tensor,
    leaf: Callable[[Tensor], Tensor],
    compose: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """The root of each row's tree, given what a leaf is and how two nodes become one."""
    plan = schedule(trees, lengths.tolist())
    tokens = embedded.flatten(0, 1).index_select(0, plan.leaves.to(embedded.device))
    nodes: Tensor | None = None
    for leaves, order in zip(torch.split(leaf(tokens), plan.sizes), plan.orders, strict=True):
        if nodes is None:  # the deepest level is all leaves
            level = leaves
        else:
            left, right = nodes.view(len(nodes) // 2, 2, -1).unbind(1)
            level = torch.cat((compose(left, right), leaves))
        nodes = level.index_select(0, order.to(level.device))
    assert nodes is not None  # a row has at least one token
    return nodes


class GoldTreeEncoder(Encoder):
    """Composes each sentence along its gold tree; what a leaf is and how two become one is the subclass's."""

    trees: ClassVar[Literal["none", "gold", "latent"]] = "gold"
    padded: ClassVar[bool] = False

    @abstractmethod
    def leaf(self, tokens: Tensor) -> Tensor:
        """(tokens, input_size) to (tokens, size of a node)."""

    @abstractmethod
    def compose(self, left: Tensor, right: Tensor) -> Tensor:
        """The parents of two nodes each; all are (nodes, size of a node)."""

    def forward(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None) -> Encoding:
        roots = compose_along(trees, embedded, lengths, self.leaf, self.compose)
        return Encoding(roots[:, : self.output_size])

    def parse(  # type: ignore[override]
        self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None
    ) -> Parse:
        return Parse(self(embedded, lengths, trees).vector)


def fitted(input_size: int, hidden_size: int) -> nn.Module:
    """Leaves are the embeddings themselves; where these have another size, a linear map of them."""
    return nn.Identity() if input_size == hidden_size else nn.Linear(input_size, hidden_size)

"""Gumbel Tree-LSTM (Choi et al. 2018): one merge a layer, chosen hard, with the gradient of a soft choice."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ordered_memory.config import GumbelTreeConfig
from ordered_memory.encoders.encoder import Encoder, Encoding, Parse
from ordered_memory.encoders.pair_scorer import PairScorer
from ordered_memory.encoders.tree_composition import Merges, compose, root_states
from ordered_memory.trees import Spans


class GumbelTreeEncoder(Encoder):
    trees: ClassVar[Literal["none", "gold", "latent"]] = "latent"

    def __init__(self, input_size: int, config: GumbelTreeConfig) -> None:
        super().__init__()
        self.output_size, self.temperature = config.hidden_size, config.temperature
        self.scorer = PairScorer(input_size, config.hidden_size, config.leaf_lstm)

    def forward(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None) -> Encoding:
        leaves = self.scorer.leaves(embedded)
        if self.training:
            return Encoding(self._sampled(leaves, lengths)[:, : self.output_size])
        return Encoding(self._greedy(leaves, lengths)[0])

    def parse(  # type: ignore[override]
        self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None
    ) -> Parse:
        vector, merges = self._greedy(self.scorer.leaves(embedded), lengths)
        return Parse(vector, merges.spans)

    def _greedy(self, leaves: Tensor, lengths: Tensor) -> tuple[Tensor, Merges]:
        merges = self.scorer.merge(leaves, lengths, torch.zeros(len(lengths), dtype=torch.bool, device=leaves.device))
        return root_states(compose(self.scorer.cell, leaves, merges), merges)[:, : self.output_size], merges

    def _sampled(self, leaves: Tensor, lengths: Tensor) -> Tensor:
        """The roots, (rows, size)."""
        scorer = self.scorer
        parameters = scorer.query, *scorer.cell.parameters()
        roots: Tensor = _StraightThrough.apply(scorer, lengths, self.temperature, leaves, *parameters)  # type: ignore[no-untyped-call]
        return roots


class Layer(NamedTuple):
    """What one merge in each row was chosen from. Nodes and pairs are numbers in tables of those of all rows."""

    nodes: Tensor  # (places + 1, rows): which node stands in each place
    pairs: Tensor  # (places, rows): which pair begins there
    soft: Tensor  # (places, rows): its probability, 0 where there is none
    slot: Tensor  # (rows,): the place of the one that was chosen, or `places` where the row has no pair left

    @property
    def chosen(self) -> Tensor:
        """(rows,): the pair that was chosen; any where the row has none left."""
        return self.pairs.gather(0, self.slot.clamp(max=len(self.pairs) - 1)[None])[0]


class _StraightThrough(torch.autograd.Function):
    """Forward merges one pair after the other. Backward is that of layers which mix, by soft weights,

        (1 - reached) * nodes[:-1] + (reached - choice) * nodes[1:] + choice * pairs

    where reached is the sum of the choice up to each place, and every pair is composed anew from what was mixed.

    But the weights are 0 or 1: nodes are the same ones from layer to layer, and so are the pairs that a merge does not
    touch. Each is composed once, three times as many as there are tokens. Of a pair that is not chosen, only the score
    has a gradient, so that what goes on to its nodes is always the same direction, and is found once too.
    """

    @staticmethod
    def forward(
        ctx: Any, scorer: PairScorer, lengths: Tensor, temperature: float, leaves: Tensor, *_parameters: Tensor
    ) -> Tensor:
        time, rows, size = leaves.shape
        columns = torch.arange(rows, device=leaves.device)
        node_at = torch.arange(time * rows, device=leaves.device).view(time, rows)
        pair_at = node_at[:-1]
        # Two more pairs come with each merge.
        left, right = (nn.functional.pad(side, (0, 0, 0, 2 * (time - 1))) for side in (node_at[:-1], node_at[1:]))
        nodes = torch.cat((leaves, leaves.new_zeros(time - 1, rows, size))).flatten(0, 1)
        pairs = leaves.new_zeros(len(left), rows, size)
        pairs[: time - 1] = scorer.cell(leaves[:-1], leaves[1:])
        scores, pairs, layers = scorer.score(pairs).flatten(), pairs.flatten(0, 1), []
        for number in range(time - 1):
            places = torch.arange(len(pair_at), device=leaves.device)[:, None]
            valid = places < lengths.to(leaves.device) - 1 - number
            soft = drawn_softly(scores[pair_at], valid, temperature)
            slot = torch.where(valid.any(0), soft.argmax(0), len(pair_at))
            layers.append(layer := Layer(node_at, pair_at, soft, slot))
            merged = (time + number) * rows + columns
            nodes[merged] = pairs[layer.chosen]
            before = places < slot
            node_at = torch.where(before, node_at[:-1], torch.where(places == slot, merged, node_at[1:]))
            if len(node_at) == 1:
                break
            # New are the pair that ends with the merged node, and the one that begins with it.
            first = time - 1 + 2 * number
            begins = torch.stack((slot - 1, slot)).clamp(0, len(node_at) - 2)
            fresh = torch.stack((first * rows + columns, (first + 1) * rows + columns))
            left[first : first + 2], right[first : first + 2] = node_at.gather(0, begins), node_at.gather(0, begins + 1)
            pairs[fresh] = made = scorer.cell(nodes[left[first : first + 2]], nodes[right[first : first + 2]])
            scores[fresh] = scorer.score(made)
            pair_at = torch.where(before[:-1], pair_at[:-1], pair_at[1:])
            for place, one in zip((slot - 1, slot), fresh, strict=True):
                pair_at = torch.where(places[:-1] == place, one, pair_at)
        ctx.scorer, ctx.temperature, ctx.layers = scorer, temperature, layers
        ctx.save_for_backward(nodes, pairs, left.flatten(), right.flatten())
        return nodes[node_at[0], : scorer.hidden_size]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        nodes, pairs, left, right = ctx.saved_tensors
        scorer = ctx.scorer
        composed, children = _composed(scorer, nodes, left, right)
        of_score = torch.zeros_like(pairs)  # what a score of 1 asks of its pair
        of_score[:, : scorer.hidden_size] = scorer.query.detach()
        to_left, to_right = torch.autograd.grad(composed, children, of_score, retain_graph=True)
        of_pairs, of_scores = torch.zeros_like(pairs), pairs.new_zeros(len(pairs))
        of_nodes = nn.functional.pad(gradients[0], (0, nodes.shape[-1] - scorer.hidden_size))[None]
        for layer in reversed(ctx.layers):
            here, there = taken(nodes, layer.nodes), layer.slot < len(layer.pairs)
            from_left, from_right, from_pair = (
                torch.linalg.vecdot(of_nodes, part) for part in (here[:-1], here[1:], taken(pairs, layer.pairs))
            )
            of_choice = (from_right - from_left).flip(0).cumsum(0).flip(0) + from_pair - from_right
            of_choice = layer.soft * (of_choice - (layer.soft * of_choice).sum(0)) / ctx.temperature
            of_scores[layer.pairs] += of_choice
            # The chosen pair hands on what its node has, and every pair what its score has.
            rows, chosen = torch.arange(len(there), device=there.device)[there], layer.chosen[there]
            merged = of_nodes[layer.slot[there], rows]
            of_pairs[chosen] += merged
            to_children = torch.autograd.grad(*_composed(scorer, nodes, left[chosen], right[chosen]), merged)
            places = torch.arange(len(layer.pairs), device=there.device)[:, None]
            below = torch.zeros_like(here)
            torch.mul(of_nodes, (places < layer.slot)[..., None], out=below[:-1])
            below[:-1].addcmul_(of_choice[..., None], taken(to_left, layer.pairs))
            below[1:].addcmul_(of_nodes, (places > layer.slot)[..., None].to(of_nodes))
            below[1:].addcmul_(of_choice[..., None], taken(to_right, layer.pairs))
            for place, part in enumerate(to_children):
                below[layer.slot[there] + place, rows] += part
            of_nodes = below
        of_parameters = torch.autograd.grad(
            composed, list(scorer.cell.parameters()), of_pairs.addcmul_(of_scores[:, None], of_score)
        )
        return None, None, None, of_nodes, of_scores @ pairs[:, : scorer.hidden_size], *of_parameters


def taken(table: Tensor, numbers: Tensor) -> Tensor:
    """(places, rows, size): several times as fast as an index of two dimensions."""
    return table.index_select(0, numbers.flatten()).view(*numbers.shape, -1)


def _composed(scorer: PairScorer, nodes: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """These pairs once more, and the nodes that they are made of, with a graph between."""
    with torch.enable_grad():
        children = nodes[left].requires_grad_(), nodes[right].requires_grad_()
        return scorer.cell(*children), children


def drawn_softly(scores: Tensor, valid: Tensor, temperature: float) -> Tensor:
    """Softmax over the valid candidates of each row (dimension 0) with Gumbel noise, whose largest one is thereby
    drawn; 0 elsewhere."""
    noisy = (scores - torch.empty_like(scores).exponential_().log()) / temperature
    # Where nothing is valid the softmax is over all, so as not to be over nothing; the mask then takes it away.
    return noisy.masked_fill(~valid & valid.any(0), -torch.inf).softmax(0) * valid

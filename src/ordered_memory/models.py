"""Every model, with one line, the trees it uses, and the paper it comes from: what `om models` shows."""

from typing import Literal, NamedTuple, TypedDict

from ordered_memory.classifier import shipped
from ordered_memory.encoders import ENCODERS

TITLES = {
    "ordered-memory": "Ordered Memory",
    "lstm": "LSTM",
    "rrnet": "RRNet",
    "on-lstm": "ON-LSTM",
    "transformer": "Transformer",
    "universal-transformer": "Universal Transformer",
    "rl-spinn": "RL-SPINN",
    "gumbel-tree": "Gumbel Tree-LSTM",
    "cooperative": "Havrylov et al. 2019",
    "tree-rnn": "TreeRNN (gold trees)",
    "tree-lstm": "TreeLSTM (gold trees)",
    "tree-cell": "TreeCell (gold trees)",
}
"""What tables and figures call each model, in their order."""


class About(NamedTuple):
    summary: str
    paper: str


ABOUT = {
    "ordered-memory": About(
        "an ordered stack of sub-trees, reduced under a soft pointer", "Shen et al. 2019, Ordered Memory"
    ),
    "lstm": About("reads from left to right, knows nothing of trees", "Hochreiter and Schmidhuber 1997"),
    "on-lstm": About("an LSTM of ordered neurons, erased from one end", "Shen et al. 2019, Ordered Neurons"),
    "rrnet": About("closes nodes while it reads; decisions by REINFORCE", "Jacob et al. 2018"),
    "transformer": About("attention over one joint sequence of all sentences", "Vaswani et al. 2017"),
    "universal-transformer": About("one block, looped, with or without halting", "Dehghani et al. 2019"),
    "tree-rnn": About("one linear map and tanh for each node", "Socher et al. 2011"),
    "tree-lstm": About("an LSTM along the tree, a forget gate for each child", "Tai et al. 2015"),
    "tree-cell": About("Ordered Memory's gated recursive cell", "Shen et al. 2019, Ordered Memory"),
    "rl-spinn": About("shift or reduce, sampled, learned by REINFORCE", "Yogatama et al. 2016"),
    "gumbel-tree": About("joins the best pair of neighbours, by straight-through Gumbel", "Choi et al. 2018"),
    "cooperative": About("a parser by PPO and a composer by cross-entropy", "Havrylov et al. 2019"),
}


class ModelDescription(TypedDict):
    """One model in plain values, for JSON."""

    name: str
    summary: str
    trees: Literal["none", "gold", "latent"]
    paper: str


def describe_models() -> list[ModelDescription]:
    """Every model that `--model` takes."""
    return [
        {"name": name, "summary": ABOUT[name].summary, "trees": encoder.trees, "paper": ABOUT[name].paper}
        for name, encoder in ENCODERS.items()
    ]


def shipped_lines() -> str:
    """The trained models that come with the package, by the names that `om parse` and `from_pretrained` take."""
    return f"trained and shipped, for om parse and om evaluate: {', '.join(shipped())}"


def models_table() -> str:
    """The same for people, a line for each."""
    rows = [("model", "trees", "what it is", "paper")]
    rows += [(model["name"], model["trees"], model["summary"], model["paper"]) for model in describe_models()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in padded)

"""Published figures, as data: what our tables stand beside. Percent, as printed in the papers."""

from dataclasses import dataclass

ORDERED_MEMORY = "Shen et al. 2019"
BT_CELL = "Ray Chowdhury and Caragea 2023; recalled, digits about 75% sure"


@dataclass(frozen=True)
class Figure:
    """A published figure, with its spread where there is one."""

    value: float
    spread: float | None = None
    digits: int = 1

    def __str__(self) -> str:
        spread = "" if self.spread is None else f"±{self.spread}"
        return f"{self.value:.{self.digits}f}{spread}"


LOGIC_COLUMNS = (*map(str, range(7, 13)), "A", "B", "C")
"""Of Table 1: the number of operations, then the splits."""


def _table_1(*figures: float, spreads: tuple[float, ...] = ()) -> dict[str, Figure]:
    """A row of Table 1, as far as it goes; spreads are those of its first columns."""
    padded = (*spreads, *[None] * (len(figures) - len(spreads)))
    cells = (Figure(value, spread, digits=0) for value, spread in zip(figures, padded, strict=True))
    return dict(zip(LOGIC_COLUMNS, cells, strict=False))


# Table 1 of the paper: accuracy of each system on logical inference, trained on at most 6 operations.
LOGIC: dict[str, dict[str, Figure]] = {
    "lstm": _table_1(88, 84, 80, 78, 71, 69, 84, 60, 59),
    "rrnet": _table_1(84, 81, 78, 74, 72, 71),
    "on-lstm": _table_1(91, 87, 85, 81, 78, 75, 70, 63, 60),
    "transformer": _table_1(51, 52, 51, 51, 51, 48, 53, 51, 51),
    "universal-transformer": _table_1(51, 52, 51, 51, 51, 48, 53, 51, 51),
    "ordered-memory": _table_1(98, 97, 96, 94, 93, 92, 94, 91, 81, spreads=(0.0, 0.4, 0.5, 0.8, 0.5, 1.1)),
    "ordered-memory-tree-rnn": _table_1(69, 67, 65, 61, 57, 53),
    "tree-lstm": _table_1(94, 92, 92, 88, 87, 86, 91, 84, 76),
    "tree-cell": _table_1(98, 96, 96, 95, 93, 92, 95, 95, 90),
    "tree-rnn": _table_1(98, 98, 97, 96, 95, 96, 94, 92, 86),
}
LOGIC_F1 = Figure(84.3, 14.4)
"""Of Ordered Memory's trees, over words."""

# Table 2 of the paper: accuracy and F1 of each system on ListOps.
LISTOPS: dict[str, tuple[Figure, Figure | None]] = {
    "lstm": (Figure(71.5, 1.5), None),
    "rl-spinn": (Figure(60.7, 2.6), Figure(71.1)),
    "gumbel-tree": (Figure(57.6, 2.9), Figure(57.3)),
    "transformer": (Figure(57.4, 0.4), None),
    "universal-transformer": (Figure(71.5, 7.8), None),
    "cooperative": (Figure(99.2, 0.5), None),
    "ordered-memory": (Figure(99.97, 0.014, digits=2), Figure(100, digits=0)),
    "ordered-memory-tree-rnn": (Figure(63.1), None),
}

# Accuracy on longer expressions, and on more arguments than in training.
LISTOPS_GENERALISATION: dict[str, dict[str, Figure]] = {
    "Ordered Memory, 21 slots": {
        "200-300": Figure(99.55, digits=2),
        "500-600": Figure(92.7),
        "900-1000": Figure(76.9),
        "10 arguments": Figure(84.15, digits=2),
        "15 arguments": Figure(75.05, digits=2),
    },
    "CRvNN": {
        "200-300": Figure(99.5),
        "500-600": Figure(98.5),
        "900-1000": Figure(98.0, digits=0),
        "10 arguments": Figure(65.45, digits=2),
        "15 arguments": Figure(45.1),
    },
    "BT-GRC OneSoft": {
        "200-300": Figure(99.5),
        "500-600": Figure(99.0, digits=0),
        "900-1000": Figure(97.2),
        "10 arguments": Figure(76.05, digits=2),
        "15 arguments": Figure(67.9),
    },
}

# Table 3 of the paper: accuracy on the Stanford Sentiment Treebank, of two classes and of five.
SST: dict[str, tuple[Figure | None, Figure | None]] = {
    "ordered-memory": (Figure(90.4), Figure(52.2)),
    "tree-lstm": (Figure(88.0), Figure(51.0)),
    "gumbel-tree": (Figure(90.7), Figure(53.7)),
    "cooperative": (Figure(90.2, 0.2), Figure(51.5, 0.4)),
}
"""Of systems that we have, with word vectors; TreeLSTM reads the gold trees (Tai et al. 2015)."""

SST_OTHERS: dict[str, tuple[Figure | None, Figure | None]] = {
    "Radford et al. 2017": (Figure(91.8), Figure(52.9)),
    "Peters et al. 2018": (None, Figure(54.7)),
    "Brahma 2018": (Figure(91.2), Figure(56.2)),
    "Devlin et al. 2018": (Figure(94.9), None),
    "Liu et al. 2019": (Figure(95.6), None),
    "Munkhdalai and Yu 2017 (gold trees)": (Figure(89.3), Figure(53.1)),
    "Looks et al. 2017 (gold trees)": (Figure(89.4), Figure(52.3)),
    "Ordered Memory, ELMo": (Figure(92.0), Figure(55.2)),
}
"""Of systems that we do not have, and of Ordered Memory on contextual embeddings."""

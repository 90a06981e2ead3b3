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
        spread = "" if self.spread is None else f"±{self.spread:g}"
        return f"{self.value:.{self.digits}f}{spread}"


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

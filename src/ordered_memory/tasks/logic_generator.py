"""Pairs of statements drawn from the published distribution of logical inference (Bowman et al., 2015).

Each pair has four of the six variables. A statement is binary with probability 4/9, and and or evenly, while its size
limit (12, halved at each level) is 2 or more; else it is a variable; then it is negated with probability 1/3. What is
always true or never is drawn again.

No statement is deeper than three binary levels, so all are drawn at once, from the leaves up, as three numbers: a code
(each different statement has its own), the worlds in which the statement is true, and its operations.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordered_memory.errors import InputError
from ordered_memory.tasks.propositions import ALL_WORLDS, RELATIONS, TRUE_IN, VARIABLES, Worlds, relate

SIZE_LIMIT = 12
BINARY = 4 / 9
NEGATED = 1 / 3
VARIABLES_OF_A_PAIR = 4
MOST_OPERATIONS = 12
"""Pairs of this many operations or more are in one bin."""
TRAINING_SHARE = 0.85

Codes = NDArray[np.int64]

LEAVES = 2 * len(VARIABLES)
# How many different statements there are of each level, the leaves' first: all the codes of a level are below.
_LEVELS = [LEAVES]
_limit = SIZE_LIMIT
while _limit >= 2:
    _LEVELS.append(LEAVES + 4 * _LEVELS[-1] ** 2)
    _limit //= 2
DEPTH = len(_LEVELS) - 1
"""Binary levels of the largest statement."""


@dataclass(frozen=True)
class Pairs:
    """Pairs in arrays; a statement is its code, and `texts` writes it."""

    left: Codes
    right: Codes
    relations: NDArray[np.int64]
    """Places in `RELATIONS`."""
    operations: NDArray[np.int64]
    """Of the statement that has more."""

    def __len__(self) -> int:
        return len(self.left)

    def pick(self, indices: NDArray[np.intp]) -> "Pairs":
        return Pairs(self.left[indices], self.right[indices], self.relations[indices], self.operations[indices])

    def lines(self) -> list[str]:
        """As the released files write them: relation, left and right, with tabs between."""
        relations = (RELATIONS[relation] for relation in self.relations.tolist())
        return ["\t".join(columns) for columns in zip(relations, texts(self.left), texts(self.right), strict=True)]


class _Drawn(NamedTuple):
    """Statements in arrays."""

    codes: Codes
    worlds: Worlds
    operations: NDArray[np.int64]


def draw_pairs(count: int, seed: int) -> Pairs:
    """Draw that many pairs and keep the different ones: of the published 500,000 that is one in two."""
    # Only uniform numbers are asked of the generator, which any version of NumPy makes in the same way.
    generator = np.random.Generator(np.random.PCG64(seed))
    variables = np.argsort(generator.random((count, len(VARIABLES))), axis=1)[:, :VARIABLES_OF_A_PAIR]
    left, right = (_draw_open(generator, variables) for _ in range(2))
    pairs = Pairs(
        left.codes, right.codes, relate(left.worlds, right.worlds), np.maximum(left.operations, right.operations)
    )
    _, first = np.unique(np.stack([pairs.left, pairs.right], axis=1), axis=0, return_index=True)
    # `unique` sorts: shuffle, so that a pair's place says nothing of it.
    return pairs.pick(first[np.argsort(generator.random(len(first)), kind="stable")])


def split_bins(pairs: Pairs) -> dict[str, dict[int, Pairs]]:
    """Train and test pairs by number of operations, 12 and more together: 85% of each bin are for training."""
    bins = np.minimum(pairs.operations, MOST_OPERATIONS)
    parts: dict[str, dict[int, Pairs]] = {"train": {}, "test": {}}
    for number in range(MOST_OPERATIONS + 1):
        members = np.flatnonzero(bins == number)
        cut = int(TRAINING_SHARE * len(members))
        parts["train"][number], parts["test"][number] = pairs.pick(members[:cut]), pairs.pick(members[cut:])
    return parts


def _draw_open(generator: np.random.Generator, variables: NDArray[np.intp]) -> _Drawn:
    """A statement for each row of variables that can be true and can be false; what is neither is drawn again."""
    drawn = _draw(generator, variables, DEPTH)
    while len(settled := np.flatnonzero((drawn.worlds == 0) | (drawn.worlds == np.uint64(ALL_WORLDS)))):
        again = _draw(generator, variables[settled], DEPTH)
        for column, fresh in zip(drawn, again, strict=True):
            column[settled] = fresh
    return drawn


def _draw(generator: np.random.Generator, variables: NDArray[np.intp], level: int) -> _Drawn:
    """A statement of at most so many binary levels for each row of variables."""
    rows = np.arange(len(variables))
    chosen = variables[rows, (generator.random(len(rows)) * variables.shape[1]).astype(np.intp)]
    codes = 2 * chosen.astype(np.int64)
    worlds = np.array([TRUE_IN[name] for name in VARIABLES], dtype=np.uint64)[chosen]
    operations = np.zeros(len(rows), dtype=np.int64)
    if level:
        binary = np.flatnonzero(generator.random(len(rows)) < BINARY)
        either = generator.random(len(binary)) < 0.5
        first, second = (_draw(generator, variables[binary], level - 1) for _ in range(2))
        below = _LEVELS[level - 1]
        codes[binary] = LEAVES + 2 * ((either * below + first.codes) * below + second.codes)
        worlds[binary] = np.where(either, first.worlds | second.worlds, first.worlds & second.worlds)
        operations[binary] = first.operations + second.operations + 1
    negated = generator.random(len(rows)) < NEGATED
    worlds[negated] ^= np.uint64(ALL_WORLDS)
    return _Drawn(codes + negated, worlds, operations + negated)


def texts(codes: Codes, level: int = DEPTH) -> list[str]:
    """Statements in words; each different one is written once."""
    different, where = np.unique(codes, return_inverse=True)
    if len(different) and not 0 <= different[0] <= different[-1] < _LEVELS[level]:
        raise InputError(f"a code is not between 0 and {_LEVELS[level] - 1}: it stands for no statement")
    written = [VARIABLES[code // 2] for code in different[different < LEAVES].tolist()]
    inner = (different[len(written) :] - LEAVES) // 2
    if len(inner):
        below = _LEVELS[level - 1]
        either, rest = np.divmod(inner, below**2)
        parts = [texts(part, level - 1) for part in np.divmod(rest, below)]
        for flag, first, second in zip(either.tolist(), *parts, strict=True):
            written.append(f"( {first} ( {'or' if flag else 'and'} {second} ) )")
    signed = [f"( not {text} )" if code % 2 else text for code, text in zip(different.tolist(), written, strict=True)]
    return [signed[place] for place in where.reshape(-1).tolist()]

"""Vocabulary: the known tokens and their ids, and helpful words for a token that is not among them."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ordered_memory.errors import InputError

PADDING = 0
"""The id that fills a batch past a sequence's end; no token has it."""

UNKNOWN = "<unk>"
"""What tasks of open vocabulary read in the place of a word that training never shows, or too seldom."""

SMALL = 30
"""A vocabulary of at most this many tokens is shown whole in an error message."""

# ASCII whitespace only: a treebank's token may hold a no-break space.
_WORD = re.compile(r"\S+", re.ASCII)


def split_words(text: str) -> list[str]:
    """The words of a text, split at ASCII whitespace."""
    return _WORD.findall(text)


@dataclass(frozen=True)
class Vocabulary:
    """Tokens and their ids. Ids go from 1 in the order given; id 0 is padding."""

    tokens: Sequence[str]
    ignored: Collection[str] = ()
    """Tokens that `tokenise` drops from text, such as the round brackets of ListOps."""
    unknown: str | None = None
    """The token that stands for every unknown one; without it an unknown token is an error."""
    lower_case: bool = False
    """Whether `tokenise` makes text lower case."""
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(self.tokens))
        object.__setattr__(self, "ignored", tuple(sorted(self.ignored)))
        object.__setattr__(self, "_ids", {token: number for number, token in enumerate(self.tokens, PADDING + 1)})
        if len(self._ids) < len(self.tokens):
            twice = next(token for number, token in enumerate(self.tokens, 1) if self._ids[token] != number)
            raise InputError(f"vocabulary: {twice!r} is there twice")
        for token in (*self.tokens, *self.ignored):
            if not _WORD.fullmatch(token):
                raise InputError(f"vocabulary: {token!r} is empty or holds whitespace, so no text can contain it")
        if both := self._ids.keys() & set(self.ignored):
            raise InputError(f"vocabulary: {min(both)!r} is both a token and ignored")
        if self.unknown is not None and self.unknown not in self._ids:
            raise InputError(f"vocabulary: the unknown token {self.unknown!r} is not among the tokens")

    def __len__(self) -> int:
        """The number of ids, padding among them: the rows of an embedding."""
        return len(self.tokens) + 1

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def extended(self, words: Iterable[str]) -> "Vocabulary":
        """With these words after its own; those that it has already are left out."""
        return replace(self, tokens=(*self.tokens, *(word for word in words if word not in self)))

    def tokenise(self, text: str) -> tuple[str, ...]:
        """Split text at ASCII whitespace and drop the ignored tokens."""
        words = split_words(text.lower() if self.lower_case else text)
        tokens = tuple(token for token in words if token not in self.ignored)
        if not tokens:
            raise InputError("the text is empty: there is no token to read")
        return tokens

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """The id of each token; an unknown one is told by name and position."""
        if self.unknown is not None:
            unknown = self._ids[self.unknown]
            return [self._ids.get(token, unknown) for token in tokens]
        try:
            return [self._ids[token] for token in tokens]
        except KeyError:
            position = next(number for number, token in enumerate(tokens, 1) if token not in self._ids)
            token = tokens[position - 1]
            raise InputError(f"unknown token {token!r} at token {position}: {self.suggest(token)}") from None

    def suggest(self, token: str) -> str:
        """What the writer of an unknown token may have meant."""
        if token in self.ignored:
            return "it is dropped from text, and has no id of its own"
        pieces = self._pieces(token)
        if len(pieces) == 2:
            return f"put a space before {pieces[1]}"
        if pieces:
            return f"put spaces between the tokens: {' '.join(pieces)}"
        folded = {known.casefold(): known for known in reversed(self.tokens)}
        if close := difflib.get_close_matches(token.casefold(), folded, n=1, cutoff=0.7):
            return f"did you mean {folded[close[0]]!r}?"
        if len(self.tokens) <= SMALL:
            return f"the tokens are {' '.join(self.tokens)}"
        return f"it is not among the {len(self.tokens):,} known tokens"

    def _pieces(self, token: str) -> list[str]:
        """The token cut into known ones, the longest first, or nothing. Two letters or digits are never parted."""
        known = sorted({*self.tokens, *self.ignored}, key=len, reverse=True)
        pieces: list[str] = []
        rest = token
        while rest:
            piece = next((piece for piece in known if rest.startswith(piece)), None)
            if piece is None or (pieces and pieces[-1][-1].isalnum() and piece[0].isalnum()):
                return []
            pieces.append(piece)
            rest = rest[len(piece) :]
        return pieces

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = {"tokens": list(self.tokens), "ignored": list(self.ignored), "unknown": self.unknown}
        return values | ({"lower_case": True} if self.lower_case else {})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Vocabulary":
        """The vocabulary that `to_dict` wrote."""
        if surplus := values.keys() - {"tokens", "ignored", "unknown", "lower_case"}:
            raise InputError(f"vocabulary: unexpected entry {min(surplus)!r}")
        tokens: Any = values.get("tokens")
        ignored, unknown = values.get("ignored", []), values.get("unknown")
        lower_case = values.get("lower_case", False)
        for name, entries in (("tokens", tokens), ("ignored", ignored)):
            if not isinstance(entries, list | tuple) or not all(isinstance(entry, str) for entry in entries):
                raise InputError(f"vocabulary: {name!r} must be a list of strings")
        if not isinstance(unknown, str | None):
            raise InputError("vocabulary: 'unknown' must be a string or null")
        if not isinstance(lower_case, bool):
            raise InputError("vocabulary: 'lower_case' must be true or false")
        return cls(tokens, ignored, unknown, lower_case)

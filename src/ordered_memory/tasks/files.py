"""A user's own data: labelled texts, or pairs of them, from files. `file_formats` tells how they are written."""

from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

from ordered_memory.tasks.examples import SPLITS, Example, Split, length_bucket
from ordered_memory.tasks.files_data import (
    BRACKETS,
    HELD_OUT,
    Data,
    FilesConfig,
    check_labels,
    labels_of,
    parse_text,
    read_data,
    read_examples,
)
from ordered_memory.trees import Tree
from ordered_memory.vocabulary import UNKNOWN, Vocabulary, split_words


class Known(NamedTuple):
    """What a model is made from, and all that reading more examples takes: the files may be gone by then."""

    vocabulary: Vocabulary
    labels: tuple[str, ...]
    sentences: int


class Files:
    """The task: the examples of the config's files, which are read when they are asked for, and once."""

    name: ClassVar[str] = "files"
    config_type: ClassVar[type] = FilesConfig

    def __init__(self, config: FilesConfig | None = None, known: Known | None = None) -> None:
        """`known` is what a trained model knows of its data; without it the files tell."""
        self._config, self._given = config or FilesConfig(), known

    @cached_property
    def config(self) -> FilesConfig:
        return self._config.settled()

    @cached_property
    def _data(self) -> Data:
        return read_data(self.config)

    @cached_property
    def _known(self) -> Known:
        if self._given:
            return self._given
        train, least = self._data.splits["train"], self.config.min_count
        kept = sorted(word for word, count in self._data.words.items() if count >= least and word != UNKNOWN)
        ignored = BRACKETS if self.config.gold_trees else ()
        vocabulary = Vocabulary((UNKNOWN, *kept), ignored, UNKNOWN, lower_case=self.config.lower_case)
        return Known(vocabulary, labels_of(train), len(train[0].example.sentences))

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of the training examples, in the order of the alphabet."""
        return self._known.vocabulary

    @property
    def labels(self) -> tuple[str, ...]:
        return self._known.labels

    @property
    def sentences(self) -> int:
        return self._known.sentences

    @property
    def not_words(self) -> tuple[str, ...]:
        return ()

    def splits(self) -> dict[Split, list[Example]]:
        """The files' examples; what has no file is held out of the training file."""
        return {split: [sourced.example for sourced in self._data.splits[split]] for split in SPLITS}

    def extra_tests(self) -> dict[str, list[Example]]:
        return {}

    def bucket(self, example: Example) -> str:
        """By the length of the longer text; see `length_bucket`."""
        return length_bucket(max(map(len, example.sentences)))

    def sentence(self, text: str) -> tuple[tuple[str, ...], Tree | None]:
        """The tokens of a text, and the tree that it shows. Where trees are asked for, it may also be bare words."""
        words = split_words(text)
        bare = len(words) > 1 and not any(bracket in words for bracket in BRACKETS)
        return parse_text(text, self._config.gold_trees and not bare, self._config.lower_case)

    def read(self, path: Path) -> list[Example]:
        """Examples from a file of any of the formats; their labels must be those of training."""
        found = read_examples(path, self._config, self.sentences)
        check_labels(found, self.labels)
        return [sourced.example for sourced in found]

    def remarks(self) -> list[str]:
        """What one should know of the data before a model is trained on it, a line for each."""
        config, (data, words, left_out), lines = self.config, self._data, []
        if shares := {split: share for split in HELD_OUT if (share := config.share(split))}:
            parts = (f"{len(data[split]):,} for {split} (--{split}-share {share:g})" for split, share in shares.items())
            lines.append(f"held out of {config.train}: {', '.join(parts)}")
        if left_out:
            lines.append(f"{left_out:,} training examples of more than {config.max_length} tokens are left out")
        if rare := len(words.keys() - set(self.vocabulary.tokens)):
            lines.append(
                f"{len(words) - rare:,} words are known; {rare:,} that come less than {config.min_count} times in "
                f"training are read as {UNKNOWN} (--min-count)"
            )
        seen = {sourced.example.sentences for sourced in data["train"]}
        twice = {split: sum(sourced.example.sentences in seen for sourced in data[split]) for split in HELD_OUT}
        if any(twice.values()):
            parts = (f"{count:,} of {len(data[split]):,} {split} examples" for split, count in twice.items() if count)
            lines.append(f"warning: {' and '.join(parts)} have the same text as a training example")
        return lines

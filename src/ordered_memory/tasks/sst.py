"""The Stanford Sentiment Treebank (Socher et al., 2013): is a sentence of a film review negative or positive?

Every node of its binary trees has a sentiment from 0 to 4. The trees are gold trees here, and in training the
sub-trees are examples of their own.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from ordered_memory.errors import InputError
from ordered_memory.tasks.examples import DATA_VARIABLE, Example, Split, find_folder, read_lines
from ordered_memory.tasks.listops_generator import require_at_least
from ordered_memory.trees import Tree, unescape
from ordered_memory.vocabulary import UNKNOWN, Vocabulary, split_words

ADDRESS = "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip"
FILES: dict[Split, str] = {"train": "train.txt", "validation": "dev.txt", "test": "test.txt"}

FIVE = ("very negative", "negative", "neutral", "positive", "very positive")
TWO = ("negative", "positive")
NAMES: dict[int, dict[str, str]] = {
    2: {"0": TWO[0], "1": TWO[0], "3": TWO[1], "4": TWO[1]},
    5: {str(number): name for number, name in enumerate(FIVE)},
}
"""What the treebank's labels are called, by number of classes; of two classes neutral is none, and is left out."""

_TREE = re.compile(r"\s*\([0-4] ")  # how a line of the treebank begins


@dataclass(frozen=True)
class SSTConfig:
    """The data of a run on the treebank; the defaults are the published setting."""

    classes: Literal[2, 5] = 2
    """Negative and positive, without neutral; or all five, from very negative to very positive."""
    sub_trees: bool = True
    """Whether the sub-trees of the training trees are training examples too: each phrase once with each label that it
    has, its tree the first one there is. Of two classes, a neutral sentence's sub-trees are taken all the same."""
    min_count: int = 2
    """Words that are rarer in the training sentences are read as the unknown token, which is learned from them; words
    that have a word vector are known in any case."""
    folder: str | None = None
    """The folder of train.txt, dev.txt and test.txt; if not named, the folder sst in $ORDERED_MEMORY_DATA."""

    def __post_init__(self) -> None:
        require_at_least(1, min_count=self.min_count)

    def data_folder(self) -> Path:
        """Where the files are; a folder that is not there is told."""
        hint = f"the treebank is at {ADDRESS}; its {', '.join(FILES.values())} go into the folder"
        return find_folder(self.folder, "sst", f" or set {DATA_VARIABLE}: {hint} sst there", hint)


class SST:
    """The task: sentences in lower case, in the treebank's own train, validation (dev) and test examples."""

    name: ClassVar[str] = "sst"
    config_type: ClassVar[type] = SSTConfig
    sentences: ClassVar[int] = 1

    def __init__(self, config: SSTConfig | None = None) -> None:
        self.config = config or SSTConfig()
        self._trees: dict[Split, list[Tree]] = {}

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words of the training sentences, and the unknown token."""
        counts = Counter(token for tree in self.trees("train") for token in tree.tokens)
        words = {token for token, count in counts.items() if count >= self.config.min_count}
        return Vocabulary((UNKNOWN, *sorted(words - {UNKNOWN})), unknown=UNKNOWN, lower_case=True)

    @property
    def labels(self) -> tuple[str, ...]:
        return TWO if self.config.classes == 2 else FIVE

    @property
    def not_words(self) -> tuple[str, ...]:
        return ()

    def trees(self, split: Split) -> list[Tree]:
        """The treebank's trees of a split, each node labelled, in lower case. A file is read once."""
        if split not in self._trees:
            self._trees[split] = read_trees(self.config.data_folder() / FILES[split])
        return self._trees[split]

    def splits(self) -> dict[Split, list[Example]]:
        """The sentences of each file; to those of the training set, the phrases under them are added."""
        splits = {split: self._sentences(self.trees(split)) for split in FILES}
        if self.config.sub_trees:
            splits["train"] += _phrases(self.trees("train"), NAMES[self.config.classes], splits["train"])
        return splits

    def extra_tests(self) -> dict[str, list[Example]]:
        return {}

    def bucket(self, example: Example) -> str:
        """1-10, 11-20, 21-30, 31-40, and >40 tokens."""
        tens = (len(example.sentences[0]) - 1) // 10
        return f"{tens}1-{tens + 1}0".lstrip("0") if tens < 4 else ">40"

    def sentence(self, text: str) -> tuple[tuple[str, ...], Tree | None]:
        """The words of a text, in lower case; or a tree as the treebank writes it, `(3 (2 a) (3 treat))`."""
        if _TREE.match(text):
            tree = parse_tree(text)
            return tree.tokens, Tree(tree.tokens, tree.spans)
        tokens = tuple(unescape(word).lower() for word in split_words(text))
        if not tokens:
            raise InputError("the text is empty: there is no token to read")
        return tokens, None

    def read(self, path: Path) -> list[Example]:
        """Examples from a file of trees, one in a line; of two classes, neutral sentences are left out."""
        return self._sentences(read_trees(path))

    def _sentences(self, trees: Sequence[Tree]) -> list[Example]:
        names = NAMES[self.config.classes]
        labelled = ((tree, names.get(root_label(tree))) for tree in trees)
        return [Example((tree.tokens,), name, (Tree(tree.tokens, tree.spans),)) for tree, name in labelled if name]


def root_label(tree: Tree) -> str:
    """The sentiment of the whole sentence, 0 to 4."""
    labels = tree.labels or tree.leaf_labels or ("",)
    return labels[0]


def read_trees(path: Path) -> list[Tree]:
    """The trees of a file, one in a line; each is checked, and a bad one is told by file, line and reason."""
    return read_lines(path, parse_tree)


def parse_tree(text: str) -> Tree:
    """A binary tree in which each node has a label from 0 to 4: `(3 (2 a) (3 treat))`. Its words in lower case."""
    try:
        tree = Tree.from_brackets(text, "ptb")
    except InputError as error:
        opened, closed = text.count("("), text.count(")")
        cut = f" (the line opens {opened} brackets and closes {closed}: is it cut short?)" if opened > closed else ""
        raise InputError(f"{error}{cut}") from None
    labels, leaf_labels = tree.labels or (), tree.leaf_labels or ()
    if not NAMES[5].keys() >= {*labels, *leaf_labels}:
        wrong = next(label for label in (*labels, *leaf_labels) if label not in NAMES[5])
        raise InputError(f"a label is {wrong!r}, and must be a number from 0 to 4")
    if not tree.is_binary:
        node = next(place for place, children in enumerate(tree.children) if len(children) != 2)
        phrase = " ".join(tree.tokens[slice(*tree.spans[node].tolist())])
        raise InputError(
            f"the node over {phrase!r} has {len(tree.children[node])} children, and each node must have two"
        )
    # One string object for each word, however many are read.
    return Tree(tuple(sys.intern(token.lower()) for token in tree.tokens), tree.spans, labels, leaf_labels)


def _phrases(trees: Sequence[Tree], names: dict[str, str], sentences: Sequence[Example]) -> Iterator[Example]:
    """What every node stands for, words too, as an example; those that are there already are left out."""
    known = {(example.sentences[0], example.label) for example in sentences}
    for tree in trees:
        nodes = zip(tree.spans.tolist(), tree.labels or (), strict=True)
        leaves = (((place, place + 1), label) for place, label in enumerate(tree.leaf_labels or ()))
        for node, ((start, end), label) in enumerate((*nodes, *leaves)):
            if (name := names.get(label)) is None:
                continue
            phrase, before = tree.tokens[start:end], len(known)
            known.add((phrase, name))
            if len(known) > before:
                # In preorder the nodes under a node follow it at once; under a word there is none.
                spans = tree.spans[node : node + end - start - 1] - start
                yield Example((phrase,), name, (Tree(phrase, spans),))

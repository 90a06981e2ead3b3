"""The sentiment treebank: the real files' counts, sub-trees as examples, escapes, and what is said of bad lines."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordered_memory.errors import InputError
from ordered_memory.tasks.examples import Example
from ordered_memory.tasks.sst import FILES, FIVE, SST, TWO, UNKNOWN, SSTConfig, parse_tree, read_trees, root_label
from ordered_memory.trees import Tree, random_tree
from tests.treebank import TREES, write_treebank


@pytest.fixture
def folder(tmp_path) -> str:
    return str(write_treebank(tmp_path) / "sst")


@pytest.fixture(scope="module")
def real(shared) -> SST:
    """The real files, of five classes."""
    return SST(SSTConfig(classes=5, folder=str(shared / "data" / "sst")))


class TestRealFiles:
    def test_counts_of_five_classes(self, real):
        assert [len(real.trees(split)) for split in FILES] == [8_544, 1_101, 2_210]
        assert {root_label(tree) for tree in real.trees("train")} == set("01234")
        splits = real.splits()
        assert [len(splits[split]) for split in FILES] == [157_411, 1_101, 2_210]
        phrases = [(example.sentences, example.label) for example in splits["train"][8_544:]]
        assert len(set(phrases)) == len(phrases)

    @pytest.mark.parametrize(("sub_trees", "training"), [(False, 6_920), (True, 77_210)])
    def test_counts_of_two_classes(self, real, sub_trees, training):
        task = SST(SSTConfig(folder=real.config.folder, sub_trees=sub_trees))
        task._trees.update({split: real.trees(split) for split in FILES})
        splits = task.splits()
        assert [len(splits[split]) for split in FILES] == [training, 872, 1_821]
        assert {example.label for examples in splits.values() for example in examples} == set(TWO)

    def test_no_break_spaces_do_not_separate(self, real):
        found = [token for tree in real.trees("train") for token in tree.tokens if "\N{NO-BREAK SPACE}" in token]
        assert found == [f"{number}\N{NO-BREAK SPACE}1/2" for number in "822"]

    def test_no_escape_is_left(self, real):
        tokens = {token for split in FILES for tree in real.trees(split) for token in tree.tokens}
        assert {"(", ")", "1/2"} <= tokens
        assert not [token for token in tokens if re.search(r"-[lr]rb-|\\|[A-Z]", token)]


class TestSplits:
    def test_sentences_then_the_phrases_under_them(self, folder):
        train = SST(SSTConfig(folder=folder)).splits()["train"]
        texts = [(" ".join(example.sentences[0]), example.label) for example in train]
        assert texts == [
            ("a lovely film", "positive"),
            ("a dreadful film", "negative"),
            ("the film ( good )", "positive"),
            ("the film is bad", "negative"),
            ("good .", "positive"),
            ("bad .", "negative"),
            ("lovely film", "positive"),
            ("lovely", "positive"),
            ("dreadful film", "negative"),
            ("dreadful", "negative"),
            ("the film (", "positive"),
            ("good )", "positive"),
            ("good", "positive"),
            ("film is bad", "negative"),
            ("is bad", "negative"),
            ("bad", "negative"),
            ("moments", "negative"),  # of a neutral sentence
        ]

    def test_a_phrase_has_its_part_of_the_tree(self, folder):
        train = SST(SSTConfig(classes=5, folder=folder)).splits()["train"]
        trees = {example.trees[0] for example in train}
        for example in train:
            assert example.trees[0].tokens == example.sentences[0]
            assert example.trees[0].is_binary
            Tree.from_spans(example.sentences[0], example.trees[0].spans)  # checks that they are nested, with a root
        assert Tree.from_brackets("( the ( film ( is bad ) ) )") in trees
        assert Tree.from_brackets("( film ( is bad ) )") in trees

    def test_a_phrase_with_two_labels_is_there_with_both(self, tmp_path):
        write_treebank(tmp_path)
        (tmp_path / "sst" / "train.txt").write_text("(3 (3 odd) (2 .))\n(1 (1 odd) (2 .))\n(1 (1 odd) (2 !))\n")
        task = SST(SSTConfig(classes=5, folder=str(tmp_path / "sst")))
        found = [(*example.sentences[0], example.label) for example in task.splits()["train"]]
        assert found[3:] == [
            ("odd", "positive"),
            (".", "neutral"),
            ("odd", "negative"),
            ("!", "neutral"),
        ]

    def test_without_sub_trees(self, folder):
        splits = SST(SSTConfig(classes=5, folder=folder, sub_trees=False)).splits()
        assert [len(splits[split]) for split in FILES] == [len(lines) for lines in TREES.values()]
        assert {example.label for example in splits["train"]} == set(FIVE)

    def test_labels(self):
        assert SST().labels == ("negative", "positive")
        assert SST(SSTConfig(classes=5)).labels == FIVE

    @pytest.mark.parametrize(
        ("length", "name"), [(1, "1-10"), (10, "1-10"), (11, "11-20"), (40, "31-40"), (41, ">40"), (200, ">40")]
    )
    def test_buckets(self, length, name):
        assert SST().bucket(Example((("a",) * length,), "positive")) == name


class TestVocabulary:
    def test_rare_words_and_those_of_other_files_are_unknown(self, folder):
        vocabulary = SST(SSTConfig(folder=folder)).vocabulary
        assert vocabulary.tokens == (UNKNOWN, ".", "a", "bad", "film", "good", "lovely", "the")
        unknown = vocabulary.encode([UNKNOWN])
        assert vocabulary.encode(["delightful"]) == vocabulary.encode(["moments"]) == unknown

    def test_every_word_can_be_kept(self, folder):
        assert "moments" in SST(SSTConfig(folder=folder, min_count=1)).vocabulary

    def test_text_becomes_lower_case(self, folder):
        assert SST(SSTConfig(folder=folder)).vocabulary.tokenise("A Lovely film") == ("a", "lovely", "film")


class TestSentence:
    def test_words(self):
        """No file is needed."""
        assert SST().sentence("A Lovely film -LRB- 1\\/2 -RRB-") == (("a", "lovely", "film", "(", "1/2", ")"), None)
        assert SST().sentence("( a film )")[0] == ("(", "a", "film", ")")

    def test_a_tree(self):
        tokens, tree = SST().sentence("(3 (2 A) (3 (3 lovely) (2 -LRB-)))")
        assert tokens == ("a", "lovely", "(")
        assert tree.spans.tolist() == [[0, 3], [1, 3]]

    @pytest.mark.parametrize(
        ("text", "message"),
        [(" ", "the text is empty"), ("(3 (2 a) (2 b)", "this bracket is never closed"), ("(3 (2 a))", "1 children")],
    )
    def test_what_is_none(self, text, message):
        with pytest.raises(InputError, match=message):
            SST().sentence(text)


class TestFiles:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("(5 (2 a) (2 b))", "a label is '5', and must be a number from 0 to 4"),
            ("(2 (2 a) (x b))", "a label is 'x', and must be a number from 0 to 4"),
            ("(2 (2 a) (2 b) (2 c))", "the node over 'a b c' has 3 children, and each node must have two"),
            ("(2 (2 a) (2 (2 b)))", "the node over 'b' has 1 children, and each node must have two"),
            (
                "(2 (2 a) (2 b)",
                "token 1, '(': this bracket is never closed (the line opens 3 brackets and closes 2: is it",
            ),
            ("(2 (2 a) (2 (2 lo", "opens 4 brackets and closes 1: is it cut short?)"),
            ("(2 (2 a) (2 b)) (2 c)", "the tree is complete, yet more follows"),
            ("a b", "a word needs a bracket of its own"),
            ("", "blank line"),
        ],
    )
    def test_a_bad_line(self, tmp_path, line, message):
        path = tmp_path / "trees.txt"
        path.write_text(f"(2 (2 a) (2 film))\n{line}\n(2 (2 a) (2 film))\n")
        with pytest.raises(InputError, match=re.escape(f"{path}:2: ") + ".*" + re.escape(message)):
            SST().read(path)

    def test_read_leaves_out_neutral_sentences_of_two_classes(self, tmp_path):
        path = tmp_path / "trees.txt"
        path.write_text("(2 (2 a) (2 film))\n(4 (2 A) (4 treat))\n(0 Dull)\n", encoding="utf-8")
        assert [example.label for example in SST().read(path)] == ["positive", "negative"]
        assert [example.label for example in SST(SSTConfig(classes=5)).read(path)] == [
            "neutral",
            "very positive",
            "very negative",
        ]
        assert SST().read(path)[1].sentences == (("dull",),)

    def test_no_folder_is_named(self):
        with pytest.raises(InputError, match=r"no folder of files is named: .*ORDERED_MEMORY_DATA.*Trees_PTB\.zip"):
            SST().splits()

    def test_the_folder_is_not_there(self, tmp_path, monkeypatch):
        monkeypatch.setenv("ORDERED_MEMORY_DATA", str(tmp_path))
        missing = re.escape(f"{tmp_path / 'sst'}: there is no such folder") + ".*nlp.stanford.edu/sentiment"
        with pytest.raises(InputError, match=missing):
            SST().splits()
        write_treebank(tmp_path)
        assert len(SST().splits()["test"]) == 3

    def test_bad_settings(self):
        with pytest.raises(InputError, match="min_count"):
            SSTConfig(min_count=0)


words = st.text(st.characters(exclude_characters=" \t\n\r\f\v", exclude_categories=["Cs"]), min_size=1).map(str.lower)


@given(st.lists(words, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_trees_survive_their_brackets(tokens, random):
    plain = random_tree(tokens, np.random.default_rng(random.getrandbits(32)))
    labels = tuple(random.choice("01234") for _ in plain.spans)
    leaf_labels = tuple(random.choice("01234") for _ in tokens)
    tree = Tree(plain.tokens, plain.spans, labels, leaf_labels)
    assert parse_tree(tree.to_brackets("ptb")) == tree


def test_a_file_of_trees_is_read_in_its_order(tmp_path):
    trees = read_trees(write_treebank(tmp_path) / "sst" / "dev.txt")
    assert [tree.to_brackets("ptb") for tree in trees] == [line.lower() for line in TREES["dev.txt"]]

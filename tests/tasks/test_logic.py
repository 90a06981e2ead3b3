"""Logical inference: the published sizes of the real files, splits of drawn pairs, and what is said of bad lines."""

import re

import numpy as np
import pytest

from ordered_memory.errors import InputError
from ordered_memory.tasks.examples import Example
from ordered_memory.tasks.logic import PATTERNS, Logic, LogicConfig, Reader, operations, statements
from ordered_memory.tasks.logic_files import PUBLISHED_SIZES
from ordered_memory.tasks.propositions import ALL_WORLDS, BRACKETS, RELATIONS, relate, worlds_of
from ordered_memory.trees import Tree, without_tokens

SMALL = {"source": "generated", "pairs": 4_000}
PAIR = "<\t( a ( and b ) )\ta"


@pytest.fixture(scope="module")
def real(shared) -> Logic:
    """The real files, read once."""
    task = Logic(LogicConfig(folder=str(shared / "data" / "logic")))
    task.files()
    return task


class TestRealFiles:
    def test_every_tenth_line_validates(self, real, shared):
        splits = real.splits()
        assert {name: len(examples) for name, examples in splits.items()} == {
            "train": 121_977,
            "validation": 13_552,
            "test": 37_367,
        }
        lines = [
            line
            for number in range(7)
            for line in (shared / "data" / "logic" / f"train{number}").read_text().splitlines()
        ]
        for place in (0, 100, 13_551):
            example = splits["validation"][place]
            assert "\t".join((example.label, *statements(example))) == lines[10 * place + 9]
        assert real.extra_tests() == {}

    @pytest.mark.parametrize(("cut", "reading"), [("A", "longer"), ("B", "all"), ("C", "held-out")])
    def test_splits_have_the_published_sizes(self, real, cut, reading):
        task = Logic(LogicConfig(split=cut, test_reading=reading, folder=real.config.folder), real.files())
        splits, extra = task.splits(), task.extra_tests()
        left = len(splits["train"]) + len(splits["validation"])
        assert len(splits["validation"]) == left // 10
        sizes = {"left": left, reading: len(splits["test"])} | {name: len(extra[name]) for name in extra}
        assert sizes == PUBLISHED_SIZES[cut] | {"every": 37_367}

    def test_buckets_are_the_files_numbers(self, real):
        for bins in real.files().values():
            for number, examples in bins.items():
                assert {real.bucket(example) for example in examples} == {str(number)}


def test_the_oracle_recomputes_every_line_of_the_real_files(shared):
    lines = [
        line.split("\t")
        for path in sorted((shared / "data" / "logic").iterdir())
        for line in path.read_text().splitlines()
    ]
    worlds = {text: worlds_of(text.split()) for _, *pair in lines for text in pair}
    left, right = (np.array([worlds[line[side]] for line in lines], dtype=np.uint64) for side in (1, 2))
    assert len(lines) == 249_069
    assert [RELATIONS[place] for place in relate(left, right)] == [relation for relation, _, _ in lines]
    assert not {0, ALL_WORLDS} & set(worlds.values())


class TestSplits:
    @pytest.mark.parametrize("brackets", [True, False])
    @pytest.mark.parametrize("cut", ["A", "B", "C"])
    def test_what_is_held_out_is_never_shown(self, cut, brackets):
        task = Logic(LogicConfig(split=cut, brackets=brackets, **SMALL))
        splits, extra = task.splits(), task.extra_tests()
        shows = [
            [any(re.search(PATTERNS[cut], text) for text in statements(example)) for example in examples]
            for examples in (splits["train"], splits["validation"], splits["test"], extra["all"], extra["held-out"])
        ]
        assert [any(part) for part in shows] == [False, False, True, True, True]
        assert [all(part) for part in shows] == [False, False, True, True, True]
        assert all(operations(example) > 6 for example in splits["test"])
        assert all(operations(example) <= 6 for example in splits["train"])

    def test_no_pair_is_in_two_sets(self):
        task = Logic(LogicConfig(split="C", test_reading="held-out", **SMALL))
        sets = [{tuple(statements(example)) for example in examples} for examples in task.splits().values()]
        assert sum(map(len, sets)) == len(set.union(*sets))
        full = Logic(LogicConfig(**SMALL)).splits()
        assert sum(map(len, full.values())) == len({example.sentences for part in full.values() for example in part})

    def test_fewer_operations_to_train_on(self):
        splits = Logic(LogicConfig(max_operations=3, **SMALL)).splits()
        assert {operations(example) for example in splits["train"]} == {0, 1, 2, 3}
        assert max(operations(example) for example in splits["test"]) > 6

    def test_without_brackets_the_same_pairs_are_words(self):
        whole, words = (Logic(LogicConfig(brackets=brackets, **SMALL)) for brackets in (True, False))
        assert (whole.not_words, words.not_words) == (BRACKETS, ())
        for one, other in zip(whole.splits()["test"], words.splits()["test"], strict=True):
            assert other.sentences == tuple(tree.tokens for tree in other.trees)
            assert other.trees == tuple(without_tokens(tree, BRACKETS) for tree in one.trees)
            assert list(statements(one)) == list(statements(other))
            assert whole.bucket(one) == words.bucket(other)
            assert one.label == other.label
            whole.vocabulary.encode(one.sentences[0])
            words.vocabulary.encode(other.sentences[0])

    def test_the_same_config_gives_the_same_examples(self):
        one, other, another = (Logic(LogicConfig(seed=seed, **SMALL)).splits() for seed in (0, 0, 1))
        assert one == other
        assert one["train"] != another["train"]


class TestConfig:
    def test_it_says_what_was_used(self, monkeypatch, tmp_path):
        assert Logic().config == LogicConfig(source="generated")
        assert Logic(LogicConfig(folder="there")).config == LogicConfig(source="files", folder="there")
        monkeypatch.setenv("ORDERED_MEMORY_DATA", str(tmp_path))
        settled = Logic().config
        assert settled == LogicConfig(source="files")  # no path of this machine
        assert settled.settled() == settled
        with pytest.raises(InputError, match=r"pairs is 9, .*are read from .*\(ORDERED_MEMORY_DATA\): leave it out"):
            Logic(LogicConfig(pairs=9))
        with pytest.raises(InputError, match=r"pairs is 9, .*are read from there: leave it out"):
            Logic(LogicConfig(folder="there", pairs=9))
        assert Logic(LogicConfig(source="generated", pairs=9)).config.pairs == 9
        assert Logic(LogicConfig(source="generated")).config.source == "generated"
        (tmp_path / "logic").mkdir()
        assert settled.data_folder() == tmp_path / "logic"

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"max_operations": 13}, "max_operations is 13, and must be from 0 to 12"),
            ({"pairs": 0}, "pairs is 0, and must be at least 1"),
            ({"seed": -1}, "seed is -1, and must be at least 0"),
            ({"source": "generated", "folder": "x"}, "source is generated, yet a folder is named"),
        ],
    )
    def test_bad_values(self, values, message):
        with pytest.raises(InputError, match=message):
            LogicConfig(**values)

    def test_a_folder_that_is_not_there(self, tmp_path, monkeypatch):
        with pytest.raises(InputError, match="no folder of files is named"):
            Logic(LogicConfig(source="files")).splits()
        with pytest.raises(InputError, match=r"absent: there is no such folder, .* om data logic --download"):
            Logic(LogicConfig(folder=str(tmp_path / "absent"))).splits()
        monkeypatch.setenv("ORDERED_MEMORY_DATA", str(tmp_path))
        with pytest.raises(InputError, match="logic: there is no such folder"):
            Logic().splits()
        with pytest.raises(InputError, match="train0: cannot be read"):
            Logic(LogicConfig(folder=str(tmp_path))).splits()


class TestReader:
    def test_a_line(self, tmp_path):
        path = tmp_path / "pairs"
        path.write_bytes(PAIR.encode() + b"\r\n")
        (example,) = Logic().read(path)
        assert example.sentences == (("(", "a", "(", "and", "b", ")", ")"), ("a",))
        assert example.label == "<"
        assert [tree.tokens for tree in example.trees] == list(example.sentences)
        (words,) = Logic(LogicConfig(brackets=False)).read(path)
        assert words == Example(
            (("a", "and", "b"), ("a",)), "<", (Tree.from_brackets("( a ( and b ) )"), Tree(("a",), []))
        )

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("a\tb", "a line has 3 columns, a relation and two statements with tabs between, not 2"),
            ("?\ta\tb", "the relation is '?', and must be one of < > = ^ | # v"),
            ("#\ta\t( not b", "the right statement: unbalanced: ( at token 1 is never closed"),
            ("#\tA\tb", "the left statement: unknown token 'A' at token 1: did you mean 'a'?"),
            ("#\ta\t", "the right statement: the statement is empty"),
            ("<\ta\tb", "the relation is <, but by truth tables it is #"),
            ("#\ta\t( b ( or ( not b ) ) )", "the right statement is always true, so that no one relation holds"),
            ("#\t( b ( and ( not b ) ) )\ta", "the left statement is never true, so that no one relation holds"),
        ],
    )
    def test_a_bad_line_is_told_by_file_and_line(self, tmp_path, line, message):
        path = tmp_path / "pairs"
        path.write_text(f"{PAIR}\n{line}\n{PAIR}\n")
        with pytest.raises(InputError) as refused:
            Logic().read(path)
        assert str(refused.value) == f"{path}:2: {message}"

    def test_a_statement_is_parsed_once(self):
        reader = Reader()
        first, second = reader.example(PAIR), reader.example(PAIR.replace("<", "#"))
        assert first.trees[0] is second.trees[0]


def test_the_task():
    task = Logic()
    assert task.labels == RELATIONS
    assert task.vocabulary.tokens == ("(", ")", *"abcdef", "and", "or", "not")
    tokens, tree = task.sentence("( not a )")
    assert tokens == ("(", "not", "a", ")")
    assert tree.spans.tolist() == [[0, 4], [0, 3], [0, 2]]
    assert Logic(LogicConfig(brackets=False)).sentence("( not a )") == (("not", "a"), Tree.from_brackets("( not a )"))
    with pytest.raises(InputError, match="unbalanced"):
        task.sentence("( not a")

"""A user's own files as a task: splits, vocabulary, trees, what is remembered, and what is refused."""

import dataclasses
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordered_memory.config import from_dict
from ordered_memory.errors import InputError
from ordered_memory.tasks import Example
from ordered_memory.tasks.files import UNKNOWN, Files, Known
from ordered_memory.tasks.files_data import FilesConfig, hold_out
from ordered_memory.trees import Tree, binarise
from ordered_memory.vocabulary import Vocabulary

ANIMALS = "".join(f"{label}\tthe {word} number n{number}\n" for number in range(20) for label, word in
                  (("cat", "tabby"), ("cat", "Tom"), ("dog", "rex")))  # fmt: skip


def write(folder: Path, **files: str) -> FilesConfig:
    """Files of tab-separated lines, and the config that names them."""
    for name, content in files.items():
        (folder / f"{name}.tsv").write_text(content)
    return FilesConfig(**{name: str(folder / f"{name}.tsv") for name in files})


def refusal(config: FilesConfig) -> str:
    with pytest.raises(InputError) as refused:
        Files(config).splits()
    return str(refused.value)


class TestSplits:
    def test_each_file_is_a_split(self, tmp_path):
        task = Files(write(tmp_path, train="a\tx y\nb\ty x\n", validation="b\tx\n", test="a\ty y y\na\tz\n"))
        assert task.splits() == {
            "train": [Example((("x", "y"),), "a"), Example((("y", "x"),), "b")],
            "validation": [Example((("x",),), "b")],
            "test": [Example((("y", "y", "y"),), "a"), Example((("z",),), "a")],
        }
        assert (task.sentences, task.labels, task.not_words, task.extra_tests()) == (1, ("a", "b"), (), {})

    def test_pairs(self, tmp_path):
        task = Files(write(tmp_path, train="a\tx y\tz\nb\ty\tz z z\n" * 5))
        assert task.sentences == 2
        examples = task.splits()["train"]
        assert {example.sentences for example in examples} == {(("x", "y"), ("z",)), (("y",), ("z", "z", "z"))}
        assert {task.bucket(example) for example in examples} == {"1-7"}
        assert task.bucket(Example((("x",), ("y",) * 8), "a")) == "8-25"

    def test_what_has_no_file_is_held_out(self, tmp_path):
        config = write(tmp_path, train=ANIMALS)
        splits = Files(config).splits()
        assert {name: len(examples) for name, examples in splits.items()} == {"train": 48, "validation": 6, "test": 6}
        everything = [example for examples in splits.values() for example in examples]
        assert len({example.sentences for example in everything}) == 60
        for examples in splits.values():
            shares = Counter(example.label for example in examples)
            assert shares["cat"] / len(examples) == pytest.approx(2 / 3, abs=0.2)
        assert Files(config).splits() == splits
        assert Files(dataclasses.replace(config, split_seed=1)).splits() != splits

    def test_what_has_a_file_is_not_held_out(self, tmp_path):
        splits = Files(write(tmp_path, train=ANIMALS, test="dog\trex\n")).splits()
        assert {name: len(examples) for name, examples in splits.items()} == {"train": 54, "validation": 6, "test": 1}

    @settings(max_examples=50)
    @given(labels=st.lists(st.sampled_from("aaaabbc"), min_size=1, max_size=60), data=st.data())
    def test_every_label_stays_and_gives_its_share(self, labels, data):
        count = data.draw(st.integers(1, len(labels)))
        chosen = hold_out(labels, count, np.random.Generator(np.random.PCG64(0)))
        if chosen is None:
            assert count > len(labels) - len(set(labels))
            return
        assert chosen.sum() == count
        for label in set(labels):
            of_label = np.array([other == label for other in labels])
            assert chosen[of_label].sum() < of_label.sum()
            free = len(labels) - len(set(labels))
            assert chosen[of_label].sum() == pytest.approx(count * (of_label.sum() - 1) / free, abs=1)

    def test_long_ones_are_not_trained_on(self, tmp_path):
        config = write(tmp_path, train="a\tx x x\na\tx\nb\tx\n", validation="a\tx x x x\n", test="b\tx x x x\n")
        task = Files(dataclasses.replace(config, max_length=2))
        assert {name: len(examples) for name, examples in task.splits().items()} == {
            "train": 2,
            "validation": 1,
            "test": 1,
        }
        assert "1 training examples of more than 2 tokens are left out" in task.remarks()


class TestWords:
    def test_rare_ones_are_unknown(self, tmp_path):
        files = {"train": "a\tx y x\nb\ty z Z\n", "validation": "a\tw\n", "test": "a\tx\n"}
        config = write(tmp_path, **files)
        assert Files(config).vocabulary == Vocabulary((UNKNOWN, "x", "y"), unknown=UNKNOWN)
        assert Files(dataclasses.replace(config, min_count=1)).vocabulary.tokens == (UNKNOWN, "Z", "x", "y", "z")
        assert Files(dataclasses.replace(config, lower_case=True)).vocabulary.tokens == (UNKNOWN, "x", "y", "z")
        assert (
            "2 words are known; 2 that come less than 2 times in training are read as <unk>"
            in (Files(config).remarks()[0])
        )

    def test_a_file_may_have_unknown_words_already(self, tmp_path):
        task = Files(write(tmp_path, train=f"a\tx {UNKNOWN}\nb\tx\n", validation="a\tx\n", test="a\tx\n"))
        assert task.vocabulary.tokens == (UNKNOWN, "x")
        assert task.vocabulary.encode(["x", UNKNOWN, "other"]) == [2, 1, 1]

    def test_words_are_parted_by_ascii_whitespace_alone(self, tmp_path):
        task = Files(write(tmp_path, train="a\tx\xa0y  z\u2028\x0bw\nb\tz z\n", validation="a\tz\n", test="a\tz\n"))
        assert task.splits()["train"][0].sentences == (("x\xa0y", "z\u2028", "w"),)

    def test_what_was_held_out_is_not_in_the_vocabulary(self, tmp_path):
        task = Files(dataclasses.replace(write(tmp_path, train=ANIMALS), min_count=1))
        unseen = {word for example in task.splits()["test"] for word in example.sentences[0]}
        seen = {word for example in task.splits()["train"] for word in example.sentences[0]}
        assert set(task.vocabulary.tokens) == seen | {UNKNOWN}
        assert len(unseen) > 3


class TestTrees:
    def test_brackets_are_tokens_unless_trees_are_asked_for(self, tmp_path):
        config = write(tmp_path, train="a\t( ( the cat ) sat )\nb\t( a b c )\nb\t( x )\nb\ty\n" * 5)
        assert Files(config).sentence("( x )") == (("(", "x", ")"), None)
        task = Files(dataclasses.replace(config, gold_trees=True))
        trees = {example.trees for example in task.splits()["train"]}
        written = ("( ( the cat ) sat )", "( ( a b ) c )", "x", "y")
        assert trees == {(Tree.from_spans(tree.tokens, tree.spans),) for tree in map(Tree.from_brackets, written)}
        assert task.vocabulary.tokens == (UNKNOWN, "a", "b", "c", "cat", "sat", "the", "x", "y")

    @settings(max_examples=50)
    @given(st.recursive(st.sampled_from("abc"), lambda part: st.lists(part, min_size=1, max_size=4), max_leaves=12))
    def test_trees_come_back(self, nested):
        def spell(node):
            return node if isinstance(node, str) else f"( {' '.join(map(spell, node))} )"

        tokens, tree = Files(FilesConfig(gold_trees=True)).sentence(spell(nested).upper())
        assert tree.is_binary
        assert tokens == tree.tokens
        assert tree == binarise(Tree.from_brackets(spell(nested).upper()), "left")

    def test_a_typed_text_may_be_bare_words(self):
        task = Files(FilesConfig(gold_trees=True, lower_case=True))
        assert task.sentence("The cat") == (("the", "cat"), None)
        assert task.sentence("Cat") == (("cat",), Tree.from_spans(["cat"], []))
        assert task.sentence("( The cat )")[1] == Tree.from_brackets("( the cat )")


class TestRemarks:
    def test_what_is_held_out_and_what_is_there_twice(self, tmp_path):
        config = write(tmp_path, train="a\tx\nb\ty\n" * 10)
        told = Files(config).remarks()
        assert told == [
            f"held out of {config.train}: 2 for validation (--validation-share 0.1), 2 for test (--test-share 0.1)",
            "warning: 2 of 2 validation examples and 2 of 2 test examples have the same text as a training example",
        ]

    def test_nothing_to_say(self, tmp_path):
        config = write(tmp_path, train="a\tx x\nb\ty y\n", validation="a\tx\n", test="a\ty\n")
        assert Files(config).remarks() == []
        config = write(tmp_path, train="a\tx x\nb\ty y\n", validation="a\tx\n", test="a\ty\nb\tx x\n")
        assert Files(config).remarks() == ["warning: 1 of 2 test examples have the same text as a training example"]


class TestRecords:
    def test_the_config_tells_which_files_they_were(self, tmp_path, monkeypatch):
        write(tmp_path, train=ANIMALS, test="dog\trex\n")
        monkeypatch.chdir(tmp_path)
        config = Files(FilesConfig(train="train.tsv", test="./test.tsv")).config
        assert (config.train, config.test) == (str(tmp_path / "train.tsv"), str(tmp_path / "test.tsv"))
        assert [(record.path, record.size) for record in config.records] == [
            (config.train, len(ANIMALS)),
            (config.test, 8),
        ]
        again = from_dict(FilesConfig, json.loads(json.dumps(dataclasses.asdict(config))), "config")
        assert again == config == Files(again).config

    def test_a_file_that_has_changed_is_refused(self, tmp_path):
        config = Files(write(tmp_path, train=ANIMALS, test="dog\trex\n")).config
        (tmp_path / "test.tsv").write_text("dog\tmax\n")
        assert f"{config.test}: the file has changed since the run began: it had 8 bytes and SHA-256 " in refusal(
            config
        )
        (tmp_path / "other.tsv").write_text("dog\tmax\n")
        assert Files(dataclasses.replace(config, test=str(tmp_path / "other.tsv"))).splits()["test"]

    def test_a_trained_model_needs_no_files(self, tmp_path):
        known = Known(Vocabulary((UNKNOWN, "x"), unknown=UNKNOWN), ("a", "b"), 1)
        task = Files(FilesConfig(train="/nowhere/train.tsv", lower_case=True), known)
        path = tmp_path / "new.csv"
        path.write_text("label,text\nb,X y\n")
        assert task.read(path) == [Example((("x", "y"),), "b")]
        assert (task.labels, task.sentences, task.vocabulary) == (known.labels, 1, known.vocabulary)
        path.write_text("label,text\nb,X y\nc,x\n")
        with pytest.raises(InputError, match=r"new.csv:3: the label 'c' is not one of training's: a, b"):
            task.read(path)
        path.write_text("label,text,text2\nb,X y,z\n")
        with pytest.raises(InputError, match=r"new.csv:2: two texts, and the training data has one text"):
            task.read(path)


class TestRefused:
    @pytest.mark.parametrize(
        ("files", "told"),
        [
            ({"train": "a\tx\na\ty\n"}, "train.tsv: all examples have the label 'a', and there must be two labels"),
            (
                {"train": "".join(f"t{n}\ta\n" for n in range(50))},
                "50 different labels in 50 examples: the columns may",
            ),
            (
                {"train": "".join(f"t{n}\ta\n" for n in range(1001)) * 5},
                "1,001 different labels in 5,005 examples: the columns may be swapped",
            ),
            ({"train": "a\tx\nb\ty\n"}, "train.tsv: too few examples to hold out 1 of them: name a --validation file"),
            ({"train": "a\tx\nb\ty\n", "validation": "a\tx\n"}, "name a --test file"),
            ({"train": "a\tx\nb\t \n"}, "train.tsv:2: column 2: the text is empty"),
            (
                {"train": "a\tx\nb\ty\n", "validation": "a\tx\nc\ty\n", "test": "a\tx\n"},
                "validation.tsv:2: the label 'c'",
            ),
            (
                {"train": "a\tx\nb\ty\n", "validation": "a\tx\n", "test": "A\tx\n"},
                "test.tsv:1: the label 'A' is not one",
            ),
            (
                {"train": "a\tx\nb\ty\n", "validation": "a\tx\tx\n"},
                "validation.tsv:1: two texts, and the training data",
            ),
            ({"train": "a\tx\nb\ty\n", "validation": "a\tx\n", "test": "a\tx\n"}, "no word comes 2 times"),
        ],
    )
    def test_bad_data(self, tmp_path, files, told):
        assert told in refusal(write(tmp_path, **files))

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("the cat", "token 2, 'cat': the tree is complete, yet more follows (--gold-trees: a text is one tree"),
            ("( the cat", "token 1, '(': this bracket is never closed"),
            ("the )", "token 2, ')': the tree is complete"),
            ("( the ( ) )", "token 3, '(': there is no word inside this bracket"),
        ],
    )
    def test_bad_trees(self, tmp_path, text, told):
        config = write(tmp_path, train=f"a\t( x y )\tx\nb\ty\t{text}\n")
        message = refusal(dataclasses.replace(config, gold_trees=True))
        assert message.startswith(f"{config.train}:2: column 3: {told}")

    @pytest.mark.parametrize(
        ("values", "told"),
        [
            ({"validation_share": 0.0}, "validation_share is 0.0, and must be more than 0 and less than 1"),
            ({"test_share": 1.0}, "test_share is 1.0"),
            ({"test_share": 0.5, "validation_share": 0.5}, "are 1 together: nothing is left to train on"),
            ({"min_count": 0}, "min_count is 0, and must be at least 1"),
            ({"max_length": 0}, "max_length is 0, and must be at least 1"),
            ({"split_seed": -1}, "split_seed is -1, and must be at least 0"),
        ],
    )
    def test_bad_settings(self, values, told):
        with pytest.raises(InputError, match=told):
            FilesConfig(**values)

    def test_no_file_the_same_file_and_too_long(self, tmp_path):
        assert refusal(FilesConfig()) == "there is no training file: name one by --train FILE"
        config = write(tmp_path, train=ANIMALS)
        same = dataclasses.replace(config, test=config.train)
        assert f"--train and --test are the same file, {config.train}" in refusal(same)
        assert "all training examples are longer than --max-length 2" in refusal(
            dataclasses.replace(config, max_length=2)
        )
        (tmp_path / "train.tsv").unlink()
        assert refusal(config) == f"{config.train}: cannot be read: No such file or directory"

"""ListOps: values and gold trees against oracles, splits, windows, and the official files' format."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordered_memory.errors import InputError
from ordered_memory.tasks.examples import SPLITS, Example
from ordered_memory.tasks.listops import (
    VOCABULARY,
    ListOps,
    ListOpsConfig,
    WindowConfig,
    check,
    depth,
    describe,
    evaluate,
    gold_tree,
    read,
    window,
    write,
)
from ordered_memory.tasks.listops_generator import DIGITS, Grammar
from ordered_memory.trees import Tree

SMALL = ListOpsConfig(pool_size=3_000, test_size=500, validation_size=300)

# An expression as nested lists: a digit, or an operator followed by its arguments.
nested = st.recursive(
    st.integers(0, 9),
    lambda arguments: st.tuples(
        st.sampled_from(["MIN", "MAX", "MED", "SM"]), st.lists(arguments, min_size=1, max_size=5)
    ),
    max_leaves=40,
)


def tokens_of(expression: Any) -> tuple[str, ...]:
    if isinstance(expression, int):
        return (str(expression),)
    operator, arguments = expression
    return (f"[{operator}", *(token for argument in arguments for token in tokens_of(argument)), "]")


def value_of(expression: Any) -> int:
    if isinstance(expression, int):
        return expression
    operator, arguments = expression
    values = [value_of(argument) for argument in arguments]
    operations: dict[str, Callable[[list[int]], float]] = {
        "MIN": min,
        "MAX": max,
        "MED": statistics.median,
        "SM": lambda numbers: sum(numbers) % 10,
    }
    return int(operations[operator](values))


def brackets_of(expression: Any) -> str:
    """The official way: the operator takes its arguments one by one, and then its end."""
    if isinstance(expression, int):
        return str(expression)
    operator, arguments = expression
    text = f"[{operator}"
    for item in [*map(brackets_of, arguments), "]"]:
        text = f"( {text} {item} )"
    return text


def parse(tokens: Sequence[str]) -> Any:
    """Recursive descent, back from tokens to nested lists."""

    def node(position: int) -> tuple[Any, int]:
        if tokens[position] in DIGITS:
            return int(tokens[position]), position + 1
        operator, arguments = tokens[position][1:], []
        position += 1
        while tokens[position] != "]":
            argument, position = node(position)
            arguments.append(argument)
        return (operator, arguments), position + 1

    expression, end = node(0)
    assert end == len(tokens)
    return expression


def example(text: str) -> Example:
    tokens = VOCABULARY.tokenise(text)
    return Example((tokens,), str(evaluate(tokens)), (gold_tree(tokens),))


@given(nested)
def test_values_and_trees_agree_with_the_oracles(expression: Any) -> None:
    tokens = tokens_of(expression)
    assert evaluate(tokens) == value_of(expression)
    assert gold_tree(tokens) == Tree.from_brackets(brackets_of(expression))


@pytest.mark.parametrize("config", [SMALL, replace(SMALL, max_depth=6, max_arguments=9, operators=("MED", "SM"))])
def test_every_generated_example_agrees_with_the_oracles(config: ListOpsConfig) -> None:
    for examples in ListOps(config).splits().values():
        for case in examples:
            (tokens,) = case.sentences
            (tree,) = case.trees or ()
            expression = parse(tokens)
            assert case.label == str(value_of(expression))
            assert tree.tokens == tokens
            assert tree == Tree.from_brackets(brackets_of(expression))
            assert len(tree.spans) == len(tokens) - 1
            assert tree.is_binary


def test_a_tree_written_out() -> None:
    tree = gold_tree(VOCABULARY.tokenise("[MAX 2 9 [MIN 4 7 ] 0 ]"))
    assert tree.to_brackets() == "( ( ( ( ( [MAX 2 ) 9 ) ( ( ( [MIN 4 ) 7 ) ] ) ) 0 ) ] )"


@pytest.mark.parametrize(
    ("text", "value"), [("[MED 1 2 ]", 1), ("[MED 9 1 8 2 ]", 5), ("[MED 9 1 8 ]", 8), ("[SM 9 1 8 ]", 8), ("3", 3)]
)
def test_medians_are_cut_to_integers_and_sums_taken_modulo_10(text: str, value: int) -> None:
    assert evaluate(VOCABULARY.tokenise(text)) == value


def test_depth_is_no_matter_of_recursion() -> None:
    tokens = ["[SM", "1"] * 20_000 + ["1"] + ["]"] * 20_000
    assert evaluate(tokens) == 1
    assert len(gold_tree(tokens).spans) == len(tokens) - 1
    assert depth(tokens) == 20_001


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the expression is empty"),
        ("]", "unbalanced: ] at token 1 closes nothing"),
        ("[MAX 2 [MIN 1 ] ] ] 3", "unbalanced: ] at token 7 closes nothing"),
        ("[SM 1 [MAX 3", "unbalanced: [MAX at token 3 is never closed"),
        ("[SM 1 [MAX 3 ]", "unbalanced: [SM at token 1 is never closed"),
        ("[SM 1 [MAX ] ]", "[MAX at token 3 has no arguments"),
        ("1 2", "2 at token 2 comes after the end of the expression"),
        ("[SM 1 ] [MAX 2 ]", "[MAX at token 4 comes after the end of the expression"),
        ("[SM 1 2]", "unknown token '2]' at token 3: put a space before ]"),
        ("( 1 )", "unknown token '(' at token 1: it is dropped from text, and has no id of its own"),
    ],
)
def test_a_malformed_expression_is_told_by_position(text: str, told: str) -> None:
    for function in (evaluate, gold_tree, check):
        with pytest.raises(InputError) as refused:
            function(text.split())
        assert str(refused.value) == told


def test_splits_are_cut_before_long_examples_are_dropped() -> None:
    everything = ListOps(replace(SMALL, train_max_length=None)).splits()
    assert {name: len(examples) for name, examples in everything.items()} == {
        "train": 2_200,
        "validation": 300,
        "test": 500,
    }
    assert len({case.sentences for examples in everything.values() for case in examples}) == 3_000
    limited = ListOps(replace(SMALL, train_max_length=20, test_max_length=60)).splits()
    for name in SPLITS:
        longest = 60 if name == "test" else 20
        kept = [case for case in everything[name] if len(case.sentences[0]) <= longest]
        assert limited[name] == kept
        assert 0 < len(kept) < len(everything[name])


def test_the_size_of_the_training_set_leaves_the_others_as_they_are() -> None:
    everything = ListOps(replace(SMALL, train_max_length=None)).splits()
    for size in (700, 2_200, 2_900):
        sized = ListOps(replace(SMALL, train_max_length=None, train_size=size)).splits()
        assert len(sized["train"]) == len(set(sized["train"])) == size
        assert sized["train"][:2_200] == everything["train"][:size]
        for name in ("validation", "test"):
            assert sized[name] == everything[name]
            assert not set(sized["train"]) & set(sized[name])


def test_the_default_is_the_published_setting() -> None:
    config = ListOpsConfig()
    assert (config.pool_size, config.test_size, config.validation_size) == (100_000, 10_000, 5_000)
    assert (config.max_depth, config.min_arguments, config.max_arguments) == (20, 2, 5)
    assert config.operators == ("MIN", "MAX", "MED", "SM")
    assert (config.train_max_length, config.test_max_length) == (50, None)


@pytest.mark.parametrize("config", [replace(SMALL, operators=("SM", "MAX")), WindowConfig(size=3)])
def test_a_config_survives_json(config: Grammar) -> None:
    assert type(config)(**json.loads(json.dumps(asdict(config)))) == config


def test_a_small_task_for_a_demonstration() -> None:
    config = replace(SMALL, operators=("MAX", "MIN", "MED"), max_depth=4, train_max_length=30, test_max_length=30)
    for examples in ListOps(config).splits().values():
        summary = describe(examples)
        assert summary.deepest == 4
        assert summary.longest <= 30
        assert summary.operators["SM"] == 0


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"seed": -1}, "seed is -1"),
        ({"test_size": 0}, "test_size is 0"),
        ({"validation_size": 0}, "validation_size is 0"),
        ({"pool_size": 15_000}, "pool_size is 15000: nothing is left to train on"),
        ({"train_size": 0}, "train_size is 0"),
        ({"train_max_length": 0}, "train_max_length is 0"),
        ({"test_max_length": -5}, "test_max_length is -5"),
        ({"operators": ("ADD",)}, "'ADD' is not one of"),
    ],
)
def test_a_bad_config_is_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        ListOpsConfig(**values)


def test_an_empty_split_is_refused() -> None:
    with pytest.raises(InputError, match="the validation split is empty"):
        ListOps(replace(SMALL, train_max_length=1, validation_size=1)).splits()


def test_a_window_of_examples() -> None:
    config = WindowConfig(size=50, min_length=100, max_length=120, max_depth=9, max_arguments=10)
    examples = window(config)
    assert len(examples) == len(set(examples)) == 50
    assert examples == window(config)
    for case in examples:
        assert 100 <= len(case.sentences[0]) <= 120
        assert case.label == str(value_of(parse(case.sentences[0])))
    with pytest.raises(InputError, match="size is 0"):
        WindowConfig(size=0)


def test_buckets() -> None:
    ends = {1: "1-7", 7: "1-7", 8: "8-25", 25: "8-25", 26: "26-50", 51: "51-100", 100: "51-100", 101: "101-200"}
    ends |= {200: "101-200", 201: "201-300", 1000: "901-1000", 1001: ">1000", 10_000: ">1000"}
    for length, bucket in ends.items():
        assert ListOps().bucket(Example((("1",) * length,), "1")) == bucket


def test_the_official_format_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    examples = ListOps(SMALL).splits()["test"]
    write(path, examples)
    assert ListOps().read(path) == examples
    assert [file.name for file in tmp_path.iterdir()] == ["test.tsv"]
    write(path, [example("[MAX 2 9 ]"), example("7")])
    assert path.read_bytes() == b"9\t( ( ( [MAX 2 ) 9 ) ] )\n7\t7\n"


def test_round_brackets_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_bytes(b"9\t[MAX 2 9 ]\r\n1\t[MIN 1 [SM 4 ] ]\r\n\r\n")
    examples = read(path)
    assert examples == [example("[MAX 2 9 ]"), example("[MIN 1 [SM 4 ] ]")]
    write(path, [replace(case, trees=None) for case in examples])
    assert path.read_text() == "9\t[MAX 2 9 ]\n1\t[MIN 1 [SM 4 ] ]\n"


def test_the_tree_is_the_one_the_file_shows(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("9\t( [MAX ( 2 ( 9 ] ) ) )\n")
    [case] = read(path)
    assert case.trees == (Tree.from_spans(["[MAX", "2", "9", "]"], [(0, 4), (1, 4), (2, 4)]),)
    assert case.trees != (gold_tree(case.sentences[0]),)


def test_tokens_read_from_a_file_are_shared(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("9\t( ( ( [MAX 2 ) 9 ) ] )\n9\t[MAX 9 ]\n")
    first, second = read(path)
    assert first.sentences[0][0] is second.sentences[0][0]
    assert first.trees is not None
    assert first.trees[0].tokens is first.sentences[0]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[MAX 2 9 ]", "a line has 2 columns, a label and an expression with a tab between, not 1"),
        ("9\t[MAX 2 9 ]\t9", "with a tab between, not 3"),
        ("10\t[MAX 2 9 ]", "the label is '10', and must be a digit"),
        ("\u0663\t[MAX 2 3 ]", "and must be a digit from 0 to 9"),
        ("9\t", "the expression is empty"),
        ("9\t( )", "the expression is empty"),
        ("9\t( ( ( [MAX 2 ) 9] ) )", "unknown token '9]' at token 7: put a space before ]"),
        ("9\t[MAX 2\u00a09 ]", r"unknown token '2\xa09' at token 2"),
        ("9\t( ( ( [MAX 2 ) 9 ) )", "unbalanced: [MAX at token 4 is never closed"),
        ("9\t[MAX 9 ] ]", "unbalanced: ] at token 4 closes nothing"),
        ("9\t( [MAX ] )", "[MAX at token 2 has no arguments"),
        ("9\t( ( ( [MAX 2 ) 9 ) ]", "token 1, '(': this bracket is never closed"),
        ("9\t( ( [MAX 2 ) 9 ) ] )", "token 8, ']': the tree is complete, yet more follows"),
        ("9\t[MAX 2 9 ] ( ( (", "token 2, '2': the tree is complete, yet more follows"),
        ("9\t( [MAX 2 9 ] )", "each pair of round brackets must hold two items"),
        ("9\t( ( ( ( [MAX 2 ) ) 9 ) ] )", "each pair of round brackets must hold two items"),
        ("8\t( ( ( [MAX 2 ) 9 ) ] )", "the label is 8, but the expression's value is 9"),
    ],
)
def test_a_bad_line_is_told_by_file_line_and_reason(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "train.tsv"
    path.write_text(f"7\t7\n{line}\n7\t7\n", encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read(path)
    assert str(refused.value).startswith(f"{path}:2: ")
    assert told in str(refused.value)


def test_the_outermost_brackets_may_be_left_out(tmp_path: Path) -> None:
    text = "( ( [MAX 2 ) ( ( ( [MIN 9 ) 4 ) ] ) ) ]"
    path = tmp_path / "test.tsv"
    path.write_text(f"4\t{text}\n4\t( {text} )\n", encoding="utf-8")
    without, whole = read(path)
    assert without == whole
    assert whole.trees == (gold_tree(whole.sentences[0]),)


def test_a_missing_or_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.tsv: cannot be read: No such file"):
        read(tmp_path / "absent.tsv")
    (tmp_path / "empty.tsv").touch()
    with pytest.raises(InputError, match=r"empty\.tsv: the file is empty"):
        read(tmp_path / "empty.tsv")


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    write(path, [example("7")])
    with pytest.raises(InputError, match="2 sentences"):
        write(path, [example("8"), Example((("1",), ("2",)), "1")])
    assert path.read_text() == "7\t7\n"
    assert [file.name for file in tmp_path.iterdir()] == ["test.tsv"]
    for bad in (path / "test.tsv", tmp_path):  # below a file, and in a folder's place
        with pytest.raises(InputError, match="cannot be written"):
            write(bad, [example("8")])


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    write(path, [example("7")])
    with path.open() as reader:
        write(path, [example("8")])
        assert reader.read() == "7\t7\n"  # who had it open still reads the old one
    assert path.read_text() == "8\t8\n"


def test_statistics_of_a_few_examples() -> None:
    long = "[SM " + "1 " * 101 + "]"  # 103 tokens, value 1
    summary = describe([example(text) for text in ("[MAX 2 [MIN 4 7 ] 0 ]", "4", "[MAX 4 ]", long)])
    assert (summary.count, summary.longest, summary.deepest) == (4, 103, 3)
    assert summary.mean_length == (8 + 1 + 3 + 103) / 4
    assert summary.mean_depth == (3 + 1 + 2 + 2) / 4
    assert (summary.share_up_to_7, summary.share_above_100) == (0.5, 0.25)
    assert (summary.majority_label, summary.majority_share) == ("4", 0.75)
    assert summary.labels == {digit: {"4": 0.75, "1": 0.25}.get(digit, 0.0) for digit in DIGITS}
    assert summary.operators == {"MIN": 0.25, "MAX": 0.5, "MED": 0.0, "SM": 0.25}
    assert describe([example("3")]).operators == {"MIN": 0.0, "MAX": 0.0, "MED": 0.0, "SM": 0.0}
    with pytest.raises(InputError, match="no examples"):
        describe([])

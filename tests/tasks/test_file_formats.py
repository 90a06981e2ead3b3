"""Files of labelled texts: what is written in each format comes back, and every bad line is told."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordered_memory.errors import InputError
from ordered_memory.tasks.file_formats import FORMATS, Row, read_rows

# Anything but what parts columns and lines; half a surrogate pair cannot be written as UTF-8. Then, what is awkward.
anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n\ufeff"), min_size=1, max_size=20)
texts = anything | st.text("ab \f\v,;'\"\\()\xa0\u2028", min_size=1, max_size=20)
labels = texts.map(lambda label: label.strip(" \f\v")).filter(bool)


def examples(sentences: int):
    return st.lists(st.tuples(labels, *[texts.filter(str.strip)] * sentences), min_size=1, max_size=8)


def as_tsv(rows) -> str:
    return "".join("\t".join(row) + "\r\n" for row in rows)


def as_csv(rows) -> str:
    file = io.StringIO(newline="")
    names = ["number", "label", "text", "text2"][: 1 + len(rows[0])]
    csv.writer(file).writerows([names, *((number, *row) for number, row in enumerate(rows))])
    return file.getvalue()


def as_jsonl(rows) -> str:
    names = ["label", "text", "text2"]
    return "".join(json.dumps(dict(zip(names, row, strict=False)) | {"id": 1}) + "\n" for row in rows)


WRITERS = {".tsv": as_tsv, ".txt": as_tsv, ".csv": as_csv, ".jsonl": as_jsonl}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.mark.parametrize("ending", FORMATS)
@settings(max_examples=50)
@given(rows=st.sampled_from([1, 2]).flatmap(examples), mark=st.sampled_from(["", "\ufeff"]))
def test_what_is_written_comes_back(folder, ending, rows, mark):
    path = folder / f"some{ending}"
    path.write_bytes((mark + WRITERS[ending](rows)).encode())
    first = {(label.lower(), *(text.strip().lower() for text in found)) for label, *found in rows[:1]}
    if first & {("label", "text"), ("label", "text", "text2"), ("label", "text1", "text2")}:
        return  # a header
    assert [(row.label, *row.texts) for row in read_rows(path)] == rows
    assert read_rows(path, len(rows[0]) - 1) == read_rows(path)


def test_lines_are_counted_where_examples_begin(tmp_path):
    path = tmp_path / "some.CSV"
    path.write_text('label,text\nyes,"one\ntwo"\nno,three\n\n')
    assert read_rows(path) == [Row(2, "yes", ("one\ntwo",)), Row(4, "no", ("three",))]


def test_a_very_long_document(tmp_path):
    path = tmp_path / "long.csv"
    long = "word " * 50_000
    path.write_text(f"label,text\nyes,{long}.\n")
    assert read_rows(path)[0].texts == (f"{long}.",)
    assert csv.field_size_limit() == 131_072


def test_numbers_and_truth_values_are_labels_in_json(tmp_path):
    path = tmp_path / "some.jsonl"
    path.write_text('{"label": 1, "text": "a"}\n{"label": true, "text": "b"}\n{"label": " 2 ", "text": "c"}\n')
    assert [row.label for row in read_rows(path)] == ["1", "true", "2"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.tsv", "", ": the file is empty"),
        ("a.tsv", "yes\ta\nno a\n", ":2: a line has 2 columns, a label and a text with a tab between, or 3 with two"),
        ("a.tsv", "yes\ta\tb\tc\n", "and here are 4"),
        ("a.tsv", "yes\ta\nno\ta\tb\n", ":2: two texts, and the first example has one text"),
        ("a.tsv", "yes\ta\tb\nno\ta\n", ":2: one text, and the first example has two texts"),
        ("a.tsv", "yes\ta\n\nno\tb\n", ":2: blank line"),
        ("a.tsv", "yes\ta\n \tb\n", ":2: the label is empty"),
        ("a.txt", "Label\ttext\nyes\ta\n", ":1: this is a header, and a file with tabs has none"),
        ("a.csv", "", ": the file is empty"),
        ("a.csv", "label,text\n", ": the file has a header, and no example below it"),
        ("a.csv", "yes,a\nno,b\n", ":1: the header has no column 'label', with commas between; it has 'yes', 'a'"),
        ("a.csv", "label;text\nyes;a\n", ":1: the header has no column 'label', with commas between"),
        ("a.csv", "label,sentence\nyes,a\n", ":1: the header has no column 'text'"),
        ("a.csv", "label,text,text\nyes,a,b\n", ":1: the header has the column 'text' twice"),
        ("a.csv", "label,text\nyes,a\nno,a,b\n", ":3: 3 columns, and the header has 2"),
        ("a.csv", "label,text\nyes,a\n\nno,b\n", ":3: blank line"),
        ("a.csv", 'label,text\nyes,a\nno,"b\nc\n', ":3: not of the CSV format: unexpected end of data"),
        ("a.csv", 'label,text\nyes,"a"b\n', ":2: not of the CSV format"),
        ("a.csv", "label,text\n,a\n", ":2: the label is empty"),
        ("a.jsonl", "", ": the file is empty"),
        ("a.jsonl", '{"label": "yes", "text": "a"}\n{"label": "no",\n', ":2: not JSON: "),
        ("a.jsonl", "[" * 100_000, ":1: not JSON: "),
        ("a.jsonl", '["yes", "a"]\n', ":1: not a JSON object"),
        ("a.jsonl", '{"text": "a"}\n', ":1: there is no key 'label'; the keys are 'text'"),
        ("a.jsonl", '{"label": "yes", "sentence": "a"}\n', ":1: there is no key 'text'"),
        ("a.jsonl", '{"label": null, "text": "a"}\n', ":1: label is null, and must be a string"),
        ("a.jsonl", '{"label": "yes", "text": ["a"]}\n', ':1: text is ["a"], and must be a string'),
        ("a.jsonl", '{"label": "yes", "text": "\\ud800"}\n', ":1: text holds half of a surrogate pair"),
        ("a.jsonl", '{"label": 1, "text": "a"}\n{"label": 1, "text": "a", "text2": "b"}\n', ":2: two texts, and"),
        ("a.json", "{}", ": the ending tells the format of a file, and must be one of .tsv .txt .csv .jsonl"),
        ("a", "yes\ta\n", ": the ending tells the format of a file"),
    ],
)
def test_bad_files(tmp_path, name, content, told):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError, match=re.escape(told)) as refused:
        read_rows(path)
    assert str(refused.value).startswith(f"{path}:")


def test_as_many_texts_as_in_training(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("label,text,text2\nyes,a,b\n")
    with pytest.raises(InputError, match=":2: two texts, and the training data has one text"):
        read_rows(path, 1)


@pytest.mark.parametrize("ending", FORMATS)
def test_what_is_no_text_or_not_there(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        read_rows(path)
    path.write_bytes(b"label,text\nyes,a\nno,\xff\n")
    with pytest.raises(InputError, match=":3: not UTF-8 text"):
        read_rows(path)

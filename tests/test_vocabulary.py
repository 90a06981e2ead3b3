"""Ids, tokenising, and what a user is told about an unknown token."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordered_memory.errors import InputError
from ordered_memory.vocabulary import PADDING, Vocabulary, split_words

LISTOPS = Vocabulary((*"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]"), ignored=("(", ")"))

words = st.text(st.characters(exclude_characters=" \t\n\r\f\v", exclude_categories=["Cs"]), min_size=1)
vocabularies = st.lists(words, unique=True, min_size=1).flatmap(
    lambda tokens: st.builds(
        Vocabulary,
        st.just(tokens),
        st.frozensets(words.filter(lambda word: word not in tokens)),
        st.sampled_from([None, *tokens]),
        st.booleans(),
    )
)


def test_ids_leave_zero_to_padding() -> None:
    vocabulary = Vocabulary(["a", "b"])
    assert vocabulary.encode(["b", "a", "b"]) == [2, 1, 2]
    assert PADDING == 0
    assert len(vocabulary) == 3
    assert "a" in vocabulary
    assert "c" not in vocabulary


@given(vocabularies)
def test_each_token_has_its_own_id(vocabulary: Vocabulary) -> None:
    assert vocabulary.encode(vocabulary.tokens) == list(range(1, len(vocabulary)))


@given(vocabularies)
def test_survives_json(vocabulary: Vocabulary) -> None:
    back = Vocabulary.from_dict(json.loads(json.dumps(vocabulary.to_dict())))
    assert back == vocabulary
    assert hash(back) == hash(vocabulary)


def test_tokenise_drops_the_ignored() -> None:
    assert LISTOPS.tokenise(" ( ( [MAX 2 )\t9 )\n ]\r\n") == ("[MAX", "2", "9", "]")


def test_only_ascii_whitespace_parts_words() -> None:
    assert split_words("2\u00a0000 \u2003 x\x0by") == ["2\u00a0000", "\u2003", "x", "y"]


@pytest.mark.parametrize("text", ["", " \n", "( )"])
def test_empty_text_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="empty"):
        LISTOPS.tokenise(text)


def test_unknown_tokens_may_have_a_stand_in() -> None:
    vocabulary = Vocabulary(["<unk>", "cat"], unknown="<unk>")
    assert vocabulary.encode(["cat", "dog", "<unk>"]) == [2, 1, 1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[MAX 2 7]", "unknown token '7]' at token 3: put a space before ]"),
        ("[MAX 2 9]]", "unknown token '9]]' at token 3: put spaces between the tokens: 9 ] ]"),
        ("([MAX 2 9 ]", "unknown token '([MAX' at token 1: put a space before [MAX"),
        ("[max 2 9 ]", "unknown token '[max' at token 1: did you mean '[MAX'?"),
        ("[MAXI 2 9 ]", "unknown token '[MAXI' at token 1: did you mean '[MAX'?"),
        ("[MAX2 9 ]", "unknown token '[MAX2' at token 1: did you mean '[MAX'?"),
        ("x", "unknown token 'x' at token 1: the tokens are 0 1 2 3 4 5 6 7 8 9 [MIN [MAX [MED [SM ]"),
    ],
)
def test_an_unknown_token_is_told_with_its_place_and_a_way_out(text: str, told: str) -> None:
    with pytest.raises(InputError) as refused:
        LISTOPS.encode(LISTOPS.tokenise(text))
    assert str(refused.value) == told


def test_glued_tokens_are_cut_into_the_longest() -> None:
    with pytest.raises(InputError, match=r"put a space before <=>$"):
        Vocabulary(["<", "<=", "x", "=", "<=>", ">"]).encode(["x<=>"])


def test_an_ignored_token_has_no_id() -> None:
    with pytest.raises(InputError, match=r"'\(' at token 2: it is dropped"):
        LISTOPS.encode(["1", "("])


def test_a_large_vocabulary_is_not_listed() -> None:
    with pytest.raises(InputError, match=r"not among the 100 known tokens"):
        Vocabulary([str(number) for number in range(100, 200)]).encode(["zebra"])


@pytest.mark.parametrize(
    ("tokens", "ignored", "unknown", "told"),
    [
        (["a", "b", "a"], (), None, "'a' is there twice"),
        (["a", ""], (), None, "'' is empty"),
        (["a b"], (), None, "'a b' is empty or holds whitespace"),
        (["a"], ["a"], None, "'a' is both"),
        (["a"], (), "?", r"unknown token '\?' is not among"),
    ],
)
def test_a_bad_vocabulary_is_refused(tokens: list[str], ignored: list[str], unknown: str | None, told: str) -> None:
    with pytest.raises(InputError, match=told):
        Vocabulary(tokens, ignored, unknown)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "'tokens' must be a list"),
        ({"tokens": "abc"}, "'tokens' must be a list"),
        ({"tokens": ["a", 1]}, "'tokens' must be a list of strings"),
        ({"tokens": ["a"], "ignored": 3}, "'ignored' must be a list"),
        ({"tokens": ["a"], "unknown": 3}, "'unknown' must be a string"),
        ({"tokens": ["a"], "size": 3}, "unexpected entry 'size'"),
    ],
)
def test_bad_saved_values_are_refused(values: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Vocabulary.from_dict(values)


def test_lower_case() -> None:
    vocabulary = Vocabulary(["a", "film"], unknown="a", lower_case=True)
    assert vocabulary.tokenise("A FILM") == ("a", "film")
    assert Vocabulary(["a", "film"]).tokenise("A FILM") == ("A", "FILM")


def test_more_words_come_after_its_own() -> None:
    vocabulary = Vocabulary(["a", "film"], unknown="a", lower_case=True)
    longer = vocabulary.extended(["good", "film", "bad"])
    assert longer == Vocabulary(["a", "film", "good", "bad"], unknown="a", lower_case=True)

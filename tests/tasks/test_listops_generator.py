"""The published distribution, drawn freely and within windows of lengths."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from ordered_memory.errors import InputError
from ordered_memory.tasks import listops_generator
from ordered_memory.tasks.listops_generator import (
    DIGITS,
    END,
    Grammar,
    Tokens,
    WindowSampler,
    draw_pool,
    draw_window,
    free_draws,
    random_numbers,
    sibling_lengths,
)

SMALL = Grammar(max_depth=3, min_arguments=1, max_arguments=3)


def checksum(expressions: list[Tokens]) -> str:
    return hashlib.sha256("\n".join(" ".join(tokens) for tokens in expressions).encode()).hexdigest()


def shape(tokens: Tokens) -> str:
    return "".join("d" if token in DIGITS else token[0] for token in tokens)


def shapes(grammar: Grammar, depth: int = 1) -> Iterator[tuple[str, float]]:
    """Every shape of a node and its probability, by enumeration."""
    if depth == grammar.max_depth:
        yield "d", 1.0
        return
    yield "d", 0.75
    counts = range(grammar.min_arguments, grammar.max_arguments + 1)
    for count in counts:
        for arguments in itertools.product(list(shapes(grammar, depth + 1)), repeat=count):
            probability = 0.25 / len(counts)
            for _, argument in arguments:
                probability *= argument
            yield "[" + "".join(text for text, _ in arguments) + "]", probability


def assert_drawn_from(counts: Counter[str], probabilities: dict[str, float]) -> None:
    """Pearson's chi-square: rare outcomes are pooled, and five standard deviations allowed."""
    drawn = counts.total()
    assert counts.keys() <= probabilities.keys()
    common = [key for key, probability in probabilities.items() if probability * drawn >= 5]
    expected = np.array([probabilities[key] * drawn for key in common])
    observed = np.array([counts[key] for key in common])
    expected, observed = np.append(expected, drawn - expected.sum()), np.append(observed, drawn - observed.sum())
    kept = expected >= 1
    statistic = (((observed - expected) ** 2)[kept] / expected[kept]).sum()
    freedom = kept.sum() - 1
    assert freedom > 10
    assert statistic < freedom + 5 * np.sqrt(2 * freedom)


@pytest.fixture(scope="module")
def published() -> list[Tokens]:
    return draw_pool(Grammar(), 100_000, seed=1)


def test_the_full_pool_looks_like_the_published_data(published: list[Tokens]) -> None:
    lengths = np.array([len(tokens) for tokens in published])
    assert np.mean(lengths <= 7) == pytest.approx(0.223, abs=0.005)
    assert np.mean(lengths > 100) == pytest.approx(0.107, abs=0.004)
    assert lengths.mean() == pytest.approx(42.7, abs=0.8)


def test_the_pool_is_distinct_and_uniform_in_its_tokens(published: list[Tokens]) -> None:
    assert len(set(published)) == len(published) == 100_000
    tokens = Counter(itertools.chain.from_iterable(published))
    operators = [tokens[token] for token in Grammar().operator_tokens]
    assert sum(operators) == tokens[END]
    np.testing.assert_allclose(np.array(operators) / tokens[END], 0.25, atol=0.003)
    digits = np.array([tokens[digit] for digit in DIGITS])
    np.testing.assert_allclose(digits / digits.sum(), 0.1, atol=0.002)


def test_the_pool_is_shuffled(published: list[Tokens]) -> None:
    # Before the shuffle the ten lone digits come first: drawn first, and never again.
    places = [place for place, tokens in enumerate(published) if len(tokens) == 1]
    assert len(places) == 10
    assert max(places) > 50_000


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (0, "e476e503fcef6a955d19de7a849d2cdafb0fada0063d7226fad90c068d74043c"),
        (7, "c619d5037ae4d67c0e305d09b034a1d79af11be4541a0738bd8ee0ca46f2e998"),
    ],
)
def test_a_seed_gives_the_same_pool_on_every_machine(seed: int, expected: str) -> None:
    assert checksum(draw_pool(Grammar(), 2_000, seed)) == expected


def test_a_seed_gives_the_same_window() -> None:
    expressions = draw_window(Grammar(), 20, seed=0, min_length=200, max_length=300)
    assert checksum(expressions) == "53996378c3437d9e34e59f5ebb708cb39d1b576c61141e4b860597089ec9afc2"
    assert expressions != draw_window(Grammar(), 20, seed=1, min_length=200, max_length=300)


def testfree_draws_follow_the_distribution() -> None:
    draws = free_draws(SMALL, random_numbers(3))
    counts = Counter(shape(next(draws)) for _ in range(50_000))
    assert_drawn_from(counts, dict(shapes(SMALL)))


def test_lengths_have_the_probabilities_of_enumeration() -> None:
    grammar = Grammar(max_depth=3, min_arguments=2, max_arguments=3)
    expected = np.zeros(40)
    for text, probability in shapes(grammar):
        expected[len(text)] += probability
    for longest in (6, 11, 39):
        [_, found] = sibling_lengths(grammar, longest)[1]
        np.testing.assert_allclose(found, expected[: len(found)], rtol=1e-12)
        assert len(found) == min(longest, 17) + 1  # 17 tokens at most: [ and ], thrice five
        pairs = sibling_lengths(grammar, longest)[2][2]
        assert pairs[2] == 0.75**2


@pytest.mark.parametrize(("low", "high"), [(3, 8), (6, 11), (1, 17)])
def test_a_window_is_drawn_from_the_exact_conditional(low: int, high: int) -> None:
    inside = {text: probability for text, probability in shapes(SMALL) if low <= len(text) <= high}
    total = sum(inside.values())
    sampler, uniform = WindowSampler(SMALL, low, high), random_numbers(low)
    assert sampler.probability == pytest.approx(total, rel=1e-12)
    counts = Counter(shape(sampler.draw(uniform)) for _ in range(30_000))
    assert_drawn_from(counts, {text: probability / total for text, probability in inside.items()})


def test_a_window_agrees_with_drawing_and_discarding() -> None:
    grammar, low, high, wanted = Grammar(), 30, 34, 4_000
    inside = (tokens for tokens in free_draws(grammar, random_numbers(1)) if low <= len(tokens) <= high)
    rejection = list(itertools.islice(inside, wanted))
    sampler, uniform = WindowSampler(grammar, low, high), random_numbers(2)
    exact = [sampler.draw(uniform) for _ in range(wanted)]

    def features(tokens: Tokens) -> list[int]:
        text = shape(tokens)
        first_argument_closes = text.find("]") if text[1] == "[" else 0
        return [len(text), text.count("["), text.find("]"), len(text) - len(text.rstrip("]")), first_argument_closes]

    for one, other in zip(
        np.array(list(map(features, exact))).T, np.array(list(map(features, rejection))).T, strict=True
    ):
        spread = np.std(one) + np.std(other)
        assert abs(np.mean(one) - np.mean(other)) < 5 * spread / np.sqrt(wanted)
        assert np.std(one) == pytest.approx(np.std(other), rel=0.1)


@pytest.mark.parametrize(
    ("grammar", "low", "high"),
    [
        (Grammar(), 200, 300),
        (Grammar(), 900, 1000),
        (Grammar(), 1990, 2000),
        (Grammar(max_depth=10, max_arguments=10), 500, 2000),
        (Grammar(max_depth=9, max_arguments=15), 100, 1000),
        (Grammar(max_depth=6, min_arguments=10, max_arguments=10, operators=("MAX", "SM")), 100, 400),
    ],
)
def test_windows_keep_to_grammar_and_lengths(grammar: Grammar, low: int, high: int) -> None:
    expressions = draw_window(grammar, 30, seed=4, min_length=low, max_length=high)
    assert len(set(expressions)) == 30
    for tokens in expressions:
        assert low <= len(tokens) <= high
        arguments: list[int] = []
        for token in tokens:
            assert token in (*DIGITS, *grammar.operator_tokens, END)
            if token == END:
                assert grammar.min_arguments <= arguments.pop() <= grammar.max_arguments
                continue
            if arguments:
                arguments[-1] += 1
            if token not in DIGITS:
                arguments.append(0)
            assert len(arguments) < grammar.max_depth
        assert not arguments


def test_a_window_with_few_expressions_gives_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listops_generator, "PATIENCE", 2_000)
    assert sorted(draw_window(Grammar(), 10, 0, min_length=1, max_length=3)) == [(digit,) for digit in DIGITS]
    with pytest.raises(InputError, match="only 10 different expressions found, not 11"):
        draw_window(Grammar(), 11, 0, min_length=1, max_length=3)
    with pytest.raises(InputError, match="only 10 different expressions found, not 5,000"):
        draw_pool(Grammar(max_depth=1), 5_000, 0)


def test_a_number_next_to_one_picks_the_last_weight() -> None:
    for weights in ([0.1, 0.3, 0.3], np.array([0.1, 0.3, 0.3])):
        assert listops_generator._pick(weights, 0.0) == 0
        assert listops_generator._pick(weights, np.nextafter(1.0, 0.0)) == 1
        assert listops_generator._pick(weights, 1.0) == 1  # as if rounded up


@pytest.mark.parametrize(
    ("grammar", "low", "high", "told"),
    [
        (Grammar(), 0, 5, "min_length is 0"),
        (Grammar(), 10, 9, "max_length is 9, below min_length, 10"),
        (Grammar(), 2, 3, "no expression of 2 to 3 tokens"),
        (Grammar(max_depth=3), 200, 300, "no expression of 200 to 300 tokens"),
        (Grammar(min_arguments=10, max_arguments=10), 14, 20, "with max_depth 20 and 10 to 10 arguments"),
        (Grammar(max_depth=1), 2, 9, "no expression"),
    ],
)
def test_an_impossible_window_is_refused(grammar: Grammar, low: int, high: int, told: str) -> None:
    with pytest.raises(InputError, match=told):
        WindowSampler(grammar, low, high)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"max_depth": 0}, "max_depth is 0, and must be at least 1"),
        ({"min_arguments": 0}, "min_arguments is 0"),
        ({"min_arguments": 6}, "max_arguments is 5, below min_arguments, 6"),
        ({"operators": ()}, "at least one of MIN MAX MED SM"),
        ({"operators": ("MAX", "PROD")}, "'PROD' is not one of MIN MAX MED SM"),
        ({"operators": ("MAX", "MAX")}, "one is there twice"),
    ],
)
def test_a_bad_grammar_is_refused(values: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Grammar(**values)  # type: ignore[arg-type]


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="seed is -1"):
        draw_pool(Grammar(), 10, seed=-1)

"""Batches: every example once, rows of like length together, and an order that seed and epoch fix."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordered_memory.classifier import Classifier
from ordered_memory.config import LSTMConfig
from ordered_memory.errors import InputError
from ordered_memory.tasks import Example
from ordered_memory.tasks.listops import VOCABULARY
from ordered_memory.training.batching import (
    POOL,
    Dataset,
    balanced_batches,
    epoch_batches,
    evaluation_batches,
    mixed_batches,
    of_like_length,
)

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=300).map(lambda values: np.array(values, dtype=np.int64))


@pytest.fixture(scope="module")
def model() -> Classifier:
    return Classifier(VOCABULARY, tuple("0123456789"), "lstm", LSTMConfig(hidden_size=2))


@pytest.fixture(scope="module")
def pairs() -> Classifier:
    return Classifier(VOCABULARY, ("yes", "no"), "lstm", LSTMConfig(hidden_size=2), sentences=2)


def example(text: str, label: str = "0") -> Example:
    return Example((tuple(text.split()),), label)


class TestDataset:
    def test_ids_labels_and_lengths(self, model):
        dataset = Dataset.encode([example("[MAX 2 9 ]", "9"), example("7", "7")], model)
        assert [row.tolist() for (row,) in dataset.rows] == [VOCABULARY.encode(["[MAX", "2", "9", "]"]), [8]]
        assert dataset.labels.tolist() == [9, 7]
        assert dataset.lengths.tolist() == [4, 1]
        assert len(dataset) == 2

    @pytest.mark.parametrize("kind", [list, tuple, np.array])
    def test_a_batch_holds_the_examples_asked_for(self, model, kind):
        dataset = Dataset.encode([example(str(digit), str(digit)) for digit in range(5)], model)
        batch = dataset.batch(kind([3, 1, 4]), model)
        assert batch.labels.tolist() == [3, 1, 4]
        assert batch.tokens.tolist() == [[4, 2, 5]]

    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            (example("[MAX 2 eight ]"), "example 2: unknown token 'eight' at token 3"),
            (example("[MAX 2 8 ]", "ten"), "example 2: label 'ten' is not one of the model's: 0, 1"),
            (example(""), "example 2: the sequence is empty"),
        ],
    )
    def test_an_example_that_the_model_cannot_read_is_told_by_its_number(self, model, bad, message):
        with pytest.raises(InputError, match=message):
            Dataset.encode([example("1"), bad], model)


class TestPairs:
    def test_first_sentences_come_first(self, pairs):
        examples = [Example((("1", "2"), ("3",)), "no"), Example((("4",), ("5", "6", "7")), "yes")]
        dataset = Dataset.encode(examples, pairs)
        assert dataset.lengths.tolist() == [3, 4]
        batch = dataset.batch([1, 0], pairs)
        assert batch.labels.tolist() == [0, 1]
        assert batch.lengths.tolist() == [1, 2, 3, 1]
        assert batch.tokens.T.tolist() == [[5, 0, 0], [2, 3, 0], [6, 7, 8], [4, 0, 0]]

    def test_another_number_of_sentences_is_refused(self, model, pairs):
        one, two = example("1"), Example((("1",), ("2",)), "0")
        with pytest.raises(InputError, match="example 1: 1 sentences, and the model reads 2"):
            Dataset.encode([one], pairs)
        with pytest.raises(InputError, match="example 2: 2 sentences, and the model reads 1"):
            Dataset.encode([one, two], model)
        with pytest.raises(InputError, match="example 1: the sequence is empty"):
            Dataset.encode([Example((("1",), ()), "yes")], pairs)


class TestEpochs:
    @given(lengths=LENGTHS, batch_size=st.integers(1, 40), seed=st.integers(0, 2**64), epoch=st.integers(0, 1000))
    def test_an_epoch_has_every_example_once(self, lengths, batch_size, seed, epoch):
        batches = epoch_batches(lengths, batch_size, seed, epoch)
        assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
        assert len(batches) == -(-len(lengths) // batch_size)
        sizes = sorted(map(len, batches), reverse=True)
        assert set(sizes[:-1]) <= {batch_size}
        assert 0 < sizes[-1] <= batch_size

    @given(lengths=LENGTHS, batch_size=st.integers(1, 40), seed=st.integers(0, 99), epoch=st.integers(0, 99))
    def test_the_arguments_fix_it(self, lengths, batch_size, seed, epoch):
        np.random.seed(0)  # noqa: NPY002 - the global generator must not matter
        first = epoch_batches(lengths, batch_size, seed, epoch)
        np.random.seed(1)  # noqa: NPY002
        again = epoch_batches(lengths.copy(), batch_size, seed, epoch)
        assert [batch.tolist() for batch in first] == [batch.tolist() for batch in again]

    def test_epochs_and_seeds_differ(self):
        lengths = np.random.default_rng(0).integers(1, 50, 1000)
        orders = {
            (seed, epoch): np.concatenate(epoch_batches(lengths, 32, seed, epoch)).tobytes()
            for seed in range(5)
            for epoch in range(5)
        }
        assert len(set(orders.values())) == 25

    def test_rows_of_like_length_are_together(self):
        lengths = np.random.default_rng(0).integers(1, 101, 64 * POOL)
        batches = epoch_batches(lengths, 64, seed=0, epoch=0)
        padded = sum(len(batch) * lengths[batch].max() for batch in batches)
        assert padded < 1.03 * lengths.sum()

    def test_short_batches_do_not_all_come_first(self):
        lengths = np.random.default_rng(0).integers(1, 101, 64 * POOL)
        longest = np.array([lengths[batch].max() for batch in epoch_batches(lengths, 64, seed=0, epoch=0)])
        assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.5

    def test_a_batch_does_not_meet_again_in_the_next_epoch(self):
        """With more than one pool, who is with whom changes too, not the batches' order only."""
        lengths = np.random.default_rng(0).integers(1, 50, 3 * POOL * 4)
        first, second = (
            {frozenset(batch.tolist()) for batch in epoch_batches(lengths, 4, 0, epoch)} for epoch in (0, 1)
        )
        assert len(first & second) < len(first) / 10


class TestEvaluation:
    @given(lengths=LENGTHS, tokens=st.integers(1, 500), most=st.integers(1, 50))
    def test_every_example_once_and_no_batch_too_large(self, lengths, tokens, most):
        batches = evaluation_batches(lengths, tokens, most)
        assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
        for batch in batches:
            assert 1 <= len(batch) <= most
            assert len(batch) == 1 or len(batch) * lengths[batch].max() <= tokens

    @given(lengths=LENGTHS)
    def test_the_shortest_come_first(self, lengths):
        ordered = lengths[np.concatenate(evaluation_batches(lengths, 200))]
        assert (np.diff(ordered) >= 0).all()

    @given(lengths=LENGTHS, tokens=st.integers(1, 500), most=st.integers(1, 50))
    def test_batches_are_as_large_as_they_may_be(self, lengths, tokens, most):
        batches = evaluation_batches(lengths, tokens, most)
        for batch, following in pairwise(batches):
            assert len(batch) == most or (len(batch) + 1) * lengths[following[0]] > tokens


class TestMixedBatches:
    @given(LENGTHS, st.integers(2, 40), st.integers(0, 3), st.floats(0.05, 0.95))
    def test_short_ones_in_the_place_of_others_and_no_other_twice(self, lengths, batch_size, epoch, share):
        shortest = int(lengths.min())
        batches = mixed_batches(lengths, batch_size, 0, epoch, share, shortest)
        assert [len(batch) for batch in batches] == [
            len(batch) for batch in np.split(lengths, range(batch_size, len(lengths), batch_size))
        ]
        drawn = [min(len(batch) - 1, round(share * len(batch))) for batch in batches]
        own = np.concatenate([batch[: len(batch) - short] for batch, short in zip(batches, drawn, strict=True)])
        assert len(set(own)) == len(own)
        for batch, short in zip(batches, drawn, strict=True):
            assert (lengths[batch[len(batch) - short :]] == shortest).all()

    def test_the_share_of_short_ones_falls_to_zero(self):
        lengths = np.array([5] * 50 + [30] * 4000)
        batches = [mixed_batches(lengths, 100, 0, epoch, 0.8, 5, 2.5) for epoch in range(4)]
        shares = [np.mean([(lengths[batch] == 5).mean() for batch in epoch]) for epoch in batches]
        plain = 50 / 4050
        assert shares[:2] == [pytest.approx(share + (1 - share) * plain, abs=0.02) for share in (0.64, 0.32)]
        assert plain < shares[2] < 0.1  # the fall ends in the middle of this one
        assert shares[3] == pytest.approx(plain, abs=1e-3)
        assert sorted(np.concatenate(batches[3])) == list(range(len(lengths)))

    def test_the_share_may_be_told_by_the_clock(self):
        lengths = np.array([5] * 50 + [30] * 4000)
        for behind, share in ((0.0, 0.8), (1.25, 0.4)):
            batches = mixed_batches(lengths, 100, 0, 0, 0.8, 5, 2.5, behind)
            short = [(lengths[batch] == 5).mean() for batch in batches]
            assert np.mean(short) == pytest.approx(share, abs=0.02)
            assert min(short) >= share - 0.01
        plain = mixed_batches(lengths, 100, 0, 0, 0.8, 5, 2.5, 2.5)
        assert sorted(np.concatenate(plain)) == list(range(len(lengths)))

    def test_short_lengths_come_equally_often_however_rare_they_are(self):
        lengths = np.array([4] * 2 + [5] * 20 + [6] * 400 + [30] * 2000)
        batches = mixed_batches(lengths, 100, 0, 0, 0.6, 6)
        drawn = np.concatenate([lengths[batch[-60:]] for batch in batches])
        shares = [(drawn == length).mean() for length in (4, 5, 6)]
        spread = 5 * np.sqrt(2 / 9 / len(drawn))
        assert all(abs(share - 1 / 3) < spread for share in shares)

    def test_seed_and_epoch_fix_the_order(self):
        lengths = np.arange(1, 60)
        first, again, other = (np.concatenate(mixed_batches(lengths, 8, 1, epoch, 0.5, 9)) for epoch in (2, 2, 3))
        assert (first == again).all()
        assert (first != other).any()

    def test_a_limit_below_every_example_is_refused(self):
        with pytest.raises(InputError, match="short_length is 3, and no training example is that short"):
            mixed_batches(np.array([5, 6]), 4, 0, 0, 0.5, 3)


class TestOfLikeLength:
    @given(LENGTHS, st.integers(2, 40), st.integers(0, 3))
    def test_the_same_examples_in_batches_of_the_same_size(self, lengths, batch_size, epoch):
        batches = epoch_batches(lengths, batch_size, 0, epoch)
        again = of_like_length(batches, lengths, batch_size, 0, epoch)
        assert sorted(np.concatenate(again)) == sorted(np.concatenate(batches))
        assert sorted(map(len, again)) == sorted(map(len, batches))

    def test_short_rows_are_no_longer_padded_to_long_ones(self):
        lengths = np.random.default_rng(0).integers(4, 50, 20_000)
        batches = mixed_batches(lengths, 100, 0, 0, 0.6, 12)
        padded, sorted_ = (
            sum(len(batch) * lengths[batch].max() for batch in some)
            for some in (batches, of_like_length(batches, lengths, 100, 0, 0))
        )
        assert sorted_ < 0.45 * padded

    def test_the_share_of_short_ones_still_falls_within_an_epoch(self):
        lengths = np.array([5] * 50 + [30] * 40_000)
        batches = of_like_length(mixed_batches(lengths, 100, 0, 0, 0.8, 5, 1.0), lengths, 100, 0, 0)
        short = [
            np.mean([(lengths[batch] == 5).mean() for batch in batches[first : first + POOL]]) for first in (0, 320)
        ]
        assert short[0] > 0.6
        assert short[1] < 0.2

    def test_batches_of_a_pool_come_in_an_order_of_their_own(self):
        lengths = np.arange(1, 2_001)
        batches = of_like_length(epoch_batches(lengths, 100, 0, 0), lengths, 100, 0, 0)
        means = [lengths[batch].mean() for batch in batches]
        assert means != sorted(means)


class TestBalancedBatches:
    def test_each_label_comes_as_often_as_any_other(self):
        labels = np.repeat([0, 1, 4], [900, 90, 10])
        batches = epoch_batches(np.ones(1000, dtype=np.int64), 50, seed=0, epoch=0)
        drawn = labels[np.concatenate(balanced_batches(batches, labels, 0, 0, len(batches)))]
        shares = [np.mean(drawn == label) for label in (0, 1, 4)]
        assert shares == pytest.approx([1 / 3] * 3, abs=0.06)

    def test_so_many_of_the_first_batches_and_no_others(self):
        labels = np.arange(100) % 7
        batches = epoch_batches(np.ones(100, dtype=np.int64), 30, seed=0, epoch=0)
        found = balanced_batches(batches, labels, 0, 0, 2)
        assert [len(batch) for batch in found] == [len(batch) for batch in batches]
        assert [new is old for new, old in zip(found, batches, strict=True)] == [False, False, True, True]

    def test_seed_and_epoch_fix_them(self):
        labels, batches = np.arange(100) % 7, epoch_batches(np.ones(100, dtype=np.int64), 30, seed=0, epoch=0)
        draws = [
            np.concatenate(balanced_batches(batches, labels, seed, epoch, 4))
            for seed, epoch in ((0, 0), (0, 0), (1, 0), (0, 1))
        ]
        assert [draws[0].tolist() == draw.tolist() for draw in draws] == [True, True, False, False]

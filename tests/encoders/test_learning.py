"""Each compared system learns a tiny task for real: rock, paper, scissors, in a row and in pairs."""

import functools
import itertools

import pytest
import torch

from ordered_memory.classifier import Classifier
from ordered_memory.config import (
    ClassifierConfig,
    LSTMConfig,
    ONLSTMConfig,
    RRNetConfig,
    TransformerConfig,
    TreeCellConfig,
    TreeLSTMConfig,
    TreeRNNConfig,
    UniversalTransformerConfig,
)
from ordered_memory.trees import left_branching
from ordered_memory.vocabulary import Vocabulary

SIGNS = ("rock", "paper", "scissors")
CONFIGS = {
    "lstm": LSTMConfig(24),
    "on-lstm": ONLSTMConfig(24, chunk_size=4),
    "rrnet": RRNetConfig(24, depth=3),
    "transformer": TransformerConfig(24, num_layers=2, num_heads=2, feed_forward_size=48, dropout=0.0),
    "universal-transformer": UniversalTransformerConfig(
        24, num_steps=3, num_heads=2, feed_forward_size=48, dropout=0.0, halting=True
    ),
    "tree-rnn": TreeRNNConfig(24),
    "tree-lstm": TreeLSTMConfig(24),
    "tree-cell": TreeCellConfig(24),
}


def winner(one, other):
    return one if (SIGNS.index(one) - SIGNS.index(other)) % 3 == 1 else other


def steps_to_learn(name, examples, labels, most=400):
    """Steps until every answer is right; all examples are one batch."""
    torch.manual_seed(0)
    vocabulary, sentences = Vocabulary(SIGNS), len(examples[0])
    known = sorted(set(labels))
    model = Classifier(
        vocabulary, known, name, CONFIGS[name], ClassifierConfig(16, 0.0, 0.0, head="mlp"), sentences=sentences
    )
    rows = [example[number] for number in range(sentences) for example in examples]
    gold = [left_branching(row).spans for row in rows] if model.encoder.trees == "gold" else None
    batch = model.collate([vocabulary.encode(row) for row in rows], list(map(known.index, labels)), gold)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(1, most + 1):
        for loss in model.train().losses(batch):
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        if step % 10 == 0:
            with torch.no_grad():
                right = model.eval().parse(batch).logits.argmax(-1) == batch.labels
            if right.all():
                return step
    return None


@pytest.mark.parametrize("name", CONFIGS)
def test_a_tournament_is_learned(name):
    rows = [row for length in (2, 3, 4) for row in itertools.product(SIGNS, repeat=length)]
    assert steps_to_learn(name, [(row,) for row in rows], [functools.reduce(winner, row) for row in rows]) is not None


@pytest.mark.parametrize("name", ["on-lstm", "rrnet", "transformer", "tree-cell"])
def test_pairs_are_learned(name):
    rows = [row for length in (1, 2) for row in itertools.product(SIGNS, repeat=length)]
    pairs = list(itertools.product(rows, repeat=2))
    labels = [winner(one[0], other[0]) for one, other in pairs]
    assert steps_to_learn(name, pairs, labels) is not None

"""Trees that are written down: what the pointer makes of every training example at one moment, to learn along for long.

A pointer that learns shows the cell another tree each time it moves. Along trees that stay as they are the cell learns
what it would from gold trees, at a fraction of the cost, for no pointer is asked; and the pointer can follow them as a
parser follows a treebank.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ordered_memory.classifier import Batch, Classifier
from ordered_memory.errors import InputError
from ordered_memory.training.batching import Dataset, evaluation_batches
from ordered_memory.trees import Spans

SAMPLE = 20_000
"""Training examples whose trees a model copies before it seeks better ones: enough, and soon written."""

JUDGED = 5_000
"""Examples by whose trees F1 is told."""


@dataclass(frozen=True)
class WrittenTrees:
    """The nodes of every sentence of some examples, all in one array, example by example."""

    examples: NDArray[np.int64]  # which of the dataset's, ascending
    nodes: NDArray[np.int32]  # (nodes of all sentences, 2)
    ends: NDArray[np.int64]  # (sentences of all examples,): where the nodes of each end
    sentences: int  # of an example

    @classmethod
    @torch.inference_mode()
    def of(
        cls, model: Classifier, dataset: Dataset, examples: NDArray[np.int64], progress: Callable[[int], None]
    ) -> "WrittenTrees":
        """Those that the model's pointer gives, a hard one; `progress` is told how many more examples are done."""
        training = model.training
        model.eval()
        rows = [row for example in examples for row in dataset.rows[example]]
        # Many sentences stand in several examples: each different one is read once.
        numbers: dict[bytes, int] = {}
        which = [numbers.setdefault(row.tobytes(), len(numbers)) for row in rows]
        different = [rows[place] for place in np.unique(which, return_index=True)[1]]
        found: list[Spans] = [np.empty((0, 2), dtype=np.int32)] * len(different)
        done = told = 0
        for indices in evaluation_batches(np.array(list(map(len, different)))):
            trees = model.trees_of([different[place] for place in indices])
            for index, nodes in zip(indices, trees, strict=True):
                found[index] = nodes
            done += len(indices)
            finished = len(examples) * done // len(different)
            progress(finished - told)
            told = finished
        model.train(training)
        spans = [found[number] for number in which]
        nodes, ends = np.concatenate(spans, dtype=np.int32), np.cumsum(list(map(len, spans)))
        return cls(examples, nodes, ends, model.sentences)

    def show(self, batch: Batch, indices: NDArray[np.int64]) -> Batch:
        """The batch of these examples, which are among those that have trees, with its trees."""
        places = np.searchsorted(self.examples, indices)
        numbers = [place * self.sentences + sentence for sentence in range(self.sentences) for place in places]
        return batch._replace(trees=[self._of(number) for number in numbers])

    def _of(self, number: int) -> Spans:
        begin = self.ends[number - 1] if number else 0
        return self.nodes[begin : self.ends[number]]

    def sample(self, most: int = JUDGED) -> tuple[list[int], list[tuple[Spans, ...]]]:
        """Some of the examples, evenly over all, and their trees."""
        places = np.unique(np.linspace(0, len(self.examples) - 1, most, dtype=np.int64)).tolist()
        sentences = range(self.sentences)
        trees = [tuple(self._of(place * self.sentences + sentence) for sentence in sentences) for place in places]
        return self.examples[places].tolist(), trees

    def tensors(self) -> dict[str, Tensor]:
        """To be saved."""
        arrays = {"examples": self.examples, "nodes": self.nodes, "ends": self.ends}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], dataset: Dataset, sentences: int) -> "WrittenTrees":
        """What `tensors` gave, if it fits the dataset."""
        try:
            examples, nodes, ends = (tensors[name].numpy().copy() for name in ("examples", "nodes", "ends"))
        except KeyError as error:
            raise InputError(f"the written trees have no {error}") from None
        known = np.issubdtype(examples.dtype, np.integer) and np.isin(examples, np.arange(len(dataset))).all()
        lengths = [len(sentence) for example in examples for sentence in dataset.rows[example]] if known else []
        if (
            not known
            or nodes.shape != (sum(lengths) - len(lengths), 2)
            or not np.array_equal(ends, np.cumsum(lengths) - np.arange(1, len(lengths) + 1))
        ):
            raise InputError("the written trees are not those of this training set")
        return cls(examples, nodes, ends, sentences)

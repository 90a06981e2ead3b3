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


@dataclass(frozen=True)
class WrittenTrees:
    """The nodes of every sentence of a dataset, all in one array: first those of example 0, sentence by sentence."""

    nodes: NDArray[np.int32]  # (nodes of all sentences, 2)
    ends: NDArray[np.int64]  # (sentences of all examples,): where the nodes of each end
    sentences: int  # of an example

    @classmethod
    @torch.inference_mode()
    def of(cls, model: Classifier, dataset: Dataset, progress: Callable[[int], None]) -> "WrittenTrees":
        """Those that the model's pointer gives, a hard one; `progress` is told how many more examples are done."""
        training = model.training
        model.eval()
        found: list[Spans] = [np.zeros((0, 2), dtype=np.int32)] * (len(dataset) * model.sentences)
        for indices in evaluation_batches(dataset.lengths):
            spans = model.parse(dataset.batch(indices, model), pointer="hard").spans
            assert spans is not None  # a model with a pointer
            for row, nodes in enumerate(spans):
                sentence, place = divmod(row, len(indices))
                found[int(indices[place]) * model.sentences + sentence] = nodes
            progress(len(indices))
        model.train(training)
        return cls(np.concatenate(found, dtype=np.int32), np.cumsum(list(map(len, found))), model.sentences)

    def show(self, batch: Batch, indices: NDArray[np.int64]) -> Batch:
        """The batch of these examples with its trees."""
        numbers = [index * self.sentences + sentence for sentence in range(self.sentences) for index in indices]
        return batch._replace(trees=[self._of(number) for number in numbers])

    def _of(self, number: int) -> Spans:
        begin = self.ends[number - 1] if number else 0
        return self.nodes[begin : self.ends[number]]

    def tensors(self) -> dict[str, Tensor]:
        """To be saved."""
        return {"nodes": torch.from_numpy(self.nodes), "ends": torch.from_numpy(self.ends)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], dataset: Dataset, sentences: int) -> "WrittenTrees":
        """What `tensors` gave, if it fits the dataset."""
        try:
            nodes, ends = tensors["nodes"].numpy().copy(), tensors["ends"].numpy().copy()
        except KeyError as error:
            raise InputError(f"the written trees have no {error}") from None
        lengths = [len(sentence) for row in dataset.rows for sentence in row]
        if nodes.shape != (sum(lengths) - len(lengths), 2) or not np.array_equal(
            ends, np.cumsum(lengths) - np.arange(1, len(lengths) + 1)
        ):
            raise InputError("the written trees are not those of this training set")
        return cls(nodes, ends, sentences)

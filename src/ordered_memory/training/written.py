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
        rows = [row for example in dataset.rows for row in example]
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
            examples = len(dataset) * done // len(different)
            progress(examples - told)
            told = examples
        model.train(training)
        spans = [found[number] for number in which]
        return cls(np.concatenate(spans, dtype=np.int32), np.cumsum(list(map(len, spans))), model.sentences)

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

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
from ordered_memory.memory import Pointer
from ordered_memory.training.batching import Dataset, evaluation_batches
from ordered_memory.trees import Spans


@dataclass(frozen=True)
class WrittenTrees:
    """The nodes of every sentence of a dataset, all in one array: first those of example 0, sentence by sentence."""

    nodes: NDArray[
        np.int32
    ]  # (1 + draws, nodes of all sentences, 2): the likeliest tree, and then those that were drawn
    ends: NDArray[np.int64]  # (sentences of all examples,): where the nodes of each end
    sentences: int  # of an example

    @classmethod
    @torch.inference_mode()
    def of(cls, model: Classifier, dataset: Dataset, progress: Callable[[int], None], draws: int = 0) -> "WrittenTrees":
        """Those that the model's pointer gives, a hard one; and so many more of each sentence, drawn by its weights.

        `progress` is told how many more examples are done.
        """
        training = model.training
        model.eval()
        rows = [row for example in dataset.rows for row in example]
        # Many sentences stand in several examples: each different one is read once.
        numbers: dict[bytes, int] = {}
        which = [numbers.setdefault(row.tobytes(), len(numbers)) for row in rows]
        different = [rows[place] for place in np.unique(which, return_index=True)[1]]
        found: list[list[Spans]] = [[] for _ in different]
        done = told = 0
        drawn: list[Pointer] = ["sampled"] * draws
        pointers: list[Pointer] = ["hard", *drawn]
        for pointer in pointers:
            for indices in evaluation_batches(np.array(list(map(len, different)))):
                trees = model.trees_of([different[place] for place in indices], pointer)
                for index, nodes in zip(indices, trees, strict=True):
                    found[index].append(nodes)
                done += len(indices)
                examples = len(dataset) * done // (len(pointers) * len(different))
                progress(examples - told)
                told = examples
        model.train(training)
        of_pointers = [
            np.concatenate([found[number][place] for number in which], dtype=np.int32) for place in range(len(pointers))
        ]
        ends = np.cumsum([len(found[number][0]) for number in which])
        return cls(np.stack(of_pointers), ends, model.sentences)

    def show(self, batch: Batch, indices: NDArray[np.int64], generator: np.random.Generator | None = None) -> Batch:
        """The batch of these examples with its trees: the likeliest; or, given a generator, one of those drawn."""
        numbers = [index * self.sentences + sentence for sentence in range(self.sentences) for index in indices]
        places = np.zeros(len(numbers), dtype=np.int64)
        if generator is not None and len(self.nodes) > 1:
            places = generator.integers(1, len(self.nodes), size=len(numbers))
        which = zip(numbers, places.tolist(), strict=True)
        return batch._replace(trees=[self._of(number, place) for number, place in which])

    def _of(self, number: int, place: int) -> Spans:
        begin = self.ends[number - 1] if number else 0
        return self.nodes[place, begin : self.ends[number]]

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
        if nodes.ndim == 2:  # from before there could be several of each sentence
            nodes = nodes[None]
        lengths = [len(sentence) for row in dataset.rows for sentence in row]
        if nodes.shape[1:] != (sum(lengths) - len(lengths), 2) or not np.array_equal(
            ends, np.cumsum(lengths) - np.arange(1, len(lengths) + 1)
        ):
            raise InputError("the written trees are not those of this training set")
        return cls(nodes, ends, sentences)

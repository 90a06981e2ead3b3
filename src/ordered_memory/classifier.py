"""Embedding, encoder and head: from tokens to a label; and to disk and back.

model = Classifier.from_pretrained("runs/listops")
print(model.predict("[MAX 2 9 [MIN 4 7 ] 0 ]"))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ordered_memory import __version__, atomic
from ordered_memory.config import ENCODER_CONFIGS, ClassifierConfig, EncoderConfig, from_dict
from ordered_memory.encoders import Encoder, Encoding, Outcome, Parse, SharedTrees, make_encoder
from ordered_memory.errors import InputError
from ordered_memory.trees import Spans, Tree
from ordered_memory.vectors import WordVectors
from ordered_memory.vocabulary import PADDING, Vocabulary

FILES = CONFIG, WEIGHTS = "config.json", "weights.safetensors"
AS_NEEDED = "as needed"
"""What a card may recommend for the number of slots."""


class Batch(NamedTuple):
    """Rows of token ids, padded. Of pairs, all first sentences come first, and then all second ones."""

    tokens: Tensor  # (time, rows), int64
    lengths: Tensor  # (rows,), int64, on the CPU
    labels: Tensor  # (batch,), int64
    trees: Sequence[Spans] | None = None  # of each row, where the encoder needs gold trees, or is shown some


class Output(NamedTuple):
    """What training needs."""

    logits: Tensor  # (batch, labels)
    auxiliary_loss: Tensor | None


class Parsed(NamedTuple):
    """What evaluation needs: the logits, and the trees where the encoder induces any."""

    logits: Tensor  # (batch, labels)
    spans: list[Spans] | None  # of each row
    pointer: Tensor | None  # (rows, time, slots)


@dataclasses.dataclass(frozen=True)
class SentenceParse:
    """What the model makes of one sentence."""

    tokens: tuple[str, ...]
    tree: Tree | None
    """The induced tree; None where the model induces none."""
    pointer: NDArray[np.float32] | None
    """(tokens, slots): where each step pointed; the last slot is the bottom of the stack."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the tree in brackets, in which bracket tokens are spelt -LRB- and -RRB-."""
        return {
            "tokens": list(self.tokens),
            "tree": None if self.tree is None else str(self.tree),
            "pointer": None if self.pointer is None else [[round(float(x), 6) for x in row] for row in self.pointer],
        }


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What the model makes of one text, or of a pair of texts."""

    label: str
    probabilities: dict[str, float]
    sentences: tuple[SentenceParse, ...]

    @property
    def tokens(self) -> tuple[str, ...]:
        """Of the first sentence."""
        return self.sentences[0].tokens

    @property
    def tree(self) -> Tree | None:
        """Of the first sentence."""
        return self.sentences[0].tree

    @property
    def pointer(self) -> NDArray[np.float32] | None:
        """Of the first sentence."""
        return self.sentences[0].pointer

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; a pair's two parses stand under `sentences`."""
        answer = {"label": self.label, "probabilities": self.probabilities}
        if len(self.sentences) == 1:
            return answer | self.sentences[0].to_dict()
        return answer | {"sentences": [sentence.to_dict() for sentence in self.sentences]}


def _is_full(pointer: Tensor) -> bool:
    """Whether a pointer (batch, time, slots) goes to the far end of the stack: all other slots hold what waits."""
    return bool((pointer[:, 1:].argmax(-1) == 0).logical_and(pointer[:, 1:].sum(-1) > 0).any())


class Classifier(nn.Module):
    """A label for a sequence of tokens, or for a pair of them."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        labels: Sequence[str],
        model: str = "ordered-memory",
        encoder: EncoderConfig | None = None,
        config: ClassifierConfig | None = None,
        task: str | None = None,
        card: dict[str, Any] | None = None,
        sentences: int = 1,
    ) -> None:
        super().__init__()
        self.vocabulary, self.labels, self.model_name, self.task = vocabulary, tuple(labels), model, task
        self.sentences = sentences  # in each example
        self.card = card or {}  # plain values that tell where the model comes from: data, seed, commit, figures
        self.encoder_config = ENCODER_CONFIGS[model]() if encoder is None else encoder
        self.config = ClassifierConfig() if config is None else config
        self.embedding = nn.Embedding(len(vocabulary), self.config.embedding_size, padding_idx=PADDING)
        if limit := self.config.embedding_range or (0.1 if self.config.vectors else None):
            nn.init.uniform_(self.embedding.weight, -limit, limit)
            nn.init.zeros_(self.embedding.weight[PADDING])
        self.embedding.weight.requires_grad_(not (self.config.vectors and self.config.freeze_vectors))
        self.input_dropout = nn.Dropout(self.config.input_dropout)
        self.encoder: Encoder = make_encoder(model, self.config.embedding_size, self.encoder_config, sentences)
        parts = 1 if sentences == 1 or self.encoder.joint else 4
        self.head = make_head(self.config, parts * self.encoder.output_size, self.encoder.output_size, len(self.labels))

    @torch.no_grad()
    def set_vectors(self, vectors: WordVectors) -> None:
        """Puts word vectors in the place of their words' embeddings; words that it does not know are left out."""
        places = [place for place, word in enumerate(vectors.words) if word in self.vocabulary]
        rows = self.vocabulary.encode([vectors.words[place] for place in places])
        self.embedding.weight[rows] = torch.from_numpy(vectors.values[places]).to(self.embedding.weight)

    def forward(self, batch: Batch) -> Output:
        encoding = self._encode(batch)
        return Output(self.answer(encoding.vector), encoding.auxiliary_loss)

    def losses(self, batch: Batch) -> Iterator[Tensor]:
        """The losses of one training step, each to be followed by an update before the next is asked for.

        It is one, unless the encoder samples trees and makes several updates from how they turned out.
        """
        encoding = self._encode(batch)
        logits = self.answer(encoding.vector)
        each = cross_entropy(logits, batch.labels, reduction="none")
        loss = each.mean()
        if encoding.auxiliary_loss is not None:
            loss = loss + encoding.auxiliary_loss
        if encoding.learn is None:
            yield loss
            return
        with torch.no_grad():
            baseline = None
            if encoding.baseline is not None:
                baseline = cross_entropy(self.answer(encoding.baseline), batch.labels, reduction="none")
            figures = (each.detach(), logits.argmax(-1) == batch.labels, baseline)
            # The encoder knows rows only: each sentence of a pair gets the pair's outcome.
            repeats = len(encoding.vector) // len(batch.labels)
            outcome = Outcome(*(None if figure is None else figure.repeat(repeats) for figure in figures))  # type: ignore[arg-type]
        updates = encoding.learn(outcome)
        yield loss + next(updates)
        yield from updates

    def parse(self, batch: Batch, **options: Any) -> Parsed:
        """As `forward`, with the trees; options such as `pointer="hard"` go to the encoder."""
        parse = self.encoder.parse(self._embed(batch), batch.lengths, self._trees(batch), **options)
        return Parsed(self.answer(parse.vector), parse.spans, parse.pointer)

    def trees_of(self, rows: Sequence[NDArray[np.int64]]) -> list[Spans]:
        """The trees of single sentences, given by their token ids, as a hard pointer has them."""
        batch = self.collate(rows)
        spans = self.encoder.parse(self._embed(batch), batch.lengths, pointer="hard").spans
        assert spans is not None  # a model with a pointer
        return spans

    def draw_trees(self, batch: Batch) -> Parse:
        """Of each row one, drawn by the pointer's weights, and the vector along it."""
        return self.encoder.draw(self._embed(batch), batch.lengths)

    def distances_of_trees(self, batch: Batch) -> Tensor:
        """How far the pointer is from building the tree of each row: minus the logarithm of its likelihood. All but the
        pointer is held."""
        return self.encoder.distances(self._embed(batch), batch.lengths, self._trees(batch))

    def _embed(self, batch: Batch) -> Tensor:
        embedded: Tensor = self.embedding(batch.tokens)
        if not self.config.shared_input_dropout:
            return self.input_dropout(embedded)  # type: ignore[no-any-return]
        mask: Tensor = self.input_dropout(torch.ones_like(embedded[0]))  # (rows, size)
        return embedded * mask

    def _trees(self, batch: Batch) -> Sequence[Spans] | None:
        """With the tokens, where equal ones have equal embeddings: then what stands in several trees is one."""
        differ = self.input_dropout.training and self.input_dropout.p > 0
        return batch.trees if batch.trees is None or differ else SharedTrees(batch.trees, batch.tokens)

    def _encode(self, batch: Batch) -> Encoding:
        encoding: Encoding = self.encoder(self._embed(batch), batch.lengths, self._trees(batch))
        return encoding

    def answer(self, vector: Tensor) -> Tensor:
        """Logits from the rows' vectors; of a pair's two, the paper's features."""
        if self.sentences == 2 and not self.encoder.joint:
            first, second = vector.chunk(2)
            vector = torch.cat((first, second, first * second, (first - second).abs()), -1)
        logits: Tensor = self.head(vector)
        return logits

    @torch.inference_mode()
    def predict(self, *texts: str | Sequence[str], trees: Sequence[Tree] | None = None, **options: Any) -> Prediction:
        """The label of a text (or of tokens, or of two of them), and the trees and pointers that led to it.

        A model that reads gold trees needs them; options such as `pointer="hard"` or `num_slots=40` go to the encoder.
        What is not said is as the model's card recommends.
        """
        if len(texts) != self.sentences:
            wanted = "one text: predict(text)" if self.sentences == 1 else "two texts: predict(left, right)"
            raise InputError(f"the model reads {wanted}; here {'is' if len(texts) == 1 else 'are'} {len(texts)}")
        rows = [self.vocabulary.tokenise(text) if isinstance(text, str) else tuple(text) for text in texts]
        if not all(rows):
            raise InputError("the sequence is empty: there is no token to read")
        if self.encoder.trees == "gold" and trees is None:
            hint = "write it with its brackets, as in the training data"
            raise InputError(f"{self.model_name} reads gold trees, and there is none for this text: {hint}")
        training = self.training
        batch = self.collate([self.vocabulary.encode(tokens) for tokens in rows])
        if self.encoder.trees == "gold" and trees is not None:
            batch = batch._replace(trees=[tree.spans for tree in trees])
        self.eval()
        parsed = self._parse_as_recommended(batch, options)
        self.train(training)
        probabilities = parsed.logits[0].double().softmax(-1).tolist()
        sentences = [
            SentenceParse(
                tokens=tokens,
                tree=None if parsed.spans is None else Tree(tokens, parsed.spans[row]),
                pointer=None if parsed.pointer is None else parsed.pointer[row, : len(tokens)].cpu().numpy(),
            )
            for row, tokens in enumerate(rows)
        ]
        return Prediction(
            label=self.labels[int(parsed.logits[0].argmax())],
            probabilities=dict(zip(self.labels, probabilities, strict=True)),
            sentences=tuple(sentences),
        )

    def _parse_as_recommended(self, batch: Batch, options: dict[str, Any]) -> Parsed:
        """With the card's pointer, and with more slots where the stack is full and the card says as many as needed."""
        recommends = self.card.get("recommends", {})
        if "pointer" in recommends:
            options = {"pointer": recommends["pointer"]} | options
        parsed = self.parse(batch, **options)
        if "num_slots" in options or recommends.get("num_slots") != AS_NEEDED:
            return parsed
        longest = int(batch.lengths.max())
        while parsed.pointer is not None and _is_full(parsed.pointer) and parsed.pointer.shape[-1] < longest:
            parsed = self.parse(batch, **options, num_slots=min(2 * parsed.pointer.shape[-1], longest))
        return parsed

    def collate(
        self,
        rows: Sequence[Sequence[int] | NDArray[np.int64]],
        labels: Sequence[int] | NDArray[np.int64] | None = None,
        trees: Sequence[Spans] | None = None,
    ) -> Batch:
        """Rows of token ids as one batch, on the model's device."""
        lengths = torch.tensor([len(row) for row in rows])
        tokens = np.full((int(lengths.max()), len(rows)), PADDING, dtype=np.int64)
        for number, row in enumerate(rows):
            tokens[: len(row), number] = row
        device = self.embedding.weight.device
        examples = len(rows) // self.sentences
        targets = torch.zeros(examples, dtype=torch.int64) if labels is None else torch.as_tensor(labels)
        return Batch(torch.from_numpy(tokens).to(device), lengths, targets.to(device), trees)

    def save_pretrained(self, folder: str | Path) -> None:
        """Writes the folder whole: `config.json` and `weights.safetensors`, all that `from_pretrained` needs."""
        path = Path(folder).resolve()
        with atomic.explained(path, "written"):
            others = sorted(item.name for item in path.iterdir() if item.name not in FILES) if path.is_dir() else []
        if others:
            raise InputError(
                f"{path}: holds {others[0]!r}, which a checkpoint would take the place of: name a new folder"
            )
        atomic.write_directory(path, self.write_files)

    def write_files(self, folder: Path) -> None:
        """The two files into a folder that is there."""
        values = {
            "format": 1,
            "version": __version__,
            "task": self.task,
            "sentences": self.sentences,
            "model": self.model_name,
            "encoder": dataclasses.asdict(self.encoder_config),
            "classifier": dataclasses.asdict(self.config),
            "vocabulary": self.vocabulary.to_dict(),
            "labels": list(self.labels),
            "card": self.card,
        }
        atomic.write_json(folder / CONFIG, values)
        save_tensors(folder / WEIGHTS, self.state_dict())

    @classmethod
    def from_pretrained(cls, name: str | Path) -> Classifier:
        """A trained model: of a run directory (its best), a checkpoint directory, or one that is shipped, by name."""
        folder = find_checkpoint(name)
        values = atomic.read_json(folder / CONFIG)
        where = str(folder / CONFIG)
        if not isinstance(values, dict) or values.get("format") != 1:
            raise InputError(f"{where}: not a checkpoint that this version ({__version__}) reads")
        model = values.get("model")
        if not isinstance(model, str) or model not in ENCODER_CONFIGS:
            raise InputError(f"{where}: model is {model!r}, and must be one of {', '.join(ENCODER_CONFIGS)}")
        task = values.get("task")
        if not isinstance(task, str | None):
            raise InputError(f"{where}: 'task' is {task!r}, and must be a name")
        sentences = values.get("sentences", 1)
        if sentences not in (1, 2):
            raise InputError(f"{where}: 'sentences' is {sentences!r}, and must be 1 or 2")
        labels = _entry(values, "labels", list, where)
        if not labels or not all(isinstance(label, str) for label in labels) or len(set(labels)) < len(labels):
            raise InputError(f"{where}: 'labels' must be different strings, at least one")
        try:
            vocabulary = Vocabulary.from_dict(_entry(values, "vocabulary", dict, where))
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        made = cls(
            vocabulary,
            labels,
            model,
            from_dict(ENCODER_CONFIGS[model], values.get("encoder"), f"{where}: encoder"),
            from_dict(ClassifierConfig, values.get("classifier"), f"{where}: classifier"),
            task,
            _entry(values, "card", dict, where),
            sentences,
        )
        made.load_state_dict_checked(folder / WEIGHTS)
        return made.eval()

    def load_state_dict_checked(self, path: Path) -> None:
        """Loads weights; a file that is missing, cut short or of another model is told in words."""
        weights = load_tensors(path)
        own = self.state_dict()
        for name in sorted(own.keys() | weights.keys()):
            if name not in weights or name not in own:
                raise InputError(f"{path}: {name!r} is {'missing' if name in own else 'not of this model'}")
            if weights[name].shape != own[name].shape:
                shapes = f"{tuple(weights[name].shape)}, and the config asks for {tuple(own[name].shape)}"
                raise InputError(f"{path}: {name!r} has shape {shapes}")
        self.load_state_dict(weights)


def make_head(config: ClassifierConfig, features: int, hidden: int, labels: int) -> nn.Module:
    """Dropout and one linear map, or two with an activation between."""
    dropout = config.output_dropout
    if config.head == "linear":
        return nn.Sequential(nn.Dropout(dropout), nn.Linear(features, labels))
    activation = nn.ReLU() if config.activation == "relu" else nn.ELU()
    return nn.Sequential(
        nn.Dropout(dropout), nn.Linear(features, hidden), activation, nn.Dropout(dropout), nn.Linear(hidden, labels)
    )


def save_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """A safetensors file of these tensors."""
    with atomic.explained(path, "written"):
        path.write_bytes(save({name: value.contiguous() for name, value in tensors.items()}))


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        return load_file(path)
    except FileNotFoundError:
        raise InputError(f"{path}: the file is missing") from None
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: damaged or cut short: {error}") from None


def find_checkpoint(name: str | Path) -> Path:
    """The checkpoint's folder: `best` of a run directory, the folder itself, or one of those shipped."""
    folder = Path(name)
    with atomic.explained(folder, "read"):
        for candidate in (atomic.whole(folder / "best"), folder):
            if (candidate / WEIGHTS).exists():
                return candidate
    if str(name) in shipped():
        return Path(str(files("ordered_memory") / "checkpoints" / str(name)))
    if folder.is_dir():
        if atomic.whole(folder / "last").is_dir() or (folder / "metrics.jsonl").exists():
            raise InputError(
                f"{folder}: there is no best checkpoint: the run has not evaluated yet, or it was taken away"
            )
        raise InputError(f"{folder}: neither a run directory nor a checkpoint: it holds no {WEIGHTS}")
    names = ", ".join(shipped()) or "none in this version"
    raise InputError(f"{name}: there is no such folder, and no shipped checkpoint of that name (shipped: {names})")


def shipped() -> list[str]:
    """Names of the checkpoints that come with the package."""
    folder = files("ordered_memory") / "checkpoints"
    return sorted(item.name for item in folder.iterdir() if item.is_dir()) if folder.is_dir() else []


def _entry(values: dict[str, Any], name: str, kind: type, where: str) -> Any:
    if not isinstance(values.get(name), kind):
        raise InputError(f"{where}: {name!r} is missing or not a {kind.__name__}")
    return values[name]

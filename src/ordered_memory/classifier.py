"""Embedding, encoder and head: from tokens to a label; and to disk and back.

model = Classifier.from_pretrained("runs/listops")
print(model.predict("[MAX 2 9 [MIN 4 7 ] 0 ]"))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from ordered_memory import __version__, atomic
from ordered_memory.config import ENCODER_CONFIGS, ClassifierConfig, EncoderConfig, from_dict
from ordered_memory.encoders import Encoder, make_encoder
from ordered_memory.errors import InputError
from ordered_memory.trees import Spans, Tree
from ordered_memory.vocabulary import PADDING, Vocabulary

FILES = CONFIG, WEIGHTS = "config.json", "weights.safetensors"


class Batch(NamedTuple):
    """Rows of token ids, padded."""

    tokens: Tensor  # (time, batch), int64
    lengths: Tensor  # (batch,), int64, on the CPU
    labels: Tensor  # (batch,), int64


class Output(NamedTuple):
    """What training needs."""

    logits: Tensor  # (batch, labels)
    auxiliary_loss: Tensor | None


class Parsed(NamedTuple):
    """What evaluation needs: the logits, and the trees where the encoder induces any."""

    logits: Tensor  # (batch, labels)
    spans: list[Spans] | None
    pointer: Tensor | None  # (batch, time, slots)


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What the model makes of one text."""

    label: str
    probabilities: dict[str, float]
    tokens: tuple[str, ...]
    tree: Tree | None
    """The induced tree; None where the model induces none."""
    pointer: NDArray[np.float32] | None
    """(tokens, slots): where each step pointed; the last slot is the bottom of the stack."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the tree in brackets."""
        return {
            "label": self.label,
            "probabilities": self.probabilities,
            "tokens": list(self.tokens),
            "tree": None if self.tree is None else self.tree.to_brackets(),
            "pointer": None if self.pointer is None else [[round(float(x), 6) for x in row] for row in self.pointer],
        }


class Classifier(nn.Module):
    """A label for a sequence of tokens."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        labels: Sequence[str],
        model: str = "ordered-memory",
        encoder: EncoderConfig | None = None,
        config: ClassifierConfig | None = None,
        task: str | None = None,
        card: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.vocabulary, self.labels, self.model_name, self.task = vocabulary, tuple(labels), model, task
        self.card = card or {}  # plain values that tell where the model comes from: data, seed, commit, figures
        self.encoder_config = ENCODER_CONFIGS[model]() if encoder is None else encoder
        self.config = ClassifierConfig() if config is None else config
        self.embedding = nn.Embedding(len(vocabulary), self.config.embedding_size, padding_idx=PADDING)
        self.input_dropout = nn.Dropout(self.config.input_dropout)
        self.encoder: Encoder = make_encoder(model, self.config.embedding_size, self.encoder_config)
        self.head = make_head(self.config, self.encoder.output_size, len(self.labels))

    def forward(self, batch: Batch) -> Output:
        encoding = self.encoder(self.input_dropout(self.embedding(batch.tokens)), batch.lengths)
        return Output(self.head(encoding.vector), encoding.auxiliary_loss)

    def parse(self, batch: Batch, **options: Any) -> Parsed:
        """As `forward`, with the trees; options such as `pointer="hard"` go to the encoder."""
        parse = self.encoder.parse(self.input_dropout(self.embedding(batch.tokens)), batch.lengths, **options)
        return Parsed(self.head(parse.vector), parse.spans, parse.pointer)

    @torch.inference_mode()
    def predict(self, text: str | Sequence[str], **options: Any) -> Prediction:
        """The label of a text (or of tokens), and the tree and the pointer that led to it."""
        tokens = self.vocabulary.tokenise(text) if isinstance(text, str) else tuple(text)
        if not tokens:
            raise InputError("the sequence is empty: there is no token to read")
        training = self.training
        parsed = self.eval().parse(self.collate([self.vocabulary.encode(tokens)]), **options)
        self.train(training)
        probabilities = parsed.logits[0].double().softmax(-1).tolist()
        return Prediction(
            label=self.labels[int(parsed.logits[0].argmax())],
            probabilities=dict(zip(self.labels, probabilities, strict=True)),
            tokens=tokens,
            tree=None if parsed.spans is None else Tree(tokens, parsed.spans[0]),
            pointer=None if parsed.pointer is None else parsed.pointer[0].cpu().numpy(),
        )

    def collate(
        self, rows: Sequence[Sequence[int] | NDArray[np.int64]], labels: Sequence[int] | NDArray[np.int64] | None = None
    ) -> Batch:
        """Rows of token ids as one batch, on the model's device."""
        lengths = torch.tensor([len(row) for row in rows])
        tokens = np.full((int(lengths.max()), len(rows)), PADDING, dtype=np.int64)
        for number, row in enumerate(rows):
            tokens[: len(row), number] = row
        device = self.embedding.weight.device
        targets = torch.zeros(len(rows), dtype=torch.int64) if labels is None else torch.as_tensor(labels)
        return Batch(torch.from_numpy(tokens).to(device), lengths, targets.to(device))

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


def make_head(config: ClassifierConfig, size: int, labels: int) -> nn.Module:
    """Dropout and one linear map, or two with a ReLU between."""
    dropout = config.output_dropout
    if config.head == "linear":
        return nn.Sequential(nn.Dropout(dropout), nn.Linear(size, labels))
    return nn.Sequential(
        nn.Dropout(dropout), nn.Linear(size, size), nn.ReLU(), nn.Dropout(dropout), nn.Linear(size, labels)
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

"""The released files of logical inference: to fetch them, to write such files, and to check a folder of them."""

import hashlib
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ordered_memory import atomic
from ordered_memory.errors import InputError
from ordered_memory.tasks.examples import Example
from ordered_memory.tasks.logic import Cut, Files, Logic, LogicConfig, Reader, operations, statements
from ordered_memory.tasks.logic_generator import MOST_OPERATIONS
from ordered_memory.tasks.propositions import RELATIONS

ADDRESS = "https://raw.githubusercontent.com/yikangshen/Ordered-Memory/master/data/propositionallogic"

CHECKSUMS = {
    "train0": "6b7679d24a5121e747bbb6e1606c33773ef2803d2f1e3e5961f396bfe6d5ead1",
    "train1": "b18140de23966481c20d6d4cac1f014322f760d6f891f643ff4beca48df1d347",
    "train2": "b08cfe4e89fa941d053b7ba229f3743d25d0a73235c628bf45da645336ecc22a",
    "train3": "ab0dd5694b97815ed29d2be7016790ba78b5173b68df5702ed4d0f9cad087041",
    "train4": "ca53b91edcb966330ca6a4241ca313932f3dd897ce7af18b2446e6c551bb63fc",
    "train5": "8c6db46c7527aea7f685400075c2cebad2a36acb4904371c052827f3769baa00",
    "train6": "ab507a99dcd2f7a2c4a3c81fbdbf0e55e1169d48f1be177ee8278778f34cf141",
    "train7": "939a58dfb0ca552eedf479c4db414e115da88d9a5e665cf101a35dfa735d1d51",
    "train8": "469f3e45b28a63ddc48f687d9b8a6813f431f8cd38366c90facf8ea6e677dc34",
    "train9": "b65a324de9862d74de4165696b5570342f5e323eb95ceccb679959a71978d769",
    "train10": "dd50e0c545773f84767c4ecde1a4d331217e7a8cc2ecfb487a80525d05b73e1a",
    "train11": "18012480bb981a6d03cb3225b0e5761b84df9e4e2a659b5fdf911e0d0b35993e",
    "train12": "cfeced4bcf2c4364fec121b1c97cbd59a535a377d6123bd280400d627da9ec4c",
    "test0": "0f0f47ea2699b52c8e49d84466afdae457111320669b328e752b690d21dab0ef",
    "test1": "d846fd8e2e10c44b95796cd31a3ea9056bd2ab7e510447e92172d252b5a4ebcf",
    "test2": "74d3b9346bbdff39e9f6bd81bb84446309b3918e4d6dbae820280958c935fb82",
    "test3": "c22eb4b2120fd2599eea1772ff2983e44b5e5501f17bfedc7f526ab6ddea9557",
    "test4": "171a5b9ff84c8c8972662d7ee84d9bae88a0b0caf121c779e1898d08ff23d056",
    "test5": "4456aab62f4189a95645822d7fd22b8b12ebadc15679fb37ed93921d1ee11004",
    "test6": "b99fa4c2b48db710213cbfcf948ab08fdaf327c07f5e7fa978747f1cf73c53d0",
    "test7": "9951b19945ea6b7b388118b05ac497b197aba7e24fbd501c5d9cf71f57433da5",
    "test8": "8b653190922c9b5902339714e79d22654e0f34e61d691e0d592589a92882bc30",
    "test9": "6d404315b4e0b15e70084f621f7e9677deebf7378016b0df95fbb63487851ed5",
    "test10": "bb3b3d312bb3223bdad030695d6004dc9d1d6131fe26a5531f2e54cc1bd1e780",
    "test11": "f6ee99fac9b1459448f6b2dc0a263fab7493d9a1e05ed1d32e0674031aa4fda5",
    "test12": "37d63e62b894cd2f25977d3092c71da23244cbadcfa12909183f57da938abb9f",
}
"""SHA-256 of each file."""

PARTS = [(part, number) for part in ("train", "test") for number in range(MOST_OPERATIONS + 1)]

PUBLISHED_SIZES: dict[Cut, dict[str, int]] = {
    "full": {"left": 135_529},
    "A": {"left": 128_969, "longer": 1_369, "all": 2_472, "held-out": 6_560},
    "B": {"left": 87_948, "longer": 9_257, "all": 17_544, "held-out": 47_581},
    "C": {"left": 51_896, "longer": 12_757, "all": 27_232, "held-out": 83_633},
}
"""Pairs that each split leaves to train and validate on, and the three readings of its test set."""


def download(folder: Path, progress: Callable[[int], None] = lambda _: None, address: str = ADDRESS) -> int:
    """Fetch the files that are not there yet, or are not whole; says how many. Each appears whole or not at all."""
    fetched = 0
    for name, checksum in CHECKSUMS.items():
        if _checksum(folder / name) != checksum:
            content = _fetch(f"{address}/{name}", folder)
            if hashlib.sha256(content).hexdigest() != checksum:
                raise InputError(f"{address}/{name}: not the file we know (its checksum differs); nothing was written")
            atomic.write_text(folder / name, content.decode("ascii"))
            fetched += 1
        progress(1)
    return fetched


def _checksum(path: Path) -> str | None:
    if not path.exists():
        return None
    with atomic.explained(path, "read"):
        return hashlib.sha256(path.read_bytes()).hexdigest()


def _fetch(address: str, folder: Path) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            content: bytes = answer.read()
            return content
    except (OSError, urllib.error.URLError) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(
            f"{address}: cannot be fetched ({reason}). Without a network, copy train0 to test12 from "
            f"data/propositionallogic of the released repository to {folder}, or draw pairs: --source generated"
        ) from None


def write(folder: Path, files: Files) -> None:
    """Write examples as the released files have them, train0 to test12."""
    for part, bins in files.items():
        for number, examples in bins.items():
            lines = ("\t".join((example.label, *statements(example))) + "\n" for example in examples)
            atomic.write_text(folder / f"{part}{number}", "".join(lines))


def verify(folder: Path, progress: Callable[[int], None] = lambda _: None) -> dict[str, int]:
    """Check a folder of the released files: lines, labels by truth tables, operations, counts, and the splits' sizes.

    Returns what was counted; the first thing that is wrong is told.
    """
    for path in (folder / f"{part}{number}" for part, number in PARTS):
        if not path.is_file():  # told before a minute has gone into the others
            raise InputError(f"{path}: cannot be read: no such file, and {len(PARTS)} are to be there")
    reader = Reader()
    files: Files = {"train": {}, "test": {}}
    for part, number in PARTS:
        path = folder / f"{part}{number}"
        examples = files[part][number] = reader.read(path)
        for line, example in enumerate(examples, 1):
            if (found := min(MOST_OPERATIONS, operations(example))) != number:
                raise InputError(f"{path}:{line}: the pair has {found} operations, and the file is for {number}")
        progress(1)
    counted = {f"{part}{number}": len(files[part][number]) for part, number in PARTS}
    for cut, published in PUBLISHED_SIZES.items():
        task = Logic(LogicConfig(split=cut, folder=str(folder)), files)
        splits = task.splits()
        sets = {"longer": splits["test"], **task.extra_tests()}
        sizes = {"left": len(splits["train"]) + len(splits["validation"])} | {name: len(sets[name]) for name in sets}
        for name, size in published.items():
            if sizes[name] != size:
                counts = f"{sizes[name]:,} pairs, and {size:,} are published"
                raise InputError(f"{folder}: split {cut}, {name}: {counts}; only the released files can be verified")
            counted[f"split {cut}, {name}"] = size
    return counted


@dataclass(frozen=True)
class Statistics:
    """What a set of pairs looks like. Shares are fractions of 1."""

    count: int
    mean_length: float
    """Tokens of both statements."""
    longest: int
    relations: dict[str, float]
    """Share of each relation."""
    operations: dict[str, int]
    """Pairs by number of operations; 12 stands for 12 and more."""
    majority_label: str
    majority_share: float
    """The accuracy of always answering the commonest relation."""


def describe(examples: Sequence[Example]) -> Statistics:
    """Count, lengths, relations and operations of some pairs."""
    if not examples:
        raise InputError("there are no pairs to describe")
    lengths = np.array([sum(map(len, example.sentences)) for example in examples])
    labels = Counter(example.label for example in examples)
    bins = Counter(min(MOST_OPERATIONS, operations(example)) for example in examples)
    majority = max(RELATIONS, key=lambda label: labels[label])
    return Statistics(
        count=len(examples),
        mean_length=float(lengths.mean()),
        longest=int(lengths.max()),
        relations={label: labels[label] / len(examples) for label in RELATIONS},
        operations={str(number): bins[number] for number in range(MOST_OPERATIONS + 1)},
        majority_label=majority,
        majority_share=labels[majority] / len(examples),
    )

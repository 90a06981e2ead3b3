"""A treebank of a few made-up trees, and word vectors for some of its words."""

from pathlib import Path

TREES = {
    "train.txt": [
        "(4 (2 A) (4 (4 lovely) (2 film)))",
        "(0 (2 A) (0 (0 dreadful) (2 film)))",
        "(3 (3 (2 The) (2 (2 film) (2 -LRB-))) (3 (3 good) (2 -RRB-)))",
        "(1 (2 The) (1 (2 film) (1 (2 is) (1 bad))))",
        "(2 (2 The) (2 film))",
        "(3 (3 good) (2 .))",
        "(1 (1 bad) (2 .))",
        "(2 (2 It) (2 (2 has) (2 (4 lovely) (0 moments))))",
    ],
    "dev.txt": [
        "(4 (2 A) (4 (3 good) (2 film)))",
        "(2 (2 A) (2 film))",
        "(0 (2 A) (0 (1 bad) (2 film)))",
    ],
    "test.txt": [
        "(3 (2 A) (3 (3 delightful) (2 film)))",
        "(1 (2 The) (1 (1 bad) (2 film)))",
        "(2 (2 The) (2 film))",
        "(0 (2 It) (0 (2 is) (0 dreadful)))",
    ],
}
VECTORS = {
    "film": (0.1, -0.2, 0.3, 0.4),
    "good": (1.5, 0.0, -0.5, 2.0),
    "bad": (-1.5, 0.0, 0.5, -2.0),
    "delightful": (1.25, 0.5, -0.25, 1.75),
    "elsewhere": (9.0, 9.0, 9.0, 9.0),
}
VECTORS_FILE = "made-up.4d.txt"


def write_treebank(data: Path) -> Path:
    """The trees in the folder sst of a folder of data, which is returned."""
    (data / "sst").mkdir(parents=True, exist_ok=True)
    for name, lines in TREES.items():
        (data / "sst" / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return data


def write_vectors(data: Path) -> Path:
    """The vectors in the folder glove of a folder of data; their file is returned."""
    path = data / "glove" / VECTORS_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{word} {' '.join(map(str, values))}\n" for word, values in VECTORS.items()))
    return path

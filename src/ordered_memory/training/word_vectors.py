"""Word vectors for a run: their file is found and read, and the run's config tells which it was."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from ordered_memory.config import Experiment
from ordered_memory.errors import InputError
from ordered_memory.tasks import Example
from ordered_memory.vectors import AUTO, WordVectors, find_vectors, read_vectors, vectors_folder


def prepare_vectors(
    experiment: Experiment, examples: Iterable[Example], tell: Callable[[str], None]
) -> tuple[Experiment, WordVectors | None]:
    """The vectors of the examples' words, if the config asks for any; and the experiment with what was found."""
    config = experiment.classifier
    if config.vectors is None:
        return experiment, None
    path = find_vectors(config.vectors, config.embedding_size)
    if path is None:
        place = vectors_folder()
        where = f": there is no *.{config.embedding_size}d*.txt in {place}" if place else ": no data folder is named"
        tell(f"no word vectors{where}; the embeddings are learned")
        return replace(experiment, classifier=replace(config, vectors=None, vectors_sha256=None)), None
    words = {token for example in examples for sentence in example.sentences for token in sentence}
    vectors = read_vectors(path, config.embedding_size, words)
    if config.vectors_sha256 not in (None, vectors.sha256):
        raise InputError(f"{path}: not the file that the config names: its SHA-256 is {vectors.sha256}")
    tell(f"word vectors of {path}: {len(vectors.words):,} of {len(words):,} words have one")
    name = path.name if config.vectors == AUTO else config.vectors
    settled = replace(config, vectors=name, vectors_sha256=vectors.sha256)
    return replace(experiment, classifier=settled), vectors

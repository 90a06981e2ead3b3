"""Files of word vectors: found, read, and told where they are not right."""

import hashlib
import re

import numpy as np
import pytest

from ordered_memory.errors import InputError
from ordered_memory.vectors import find_vectors, read_vectors
from tests.treebank import VECTORS, VECTORS_FILE, write_vectors


@pytest.fixture
def path(tmp_path):
    return write_vectors(tmp_path)


class TestFind:
    def test_a_path_or_a_name_in_the_folder_of_the_data(self, path, tmp_path, monkeypatch):
        assert find_vectors(str(path), 4) == path
        monkeypatch.setenv("ORDERED_MEMORY_DATA", str(tmp_path))
        assert find_vectors(VECTORS_FILE, 4) == path

    def test_auto_takes_one_of_the_size_or_none(self, path, tmp_path, monkeypatch):
        assert find_vectors("auto", 4) is None
        monkeypatch.setenv("ORDERED_MEMORY_DATA", str(tmp_path))
        assert find_vectors("auto", 4) == path
        assert find_vectors("auto", 5) is None
        assert find_vectors("auto", 40) is None

    def test_one_that_is_not_there(self, tmp_path, monkeypatch):
        with pytest.raises(InputError, match=r"glove\.txt: there is no such file .*ORDERED_MEMORY_DATA"):
            find_vectors("glove.txt", 4)
        monkeypatch.setenv("ORDERED_MEMORY_DATA", str(tmp_path))
        where = re.escape(str(tmp_path / "glove" / "glove.txt"))
        with pytest.raises(InputError, match=f"{where}: there is no such file of word vectors: .*nlp.stanford.edu"):
            find_vectors("glove.txt", 4)
        with pytest.raises(InputError, match=r"^folder/glove\.txt: there is no such file"):
            find_vectors("folder/glove.txt", 4)


class TestRead:
    def test_the_words_that_are_asked_for(self, path):
        vectors = read_vectors(path, 4, {"good", "film", "nowhere"})
        assert vectors.words == ("film", "good")
        np.testing.assert_array_equal(vectors.values, np.array([VECTORS["film"], VECTORS["good"]], dtype=np.float32))
        assert vectors.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()

    def test_odd_files(self, path):
        """A no-break space in a word, a word of several pieces, a word twice, the other line ends."""
        path.write_bytes("2\xa01/2 1 2\r\n. . . 7 7\r\n. 3 4 \r\n. 5 6\r\n".encode())
        vectors = read_vectors(path, 2, {"2\xa01/2", ".", ". . ."})
        assert dict(zip(vectors.words, vectors.values.tolist(), strict=True)) == {
            "2\xa01/2": [1, 2],
            ". . .": [7, 7],
            ".": [3, 4],
        }

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("good 1", "a line has a word and 2 numbers with spaces between, not 2 columns"),
            ("", "a line has a word and 2 numbers with spaces between, not 1 columns"),
            (" 1 2", "a line has a word and 2 numbers with spaces between, not 3 columns"),
            ("good 1 2 3", "a line has a word and 2 numbers, as the first line has, and here are more"),
            ("good 1 x", "'x' is not a finite number"),
            ("good 1  2", "a line has a word and 2 numbers"),
            ("good nan 2", "'nan' is not a finite number"),
            ("elsewhere 1", "not 2 columns"),
        ],
    )
    def test_a_bad_line(self, path, line, message):
        path.write_text(f"film 1 2\n{line}\nbad 1 2\n")
        with pytest.raises(InputError, match=re.escape(f"{path}:2: ") + ".*" + re.escape(message)):
            read_vectors(path, 2, {"film", "good"})

    def test_another_size_names_both(self, path):
        with pytest.raises(
            InputError, match=re.escape(f"{path}:1: its vectors have 4 numbers, and embedding_size is 5")
        ):
            read_vectors(path, 5, VECTORS)

    def test_no_word_of_the_data(self, path):
        with pytest.raises(InputError, match="none of the 1 words of the data has a vector here"):
            read_vectors(path, 4, {"nowhere"})
        path.write_text("")
        with pytest.raises(InputError, match="has a vector here"):
            read_vectors(path, 4, {"nowhere"})

    def test_the_real_file(self, shared):
        path = shared / "data" / "glove" / "glove.6B.100d.sst.txt"
        vectors = read_vectors(path, 100, {"film", "(", "terrible"})
        assert vectors.words == ("(", "film", "terrible")
        assert vectors.values.shape == (3, 100)
        first = next(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("film "))
        np.testing.assert_allclose(vectors.values[1], np.array(first.split()[1:], dtype=float), rtol=1e-6)

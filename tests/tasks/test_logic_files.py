"""The released files: fetched whole or not at all, written as they were, and checked line by line."""

import shutil

import pytest

from ordered_memory.errors import InputError
from ordered_memory.tasks import logic_files
from ordered_memory.tasks.logic import Logic, LogicConfig, statements


@pytest.fixture
def released(shared):
    return shared / "data" / "logic"


@pytest.fixture
def small_files(tmp_path):
    """All files, drawn, so few pairs that the published sizes do not hold."""
    task = Logic(LogicConfig(source="generated", pairs=3_000, max_operations=12))
    logic_files.write(tmp_path / "small", task.files())
    return tmp_path / "small"


class TestDownload:
    def test_fetches_what_is_missing_or_damaged(self, released, tmp_path):
        told = []
        assert logic_files.download(tmp_path / "logic", told.append, released.as_uri()) == 26
        assert sum(told) == 26
        for name in logic_files.CHECKSUMS:
            assert (tmp_path / "logic" / name).read_bytes() == (released / name).read_bytes()
        (tmp_path / "logic" / "test3").write_text("cut short")
        assert logic_files.download(tmp_path / "logic", address=released.as_uri()) == 1

    def test_another_file_is_refused(self, tmp_path):
        source = tmp_path / "source"
        source.mkdir()
        (source / "train0").write_text("=\ta\ta\n")
        with pytest.raises(InputError, match="train0: not the file we know"):
            logic_files.download(tmp_path / "logic", address=source.as_uri())
        assert not (tmp_path / "logic").exists()

    def test_without_a_network(self, tmp_path):
        with pytest.raises(InputError, match=r"cannot be fetched .* Without a network, copy train0 to test12"):
            logic_files.download(tmp_path / "logic", address=(tmp_path / "absent").as_uri())
        assert not (tmp_path / "logic").exists()


def test_what_is_written_is_read_back(small_files):
    task = Logic(LogicConfig(source="generated", pairs=3_000))
    again = Logic(LogicConfig(folder=str(small_files)))
    assert again.splits() == task.splits()
    words = Logic(LogicConfig(source="generated", pairs=3_000, brackets=False, max_operations=12))
    logic_files.write(small_files.parent / "words", words.files())
    for name in logic_files.CHECKSUMS:
        assert (small_files.parent / "words" / name).read_bytes() == (small_files / name).read_bytes()


class TestVerify:
    @pytest.mark.slow
    @pytest.mark.timeout(3600)
    def test_the_released_files(self, released):
        counted = logic_files.verify(released)
        assert (counted["train6"], counted["test12"], counted["split B, left"]) == (32_952, 853, 87_948)

    def test_a_pair_in_the_wrong_file(self, small_files):
        shutil.copy(small_files / "train3", small_files / "train2")
        with pytest.raises(InputError, match="train2:1: the pair has 3 operations, and the file is for 2"):
            logic_files.verify(small_files)

    def test_other_sizes(self, small_files):
        with pytest.raises(InputError, match=r"split full, left: [\d,]+ pairs, and 135,529 are published"):
            logic_files.verify(small_files)

    def test_a_missing_file_is_told_before_any_is_read(self, small_files, monkeypatch):
        monkeypatch.setattr(logic_files.Reader, "read", lambda *_: pytest.fail("a file was read"))
        (small_files / "test12").unlink()
        with pytest.raises(InputError, match="test12: cannot be read: no such file, and 26 are to be there"):
            logic_files.verify(small_files)


def test_statistics(tmp_path):
    (tmp_path / "pairs").write_text("=\ta\ta\n<\t( a ( and b ) )\ta\n=\t( not b )\t( not b )\n")
    examples = Logic().read(tmp_path / "pairs")
    found = logic_files.describe(examples)
    assert found.count == 3
    assert found.mean_length == pytest.approx((2 + 8 + 8) / 3)
    assert found.longest == 8
    assert found.relations["="] == pytest.approx(2 / 3)
    assert found.operations == {str(number): [1, 2][number] if number < 2 else 0 for number in range(13)}
    assert (found.majority_label, found.majority_share) == ("=", pytest.approx(2 / 3))
    assert list(statements(examples[1])) == ["( a ( and b ) )", "a"]
    with pytest.raises(InputError, match="no pairs to describe"):
        logic_files.describe([])

"""The command itself: its help, its data, its machine, and its manners."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ordered_memory.cli import main, progress
from tests.cli.conftest import TEXT, TINY, error_of, om


class TestHelp:
    def test_overview_names_every_verb(self, capsys):
        assert main([]) == 0
        text = capsys.readouterr().out
        for verb in ("demo", "train", "evaluate", "parse", "data", "report", "models", "reproduce", "bench", "doctor"):
            assert re.search(rf"^  {verb} +[A-Z]", text, re.MULTILINE)

    @pytest.mark.parametrize("verb", ["demo", "train", "evaluate", "parse", "data", "report", "bench", "doctor"])
    def test_each_verb_explains_every_flag(self, verb, capsys):
        with pytest.raises(SystemExit) as stop:
            main([verb, "--help"])
        assert stop.value.code == 0
        help_text = capsys.readouterr().out
        assert f"usage: om {verb}" in help_text
        assert not re.search(r"--[a-z.-]+ +[A-Z{}a-z,|]+ +\(default", help_text), "a flag without a word of help"

    def test_help_and_version_do_not_load_torch(self):
        script = (
            "import sys; from ordered_memory.cli import main; main(['--version']); sys.exit('torch' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0

    def test_train_shows_the_flags_of_the_model(self, capsys):
        with pytest.raises(SystemExit):
            main(["train", "listops", "--model", "lstm", "--help"])
        text = capsys.readouterr().out
        assert "--num-layers" in text
        assert "--num-slots" not in text


class TestData:
    def test_writes_three_files_that_it_reads_back(self, tmp_path, capsys):
        words = f"data listops --out {tmp_path}/d --pool-size 300 --test-size 50 --validation-size 50 --json".split()
        assert main(words) == 0
        made = json.loads(capsys.readouterr().out)
        for name in ("train", "validation", "test"):
            path = f"{tmp_path}/d/{name}.tsv"
            assert main(["data", "listops", "--read", path, "--json"]) == 0
            assert json.loads(capsys.readouterr().out)[path] == made[name]

    def test_a_window_of_lengths(self, tmp_path):
        out = tmp_path / "long.tsv"
        assert main(["data", "listops", "--lengths", "200-300", "--count", "5", "--out", str(out)]) == 0
        rows = [line.split("\t")[1].split() for line in out.read_text().splitlines()]
        lengths = [len([word for word in row if word not in "()"]) for row in rows]
        assert len(lengths) == 5
        assert all(200 <= length <= 300 for length in lengths)

    @pytest.mark.parametrize(
        ("words", "there"),
        [("listops", "train.tsv"), ("listops", "test.tsv"), ("listops --lengths 20-30", ""), ("logic", "test12")],
    )
    def test_what_is_there_is_not_written_over(self, words, there, tmp_path, capsys):
        mine = tmp_path / "mine" / there
        mine.parent.mkdir(parents=True, exist_ok=True)
        mine.write_text("all that I have")
        out = ["--out", str(tmp_path / "mine")]
        assert f"{mine} is there already" in error_of(capsys, "data", *words.split(), *out)
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]
        assert mine.read_text() == "all that I have"

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("--read some.tsv --out other", "--read only checks a file"),
            ("--lengths many", "--lengths is 'many'"),
            ("--lengths 20-30 --train-size 5", "--train-size is for the three splits: with --lengths say --count"),
            ("--lengths 300-200", "--lengths is '300-200', and its second length must not be below its first"),
            ("--max-depth 0", "--max-depth is 0"),
            ("--read nowhere.tsv", "nowhere.tsv: cannot be read: No such file or directory"),
        ],
    )
    def test_bad_flags(self, words, message, capsys):
        assert message in error_of(capsys, "data", "listops", *words.split())


class TestReport:
    def test_writes_a_page_about_runs(self, run, lstm, tmp_path, capsys):
        out = tmp_path / "page.html"
        assert main(["report", run, lstm, "--out", str(out)]) == 0
        assert str(out) in capsys.readouterr().out
        assert "Ordered Memory and LSTM on ListOps" in out.read_text()

    def test_what_is_no_run(self, tmp_path, capsys):
        assert "no run" in error_of(capsys, "report", str(tmp_path), "--out", str(tmp_path / "page.html"))
        assert "at least one run" in error_of(capsys, "report", "--out", str(tmp_path / "page.html"))
        assert list(tmp_path.iterdir()) == []


class TestDoctorAndMain:
    def test_doctor_checks_and_tells(self, capsys):
        assert main(["doctor", "--json"]) == 0
        findings = json.loads(capsys.readouterr().out)
        assert findings["check"] == "passed"
        assert findings["engine"].startswith("native")
        assert main(["doctor"]) == 0
        assert "passed" in capsys.readouterr().out

    def test_doctor_tells_why_there_is_no_engine(self, capsys, monkeypatch):
        monkeypatch.setenv("CXX", "no-such-compiler")
        assert main(["doctor", "--json"]) == 0
        findings = json.loads(capsys.readouterr().out)
        assert "there is no C++ compiler (no-such-compiler)" in findings["engine"]
        assert "apt install g++" in findings["advice"]

    def test_doctor_builds(self, capsys, monkeypatch, tmp_path):
        monkeypatch.setenv("ORDERED_MEMORY_CACHE", str(tmp_path))
        assert main(["doctor", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["engine"] == "native, to be built at first use"
        assert list(tmp_path.iterdir()) == []
        assert main(["doctor", "--build", "--json"]) == 0
        findings = json.loads(capsys.readouterr().out)
        assert findings["check"] == "passed"
        assert Path(findings["library"]).parent == tmp_path

    def test_unknown_verb(self, capsys):
        assert "'trian' is no verb of om: did you mean 'train'?" in error_of(capsys, "trian")

    def test_a_reader_that_has_had_enough(self, run):
        process = subprocess.run(
            f"{sys.executable} -m ordered_memory.cli parse {run} '{TEXT}' --json | true",
            shell=True, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert "Traceback" not in process.stderr

    def test_a_full_disk_loses_nothing(self, tmp_path):
        if not Path("/dev/full").exists():
            pytest.skip("no /dev/full on this system")
        (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
        done = om("train", "listops", "--out", str(tmp_path), *TINY)
        assert done.returncode == 2
        assert "metrics.jsonl: cannot be written: No space left on device" in done.stderr
        assert (tmp_path / "best" / "weights.safetensors").exists()


def test_long_work_tells_how_far_it_is_where_there_is_no_terminal(capsys, monkeypatch):
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr("ordered_memory.cli.progress.time.perf_counter", lambda: float(next(now)))
    with progress.bar(3000) as advance:
        for _ in range(3):
            advance(1000)
    assert capsys.readouterr().err.splitlines() == ["  measured 2,000 of 3,000"]

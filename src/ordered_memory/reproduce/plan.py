"""What there is to reproduce: the rows of each table, the runs behind a row, and which of them are still missing.

A row's runs differ in the seed only. A finished run is one JSON file in the folder of results, ROW-seedN.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ordered_memory.config import Experiment, LSTMConfig
from ordered_memory.errors import InputError
from ordered_memory.models import TITLES
from ordered_memory.presets import preset
from ordered_memory.reproduce.publish import publish
from ordered_memory.reproduce.published import LOGIC
from ordered_memory.reproduce.tables import NOT_RUN
from ordered_memory.training.loop import train
from ordered_memory.training.progress import Progress
from ordered_memory.training.run_directory import CONFIG, RunDirectory

SYSTEMATIC = ("A", "B", "C")
"""The splits of logical inference that ask for systematic generalisation."""
OPTION_EPOCHS = 6
"""Of the runs that compare options and sizes of the training set."""
LOGIC_OPTION_EPOCHS = 2
"""Of the runs that compare ways to find the trees of logical inference."""
DONE = "done"
"""What is told of a finished run."""
FORMER = ", former settings"
"""Behind the title of what was trained before the preset changed."""
SPLIT_EPOCHS = {"A": 16, "B": 24, "C": 32}
"""Of Ordered Memory: more where there are fewer pairs."""
SIZES = (1_000, 3_000, 10_000, 30_000, 85_000, 300_000)
"""Of the training set; of its examples those of at most 50 tokens are used."""
SYSTEMS = {model: title for model, title in TITLES.items() if model != "ordered-memory"}
"""The compared systems, by the name of the model."""


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    key: str
    """Its name in files and commands."""
    title: str
    experiment: Experiment
    seeds: tuple[int, ...] = (0,)
    group: str = "systems"
    """The table it stands in: systems, ablations, sizes, or splits."""

    def name(self, seed: int) -> str:
        """Of a run: of its directory, and of its file of results."""
        return f"{self.key}-seed{seed}"

    def file(self, results: Path, seed: int) -> Path:
        return results / f"{self.name(seed)}.json"

    def results(self, folder: Path) -> list[dict[str, Any]]:
        """Those of its runs that are finished."""
        files = [path for seed in self.seeds if (path := self.file(folder, seed)).exists()]
        return [json.loads(path.read_text(encoding="utf-8")) for path in files]

    def states(self, folder: Path) -> dict[int, str]:
        """Of each seed: done, done with former settings, or not run."""
        done = {
            result["seed"]: DONE + (FORMER if self.has_former_settings(result) else "")
            for result in self.results(folder)
        }
        return {seed: done.get(seed, NOT_RUN) for seed in self.seeds}

    def title_of(self, results: Sequence[dict[str, Any]]) -> str:
        """The title, with a word where runs among these were trained before the preset changed: which, if not all."""
        former = [result["seed"] for result in results if self.has_former_settings(result)]
        if not former:
            return self.title
        return self.title + FORMER + ("" if len(former) == len(results) else f" of seed {' '.join(map(str, former))}")

    def run(self, seed: int) -> Experiment:
        return replace(self.experiment, training=replace(self.experiment.training, seed=seed))

    def has_former_settings(self, result: dict[str, Any]) -> bool:
        """Whether a finished run was trained otherwise than the row is planned now."""
        try:
            then = Experiment.from_dict(result["config"])
        except InputError:  # a setting that is no more
            return True
        return not self.plans(then)

    def plans(self, run: Experiment) -> bool:
        """Whether it is one of the row's as they are now; its time box aside."""
        now = self.run(run.training.seed)
        then, planned = (replace(one.training, budget=None) for one in (run, now))
        return (run.encoder, run.classifier, then) == (now.encoder, now.classifier, planned)


def _changed(experiment: Experiment, **parts: dict[str, Any]) -> Experiment:
    """The experiment with some settings of some parts changed: `_changed(e, encoder={"num_slots": 12})`."""
    return replace(experiment, **{name: replace(getattr(experiment, name), **new) for name, new in parts.items()})


def _scheduled(experiment: Experiment, epochs: int) -> Experiment:
    """With so many epochs; short examples fade out in the same share of them."""
    training = experiment.training
    return _changed(
        experiment, training={"epochs": epochs, "short_epochs": epochs * training.short_epochs / training.epochs}
    )


def _faithful(task: str, model: str, title: str) -> list[Row]:
    """The Transformers once more, as deep as the paper had them."""
    if model not in ("transformer", "universal-transformer"):
        return []
    return [Row(f"{model}-paper", f"{title}, published setting", preset(task, f"{task}-paper", model))]


def listops_rows() -> list[Row]:
    """Table 2, the options of the model, and the sizes of the training set."""
    ours = preset("listops", "listops")
    rows = [
        Row("ordered-memory", "Ordered Memory", ours, (0, 1, 2)),
        Row("ordered-memory-paper", "Ordered Memory, published recipe", preset("listops", "listops-paper"), (0, 1, 2)),
    ]
    for model, title in SYSTEMS.items():
        rows.append(Row(model, title, preset("listops", "listops", model), (0, 1, 2)))
        rows += _faithful("listops", model, title)
    # A shorter schedule, the same for all: what these rows are compared with is the first of them, or each other.
    shorter = _scheduled(ours, OPTION_EPOCHS)
    options: dict[str, tuple[str, dict[str, Any]]] = {
        "options-none": ("nothing changed but the schedule", {}),
        "ordered-memory-tree-rnn": ("TreeRNN op as cell", {"cell": "tree-rnn"}),
        "attention-paper": ("attention as the paper prints it", {"attention": "paper"}),
        "threshold-0": ("threshold 0: every cell computed", {"threshold": 0.0}),
        "threshold-0.001": ("threshold 0.001", {"threshold": 1e-3}),
        "hard-share": ("a hard pointer in half of the training steps", {"hard_share": 0.5}),
        "slots-8": ("8 slots", {"num_slots": 8}),
        "slots-12": ("12 slots", {"num_slots": 12}),
        "slots-32": ("32 slots", {"num_slots": 32}),
    }
    for key, (title, changes) in options.items():
        rows.append(Row(key, title, _changed(shorter, encoder=changes), group="ablations"))
    longer = _changed(_scheduled(ours, 2 * OPTION_EPOCHS), encoder={"attention": "paper"})
    title = f"attention as the paper prints it, {longer.training.epochs} epochs"
    rows.append(Row("attention-paper-longer", title, longer, group="ablations"))
    without = _changed(
        ours, encoder={"dropout": 0.0}, classifier={"output_dropout": 0.0}, training={"dropout_from": 0.0}
    )
    title = f"no dropout but the attention's, {ours.training.epochs} epochs"
    rows.append(Row("no-dropout", title, without, group="ablations"))
    # The attention as the paper prints it, which comes further on so short a schedule: else the curve would show how
    # long a run was, not how much it saw.
    all_of_them = ours.data.drawn_to_train
    # The LSTM is as large as Ordered Memory's slots here, and trains as a model without settings of its own does, such
    # as ON-LSTM: the larger one of the main table needs a longer schedule.
    small_lstm = replace(preset("listops", "listops", "on-lstm"), model="lstm", encoder=LSTMConfig(hidden_size=128))
    for size in SIZES:
        for base, title, encoder in ((ours, "Ordered Memory", {"attention": "paper"}), (small_lstm, "LSTM", {})):
            # As many steps for every size: what changes is how much there is to see.
            base = _scheduled(base, max(1, round(OPTION_EPOCHS * all_of_them / size)))
            key, sized = f"size-{size}-{base.model}", _changed(base, data={"train_size": size}, encoder=encoder)
            if size == all_of_them and encoder:
                key, sized = "attention-paper", _changed(base, encoder=encoder)  # one of the options: the same run
            rows.append(Row(key, f"{title}, {size:,} examples", sized, group="sizes"))
    return rows


def logic_rows() -> list[Row]:
    """Table 1: every system on the whole training set, and on A, B and C those that the paper has there."""
    ours = preset("logic", "logic")
    ablation = _changed(ours, encoder={"cell": "tree-rnn"})
    rows = [
        Row("ordered-memory", "Ordered Memory", ours, (0, 1, 2)),
        Row("ordered-memory-paper", "Ordered Memory, published recipe", preset("logic", "logic-paper")),
        Row("ordered-memory-tree-rnn", "Ordered Memory, TreeRNN op as cell", ablation),
    ]
    for model, title in SYSTEMS.items():
        if model not in LOGIC:
            continue
        experiment = preset("logic", "logic", model)
        rows.append(Row(model, title, experiment))
        if model == "universal-transformer":
            halting = _changed(experiment, encoder={"halting": True})
            rows.append(Row(f"{model}-halting", f"{title}, with halting", halting))
        rows += _faithful("logic", model, title)
    splits = [
        Row(
            f"{row.key}-{split}",
            f"{row.title}, split {split}",
            _changed(
                row.experiment,
                data={"split": split},
                training={"epochs": SPLIT_EPOCHS[split]} if row.key == "ordered-memory" else {},
            ),
            group="splits",
        )
        for row in rows
        for split in SYSTEMATIC
        if split in LOGIC.get(row.key, {})
    ]
    return rows + _ways_to_trees(ours) + splits


def _ways_to_trees(ours: Experiment) -> list[Row]:
    """What finding the trees of logical inference hangs on, on a shorter schedule and in one round: a second one would
    make up for what a way lacks."""
    shorter = _changed(ours, training={"epochs": LOGIC_OPTION_EPOCHS, "drawn_rounds": 1})
    none = ("random_steps", "start_steps", "pointer_steps", "copy_steps", "drawn_steps", "seeking_batch_size")
    not_drawn = {"copy_steps": 0, "drawn_steps": 0}
    no_phases = {**dict.fromkeys(none, 0), "written": False, "pointer_rate": 1.0}
    options: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
        "options-none": ("nothing changed but the schedule", {}),
        "not-drawn": ("the trees of the first model", {"training": not_drawn}),
        "two-rounds": ("two rounds in the place of one", {"training": {"drawn_rounds": 2}}),
        "two-draws": ("two trees of each sentence in the place of eight", {"training": {"draws": 2}}),
        "nothing-hidden": ("no token hidden from the cell", {"training": {"hidden_tokens": 0.0}}),
        "sure": ("a pointer as sure as it has copied the trees", {"training": {"drawn_sharpness": 1.0}}),
        "not-copied": ("no new model before trees are drawn", {"training": {"copy_steps": 0}}),
        "no-start": ("a pointer that starts from nothing", {"training": {"start_steps": 0}}),
        "lean-1": ("trees that do not lean", {"training": {"random_lean": 1.0, "start_lean": 1.0}}),
        "together": ("all learn together, from soft steps", {"training": no_phases, "encoder": {"hard_share": 0.0}}),
    }
    return [Row(key, title, _changed(shorter, **parts), group="ablations") for key, (title, parts) in options.items()]


TABLES: dict[str, Callable[[], list[Row]]] = {"listops": listops_rows, "logic": logic_rows}
"""The rows of each table, by the table's name."""
NUMBERS = {"table1": "logic", "table2": "listops"}
"""The same by their numbers in the paper."""


def rows_of(table: str, only: str | None = None) -> list[Row]:
    """The rows of a table; or the one whose key is `only`; or, if there is none, those whose key contains it.

    One that stands in two of its parts, for both show the same run, is told once.
    """
    if table not in TABLES:
        raise InputError(f"{table!r} is no table: there are {', '.join([*TABLES, *NUMBERS, 'generalisation'])}")
    rows = list({row.key: row for row in reversed(TABLES[table]())}.values())[::-1]
    if only is not None:
        rows = [row for row in rows if row.key == only] or [row for row in rows if only in row.key]
    if not rows:
        raise InputError(f"--only {only}: no row of {table} has that in its name")
    return rows


def missing(rows: list[Row], results: Path, former: bool = False) -> list[tuple[Row, int]]:
    """The runs that are not finished, in the order of the table, first seeds first; or also those that were trained
    before the preset changed."""
    wanted = [
        (place, row, seed)
        for row in rows
        for place, (seed, state) in enumerate(row.states(results).items())
        if state == NOT_RUN or (former and state != DONE)
    ]
    wanted.sort(key=lambda item: item[0])
    return [(row, seed) for _, row, seed in wanted]


def run_one(row: Row, seed: int, results: Path, runs: Path, progress: Progress, budget: str | None = None) -> Path:
    """Trains one run, or goes on with it, and puts its result into the folder of results."""
    folder = runs / row.name(seed)
    experiment = row.run(seed)
    if budget is not None:
        experiment = _changed(experiment, training={"budget": budget})
    begun = RunDirectory(folder).experiment() if (folder / CONFIG).exists() else None
    if begun is not None:
        if not row.plans(begun):
            raise InputError(f"{folder} has a run that was begun before the preset changed: move it away")
        if budget not in (None, begun.training.budget):
            raise InputError(f"--budget {budget}: the run in {folder} was begun with another: go on without it")
    train(experiment, folder, progress, begun is not None)
    return publish(folder, results, name=row.name(seed))

"""Training: one loop for every task and every model, which a kill at any moment does not change."""

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ordered_memory import __version__, native
from ordered_memory.classifier import Classifier
from ordered_memory.config import Experiment
from ordered_memory.errors import InputError
from ordered_memory.provenance import commit
from ordered_memory.tasks import SPLITS, TASKS, Example, Split, Task
from ordered_memory.training.batching import (
    POOL,
    Dataset,
    balanced_batches,
    epoch_batches,
    mixed_batches,
    of_like_length,
)
from ordered_memory.training.draws import drawn_losses
from ordered_memory.training.evaluation import evaluate, f1_of, trivial_f1
from ordered_memory.training.optimisation import learning_rate, make_optimiser, set_dropout, update
from ordered_memory.training.progress import Progress
from ordered_memory.training.run_directory import RESULT, Position, RunDirectory, Written
from ordered_memory.training.sharpening import SHARPENED, SHARPER, memories, sharpened
from ordered_memory.training.signals import signals_asked
from ordered_memory.training.turns import (
    IMITATES,
    Phase,
    Turn,
    by_label,
    draw,
    needs_pointer,
    next_turn,
    phase_of,
    phases,
    seed_of_new_model,
    seeks_trees,
    short_examples,
    with_random_trees,
)
from ordered_memory.training.word_vectors import prepare_vectors
from ordered_memory.training.written import SAMPLE, WrittenTrees
from ordered_memory.vectors import WordVectors


class Interrupted(Exception):  # noqa: N818 - no error: the run was asked to stop, and its state is saved
    """The run was asked to stop; its state is saved."""


def train(
    experiment: Experiment,
    folder: Path,
    progress: Progress,
    resume: bool = False,
    task: Task | None = None,
) -> dict[str, Any]:
    """Trains, keeps the best model on the validation set, measures it on the test set, and returns the result.

    With `resume` it goes on from the folder's last save, by the folder's own config, to the same weights as if it had
    never stopped. A `task` that is made already, from the experiment's data, is taken as it is.
    """
    if resume:
        experiment = RunDirectory.open(folder).experiment()
    else:
        RunDirectory.require_new(folder)
    task = task or TASKS[experiment.task](experiment.data)
    experiment = dataclasses.replace(experiment, data=task.config)  # which tells what data it really is
    progress.tell(f"preparing the data of {experiment.task}")
    splits = task.splits()
    for name in SPLITS:
        if not splits[name]:
            raise InputError(f"the {name} set is empty: allow longer examples or draw more of them")
    experiment, vectors = prepare_vectors(experiment, chain(*splits.values()), progress.tell)
    directory = RunDirectory.open(folder) if resume else RunDirectory.create(folder, experiment)
    with directory.locked(), _denormals_flushed():
        torch.manual_seed(experiment.training.seed)
        fresh = partial(make_classifier, experiment, task, vectors)
        model = fresh()
        try:
            run = _Run(experiment, directory, task, model, splits, progress, fresh)
        except InputError:
            if not resume:
                directory.withdraw()
            raise
        if resume:
            run.position = directory.load_last(model, run.optimiser)
            run.written = directory.load_written(run.training_set, task.sentences)
        if run.position.finished and (folder / RESULT).exists():
            return directory.result()
        if not run.position.finished:
            if memories(model):
                native.status()  # builds the engine, if that has not been done, before the clock runs
            try:
                with signals_asked() as asked:
                    run.until_done(asked)
            finally:
                progress.stop()  # however it ended, the terminal is given back
        return run.finish()


def make_classifier(experiment: Experiment, task: Task, vectors: WordVectors | None = None) -> Classifier:
    """A fresh model for a task, whose card tells what it is trained on. Words that have a vector are known to it."""
    values = experiment.to_dict()
    model = Classifier(
        task.vocabulary if vectors is None else task.vocabulary.extended(vectors.words),
        task.labels,
        experiment.model,
        experiment.encoder,
        experiment.classifier,
        experiment.task,
        card={"data": values["data"], "training": values["training"], "commit": commit()},
        sentences=task.sentences,
    )
    if vectors is not None:
        model.set_vectors(vectors)
    return model


class _Run:
    """One run in progress."""

    def __init__(
        self,
        experiment: Experiment,
        directory: RunDirectory,
        task: Task,
        model: Classifier,
        splits: dict[Split, list[Example]],
        progress: Progress,
        fresh: Callable[[], Classifier],
    ) -> None:
        self.experiment, self.config, self.directory = experiment, experiment.training, directory
        self.task, self.model, self.splits, self.progress, self.fresh = task, model, splits, progress, fresh
        self.optimiser = make_optimiser(self.config, model)
        self.apart = needs_pointer(self.config)
        if self.apart and not any(group["pointer"] for group in self.optimiser.param_groups):
            raise InputError(f"{self.apart} is set, and {experiment.model} has no pointer: leave it as it is")
        if self.config.sharpen and not memories(model):
            raise InputError(f"sharpen is set, and {experiment.model} has no pointer: leave it as it is")
        self.position = Position()
        self.asked: list[int] = []  # signals that ask it to stop
        self.written: WrittenTrees | None = None
        self.commit = commit()  # of the code that runs: the source tree may change while it does
        self.training_set = Dataset.encode(splits["train"], model)
        self.validation_set = Dataset.encode(splits["validation"], model)
        self.steps_per_epoch = len(self.batches(0))
        self.kinds = by_label(self.training_set.labels, np.arange(len(self.training_set)))
        if any(turn.trees == "random" for phase in phases(self.config) for turn in phase.turns):
            self.short = short_examples(self.training_set.lengths, self.training_set.labels, self.config)

    @property
    def share_done(self) -> float:
        """How far the training is: by the clock where there is a budget, else by steps, those that seek trees and those
        of the epochs after them."""
        if (budget := self.config.budget_seconds) is not None:
            return min(1.0, self.position.seconds / budget)
        return min(1.0, self.position.step / (self.config.seeking_steps + self.config.epochs * self.steps_per_epoch))

    @property
    def share_of_epochs(self) -> float:
        """How much is done of what comes once trees are found."""
        began = self.position.epochs_began
        return 0.0 if seeks_trees(self.config, self.position.step) else (self.share_done - began) / (1 - began)

    def until_done(self, asked: list[int]) -> None:
        """Trains until epochs or budget are used up, or validation accuracy says that it is enough."""
        position, config, self.asked = self.position, self.config, asked
        position.begin_part(self.commit, torch.get_num_threads())
        self.progress.start(self.experiment, self.steps_per_epoch, position, self.share_done)
        self.model.train()
        began, saved = time.perf_counter() - position.seconds, time.perf_counter()
        while not position.finished:
            batches = self.batches(position.epoch)
            while position.batch < len(batches) and not position.finished:
                if self.follows_the_clock and position.batch % POOL == 0:
                    batches = self.batches(position.epoch)
                try:
                    self.step(batches[position.batch])
                except Interrupted:
                    self.model.train()
                    self.save()
                    raise
                position.seconds = time.perf_counter() - began
                self.progress.step(position, self.share_done)
                every = config.evaluate_every or len(batches)
                due = position.batch == len(batches) if not config.evaluate_every else position.step % every == 0
                if due or self.share_done >= 1:
                    self.evaluate()
                    position.seconds = time.perf_counter() - began
                    position.finished = self.share_done >= 1 or self.enough()
                    if position.finished and self.share_done < 1:
                        self.progress.tell(self.why_enough())
                stop = bool(asked)
                late = time.perf_counter() - saved > config.checkpoint_seconds
                if due or stop or position.finished or late:
                    self.save()
                    saved = time.perf_counter()
                if stop and not position.finished:
                    raise Interrupted
            if position.batch == len(batches) and not position.finished:
                position.epoch, position.batch = position.epoch + 1, 0

    @property
    def follows_the_clock(self) -> bool:
        """Whether which examples come depends on how much of the budget is used up: short ones fade out in as large a
        share of it as of the epochs, or labels are drawn evenly in a share of it."""
        return self.config.budget is not None and bool(self.config.short_epochs or self.config.balanced)

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """Indices of each batch of an epoch."""
        config, lengths = self.config, self.training_set.lengths
        if config.short_share:
            mix = config.short_share, config.short_length, config.short_epochs
            behind = self.share_of_epochs * config.epochs if self.follows_the_clock else None
            batches = mixed_batches(lengths, config.batch_size, config.seed, epoch, *mix, behind)
        elif config.balanced:
            batches = epoch_batches(lengths, config.batch_size, config.seed, epoch)
            left = config.balanced * config.epochs - epoch  # epochs
            if self.follows_the_clock:
                left = float(self.share_of_epochs < config.balanced)
            early = round(min(1.0, max(0.0, left)) * len(batches))
            batches = balanced_batches(batches, self.training_set.labels, config.seed, epoch, early)
        else:
            return epoch_batches(lengths, config.batch_size, config.seed, epoch)
        if self.model.encoder.padded:
            batches = of_like_length(batches, lengths, config.batch_size, config.seed, epoch)
        return batches

    def step(self, indices: NDArray[np.int64]) -> None:
        """One batch. A step that is not taken is counted."""
        position, config = self.position, self.config
        hard_share = getattr(self.experiment.encoder, "hard_share", 0.0)
        phase = phase_of(config, position.step)
        if position.step == phase.begin:
            position.epochs_began = self.share_done if phase.name == "last" else 0.0
            if phase.renewed:
                self.renew(phase)  # which leaves dropout as in any step: what follows says where there is none
            if phase.name == "drawn":
                for memory in memories(self.model):
                    memory.sharpen(config.drawn_sharpness)
                self.optimiser.state.clear()  # of another pointer, and of steps that told it the trees
        turn = next_turn(config, hard_share, position.step)
        rate = learning_rate(config, self.share_of_schedule(phase), position.rate_scale)
        for group in self.optimiser.param_groups:
            group["lr"] = group["scale"] * rate
            # What would keep the cell from fitting too well keeps the pointer from finding trees at all.
            spared = (seeks_trees(config, position.step) and turn.trees != "written") or group["pointer"]
            group["weight_decay"] = 0.0 if spared else config.weight_decay
            if self.apart:  # what is held has no gradient, and its moments stay as they are
                learns = turn.learns in ("all", "pointer" if group["pointer"] else "rest")
                for parameter in group["params"]:
                    parameter.requires_grad_(learns)
        if config.dropout_from or self.apart:
            # A pointer that learns from what a cell makes of trees is shown what that will do at test.
            shown = turn.learns == "pointer" or turn.trees == "drawn"
            set_dropout(self.model, self.share_done >= config.dropout_from and not shown)
        self.model.encoder.step_pointer = "hard" if turn.trees == "hard" else "soft"
        self.model.encoder.imitates = turn in IMITATES
        batch = self.training_set.batch(indices := self.examples_of(phase, turn, indices), self.model)
        if turn.trees == "random":
            lean = config.start_lean if turn.learns == "pointer" else config.random_lean
            batch = with_random_trees(batch, config, position.step, lean)
        if turn.trees == "written":
            assert self.written is not None
            batch = self.written.show(batch, indices)
        losses = Classifier.losses
        if turn.trees == "drawn":
            losses = partial(drawn_losses, draws=config.draws, hidden=config.hidden_tokens)
        first, whole = update(self.model, self.optimiser, batch, config.clip, losses)
        position.skipped += not whole
        position.step += 1
        position.batch += phase.name == "last"
        if first is not None:
            position.training_loss, position.training_steps = (
                position.training_loss + first,
                position.training_steps + 1,
            )

    def examples_of(self, phase: Phase, turn: Turn, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those that a step reads: its place in the epoch has these, and while trees are sought others are drawn, each
        label as likely as any other, for rare ones tell as much of the trees as common ones."""
        if phase.name == "last":
            return indices
        if turn.trees == "random":
            return draw(self.short, self.config, self.position.step)
        if phase.name == "copy":
            assert self.written is not None  # they were, before the first such step
            kinds = by_label(self.training_set.labels, self.written.examples)
        else:
            kinds = self.kinds
        return draw(kinds, self.config, self.position.step)

    def share_of_schedule(self, phase: Phase) -> float:
        """How far that of the learning rate is. A first model, which seeks trees from nothing, has none but a warm-up;
        each phase of the others has one of its own, and so have the epochs."""
        if phase.end is None:
            return self.share_of_epochs
        share = phase.share(self.position.step)
        return share if phase.name in ("copy", "drawn") else min(share, self.config.warmup)

    def renew(self, phase: Phase) -> None:
        """Writes down the trees of the moment, for a new model to learn along them."""
        examples = np.arange(len(self.training_set))
        if phase.name == "copy":
            generator = np.random.Generator(np.random.PCG64([self.config.seed, phase.renewed, 3]))
            examples = np.sort(generator.permutation(examples)[:SAMPLE])
        self.progress.tell(f"writing down the trees of {len(examples):,} training examples, for a new model")
        advance = self.measured(len(examples))

        def more_done(more: int) -> None:
            advance(more)
            if self.asked:  # nothing has changed since the last step: it is done again from there
                raise Interrupted

        self.written = WrittenTrees.of(self.model, self.training_set, examples, more_done)
        chosen, trees = self.written.sample()
        f1 = f1_of([self.splits["train"][index] for index in chosen], trees, self.task.not_words)
        self.position.written.append(Written(self.position.step, len(examples), f1))
        if f1 is not None:
            self.progress.tell(f"F1 of these trees{' over words' if self.task.not_words else ''}: {100 * f1:.2f}")
        torch.manual_seed(seed_of_new_model(self.config, phase.renewed))
        self.model.load_state_dict(self.fresh().state_dict())
        self.optimiser.state.clear()

    def save(self) -> None:
        self.directory.save_last(self.model, self.optimiser, self.position, self.written)

    def evaluate(self) -> None:
        """Validation figures into the log; the best model is kept, the plateau schedule follows."""
        position = self.position
        figures = evaluate(
            self.model,
            self.splits["validation"],
            self.task.bucket,
            self.measured(len(self.validation_set)),
            dataset=self.validation_set,
            not_words=self.task.not_words,
        )
        rose = figures.accuracy > position.best_accuracy
        if rose or (figures.accuracy == position.best_accuracy and figures.loss < position.best_loss):
            position.best_accuracy, position.best_loss = figures.accuracy, figures.loss
            position.best_step = position.step
            self.directory.save_best(self.model)
        if rose:
            position.since_best = position.since_halving = 0
        else:
            position.since_best += 1
            position.since_halving += 1
            if self.config.schedule == "plateau" and position.since_halving >= self.config.halve_after:
                position.rate_scale, position.since_halving = position.rate_scale / 2, 0
        record = {
            "step": position.step,
            "epoch": round(position.epoch + position.batch / self.steps_per_epoch, 3),
            "seconds": round(position.seconds, 3),
            "learning_rate": self.optimiser.param_groups[0]["lr"],
            "training_loss": position.training_loss / position.training_steps if position.training_steps else None,
            "loss": figures.loss,
            "accuracy": figures.accuracy,
            "f1": figures.f1,
            "f1_without_root": figures.f1_without_root,
            "f1_words": figures.f1_words,
            "skipped": position.skipped,
        }
        position.training_loss, position.training_steps = 0.0, 0
        self.directory.append(record)
        self.progress.evaluated(record)

    def measured(self, total: int) -> Callable[[int], None]:
        """Takes how many more examples are measured, and tells how many are."""
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done += more
            self.progress.measured(done, total)

        return advance

    def enough(self) -> bool:
        """Whether validation accuracy is where it should be, or has stood still for too long."""
        patience = self.config.early_stop
        return self.position.best_accuracy > self.config.stop_at or 0 < patience <= self.position.since_best

    def why_enough(self) -> str:
        if self.position.best_accuracy > self.config.stop_at:
            return f"enough: validation accuracy is above {100 * self.config.stop_at:g} (--stop-at)"
        return f"enough: validation accuracy has not risen for {self.config.early_stop} evaluations (--early-stop)"

    def finish(self) -> dict[str, Any]:
        """Measures the best model on the test set, and on further ones that the task has, once."""
        model = Classifier.from_pretrained(self.directory.path)
        if (steps := self.position.step) < (seeking := self.config.seeking_steps):
            needs = f"that takes {seeking:,} steps, and the epochs come after them. Give it more time"
            self.progress.tell(f"it ended after {steps:,} steps, while trees were still sought: {needs}")
        elif self.config.sharpen and SHARPENED not in model.card:
            model = self.sharpen(model)
        examples, words = self.splits["test"], self.task.not_words
        extra = self.task.extra_tests()
        sets = {"validation": self.splits["validation"], "test": examples, **extra}
        sizes = ", ".join(f"{len(some):,} ({name})" for name, some in sets.items())
        # With a hard pointer: the same weights, each step's pointer put on one slot.
        hard_sets = ("validation", "test") if self.experiment.model == "ordered-memory" else ()
        twice = ", with a soft and with a hard pointer" if hard_sets else ""
        self.progress.tell(f"measuring the best model on examples: {sizes}{twice}")
        advance = self.measured(sum(map(len, sets.values())) + sum(len(sets[name]) for name in hard_sets))

        def measured(name: str, **options: Any) -> dict[str, Any]:
            return evaluate(model, sets[name], self.task.bucket, advance, not_words=words, **options).to_dict()

        try:
            figures = {name: measured(name) for name in sets}
            hard = {name: measured(name, pointer="hard") for name in hard_sets}
        finally:
            self.progress.stop()
        labels = Counter(example.label for example in examples)
        result = {
            "task": self.experiment.task,
            "model": self.experiment.model,
            "seed": self.config.seed,
            "validation": figures.pop("validation"),
            "test": figures.pop("test"),
            "hard_pointer": hard,
            "extra_tests": figures,
            "majority": max(labels.values()) / len(examples),
            "trivial_f1": trivial_f1(examples),
            "trivial_f1_words": trivial_f1(examples, not_words=words) if words else {},
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "position": dataclasses.asdict(self.position),
            SHARPENED: model.card.get(SHARPENED),
            "cores": torch.get_num_threads(),
            "commit": self.commit,
            "version": __version__,
            "config": self.experiment.to_dict(),
        }
        self.directory.finish(result)
        return result

    def sharpen(self, best: Classifier) -> Classifier:
        """The best model with the scores of its pointer multiplied, as the validation set likes it, in its place."""
        examples = self.splits["validation"]
        tried = f"times {', '.join(map(str, SHARPER[:-1]))} and {SHARPER[-1]}"
        self.progress.tell(f"sharpening the pointer: its scores {tried}, on {len(examples):,} validation examples each")
        advance = self.measured(len(SHARPER) * len(examples))
        try:
            model = sharpened(
                best, lambda one: evaluate(one, examples, self.task.bucket, advance, dataset=self.validation_set)
            )
        finally:
            self.progress.stop()
        self.progress.tell(f"best: times {model.card[SHARPENED]}")
        self.directory.save_best(model)
        return model


@contextmanager
def _denormals_flushed() -> Iterator[None]:
    """Gates far shut make numbers so small that the processor crawls; other code of the process may want them."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)

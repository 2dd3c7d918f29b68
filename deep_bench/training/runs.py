"""Training runs that are recorded: one, trained until its target or limit, or several, from seed to seed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from deep_bench.errors import InvalidArgument, NotKept, WorkerDied
from deep_bench.events import Callback
from deep_bench.measure.environment import provenance
from deep_bench.measure.metrics import Metric
from deep_bench.measure.progress import Bars, recording
from deep_bench.records.model import ErrorRecord, NetworkFacts, OptionsRecord
from deep_bench.training.callbacks import EvaluateEvery, TargetReached, TimeLimit
from deep_bench.training.callbacks.stopping import Signals, watched
from deep_bench.training.figures import (
    MlperfScore,
    Success,
    Survival,
    Throughput,
    ToTarget,
    determinism,
    mlperf_score,
    success,
    survival,
    throughput,
)
from deep_bench.training.record import (
    RunRecord,
    ScoreFacts,
    TargetRecord,
    TrainingRecord,
    data_facts,
    new_training_file,
    write_training,
)
from deep_bench.training.results import Runs
from deep_bench.training.samplers import natural
from deep_bench.training.trainer import INTERRUPTED, Trainer
from deep_bench.workers.pickling import dumped, loaded
from deep_bench.workers.process import Worker

__all__ = [
    "MlperfScore",
    "Runs",
    "Success",
    "Survival",
    "Throughput",
    "ToTarget",
    "kept",
    "mlperf_score",
    "recorded",
    "several",
    "success",
    "survival",
    "throughput",
]

MakeTrainer = Callable[[int, Sequence[Callback]], Trainer[Any]]
"""From a seed, and callbacks to hand on, to a fresh trainer."""


_UNLIMITED = 2**62


@dataclass(frozen=True)
class RunPlan:
    """What all runs have in common.

    Args:
        label: What they run on.
        target: The score to reach, and its value; ``None`` to train until the limit.
        every: The number of samples between evaluations; ``None`` leaves that to the trainer.
        epochs: The most epochs.
        steps: The most steps.
        seconds: The most time.

    Raises:
        InvalidArgument: No limit, or a number that is no whole one.
    """

    label: str = ""
    target: tuple[str, float] | None = None
    every: int | None = None
    epochs: int | None = None
    steps: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.epochs is None and self.steps is None and self.seconds is None:
            raise InvalidArgument("runs without a limit", "epochs=…, steps=… or seconds=…: a run may never reach its target")
        for name, number in (("every", self.every), ("epochs", self.epochs), ("steps", self.steps)):
            if number is not None:
                natural(name, number)

    def callbacks(self) -> list[Callback]:
        """Fresh ones for a run."""
        callbacks: list[Callback] = []
        if self.every is not None:
            callbacks.append(EvaluateEvery(self.every))
        if self.target is not None:
            callbacks.append(TargetReached(*self.target))
        if self.seconds is not None:
            callbacks.append(TimeLimit(self.seconds))
        return callbacks


def train(make_trainer: MakeTrainer, seed: int, plan: RunPlan) -> RunRecord:
    """Make a trainer, and let it run.

    Raises:
        InvalidArgument: The trainer cannot be made, does not have the callbacks, or evaluates by samples already or nothing.
        UnknownName: It does not evaluate the score of the target.
    """
    callbacks, start = plan.callbacks(), perf_counter_ns()
    trainer = make_trainer(seed, callbacks)
    setup_ns = perf_counter_ns() - start
    if not isinstance(trainer, Trainer) or any(callback not in trainer.callbacks for callback in callbacks):
        raise InvalidArgument(
            f"make_trainer made a {type(trainer).__name__} without the callbacks that it was given",
            "a Trainer that has them: Trainer(…, callbacks=callbacks)",
        )
    if sum(isinstance(callback, EvaluateEvery) for callback in trainer.callbacks) > 1:
        raise InvalidArgument("a trainer that evaluates by samples twice", "every=… here, or an EvaluateEvery of its own")
    if plan.target is not None:
        watched(trainer.evaluation, plan.target[0], "the target")
    steps = _UNLIMITED if plan.epochs is None and plan.steps is None else plan.steps
    error: Exception | None = None
    try:
        trainer.run(plan.epochs, steps=steps)
    except Exception as raised:  # a run that fails is an outcome, as one that misses its target is
        error = raised
    return kept(trainer, label=plan.label, seed=seed, setup_ns=setup_ns, error=error)


def kept(
    trainer: Trainer[Any], *, label: str = "", seed: int | None = None, setup_ns: int = 0, error: Exception | None = None
) -> RunRecord:
    """The record of a trainer's run, as far as it is.

    Args:
        trainer: The trainer.
        label: What it ran on, beginning with the framework's name.
        seed: Of the run; by default the trainer's.
        setup_ns: What it took to make the trainer; by default what the trainer itself knows.
        error: What ended it.
    """
    device, scores = trainer.taker.device, trainer.evaluation.scores if trainer.evaluation is not None else {}
    run = RunRecord(
        label=label,
        seed=trainer.seed if seed is None else seed,
        framework=dict(device.describe()) if hasattr(device, "describe") else {},
        network=NetworkFacts.of(trainer.form.source) if trainer.form is not None else None,
        data=data_facts(trainer),
        optimizer="" if trainer.taker.rule is None else repr(trainer.taker.rule),
        loss=trainer.taker.loss,
        scores={name: ScoreFacts(unit=score.unit, direction=score.direction) for name, score in scores.items()},
        every=next((c.samples for c in trainer.callbacks if isinstance(c, EvaluateEvery)), None),
        determinism=determinism(trainer, label),
        setup_ns=setup_ns or trainer.history.setup_ns,
        metrics=[callback.measurement() for callback in trainer.callbacks if isinstance(callback, Metric)],
        error=ErrorRecord.of(error) if error is not None else None,
        ranks=trainer.ranks.facts(),
    )
    run.keep(trainer.history)
    return run


class RunProcess:
    """A run in a process of its own; what a worker makes there.

    Args:
        make: The function that makes a trainer, pickled.
        seed: The run's.
        plan: What it shares with others.
    """

    def __init__(self, make: bytes, seed: int, plan: RunPlan) -> None:
        self.make: MakeTrainer = loaded(make, "make_trainer")
        self.seed, self.plan = seed, plan

    def train(self) -> str:
        """Let it run; its record as JSON."""
        run = train(self.make, self.seed, self.plan)
        run.process = True
        return run.model_dump_json()


def recorded(trainer: Trainer[Any], *, label: str = "") -> Runs:
    """A trainer's run until now, as `several` gives several: printing it shows the report, `Runs.save` writes the record.

    Args:
        trainer: The trainer; its target is that of its `TargetReached`, if it has one.
        label: What it runs on, beginning with the framework's name.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
        >>> digits = db.datasets["digits"]("train")
        >>> sampler = db.samplers["shuffled"](digits, batch_size=64, seed=1)
        >>> trainer = Trainer.on(
        ...     db.frameworks["reference"](), network, db.optimizers["sgd"](lr=0.01), dataset=digits, sampler=sampler)
        >>> _ = trainer.run(steps=2)
        >>> print(recorded(trainer, label="reference").report().splitlines()[0])
        digits-cnn on digits/train
    """
    run = kept(trainer, label=label)
    target = next((c for c in trainer.callbacks if isinstance(c, TargetReached)), None)
    record = TrainingRecord(
        **provenance(),
        recipe=OptionsRecord(options={"label": label}, seeds={"run 0": run.seed}),
        runs=[run],
        interrupted=run.stopped_because == INTERRUPTED,
        complete=run.stopped_because not in ("", INTERRUPTED),
    )
    _note_target(record, (target.score, target.target) if target is not None else None)
    return Runs(record)


def several(
    make_trainer: MakeTrainer,
    seeds: Sequence[int],
    *,
    target: tuple[str, float] | None = None,
    every: int | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    apart: bool = False,
    label: str = "",
    output: str | Path | None = None,
    into: Runs | None = None,
    progress: bool = True,
    ended: Callable[[RunRecord], None] | None = None,
) -> Runs:
    """Train several times with different seeds, each time until the target or a limit.

    Ctrl-C ends it; the runs that are finished by then are kept. An error in one run is kept as its outcome, and the others
    go on; only if the first trainer cannot be made, all ends there.

    Args:
        make_trainer: Makes a fresh trainer from a seed and callbacks, which it must hand on to the trainer.
        seeds: One for each run.
        target: The name of a score, and the value that is good enough.
        every: Evaluate every so many samples; by default when the trainer does, which must not do so by samples as well.
        epochs: The most epochs of a run,
        steps: the most steps,
        seconds: the most time since the data were first touched; at least one of the three.
        apart: Each run in a fresh process: ``make_trainer`` is pickled.
        label: What it runs on, beginning with the framework's name.
        output: The folder for the record, which is written anew after each run.
        into: Runs on something else with the same target, whose record these join; it says where they are written.
        progress: Whether to show a bar on a terminal.
        ended: Is told of each run when it has ended, before the next one begins.

    Raises:
        UnknownName: The first trainer does not evaluate the target's score.
        InvalidArgument: No seeds, one of them twice, no limit; the first trainer cannot be made or lacks the callbacks;
            ``make_trainer`` cannot be pickled; or ``into`` has runs of this label, or of another target.
        NotKept: The record cannot be written after the last run; its ``found`` holds the runs. Before that, the next run's
            end is another chance.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.training.scores import Accuracy
        >>> from deep_bench.training.trainer import Trainer
        >>> def make(seed, callbacks):
        ...     digits = db.datasets["digits"]("train")
        ...     network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
        ...     return Trainer.on(
        ...         db.frameworks["reference"](), network, db.optimizers["sgd"](lr=0.01), dataset=digits,
        ...         sampler=db.samplers["shuffled"](digits, batch_size=64, seed=seed), seed=seed, callbacks=callbacks,
        ...         scores=[lambda: Accuracy("logits", "label")], held_out=db.datasets["digits"]("test"))
        >>> runs = several(make, seeds=[1, 2], target=("accuracy", 0.9), every=128, steps=4, progress=False)
        >>> runs.success.reached, [run.steps for run in runs.runs]
        (2, [2, 2])
    """
    plan = RunPlan(label, target, every, epochs, steps, seconds)
    if not seeds or len(set(seeds)) < len(seeds):
        raise InvalidArgument(f"seeds {list(seeds)}", "at least one, each of them once")
    pickled = dumped(make_trainer, "make_trainer") if apart else None
    if into is not None:
        record, goal = into.record, into.record.target
        if label in record.labels():
            raise InvalidArgument(f"runs labelled {label!r} into a record that has such", "another label=…")
        if target != (goal and (goal.score, goal.value)):
            raise InvalidArgument(f"runs to {target} into a record of runs to {goal}", "the same target")
    else:
        limits = {"epochs": epochs, "steps": steps, "seconds": seconds}
        recipe = OptionsRecord(
            options={"label": label, **limits, "apart": apart},
            seeds={f"run {number}": seed for number, seed in enumerate(seeds)},
        )
        record = TrainingRecord(**provenance(), recipe=recipe)
    path = new_training_file(output, record) if output is not None else None if into is None else into.path
    bars, first = Bars(progress), len(record.runs)
    record.complete = False
    with recording(record, bars) as folder:
        bars.phase(f"training {label}".strip(), len(seeds), "runs")
        for seed in seeds:
            bars.at(f"seed {seed}")
            try:
                run = train(make_trainer, seed, plan) if pickled is None else _apart(pickled, seed, plan, folder)
            except Exception as error:  # whatever it is, the runs before it are kept, and others may go well
                if len(record.runs) == first and not isinstance(error, WorkerDied):
                    raise
                run = RunRecord(label=label, seed=seed, process=apart, error=ErrorRecord.of(error))
            record.runs.append(run)
            _note_target(record, target)
            if ended is not None:
                ended(run)
            if path is not None:
                with suppress(InvalidArgument):  # it is written again in the end, and told then
                    write_training(record, path)
            if run.stopped_because == INTERRUPTED:
                raise KeyboardInterrupt  # the trainer ends at Ctrl-C and returns; here it ends them all
            bars.advance()
    if path is not None:
        try:
            write_training(record, path)
        except InvalidArgument as error:
            raise NotKept(error.came, error.expected, found=Runs(record)) from error
    return Runs(record, path)


def _apart(make: bytes, seed: int, plan: RunPlan, folder: Path) -> RunRecord:
    """A run in a process of its own, which gets to know of Ctrl-C: it may have something to write."""
    factory = f"{RunProcess.__module__}:{RunProcess.__qualname__}"
    arguments = {"make": make, "seed": seed, "plan": plan}
    with Worker(factory, arguments, log=folder / f"seed_{seed}.log", label=f"the run of seed {seed}") as worker:
        signals = Signals(lambda: os.kill(worker.pid, signal.SIGTERM))
        signals.begin()
        try:
            return RunRecord.model_validate_json(worker.call("train"))
        except WorkerDied:
            if signals.came:
                raise KeyboardInterrupt from None  # it had nothing to write, and ended at once
            raise
        finally:
            signals.end()


def _note_target(record: TrainingRecord, target: tuple[str, float] | None) -> None:
    """The target with its direction, which the first run that was evaluated knows."""
    if record.target is None and target is not None and (facts := record.runs[-1].scores.get(target[0])) is not None:
        record.target = TargetRecord(score=target[0], value=target[1], direction=facts.direction)

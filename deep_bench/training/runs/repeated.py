"""The same training several times, from seed to seed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import JsonValue

import deep_bench
from deep_bench.errors import InvalidArgument, NotKept, WorkerDied
from deep_bench.measure.environment import capture
from deep_bench.measure.progress import Bars
from deep_bench.measure.record import ErrorRecord, Recipe
from deep_bench.measure.recording import recording
from deep_bench.measure.workers import Worker
from deep_bench.operators.pickled import dumped
from deep_bench.training.callbacks.stop_at_signal import Signals
from deep_bench.training.record import RunRecord, TargetRecord, TrainingRecord
from deep_bench.training.runs import storage
from deep_bench.training.runs.one import Apart, MakeTrainer, Plan, train
from deep_bench.training.runs.result import Runs
from deep_bench.training.trainer import INTERRUPTED


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
    plan = Plan(label, target, every, epochs, steps, seconds)
    if not seeds or len(set(seeds)) < len(seeds):
        raise InvalidArgument(f"seeds {list(seeds)}", "at least one, each of them once")
    pickled = dumped(make_trainer, "make_trainer") if apart else None
    if into is not None:
        _check_alike(into, plan)
    record = into.record if into is not None else _first_record(plan, seeds, apart)
    path = storage.new_file(output, record) if output is not None else None if into is None else into.path
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
            _note_target(record, plan)
            if ended is not None:
                ended(run)
            if path is not None:
                with suppress(InvalidArgument):  # it is written again in the end, and told then
                    storage.write(record, path)
            if run.stopped_because == INTERRUPTED:
                raise KeyboardInterrupt  # the trainer ends at Ctrl-C and returns; here it ends them all
            bars.advance()
    if path is not None:
        try:
            storage.write(record, path)
        except InvalidArgument as error:
            raise NotKept(error.came, error.expected, found=Runs(record)) from error
    return Runs(record, path)


def _check_alike(into: Runs, plan: Plan) -> None:
    target = into.record.target
    if plan.label in into.record.labels():
        raise InvalidArgument(f"runs labelled {plan.label!r} into a record that has such", "another label=…")
    if plan.target != (target and (target.score, target.value)):
        raise InvalidArgument(f"runs to {plan.target} into a record of runs to {target}", "the same target")


def _apart(make: bytes, seed: int, plan: Plan, folder: Path) -> RunRecord:
    """A run in a process of its own, which gets to know of Ctrl-C: it may have something to write."""
    factory = f"{Apart.__module__}:{Apart.__qualname__}"
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


def _first_record(plan: Plan, seeds: Sequence[int], apart: bool) -> TrainingRecord:
    options: dict[str, JsonValue] = {
        "label": plan.label,
        "epochs": plan.epochs,
        "steps": plan.steps,
        "seconds": plan.seconds,
        "apart": apart,
    }
    return TrainingRecord(
        deep_bench=deep_bench.__version__,
        command=[os.path.basename(sys.argv[0]), *sys.argv[1:]],
        recipe=Recipe(options=options, seeds={f"run {number}": seed for number, seed in enumerate(seeds)}),
        environment=capture(),
    )


def _note_target(record: TrainingRecord, plan: Plan) -> None:
    """The target with its direction, which the first run that was evaluated knows."""
    facts = record.runs[-1].scores.get(plan.target[0]) if plan.target is not None else None
    if record.target is None and plan.target is not None and facts is not None:
        record.target = TargetRecord(score=plan.target[0], value=plan.target[1], direction=facts.direction)

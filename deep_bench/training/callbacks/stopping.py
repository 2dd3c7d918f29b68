"""Callbacks that steer a training run: they end it, evaluate, or change settings of its optimizer."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from math import isfinite
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from deep_bench.errors import InvalidArgument, UnknownName, Unsupported
from deep_bench.events import Moment
from deep_bench.training.checkpoint import write_checkpoint
from deep_bench.training.run_state import EvaluationResult, Progress, reaches
from deep_bench.training.samplers import natural
from deep_bench.training.scores import Direction, Evaluation, Score
from deep_bench.training.steps import SeparateStep, Tree
from deep_bench.training.trainer import INTERRUPTED


def watched(evaluation: Evaluation[Any] | None, name: str, who: str) -> Score:
    """The score of this name among those that a trainer's evaluation makes.

    Args:
        evaluation: The trainer's.
        name: Of the score.
        who: What watches it, for the error.

    Raises:
        InvalidArgument: Nothing is evaluated.
        UnknownName: There is no such score.
    """
    if evaluation is None:
        raise InvalidArgument(
            f"{who} watches {name!r}, and nothing is evaluated", "a trainer with scores=[…] and held_out=…"
        )
    if name not in evaluation.scores:
        raise UnknownName("score", name, evaluation.scores, "let the trainer's scores have it, or watch another")
    return evaluation.scores[name]


class TargetReached:
    """Stops a run after the first evaluation where a score reaches its target; one that has reached it goes no further.

    Args:
        score: Its name.
        target: The value that is good enough.

    Attributes:
        reached: The evaluation; ``None`` before.

    Raises:
        InvalidArgument: The target is NaN; and when the run begins, that nothing is evaluated.
        UnknownName: When the run begins: no such score.

    Example:
        >>> TargetReached("accuracy", 0.97).reached is None
        True
    """

    moments = (Moment.BEFORE_RUN, Moment.AFTER_EVALUATION)

    def __init__(self, score: str, target: float) -> None:
        if target != target:
            raise InvalidArgument(f"target {target} for {score!r}", "a number")
        self.score, self.target = score, target
        self.direction: Direction = "higher"
        self.reached: EvaluationResult | None = None

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Look at the score."""
        if moment is Moment.BEFORE_RUN:
            self.direction = watched(data.trainer.evaluation, self.score, "TargetReached").direction
            self.reached = data.history.reached(self.score, self.target, self.direction)
        elif data.evaluated is not None and reaches(data.evaluated.figures[self.score], self.target, self.direction):
            self.reached = data.evaluated
        if self.reached is not None:
            data.stop(f"{self.score} {self.reached.figures[self.score]:.6g} reached its target {self.target:g}")


class TimeLimit:
    """Stops a run after the step that ends beyond a time, counted from the first touch of the data.

    The time of a run before it was resumed counts.

    Args:
        seconds: The time.

    Raises:
        InvalidArgument: It is not above 0.
    """

    moments = (Moment.BEFORE_RUN, Moment.AFTER_STEP)

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
            raise InvalidArgument(f"a limit of {seconds} seconds", "a number above 0")
        self.seconds = seconds

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Look at the clock."""
        if data.history.wall_ns >= self.seconds * 1e9:
            data.stop(f"the time limit of {self.seconds:g} s is over")


class EarlyStopping:
    """Stops a run when a score has got no better for a number of evaluations, and keeps the parameters that were best.

    Better means by more than ``min_delta``. NaN is never better.

    Args:
        score: Its name.
        patience: The run stops after so many evaluations in a row that brought nothing better.
        min_delta: By how much a score must be better.
        file: Where to write the best parameters and statistics, with `write_checkpoint`; only kept in memory without it.

    Attributes:
        best: ``parameters`` and ``statistics`` of the best evaluation, NumPy arrays by name, as `TrainingForm.trained` takes
            them; empty before the first.
        value: The best score; NaN before the first.
        step: The number of steps done then.

    Raises:
        InvalidArgument: A patience below 1, or a negative ``min_delta``; and when the run begins, that nothing is evaluated.
        UnknownName: When the run begins: no such score.

    Source:
        Prechelt, *Early stopping – but when?*, 1998, criterion UP.
    """

    moments = (Moment.BEFORE_RUN, Moment.AFTER_EVALUATION)

    def __init__(self, score: str, patience: int = 5, *, min_delta: float = 0.0, file: str | Path | None = None) -> None:
        if natural("patience", patience) < 1 or not min_delta >= 0:
            raise InvalidArgument(
                f"patience={patience}, min_delta={min_delta}", "a patience of at least 1, and a min_delta of at least 0"
            )
        self.score, self.patience, self.min_delta, self.file = score, patience, min_delta, file
        self.best: Tree = {}
        self.value, self.step = float("nan"), 0
        self._direction: Direction = "higher"
        self._waited = 0

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Look at the score."""
        if moment is Moment.BEFORE_RUN:
            self._direction = watched(data.trainer.evaluation, self.score, "EarlyStopping").direction
        elif data.evaluated is not None:
            value = data.evaluated.figures[self.score]
            if self._better(value):
                self._keep(value, data)
            else:
                self._waited += 1
        if self._waited >= self.patience:
            best = f"{self.value:.6g} in step {self.step}" if self.best else "none"
            data.stop(f"{self.score} got no better in {self.patience} evaluations; best: {best}")

    def _better(self, value: float) -> bool:
        if np.isnan(self.value) or np.isnan(value):
            return not np.isnan(value)
        gain = value - self.value if self._direction == "higher" else self.value - value
        return gain > self.min_delta

    def _keep(self, value: float, data: Progress) -> None:
        step = data.trainer.taker.snapshot()
        self.best = {part: {n: np.array(a) for n, a in step[part].items()} for part in ("parameters", "statistics")}
        self.value, self.step, self._waited = value, data.step, 0
        if self.file is not None:
            write_checkpoint(self.file, self.best)

    def snapshot(self) -> dict[str, Any]:
        """What it remembers, for a checkpoint."""
        return {
            "value": np.float64(self.value),
            "counts": np.array([self.step, self._waited], np.int64),
            "best": self.best,
        }

    def restore(self, tree: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.value = float(tree["value"])
        self.step, self._waited = map(int, tree["counts"])
        self.best = tree["best"]


class NonFinite:
    """Stops a run at a loss or gradient that is NaN or infinite, and saves the step.

    The file has all that is needed to look into it, readable with `read_checkpoint`: ``step``, ``epoch`` and ``seed``,
    ``indices`` and ``batch``, and with ``gradients`` also ``gradients``, and ``parameters`` and ``statistics`` as they were
    when these were computed (``parameters`` is missing where an optimizer that works in place has changed them already).

    Looking costs: one number is read from the device in each step, which waits for it.

    Args:
        folder: Where the file goes, ``non_finite_step_0000000012.h5``; made if it is missing.
        gradients: Whether to look at gradients, before the update; else at the loss only. Must be off where the whole
            step is one graph.

    Attributes:
        file: The file, once there is one.

    Raises:
        InvalidArgument: The folder cannot be made.
    """

    def __init__(self, folder: str | Path, *, gradients: bool = True) -> None:
        self.moments = (Moment.AFTER_GRADIENTS, Moment.AFTER_STEP) if gradients else (Moment.AFTER_STEP,)
        self.folder = Path(folder)
        self.file: Path | None = None
        self._before: Tree = {}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgument(f"cannot make the folder {self.folder}: {error.strerror}", "another folder") from error

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Look at the gradients, or at the loss."""
        if moment is Moment.AFTER_GRADIENTS:
            self._gradients(index, data)
        else:
            before, self._before = self._before, {}
            loss = data.loss
            if not isfinite(loss) and self.file is None:
                self._save(index, before, f"the loss of step {index} is {loss}", data)

    def _gradients(self, step: int, data: Progress) -> None:
        taker = data.trainer.taker
        self._before = {"gradients": dict(data.gradients), "statistics": dict(taker.statistics)}
        bad = _bad(data.gradients, taker.device)
        if bad:
            self._save(step, {**self._before, "parameters": dict(taker.parameters)}, f"in step {step} the {bad}", data)
        elif not (isinstance(taker, SeparateStep) and taker.optimizer.in_place):
            self._before["parameters"] = dict(taker.parameters)

    def _save(self, step: int, native: Tree, reason: str, data: Progress) -> None:
        device = data.trainer.taker.device
        copies = {part: {n: np.array(device.to_numpy(a)) for n, a in arrays.items()} for part, arrays in native.items()}
        numbers = {"step": np.int64(step), "epoch": np.int64(data.epoch), "seed": np.int64(data.trainer.seed)}
        tree = {**copies, **numbers, "indices": data.indices, "batch": dict(data.batch)}
        self.file = write_checkpoint(self.folder / f"non_finite_step_{step:010d}.h5", tree)
        data.stop(f"{reason}; the step is in {self.file}")


def _bad(gradients: Mapping[str, Any], device: Any) -> str:
    """What is wrong with gradients, or nothing; a single number is read as long as all are finite."""
    xp = device.xp
    marks = {name: xp.sum(g * 0) for name, g in gradients.items()}  # NaN and infinity times 0 are NaN
    if isfinite(sum(float(device.to_numpy(m)) for m in marks.values())):
        return ""
    wrong = [name for name, mark in marks.items() if not isfinite(float(device.to_numpy(mark)))]
    suffix = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return f"gradient of {wrong[0]!r}{suffix} is not finite"


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TOLD = b"interrupted: ends after this step; once more ends it at once\n"


class Signals:
    """Ctrl-C and SIGTERM as a call: the first of them; the next does what it did before. In the main thread only.

    Args:
        told: Called at the first; it comes between any two instructions, so it should note it and no more.

    Attributes:
        came: How many came.

    Example:
        >>> signals = Signals(lambda: print("stop, please"))
        >>> signals.begin()
        >>> signal.raise_signal(signal.SIGINT)
        stop, please
        >>> signals.end()
        >>> signals.came
        1
    """

    def __init__(self, told: Callable[[], object]) -> None:
        self.came = 0
        self._told = told
        self._before: dict[signal.Signals, Any] = {}

    def begin(self) -> None:
        """Take them from now on."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._take) for number in _SIGNALS}

    def end(self) -> None:
        """Leave them to what took them before."""
        while self._before:
            signal.signal(*self._before.popitem())

    def _take(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.came += 1
        if self.came > 1:
            self.end()
            signal.raise_signal(number)
            return
        os.write(2, _TOLD)  # what is buffered may be amid a write of its own
        self._told()


class StopAtSignal:
    """Ends a run after the step, or the evaluation, during which Ctrl-C or SIGTERM came; the next one ends it at once.

    A step that is broken off leaves parameters of which some are updated and others are not. A run that ends so can be
    resumed exactly, from what a `deep_bench.training.Checkpoints` before this in the callbacks then writes. Give it last:
    signals are taken from when all others have begun.
    """

    moments = (Moment.BEFORE_RUN, Moment.AFTER_RUN)

    def __init__(self) -> None:
        self._signals = Signals(lambda: None)

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Take the signals, or give them back."""
        if moment is Moment.BEFORE_RUN:
            self._signals = Signals(lambda: data.stop(INTERRUPTED))
            self._signals.begin()
            return
        self._signals.end()
        if self._signals.came and data.history.stopped_because != INTERRUPTED:
            raise KeyboardInterrupt  # the run came to another end meanwhile; what it is one of several of must end too


class EvaluateEvery:
    """Evaluates after the first step that reaches each multiple of a number of samples, as MLPerf's rules ask for.

    The trainer evaluates at no other times then.

    Args:
        samples: The number.

    Raises:
        InvalidArgument: It is below 1; and when the run begins, that there is nothing to evaluate with.

    Source:
        MLCommons, *MLPerf training rules*.
    """

    moments = (Moment.BEFORE_RUN, Moment.BEFORE_STEP, Moment.AFTER_STEP)

    def __init__(self, samples: int) -> None:
        self.samples = natural("samples", samples, 1)
        self._done = self._seen = 0

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Evaluate if it is due.

        Before a step that is so only in a run that goes on from a checkpoint which was written before the evaluation.
        """
        if moment is Moment.BEFORE_RUN:
            if data.trainer.evaluation is None:
                raise InvalidArgument("nothing to evaluate with", "a trainer with scores=[…] and held_out=…")
            data.trainer.every = _NEVER
            evaluations = data.history.evaluations
            self._done = evaluations[-1].samples // self.samples if evaluations else 0
            self._seen = data.history.samples
            return
        if moment is Moment.AFTER_STEP:
            self._seen += data.history.sizes[-1]
        if self._seen // self.samples > self._done:
            self._done = self._seen // self.samples
            data.trainer.evaluate()


_NEVER = 2**62
"""Steps between evaluations of the trainer's own: more than any run has."""


class Schedule:
    """Gives a setting of the optimizer a value before each step: any setting of any optimizer.

    A schedule of the learning rate inside the optimizer (``lr=…``) is traced into ONNX with it; this one is for all else,
    where the update stands apart from the gradients.

    Args:
        setting: Its name, such as ``"lr"`` or ``"momentum"``; ``"inner.lr"`` of an optimizer within another.
        values: From the number of steps done to the value; or from steps to the values that hold from there on.

    Raises:
        InvalidArgument: No values; and in a run, a value that the optimizer does not take.
        Unsupported: When the run begins: the whole step is one graph.
        UnknownName: When the run begins: the optimizer has no such setting.

    Example:
        >>> halved = Schedule("lr", {100: 0.05, 200: 0.025})
        >>> halved.value(99), halved.value(100), halved.value(500)
        (None, 0.05, 0.025)
    """

    moments = (Moment.BEFORE_RUN, Moment.BEFORE_STEP)

    def __init__(self, setting: str, values: Callable[[int], float] | Mapping[int, float]) -> None:
        if not callable(values) and not values:
            raise InvalidArgument(f"no values for {setting!r}", "a function of the step, or steps and values")
        self.setting = setting
        self._values = values
        self._set: Any = None

    def value(self, step: int) -> float | None:
        """The value in a step, counted from 0; ``None`` before the first that is stated."""
        if callable(self._values):
            return self._values(step)
        begun = [start for start in self._values if start <= step]
        return self._values[max(begun)] if begun else None

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Set it where it changes."""
        taker = data.trainer.taker
        if not isinstance(taker, SeparateStep):
            raise Unsupported(
                f"{self.setting!r} set from outside, where the whole step is one graph",
                "a framework with gradients and update apart",
                "give the optimizer itself a schedule: lr=…",
            )
        path = self.setting.split(".")
        if moment is Moment.BEFORE_RUN:
            _changed(taker.optimizer, path, None)
            return
        value = self.value(index)
        if value is not None and value != self._set:
            taker.optimizer = _changed(taker.optimizer, path, value)
            self._set = value


def _changed(optimizer: Any, path: list[str], value: float | None) -> Any:
    """An optimizer with another value of a setting; itself, once the setting was found, if that is ``None``."""
    names = [field.name for field in fields(optimizer)] if is_dataclass(optimizer) else []
    if path[0] not in names:
        raise UnknownName(f"setting of {type(optimizer).__name__}", path[0], names)
    if path[1:]:
        inner = _changed(getattr(optimizer, path[0]), path[1:], value)
        return optimizer if value is None else replace(optimizer, **{path[0]: inner})
    return optimizer if value is None else replace(optimizer, **{path[0]: value})

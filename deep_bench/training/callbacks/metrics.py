"""Callbacks that measure a training run: gradients, labels, the samples learned worst, energy and memory."""

from __future__ import annotations

from array import array
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deep_bench.errors import InvalidArgument, InvalidInput
from deep_bench.events import Moment
from deep_bench.measure.metrics import Direction, EnergyMeter, Metric, MetricRecord, forget_peak, resident_bytes
from deep_bench.training.callbacks.stopping import watched
from deep_bench.training.checkpoint import write_checkpoint
from deep_bench.training.run_state import Progress
from deep_bench.training.samplers import natural
from deep_bench.training.scores import SampleLosses
from deep_bench.workers.evidence import peak_memory_bytes

_READ_EVERY = 256


class GradientNorm(Metric):
    r"""The Euclidean norm of all gradients together, :math:`\sqrt{\sum_p \|g_p\|^2}`, before the update of each step.

    Squares are summed in float64 on the device, where they stay for a while: reading them waits for it.

    Attributes:
        norms: That of each step so far.

    Example:
        >>> GradientNorm().measurement().unavailable
        'not available: no step was watched'
    """

    name, unit = "gradient norm", ""
    direction: Direction = "lower"
    moments = (Moment.AFTER_GRADIENTS, Moment.AFTER_EVALUATION, Moment.AFTER_RUN)

    def __init__(self) -> None:
        self._norms: array[float] = array("d")
        self._unread: list[list[Any]] = []
        self._device: Any = None

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Sum the squares; read them now and then."""
        if moment is Moment.AFTER_GRADIENTS:
            self._device = data.trainer.taker.device
            xp = self._device.xp
            wide = [xp.cast(g, np.float64) for g in data.gradients.values()]
            self._unread.append([xp.sum(g * g) for g in wide])
        if moment is not Moment.AFTER_GRADIENTS or len(self._unread) >= _READ_EVERY:
            self._read()

    @property
    def norms(self) -> array[float]:
        """That of each step so far."""
        self._read()
        return self._norms

    def _read(self) -> None:
        for sums in self._unread:
            self._norms.append(sqrt(sum(float(self._device.to_numpy(x)) for x in sums)))
        self._unread.clear()

    def measurement(self) -> MetricRecord:
        """One value for each step."""
        return self.found(self.norms) if self.norms else self.unavailable("no step was watched")

    def snapshot(self) -> dict[str, np.ndarray]:
        """What it has seen, for a checkpoint."""
        return {"norms": np.array(self.norms)}

    def restore(self, tree: dict[str, np.ndarray]) -> None:
        """Go on from a checkpoint."""
        self._unread.clear()
        self._norms = array("d", np.asarray(tree["norms"]).tolist())


class LabelDistribution(Metric):
    r"""How far the labels as sampled are from what they should be: the total variation distance of the two distributions.

    :math:`\frac12 \sum_c |p_c - q_c|`, from 0 for the same to 1, over all samples of the run until now.

    Args:
        label: Name of the labels among the samples' arrays; whole numbers of at least 0.
        expected: How often each class should come, up to a common factor, such as the counts in the set
            (``np.bincount(labels_of(dataset))``); by default all alike, up to the highest label that came.

    Attributes:
        counts: How often each label came, int64.

    Raises:
        InvalidArgument: ``expected`` is no distribution.

    Example:
        >>> LabelDistribution("label", expected=[1, 1, 2]).measurement().unavailable
        'not available: no step was watched'
    """

    name, unit = "distance of labels as sampled", ""
    direction: Direction = "lower"
    moments = (Moment.BEFORE_STEP,)

    def __init__(self, label: str = "label", *, expected: ArrayLike | None = None) -> None:
        self.label = label
        self.counts: NDArray[np.int64] = np.zeros(0, np.int64)
        self.expected = None if expected is None else np.asarray(expected, np.float64)
        if self.expected is not None and not (
            self.expected.ndim == 1 and np.all(self.expected >= 0) and self.expected.sum() > 0
        ):
            raise InvalidArgument(
                f"expected={expected!r}", "how often each class should come: numbers of at least 0, not all 0"
            )

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Count the labels of the step's samples."""
        if self.label not in data.batch:
            raise InvalidInput(f"samples without {self.label!r}", f"one of {', '.join(data.batch)}")
        labels = np.asarray(data.batch[self.label]).reshape(-1)
        if labels.size and (labels.dtype.kind not in "iu" or labels.min() < 0):
            raise InvalidInput(f"{self.label!r} of type {labels.dtype}, from {labels.min()}", "whole numbers of at least 0")
        self.counts = _added(self.counts, np.bincount(labels.astype(np.int64)))

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of each label; NaN before the first sample."""
        total = self.counts.sum()
        return self.counts / total if total else np.full(len(self.counts), np.nan)

    def measurement(self) -> MetricRecord:
        """One value for all steps."""
        if not self.counts.sum():
            return self.unavailable("no step was watched")
        expected = np.ones(len(self.counts)) if self.expected is None else self.expected
        apart = _added(self.shares, -expected / expected.sum())
        listing = ", ".join(f"{label}: {share:.4g}" for label, share in enumerate(self.shares[:20]))
        suffix = f", and {len(self.counts) - 20} more" if len(self.counts) > 20 else ""
        return self.found([np.abs(apart).sum() / 2], remark=f"share of each label: {listing}{suffix}")

    def snapshot(self) -> dict[str, np.ndarray]:
        """What it has seen, for a checkpoint."""
        return {"counts": self.counts}

    def restore(self, tree: dict[str, np.ndarray]) -> None:
        """Go on from a checkpoint."""
        self.counts = np.array(tree["counts"], np.int64)


def _added(a: Any, b: Any) -> Any:
    """The sum of two, the shorter one taken to go on with zeros."""
    size = max(len(a), len(b))
    return np.pad(a, (0, size - len(a))) + np.pad(b, (0, size - len(b)))


class WorstSamples:
    """Writes the samples with the highest losses of the last evaluation to a file, worst first.

    The file is readable with `read_checkpoint`: ``numbers`` of the samples in the evaluated set, their ``losses``, the
    ``samples`` themselves, and the ``step``. A loss that is NaN counts as the highest.

    Args:
        file: The file; replaced at each evaluation.
        count: How many.
        score: Name of the `SampleLosses` among the trainer's scores; by default the only one.

    Raises:
        InvalidArgument: Less than one sample; and when the run begins, that the trainer's scores have no such losses.
        UnknownName: When the run begins: no such score.
    """

    moments = (Moment.BEFORE_RUN, Moment.AFTER_EVALUATION)

    def __init__(self, file: str | Path, count: int = 16, *, score: str | None = None) -> None:
        self.file, self.count, self.score = Path(file), natural("count", count, 1), score

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Write them."""
        watched_score = self._losses(data)
        if moment is not Moment.AFTER_EVALUATION:
            return
        losses, evaluation = watched_score.losses, data.trainer.evaluation
        assert evaluation is not None
        keys = np.where(np.isnan(losses), np.inf, losses)
        numbers = np.lexsort((np.arange(len(losses)), ~np.isnan(losses), -keys))[: self.count]
        samples = evaluation.dataset[numbers]
        tree = {"numbers": numbers, "losses": losses[numbers], "samples": samples, "step": np.int64(data.step)}
        write_checkpoint(self.file, tree)

    def _losses(self, data: Progress) -> SampleLosses:
        if self.score is None:
            scores = data.trainer.evaluation.scores if data.trainer.evaluation is not None else {}
            candidates = [score for score in scores.values() if isinstance(score, SampleLosses)]
            if len(candidates) != 1:
                raise InvalidArgument(
                    f"the worst samples by one of {len(candidates)} losses of samples",
                    "a trainer with one SampleLosses among its scores, or the name of one: score=…",
                )
            return candidates[0]
        watched_score = watched(data.trainer.evaluation, self.score, "WorstSamples")
        if not isinstance(watched_score, SampleLosses):
            raise InvalidArgument(f"the worst samples by {self.score!r}, a {type(watched_score).__name__}", "a SampleLosses")
        return watched_score


_EVERY_NS = 1_000_000_000
_NO_RUN = "no run was watched"


class TrainingEnergy(Metric):
    """The energy that the machine took from the beginning of a run to its end, evaluations included, in joules.

    See `deep_bench.measure.metrics.EnergyMeter` for what is counted. What was taken before a run was resumed counts.

    Args:
        meter: What to read; by default all counters of the machine.
    """

    name, unit = "energy of the training", "J"
    direction: Direction = "lower"
    moments = (Moment.BEFORE_RUN, Moment.AFTER_STEP, Moment.AFTER_RUN)

    def __init__(self, meter: EnergyMeter | None = None) -> None:
        self._meter = EnergyMeter() if meter is None else meter
        self._before = 0.0
        self._watched = False
        self._next_ns = 0

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Read the counters, once a second, since they begin anew now and then."""
        if moment is Moment.BEFORE_RUN:
            self._before += self._meter.joules or 0.0
            self._meter.start()
            self._watched = True
        elif moment is Moment.AFTER_RUN or time_ns >= self._next_ns:
            self._next_ns = time_ns + _EVERY_NS
            self._meter.update()

    def measurement(self) -> MetricRecord:
        """One value for the run."""
        joules = self._meter.joules
        if joules is None or not self._watched:
            return self.unavailable(self._meter.reason or _NO_RUN)
        parts = ", ".join(f"{name} {value:.4g} J" for name, value in self._meter.by_source.items())
        before = f"; {self._before:.4g} J before it was resumed" if self._before else ""
        return self.found([self._before + joules], remark=parts + before)

    def snapshot(self) -> dict[str, np.ndarray]:
        """What was taken so far, for a checkpoint."""
        self._meter.update()
        return {"joules": np.array(self._before + (self._meter.joules or 0.0))}

    def restore(self, tree: dict[str, np.ndarray]) -> None:
        """Go on from a checkpoint."""
        self._before = float(tree["joules"])
        self._meter.by_source = {}


class TrainingMemory(Metric):
    """The most memory that the process held in RAM during a run, in bytes: its framework and all else included."""

    name, unit = "peak memory of the training", "B"
    direction: Direction = "lower"
    moments = (Moment.BEFORE_RUN, Moment.AFTER_RUN)

    def __init__(self) -> None:
        self._before: int | None = None
        self._peak = 0
        self._reset = False

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Let the peak begin anew before the run, and read it after."""
        if moment is Moment.BEFORE_RUN:
            if self._before is None:
                self._before, self._reset = resident_bytes(), forget_peak()
        else:
            self._peak = max(self._peak, peak_memory_bytes())

    def measurement(self) -> MetricRecord:
        """One value for the run."""
        if self._before is None or not self._peak:
            return self.unavailable(_NO_RUN)
        how = "" if self._reset else "; since the process began: the system lets no peak begin anew"
        return self.found([self._peak], remark=f"{self._before} B before the run{how}")

    def snapshot(self) -> dict[str, np.ndarray]:
        """The peak so far, for a checkpoint."""
        return {"peak": np.array(max(self._peak, peak_memory_bytes()), np.int64)}

    def restore(self, tree: dict[str, np.ndarray]) -> None:
        """Go on from a checkpoint."""
        self._peak = int(tree["peak"])

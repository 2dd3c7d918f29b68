"""``compare_optimizers``: one verdict on each optimizer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from deep_bench.check.assess import assess
from deep_bench.check.estimate import Expectation, pooled
from deep_bench.check.thresholds import FEWEST_BITS, INFORMATION, SHRINKS_BY
from deep_bench.check.truth import SAMPLES, Effort
from deep_bench.errors import InvalidArgument
from deep_bench.training.comparison.contestant import Contestant, contestants
from deep_bench.training.comparison.oracle import Arrays, Gradients, Oracle, noisy
from deep_bench.training.comparison.problem import drawn_gradients, drawn_parameters
from deep_bench.training.comparison.result import Mode, OptimizerComparison, OptimizerVerdict, StepDifference
from deep_bench.training.optimizer import Evaluate

Expected = list[dict[str, Expectation]]
_FORMATS = ("float32", "float64")


def compare_optimizers(
    *optimizers: Any,
    parameters: Arrays | None = None,
    gradients: Sequence[Arrays] | None = None,
    evaluate: Evaluate | None = None,
    steps: int = 20,
    dtype: str = "float32",
    effort: Effort = "quick",
    seed: int = 0,
) -> OptimizerComparison:
    """Judge optimizers by the update of the first one, the reference; yours comes after it.

    That update is traced into a network, which is evaluated in float64 as the oracle, and several times with the rounding
    errors of the working format, step after step: what a correct implementation may arrive at. In *lock-step* all
    optimizers are given the same gradients. With ``evaluate`` they also run *free*, each on the gradients at its own
    parameters: where such a trajectory parts from the oracle's, rounding was magnified (chaos) unless the lock-step has
    found a fault already. The verdict rests on the lock-step. What float32 does not explain is run in float64 as well:
    rounding shrinks there, and a fault stays.

    Args:
        *optimizers: The first is the reference, by which the others are judged; it must be one that can be traced. Each is
            an optimizer, a name of ``db.optimizers``, or a pair of one with the framework (a name or an adapter) whose
            arrays it is to update. Or one mapping from label to these.
        parameters: Name to start; by default some that bring out epsilons and corrections.
        gradients: Those of each step in lock-step; by default drawn, or the oracle's own with ``evaluate``.
        evaluate: From parameters (NumPy arrays) to loss and gradients.
        steps: How many.
        dtype: The working format, ``"float32"`` or ``"float64"``.
        effort: ``"quick"`` makes 4 evaluations with rounding errors, ``"full"`` 16.
        seed: Of what is drawn.

    Raises:
        InvalidArgument: Fewer than two optimizers, or something that is none; gradients that do not fit; an optimizer of
            another framework, or that forgets a parameter or changes its element type.
        Unsupported: The first cannot be traced.

    Example:
        >>> import deep_bench as db
        >>> found = compare_optimizers("adam", db.optimizers["adam"](epsilon=1e-7), steps=5)
        >>> [verdict.word for verdict in found.verdicts]
        ['right', 'wrong']
    """
    if dtype not in _FORMATS:
        raise InvalidArgument(f"dtype={dtype!r}", f"one of {', '.join(_FORMATS)}")
    compared = contestants(optimizers)
    if compared[0].rule.framework is not None:
        raise InvalidArgument(f"{compared[0].label} first", "one that can be traced", "put one of deep_bench's own first")
    problem = _Problem(parameters, gradients, evaluate, len(gradients) if gradients is not None else steps, effort, seed)
    course = _Course(compared[0], problem, np.dtype(dtype))
    verdicts, rows = [], []
    for contestant in compared:
        mine = course.lock_step(contestant)
        free = course.free(contestant) if evaluate is not None else []
        verdicts.append(_verdict(contestant, mine, free, course))
        rows += [*mine, *free]
    return OptimizerComparison(compared[0].label, dtype, tuple(verdicts), tuple(rows))


@dataclasses.dataclass(frozen=True, eq=False)
class _Problem:
    """What optimizers are compared on."""

    parameters: Arrays | None
    gradients: Sequence[Arrays] | None
    evaluate: Evaluate | None
    steps: int
    effort: Effort
    seed: int

    def start(self, dtype: np.dtype) -> dict[str, np.ndarray]:
        if self.parameters is None:
            return drawn_parameters(dtype, self.seed)
        return {name: np.asarray(x, dtype) for name, x in self.parameters.items()}

    def stated(self, start: Mapping[str, np.ndarray], dtype: np.dtype) -> Sequence[Arrays] | None:
        """The gradients in lock-step; ``None`` for those of the oracle's trajectory."""
        if self.gradients is None and self.evaluate is not None:
            return None
        # Numbers of float32 in either format, so that the oracle of float64 answers the same question.
        gradients = self.gradients or drawn_gradients(dict(start), self.steps, np.dtype(np.float32), self.seed)
        for step, slopes in enumerate(gradients):
            for name, x in start.items():
                if name not in slopes or np.shape(slopes[name]) != x.shape:
                    came = f"step {step + 1} with gradients of {', '.join(slopes)}"
                    raise InvalidArgument(came, f"one of {name!r} with shape {list(x.shape)}")
        return [{name: np.asarray(slopes[name], dtype) for name in start} for slopes in gradients]


class _Course:
    """The oracle's trajectories in one format, and what each step of another may be."""

    def __init__(self, first: Contestant, problem: _Problem, dtype: np.dtype) -> None:
        self.first, self.problem, self.dtype = first, problem, dtype
        narrow = problem.start(np.dtype(np.float32)) if problem.parameters is None else problem.start(dtype)
        self.start = {name: x.astype(dtype) for name, x in narrow.items()}
        self.oracle = Oracle(first.rule, self.start)
        gradients = problem.stated(self.start, dtype)
        if gradients is None:
            gradients = []
            self.oracle.trajectory(self._noting(gradients), problem.steps)
        self.stated = gradients
        self._expected: dict[Mode, Expected] = {}

    def _noting(self, noted: list[Arrays]) -> Gradients:
        def gradients_noted(step: int, point: dict[str, np.ndarray]) -> Arrays:
            noted.append({name: np.asarray(g, self.dtype) for name, g in self._own(step, point).items()})
            return noted[-1]

        return gradients_noted

    def _own(self, _: int, point: dict[str, np.ndarray]) -> Arrays:
        assert self.problem.evaluate is not None
        return {name: np.asarray(g) for name, g in self.problem.evaluate(point)[1].items()}

    def _given(self, step: int, _: dict[str, np.ndarray]) -> Arrays:
        return self.stated[step]

    def expected(self, mode: Mode) -> Expected:
        """What is expected after each step."""
        if mode not in self._expected:
            source, steps = self._given if mode == "lock-step" else self._own, self.problem.steps
            plain = self.oracle.trajectory(source, steps)
            samples = []
            for k in range(SAMPLES[self.problem.effort]):
                rng = np.random.default_rng([self.problem.seed, 2, k])
                disturbed = source if mode == "lock-step" else noisy(source, self.dtype, rng)
                samples.append(self.oracle.trajectory(disturbed, steps, rng, alike=k % 2 == 1))
            self._expected[mode] = [
                {name: pooled(x, [s[step][name] for s in samples], self.dtype) for name, x in arrays.items()}
                for step, arrays in enumerate(plain)
            ]
        return self._expected[mode]

    def lock_step(self, contestant: Contestant) -> list[StepDifference]:
        """All differences on the same gradients."""
        trajectory = contestant.trajectory(self.start, self._given, self.problem.steps, self.problem.evaluate)
        return self._differences(contestant, "lock-step", trajectory)

    def free(self, contestant: Contestant) -> list[StepDifference]:
        """All differences on the gradients of its own trajectory."""
        trajectory = contestant.trajectory(self.start, self._own, self.problem.steps, self.problem.evaluate)
        return self._differences(contestant, "free", trajectory)

    def _differences(
        self, contestant: Contestant, mode: Mode, trajectory: list[dict[str, np.ndarray]]
    ) -> list[StepDifference]:
        return [
            _difference(contestant.label, mode, step + 1, name, arrays[name], expectation)
            for step, (arrays, expected) in enumerate(zip(trajectory, self.expected(mode), strict=True))
            for name, expectation in expected.items()
        ]

    @cached_property
    def in_float64(self) -> _Course:
        """The same in float64, on the same numbers."""
        problem = dataclasses.replace(self.problem, parameters=self.start, gradients=self.stated)
        return _Course(self.first, problem, np.dtype(np.float64))


def _difference(label: str, mode: Mode, step: int, name: str, actual: np.ndarray, expected: Expectation) -> StepDifference:
    opinion = assess(actual, expected)
    with np.errstate(all="ignore"):
        error = _rms(actual - expected.value) if actual.shape == expected.value.shape else float("inf")
    largest = opinion.agreement.largest if opinion.agreement is not None else float("inf")
    return StepDifference(
        label,
        mode,
        step,
        name,
        opinion.bits,
        error,
        _rms(expected.spread),
        largest,
        opinion.deficit,
        opinion.level,
        opinion.reason,
    )


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x)))) if x.size else 0.0


def _verdict(
    contestant: Contestant, rows: Sequence[StepDifference], free: Sequence[StepDifference], course: _Course
) -> OptimizerVerdict:
    worst = max(rows, key=lambda row: row.deficit)
    parts = next((row.step for row in free if row.level != "clear"), None)
    if worst.level == "clear":
        if nothing := _drowned(course):
            return OptimizerVerdict(contestant.label, "no information", nothing, worst.bits, parts)
        return OptimizerVerdict(contestant.label, "right", "rounding explains every step", worst.bits, parts)
    reason = f"{worst.parameter!r} after step {worst.step} {worst.reason}"
    if worst.level == "impossible" or course.dtype == np.float64:
        return OptimizerVerdict(contestant.label, "wrong", reason, worst.bits, parts)
    try:
        precise = course.in_float64.lock_step(contestant)
    except Exception as error:  # a framework says in its own ways that it does not compute in float64
        first = next(iter(str(error).splitlines()), type(error).__name__)
        message = f"{reason}, and it does not run in float64: {first}"
        return OptimizerVerdict(
            contestant.label, "cannot tell" if worst.level == "grey" else "wrong", message, worst.bits, parts
        )
    if any(r.bits < FEWEST_BITS for r in rows) or not all(map(_vanished, rows, precise)):
        return OptimizerVerdict(contestant.label, "wrong", f"{reason}; in float64 the error stays", worst.bits, parts)
    return OptimizerVerdict(contestant.label, "reduced precision", f"{reason}; in float64 it does not", worst.bits, parts)


def _vanished(row: StepDifference, precise: StepDifference) -> bool:
    """Whether a difference was rounding: it is clear in float64, or far smaller."""
    return row.level == "clear" or precise.level == "clear" or precise.error <= row.error * SHRINKS_BY


def _drowned(course: _Course) -> str:
    for name, expected in course.expected("lock-step")[-1].items():
        if not np.isfinite(expected.value).all():
            return f"{name!r} is not finite even without rounding"
        if not expected.settled.all():
            return f"rounding alone decides whether {name!r} is finite"
        scale = max(float(np.std(expected.value)), float(np.max(np.abs(expected.value), initial=0.0)) / 16)
        if expected.value.size and _rms(expected.spread) > INFORMATION * scale > 0:
            return f"rounding alone changes {name!r} by as much as its own spread"
    return ""

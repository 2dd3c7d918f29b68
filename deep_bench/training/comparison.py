"""Do two optimizers do the same? Their trajectories against the rounding errors of the first one's update."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console
from rich.table import Table

from deep_bench import frameworks, optimizers
from deep_bench.arrays import grown
from deep_bench.check.estimate import Expectation, assess, pooled
from deep_bench.check.oracle import SAMPLES, Effort, WideArithmetic, formats_of, settings_of
from deep_bench.check.thresholds import FEWEST_BITS, INFORMATION, SHRINKS_BY
from deep_bench.check.verdict import Word
from deep_bench.errors import InvalidArgument
from deep_bench.framework import Device
from deep_bench.network.train_step import check_types, evaluation_point, update_draft, updated
from deep_bench.records.table import print_note
from deep_bench.tensor import unit_roundoff
from deep_bench.training.optimizer import Evaluate, Optimizer, check_home

__all__ = ["OptimizerComparison", "OptimizerVerdict", "StepDifference", "compare_optimizers"]

DrawnArrays = dict[str, np.ndarray]


def drawn_parameters(dtype: np.dtype, seed: int) -> DrawnArrays:
    """A matrix, a vector that is half zeros, and a matrix of zeros.

    A parameter that starts at 0 is, after a step, nothing but that step, with all its digits.
    """
    rng = np.random.default_rng([seed, 0])
    vector = rng.standard_normal(24)
    vector[::2] = 0
    parameters = {
        "matrix": rng.standard_normal((6, 8)),
        "vector": vector,
        "faint": np.zeros((5, 8)),
    }
    return {name: np.asarray(x, dtype) for name, x in parameters.items()}


def drawn_gradients(parameters: DrawnArrays, steps: int, dtype: np.dtype, seed: int) -> list[DrawnArrays]:
    """Gradients from 1e-7 to 10, each element with its own size; some are always 0, some constant, and some die out.

    Those of a parameter that is all zeros are of about 1e-14, where the smallest epsilons show.
    """
    rng = np.random.default_rng([seed, 1])
    sizes = {name: _sizes(x, rng) for name, x in parameters.items()}
    kinds = {name: rng.integers(0, 8, x.shape) for name, x in parameters.items()}
    by_step = []
    for step in range(steps):
        drawn = {}
        for name, size in sizes.items():
            kind, noise = kinds[name], rng.standard_normal(size.shape)
            noise = np.where(kind == 0, 0.0 if size.size > 8 else noise, noise)
            noise = np.where(kind == 1, 1.0, noise)
            noise = np.where(kind == 2, noise * 0.5**step, noise)
            drawn[name] = np.asarray(size * noise, dtype)
        by_step.append(drawn)
    return by_step


def _sizes(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    exponents = rng.uniform(-7, 1, x.shape)
    faint = x.ndim > 1 and not x.any()
    return np.asarray(10.0 ** (exponents / 8 - 14 if faint else exponents))


Arrays = Mapping[str, np.ndarray]
Gradients = Callable[[int, dict[str, np.ndarray]], Arrays]
"""From the number of a step and the point where they are asked for to the gradients."""


class UpdateOracle:
    """The trajectory of a rule, and what rounding makes of it.

    Args:
        rule: The optimizer; it must be one that can be traced.
        parameters: Where it starts, in the working format.
    """

    def __init__(self, rule: Optimizer[Any, Any], parameters: Arrays) -> None:
        self.rule, self.parameters = rule, parameters
        draft = update_draft(rule, parameters)
        self._following, self._initial, self._state = draft.following, draft.initial, draft.state
        self._run: Any = frameworks["reference"]().prepare(draft.network)
        zeros = {f"gradient of {name}": np.zeros_like(x) for name, x in parameters.items()}
        self._formats = formats_of(self._run, {**self._initial, **zeros})
        self._settings = settings_of(draft.network.upgraded().graph)

    def trajectory(
        self, gradients: Gradients, steps: int, rng: np.random.Generator | None = None, *, alike: bool = False
    ) -> list[dict[str, np.ndarray]]:
        """The parameters after each step, in float64.

        Args:
            gradients: Where gradients come from.
            steps: How many.
            rng: Where rounding errors are drawn from; none without it.
            alike: Draw the same errors in every step. Where each step adds the same to a parameter it rounds alike, and the
                errors add up in proportion to the steps and not to their root.
        """
        seed = None if rng is None else int(rng.integers(2**32))
        held: dict[str, Any] = {n: x.astype(np.float64) if x.dtype.kind == "f" else x for n, x in self._initial.items()}
        trajectory = []
        for step in range(steps):
            current = {name: held[name] for name in self.parameters}
            state = grown({path: held[name] for path, name in self._state.items()})
            point = self.rule.prepare(current, state)
            slopes = gradients(step, {name: np.asarray(x) for name, x in point.items()})
            fed = {f"gradient of {name}": np.asarray(g, np.float64) for name, g in slopes.items()}
            drawn = np.random.default_rng(seed) if alike else rng
            arithmetic = WideArithmetic(self._formats, self._settings, rng=drawn)
            outputs = self._run.evaluate({**held, **fed}, arithmetic=arithmetic)
            held = {name: np.asarray(outputs[output]) for name, output in self._following.items()}
            trajectory.append({name: held[name] for name in self.parameters})
        return trajectory


def noisy(gradients: Gradients, dtype: np.dtype, rng: np.random.Generator) -> Gradients:
    """Gradients that are rounded once more, as those of another evaluation are."""
    u = unit_roundoff(dtype)

    def noisy_gradients(step: int, point: dict[str, np.ndarray]) -> Arrays:
        return {n: g * (1 + u * rng.uniform(-1, 1, np.shape(g))) for n, g in gradients(step, point).items()}

    return noisy_gradients


@dataclass(frozen=True)
class OptimizerContestant:
    """An optimizer and where it runs.

    Args:
        label: How reports call it.
        rule: The optimizer.
        device: Of the arrays that it updates.
    """

    label: str
    rule: Optimizer[Any, Any]
    device: Device[Any]

    def trajectory(
        self, parameters: Mapping[str, np.ndarray], gradients: Gradients, steps: int, evaluate: Evaluate | None = None
    ) -> list[dict[str, np.ndarray]]:
        """The parameters after each step, as NumPy arrays of their own type; what is not finite is judged, and no error."""
        device, xp = self.device, self.device.xp
        held = {name: device.from_numpy(np.array(x)) for name, x in parameters.items()}
        dtypes = {name: x.dtype for name, x in parameters.items()}
        state, trajectory = self.rule.init(held, xp), list[dict[str, np.ndarray]]()

        def native(arrays: Mapping[str, Any]) -> dict[str, Any]:
            return {name: device.from_numpy(np.array(arrays[name], dtypes[name])) for name in parameters}

        def elsewhere(point: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
            assert evaluate is not None
            loss, slopes = evaluate({name: device.to_numpy(x) for name, x in point.items()})
            return device.from_numpy(np.asarray(loss)), native(slopes)

        with np.errstate(all="ignore"):
            for step in range(steps):
                point = {name: np.array(device.to_numpy(x)) for name, x in evaluation_point(self.rule, held, state).items()}
                slopes = native(gradients(step, point))
                before, at = held, None if evaluate is None else elsewhere
                held, state = updated(self.rule, slopes, state, before, xp, evaluate=at)
                check_types(self.rule, before, held, xp)
                device.synchronize()
                trajectory.append({name: np.array(device.to_numpy(x)) for name, x in held.items()})
            return trajectory


def optimizer_contestants(given: tuple[Any, ...]) -> list[OptimizerContestant]:
    """What `compare_optimizers` was given, with labels that differ."""
    if len(given) == 1 and isinstance(given[0], Mapping):
        pairs = list(given[0].items())
    else:
        pairs = [(None, entry) for entry in given]
    entries: list[OptimizerContestant] = []
    for label, entry in pairs:
        rule, device = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, None)
        if isinstance(rule, str):
            rule = optimizers[rule]()
        if not isinstance(rule, Optimizer):
            expected = "an optimizer, a name of db.optimizers, or (optimizer, framework)"
            raise InvalidArgument(f"{rule!r} to compare", expected)
        home = rule.framework or (device if isinstance(device, str) else None)
        device = device or home or "reference"
        framework = frameworks[device]() if isinstance(device, str) else device
        check_home(rule, framework)
        kind = getattr(rule, "kind", type(rule).__name__).lower()
        name = base = label or (entry if isinstance(entry, str) else f"{home}.{kind}" if home else kind)
        used_names, number = {c.label for c in entries}, 2
        while name in used_names:
            name, number = f"{base} {number}", number + 1
        entries.append(OptimizerContestant(name, rule, framework))
    if len(entries) < 2:
        raise InvalidArgument(f"{len(entries)} optimizers", "two at least: the first is what the others are judged by")
    return entries


Mode = Literal["lock-step", "free"]


@dataclass(frozen=True, slots=True)
class StepDifference:
    """One parameter after one step, against the oracle.

    Args:
        label: The optimizer's.
        mode: ``"lock-step"``: on the same gradients. ``"free"``: on those of its own trajectory.
        step: The number of the step, from 1.
        parameter: The parameter's name.
        bits: Significant bits; see `deep_bench.check`.
        error: The root mean square of what it differs by.
        estimate: The root mean square of what rounding is estimated to make of it.
        largest: The largest error in units of its own estimate.
        deficit: How many bits are missing.
        level: ``"clear"``: rounding explains it. ``"grey"``, ``"beyond"``, ``"impossible"``: it does less and less.
        reason: What is wrong with it.
    """

    label: str
    mode: Mode
    step: int
    parameter: str
    bits: float
    error: float
    estimate: float
    largest: float
    deficit: float
    level: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OptimizerVerdict:
    """What is said of one optimizer.

    Args:
        label: How it is called.
        word: *right*, *reduced precision*, *wrong*, *cannot tell* or *no information*.
        reason: Why.
        bits: Significant bits of its worst parameter and step in lock-step.
        parts: The first step at which its own trajectory is farther from the oracle's than rounding explains; ``None`` if
            none is, or it was not run.
    """

    label: str
    word: Word
    reason: str
    bits: float
    parts: int | None = None


@dataclass(frozen=True, slots=True)
class OptimizerComparison:
    """Optimizers against the first one's update.

    Args:
        reference: The first one's label: by its update, in float64, all are judged.
        dtype: The working format.
        verdicts: One for each optimizer, the first one's own computation included.
        rows: All differences.
    """

    reference: str
    dtype: str
    verdicts: tuple[OptimizerVerdict, ...]
    rows: tuple[StepDifference, ...]

    @property
    def ok(self) -> bool:
        """Whether all are right."""
        return all(v.word == "right" for v in self.verdicts)

    def __getitem__(self, label: str) -> OptimizerVerdict:
        return next(v for v in self.verdicts if v.label == label)

    def table(self, width: int = 120) -> str:
        """One line for each optimizer, and the reasons."""
        heads = ("optimizer", "role", "verdict", "bits", "worst step", "parameter", "error", "estimate", "parts at")
        table = Table(*heads, box=None)
        for verdict in self.verdicts:
            worst = self.worst(verdict.label)
            cells = [f"{verdict.bits:.1f}", str(worst.step), worst.parameter, f"{worst.error:.2g}", f"{worst.estimate:.2g}"]
            free = any(r.mode == "free" and r.label == verdict.label for r in self.rows)
            parts = "" if not free else "never" if verdict.parts is None else f"step {verdict.parts}"
            role = "reference" if verdict.label == self.reference else "judged by it"
            table.add_row(verdict.label, role, verdict.word, *cells, parts)
        out = io.StringIO()
        console = Console(file=out, width=width, highlight=False)
        print_note(console, f"{self.dtype}; the reference is {self.reference}, the first that was given")
        console.print(table)
        for verdict in self.verdicts:
            if verdict.word != "right":
                print_note(console, f"{verdict.label}: {verdict.word}: {verdict.reason}")
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())

    __str__ = table

    def worst(self, label: str, mode: Mode = "lock-step") -> StepDifference:
        """The parameter and step of an optimizer that is farthest from what rounding explains."""
        rows: Sequence[StepDifference] = [r for r in self.rows if r.label == label and r.mode == mode]
        return max(rows, key=lambda row: row.deficit)

    def to_json(self) -> dict[str, Any]:
        """All figures in plain JSON types."""
        return {
            "reference": self.reference,
            "dtype": self.dtype,
            "ok": self.ok,
            "verdicts": [asdict(v) for v in self.verdicts],
            "rows": [asdict(r) for r in self.rows],
        }

    def plot(self, file: str | Path) -> Path:
        """The error of each optimizer over the steps, beside the estimate; needs matplotlib."""
        from deep_bench.training.plots import plot_optimizers

        return plot_optimizers(self, Path(file))


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
    compared = optimizer_contestants(optimizers)
    if compared[0].rule.framework is not None:
        raise InvalidArgument(f"{compared[0].label} first", "one that can be traced", "put one of deep_bench's own first")
    steps = len(gradients) if gradients is not None else steps
    problem = _UpdateProblem(parameters, gradients, evaluate, steps, effort, seed)
    course = _Course(compared[0], problem, np.dtype(dtype))
    verdicts, rows = [], []
    for contestant in compared:
        mine = course.differences(contestant, "lock-step")
        free = course.differences(contestant, "free") if evaluate is not None else []
        verdicts.append(_verdict(contestant, mine, free, course))
        rows += [*mine, *free]
    return OptimizerComparison(compared[0].label, dtype, tuple(verdicts), tuple(rows))


@dataclasses.dataclass(frozen=True, eq=False)
class _UpdateProblem:
    """What optimizers are compared on."""

    parameters: Arrays | None
    gradients: Sequence[Arrays] | None
    evaluate: Evaluate | None
    steps: int
    effort: Effort
    seed: int


class _Course:
    """The oracle's trajectories in one format, and what each step of another may be."""

    def __init__(self, first: OptimizerContestant, problem: _UpdateProblem, dtype: np.dtype) -> None:
        self.first, self.problem, self.dtype = first, problem, dtype
        parameters = problem.parameters
        if parameters is None:
            parameters = drawn_parameters(np.dtype(np.float32), problem.seed)
        self.start = {name: np.asarray(x, dtype) for name, x in parameters.items()}
        self.oracle = UpdateOracle(first.rule, self.start)
        self.sources: dict[Mode, Gradients] = {"lock-step": lambda step, _: self.gradients[step], "free": self._evaluated}
        self._expected: dict[Mode, Expected] = {}
        self.gradients: list[Arrays] = []
        if problem.gradients is None and problem.evaluate is not None:
            self.oracle.trajectory(self._noted, problem.steps)
            return
        # Numbers of float32 in either format, so that the oracle of float64 answers the same question.
        drawn = problem.gradients or drawn_gradients(self.start, problem.steps, np.dtype(np.float32), problem.seed)
        for step, slopes in enumerate(drawn):
            for name, x in self.start.items():
                if name not in slopes or np.shape(slopes[name]) != x.shape:
                    came = f"step {step + 1} with gradients of {', '.join(slopes)}"
                    raise InvalidArgument(came, f"one of {name!r} with shape {list(x.shape)}")
            self.gradients.append({name: np.asarray(slopes[name], dtype) for name in self.start})

    def _evaluated(self, _: int, point: dict[str, np.ndarray]) -> Arrays:
        """The gradients at a point."""
        assert self.problem.evaluate is not None
        return {name: np.asarray(g) for name, g in self.problem.evaluate(point)[1].items()}

    def _noted(self, step: int, point: dict[str, np.ndarray]) -> Arrays:
        """The same on the oracle's own trajectory, which then are those of each step in lock-step."""
        self.gradients.append({name: np.asarray(g, self.dtype) for name, g in self._evaluated(step, point).items()})
        return self.gradients[-1]

    def expected(self, mode: Mode) -> Expected:
        """What is expected after each step."""
        if mode not in self._expected:
            source, steps = self.sources[mode], self.problem.steps
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

    def differences(self, contestant: OptimizerContestant, mode: Mode) -> list[StepDifference]:
        """All differences: on the same gradients, or on those of its own trajectory."""
        problem, rows = self.problem, []
        trajectory = contestant.trajectory(self.start, self.sources[mode], problem.steps, problem.evaluate)
        for step, (arrays, expectations) in enumerate(zip(trajectory, self.expected(mode), strict=True), 1):
            for name, expected in expectations.items():
                opinion, error = assess(arrays[name], expected), inf
                if arrays[name].shape == expected.value.shape:
                    with np.errstate(all="ignore"):
                        error = _rms(arrays[name] - expected.value)
                row = StepDifference(
                    label=contestant.label, mode=mode, step=step, parameter=name, bits=opinion.bits, error=error,
                    estimate=_rms(expected.spread), deficit=opinion.deficit, level=opinion.level, reason=opinion.reason,
                    largest=opinion.agreement.largest if opinion.agreement is not None else inf,
                )  # fmt: skip
                rows.append(row)
        return rows

    @cached_property
    def in_float64(self) -> _Course:
        """The same in float64, on the same numbers."""
        problem = dataclasses.replace(self.problem, parameters=self.start, gradients=self.gradients)
        return _Course(self.first, problem, np.dtype(np.float64))


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x)))) if x.size else 0.0


def _verdict(
    contestant: OptimizerContestant, rows: Sequence[StepDifference], free: Sequence[StepDifference], course: _Course
) -> OptimizerVerdict:
    worst = max(rows, key=lambda row: row.deficit)
    parts = next((row.step for row in free if row.level != "clear"), None)
    word, reason = _judged(contestant, rows, worst, course)
    return OptimizerVerdict(contestant.label, word, reason, worst.bits, parts)


def _judged(
    contestant: OptimizerContestant, rows: Sequence[StepDifference], worst: StepDifference, course: _Course
) -> tuple[Word, str]:
    if worst.level == "clear":
        nothing = _drowned(course)
        return ("no information", nothing) if nothing else ("right", "rounding explains every step")
    reason = f"{worst.parameter!r} after step {worst.step} {worst.reason}"
    if worst.level == "impossible" or course.dtype == np.float64:
        return "wrong", reason
    try:
        precise = course.in_float64.differences(contestant, "lock-step")
    except Exception as error:  # a framework says in its own ways that it does not compute in float64
        first = next(iter(str(error).splitlines()), type(error).__name__)
        return "cannot tell" if worst.level == "grey" else "wrong", f"{reason}, and it does not run in float64: {first}"
    vanished = all(
        row.level == "clear" or in_float64.level == "clear" or in_float64.error <= row.error * SHRINKS_BY
        for row, in_float64 in zip(rows, precise, strict=False)
    )
    if any(r.bits < FEWEST_BITS for r in rows) or not vanished:
        return "wrong", f"{reason}; in float64 the error stays"
    return "reduced precision", f"{reason}; in float64 it does not"


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

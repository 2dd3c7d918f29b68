"""Whether a kernel's gradients are the slopes of its own results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from deep_bench.check.ladder import in_float64
from deep_bench.check.truth import Effort, Truth
from deep_bench.errors import DeepBenchError
from deep_bench.operators.case import Case
from deep_bench.operators.checks.differences import Slopes, noise_of, slopes_of
from deep_bench.operators.checks.finding import Finding, Word, combined
from deep_bench.operators.checks.line import Mover
from deep_bench.operators.checks.prepared import found
from deep_bench.operators.checks.problem import Problem, posed
from deep_bench.operators.operator import Operator
from deep_bench.tensor import is_float, significand_bits, unit_roundoff

DIRECTIONS: Mapping[Effort, int] = {"quick": 2, "full": 5}
JACOBIAN_SIZE = 64
"""The whole Jacobian is compared where inputs and outputs have at most so many elements."""

_SURE = 6.0
_OWN_ROUNDINGS = 8.0
"""How many roundings of an output, and of its slope, gradients may be off by where no forward in their type shows it."""

_ROUNDINGS = 16.0
"""How many roundings of its whole a gradient may be off by."""

_OTHER_DIRECTIONS = 5
"""How many further directions must agree that there is a gradient where there are ties."""

_SENSITIVE = 0.005
"""The share of a slope under which an error must be, so that a fault of one percent does not hide in it."""


def slopes_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    r"""Whether a kernel's ``backward`` gives the slopes of its own ``forward``, by differences.

    Along random directions :math:`v` of each input, :math:`\langle \partial L / \partial x, v \rangle` must be the slope of
    :math:`L(x + t v)` with :math:`L = \langle g, y \rangle`, as central differences and their extrapolation tell it; the
    whole Jacobian is compared where it is small. It is done in the case's own element types, with steps that suit their
    precision, and in float64 where the kernel takes that. Outputs with a kink on the way (relu at 0, ties of a maximum) get
    no gradient :math:`g`; at the kink itself the gradient must lie between the slopes to both sides.

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        seed: Names inputs, directions and gradients.
        effort: ``"quick"`` takes two directions of each input, ``"full"`` five.

    Example:
        >>> class Relu(Operator):
        ...     computes = "Relu"
        ...     def forward(self, x):
        ...         return np.maximum(x, 0)
        ...     def backward(self, grads, inputs, outputs):
        ...         return grads[0] * (inputs[0] > 0) * np.float32(1.01)
        >>> print(slopes_check(Relu(), Case.of("Relu", (40,))).word)
        wrong
    """
    problem = posed(case, seed, effort)
    if not operator.differentiates:
        return Finding("slopes", problem.name, "not applicable", f"{operator.name} has no backward")
    parts = list(_parts(operator, problem))
    return combined("slopes", problem.name, parts, "it has no floating-point inputs and outputs")


def _parts(operator: Operator[Any], problem: Problem) -> Iterator[Finding]:
    truth = problem.truth()
    form = narrowest(truth)
    if form is None:
        return
    yield from compared("slopes", problem, str(form), form, lambda: Mover(operator, problem.network, truth, truth.inputs))
    tied = ties_of(problem)
    if tied is not None:
        mover = partial(Mover, operator, problem.network, tied, tied.inputs)
        yield from compared("slopes", problem, f"{form}, ties", form, mover, ties=True)
    wide = None if form == np.float64 else moved_in_float64(operator, problem, truth)
    if wide is not None:
        yield from compared("slopes", problem, "float64", np.dtype(np.float64), lambda: wide)


def narrowest(truth: Truth) -> np.dtype | None:
    """The narrowest floating-point type that is read or written, if there are both floating-point inputs and outputs."""
    inputs = [a.dtype for a in truth.inputs.values() if is_float(a.dtype) and a.size]
    outputs = [truth.formats[n] for n, y in truth.outputs.items() if is_float(truth.formats[n]) and np.size(y)]
    return min([*inputs, *outputs], key=significand_bits) if inputs and outputs else None


def ties_of(problem: Problem) -> Truth | None:
    """What is known of the case on inputs with ties, if there are such inputs for it."""
    try:
        return problem.truth("ties")
    except DeepBenchError:  # there are no such inputs for it
        return None


def moved_in_float64(operator: Operator[Any], problem: Problem, truth: Truth, **options: Any) -> Mover | None:
    """The kernel in float64, if it takes that, which it need not.

    Args:
        operator: The kernel.
        problem: The case.
        truth: What is known of the answer.
        options: As for `Mover`.
    """
    network, inputs = in_float64(problem.network, truth.inputs)
    try:
        return Mover(operator, network, truth, inputs, **options)
    except (DeepBenchError, ValueError, TypeError):
        return None


@dataclass(frozen=True, eq=False)
class _Trial:
    """What the directions of one run have in common.

    Args:
        check: The check that asks.
        problem: The case.
        mover: The kernel.
        form: The narrowest element type that it works in.
        place: What findings call the run.
        ties: Whether the inputs are such that maxima have ties and relus zeros.
    """

    check: str
    problem: Problem
    mover: Mover
    form: np.dtype
    place: str
    ties: bool

    @property
    def steps(self) -> tuple[float, ...]:
        return steps_of(np.dtype(np.float64) if self.mover.oracle else self.form)

    @property
    def u(self) -> float:
        return unit_roundoff(self.form)

    def noise(self, name: str, direction: np.ndarray) -> np.ndarray:
        """The rounding error of each output, as the kernel shows it along a direction."""
        line = self.mover.line(name, direction * self.mover.scale(name))
        return noise_of(line, self.mover.here, self.mover.expected_noise, self.steps[-1] / 16)

    def slopes(self, name: str, direction: np.ndarray, noise: np.ndarray) -> Slopes:
        """Of all outputs, while an input moves along a direction in units of its elements."""
        line = self.mover.line(name, direction * self.mover.scale(name))
        slopes = slopes_of(line, self.mover.here, noise, self.steps)
        if not self.mover.oracle:
            return slopes
        with np.errstate(invalid="ignore"):
            rounding_noise = np.where(
                slopes.smooth, _OWN_ROUNDINGS * self.u * (np.abs(self.mover.here) + np.abs(slopes.value)), 0.0
            )
        return replace(slopes, noise=slopes.noise + rounding_noise)

    def finding(self, word: Word, reason: str, where: str, bits: float | None = None, **figures: float) -> Finding:
        """What is said of one direction, or of the Jacobian."""
        return Finding(self.check, self.problem.name, word, reason, bits, f"{self.place}, {where}", figures)


def compared(
    check: str, problem: Problem, place: str, form: np.dtype, make: Callable[[], Mover], *, ties: bool = False
) -> Iterator[Finding]:
    """What differences in one element type say: along directions of each input, and of the whole Jacobian where it is small.

    Args:
        check: The check that asks.
        problem: The case.
        place: What findings call it.
        form: The narrowest element type that the kernel works in.
        make: Makes what moves.
        ties: Whether the inputs are such that maxima have ties and relus zeros.
    """
    ready: list[_Trial] = []

    def prepare() -> Finding:
        ready.append(_Trial(check, problem, make(), form, place, ties))
        return Finding(check, problem.name, "right")

    failed = found(check, problem, prepare, place)
    if not ready:
        yield failed
        return
    (trial,) = ready
    mover = trial.mover
    names = [n for n, a in mover.inputs.items() if is_float(a.dtype) and a.size]
    for name in names:
        for number in range(1 if ties else DIRECTIONS[problem.effort]):
            yield found(check, problem, partial(_along, trial, name, number), f"{place}, input {name}")
    small = mover.size <= JACOBIAN_SIZE and sum(mover.inputs[n].size for n in names) <= JACOBIAN_SIZE
    if small and not ties:
        yield found(check, problem, partial(_jacobian, trial, names), f"{place}, Jacobian")


def steps_of(form: np.dtype) -> tuple[float, ...]:
    """Steps that suit a precision, in units of the input's elements, each half of the one before.

    Example:
        >>> steps_of(np.dtype("float32"))
        (0.25, 0.125, 0.0625, 0.03125, 0.015625)
    """
    first, count = {53: (-7, 5), 24: (-2, 5), 11: (0, 4)}.get(significand_bits(form), (0, 3))
    return tuple(2.0 ** (first - k) for k in range(count))


def _along(trial: _Trial, name: str, number: int) -> Finding:
    mover, where = trial.mover, f"input {name}"
    rng = np.random.default_rng([trial.problem.seed, number, 3])
    regular = np.isfinite(mover.backward(np.zeros(mover.size))[name])
    if 2 * np.sum(regular) < regular.size:
        return trial.finding("wrong", "backward gives NaN or infinities for gradients of 0", where)
    direction = np.where(regular, rng.choice([-1.0, 1.0], regular.shape), 0.0)
    noise = trial.noise(name, direction)
    slopes = trial.slopes(name, direction, noise)
    usable = slopes.smooth
    if trial.ties and not usable.all():
        usable = usable & _additive(trial, name, direction, slopes, noise, rng)
    weights = rng.integers(1, 9, mover.size) / 8.0
    weights *= np.where(slopes.value >= 0, 1.0, -1.0) if number == 0 else rng.choice([-1.0, 1.0], mover.size)
    grads = np.where(usable, weights, 0.0)
    masked = float(mover.size - np.sum(usable))
    if masked == mover.size:
        return trial.finding("no information", "no output is smooth there", where, masked=masked)
    scaled = direction * mover.scale(name)
    claimed = float(np.sum((mover.backward(grads)[name] * scaled)[regular]))
    measured = float(np.sum(grads * slopes.value))
    size = float(np.sqrt(np.sum(np.square(grads * slopes.value))))
    tolerance = (
        _SURE * float(np.sqrt(np.sum(np.square(grads * slopes.noise))))
        + float(np.sum(np.abs(grads) * slopes.error))
        + trial.u * (_ROUNDINGS * size + 4 * abs(measured))
    )
    share = tolerance / (max(size, abs(measured)) or 1.0)
    figures = {"masked": masked, "sensitivity": share}
    if not abs(claimed - measured) <= tolerance:
        reason = f"the slope along a direction is {measured:.6g} ± {tolerance:.1g}, and backward gives {claimed:.6g}"
        return trial.finding("wrong", reason, where, _bits(claimed, measured), **figures)
    if outside := _at_kinks(trial, name, scaled, slopes, weights):
        return trial.finding("wrong", outside, f"{where}, at kinks", **figures)
    if not size or share > _SENSITIVE:
        reason = f"differences tell the slope to {share:.1%} only" if size else "the slope is 0"
        return trial.finding("no information", reason, where, **figures)
    return trial.finding("right", "", where, **figures)


def _bits(claimed: float, measured: float) -> float:
    """How many bits of a slope agree."""
    error = abs(claimed - measured) / (abs(measured) or 1.0)
    return float(max(0.0, -np.log2(error))) if np.isfinite(error) and error > 0 else 0.0


def _additive(
    trial: _Trial, name: str, direction: np.ndarray, slopes: Slopes, noise: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Where slopes along a sum of directions are the sums of slopes: else it has no gradient, smooth as it may be.

    The middle one of three equal elements, sorted, is such a case: its slope along any line is the middle one of three.
    """
    additive = np.ones(slopes.value.shape, bool)
    for _ in range(_OTHER_DIRECTIONS):
        second_direction = rng.choice([-1.0, 1.0], direction.shape) * rng.integers(1, 9, direction.shape) / 8.0
        alone, both = trial.slopes(name, second_direction, noise), trial.slopes(name, direction + second_direction, noise)
        apart = np.abs(both.value - alone.value - slopes.value)
        scale = np.abs(both.value) + np.abs(alone.value) + np.abs(slopes.value)
        additive &= (
            alone.smooth & both.smooth & (apart <= 0.01 * scale + _SURE * 2 * (both.noise + alone.noise + slopes.noise))
        )
    return additive


def _at_kinks(trial: _Trial, name: str, scaled: np.ndarray, slopes: Slopes, weights: np.ndarray) -> str:
    """What is wrong with the gradient at kinks, where it must lie between the slopes to both sides.

    It need not where results are sorted: with equal elements the gradient may be that of any of them.
    """
    operator = trial.problem.case.operator
    if not slopes.kink.any() or operator == "TopK" or not isinstance(operator, str):
        return ""
    grads = np.where(slopes.kink, np.abs(weights) * np.where(slopes.low + slopes.high >= 0, 1.0, -1.0), 0.0)
    claimed = float(np.sum((trial.mover.backward(grads)[name] * scaled)[scaled != 0]))
    ends = np.stack([grads * slopes.low, grads * slopes.high])
    low, high = float(np.sum(ends.min(axis=0))), float(np.sum(ends.max(axis=0)))
    room = 0.02 * float(np.sum(np.abs(ends).max(axis=0))) + _SURE * float(np.sqrt(np.sum(np.square(grads * slopes.noise))))
    if low - room <= claimed <= high + room:
        return ""
    return f"the slopes to both sides are {low:.4g} and {high:.4g}, and backward gives {claimed:.4g}"


def _jacobian(trial: _Trial, names: list[str]) -> Finding:
    """Every derivative of every output."""
    mover = trial.mover
    claimed = [mover.backward(row) for row in np.eye(mover.size)]
    worst, message, compared, masked = 1.0, "", 0, 0
    for name in names:
        array, scale = mover.inputs[name], mover.scale(name)
        noise = trial.noise(name, np.ones(array.shape))
        for index in np.ndindex(array.shape):
            direction = np.zeros(array.shape)
            direction[index] = 1.0
            slopes = trial.slopes(name, direction, noise)
            column = np.array([gradients[name][index] for gradients in claimed]) * scale
            largest = float(np.max(np.abs(column), initial=0))
            room = _SURE * slopes.noise + 2 * slopes.error + _ROUNDINGS * trial.u * largest
            excess = np.where(slopes.smooth, np.abs(column - slopes.value) / np.maximum(room, 1e-300), 0.0)
            compared += int(np.sum(slopes.smooth))
            masked += int(np.sum(~slopes.smooth))
            k = int(np.argmax(excess))
            if not excess[k] <= worst:
                worst, where = float(excess[k]), f"d {mover.place(k)} / d {name}{list(index)}"
                message = f"{where} is {slopes.value[k] / scale:.6g}, and backward gives {column[k] / scale:.6g}"
    figures = {"compared": float(compared), "masked": float(masked)}
    if message:
        return trial.finding("wrong", message, "Jacobian", **figures)
    if not compared:
        return trial.finding("no information", "no output is smooth there", "Jacobian", **figures)
    return trial.finding("right", "", "Jacobian", **figures)

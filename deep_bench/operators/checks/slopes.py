"""Whether a kernel's gradients are the slopes of its own results.

A kernel, or what it claims to compute, is a vector of functions of one variable, in which an input moves along a
direction. Its slopes are found by differences: each with how far off it may be, and whether it exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import comb
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.check.estimate import pooled
from deep_bench.check.oracle import Effort, Truth
from deep_bench.check.subject import in_float64
from deep_bench.errors import DeepBenchError
from deep_bench.graph import Network
from deep_bench.operators.case import Case
from deep_bench.operators.checks.finding import Finding, KernelFailure, Word, combined
from deep_bench.operators.checks.problem import Prepared, Problem, finding_of, posed
from deep_bench.operators.operator import Operator
from deep_bench.tensor import is_float, significand_bits, unit_roundoff

LineFunction = Callable[[float], np.ndarray]
"""A vector of functions of one variable, in float64."""


_SMOOTH = 1e-3
"""How closely, beside its own size, extrapolations of a slope agree where the function is smooth."""


_SURELY_BENT = 6.0
"""How many times its noise a difference is from being noise."""


_WITNESSES = 3
"""How many other extrapolations the best one is compared with."""


_QUANTILE, _OF_NORMAL = 0.2, 0.2533
"""A quantile of magnitudes, and what it is for normal ones of variance 1."""


_ORDER = 4
"""Of the differences that noise is read off: what is smooth cancels in them."""


@dataclass(frozen=True, eq=False)
class Slopes:
    """The slopes of a vector of functions at 0.

    Args:
        value: One for each function.
        error: How far off the extrapolation may be, beyond noise.
        noise: The root mean square of what rounding in the functions does to it.
        smooth: Where the function is smooth, so that there is a slope.
        kink: Where it has a slope to each side.
        low, high: These two at kinks, the lesser one first.
    """

    value: np.ndarray
    error: np.ndarray
    noise: np.ndarray
    smooth: np.ndarray
    kink: np.ndarray
    low: np.ndarray
    high: np.ndarray


def noise_of(line: LineFunction, here: np.ndarray, expected: np.ndarray, step: float) -> np.ndarray:
    """The root mean square of the rounding errors of each function, as the functions themselves show it.

    Fourth differences over steps so small that nothing else is left in them; a low quantile of them tells by how much the
    errors exceed what is expected of them, even where many of the functions jump.

    Args:
        line: The functions.
        here: Their values at 0.
        expected: The root mean square that is expected, for each.
        step: The distance of the points.

    Source:
        Moré and Wild, "Estimating computational noise", SIAM J. Sci. Comput. 33 (2011).
    """
    values = [line(-2 * step), line(-step), here, line(step), line(2 * step)]
    with np.errstate(all="ignore"):
        difference = sum((-1) ** k * comb(_ORDER, k) * v for k, v in enumerate(values))
        ratios = np.abs(np.asarray(difference)) / np.sqrt(comb(2 * _ORDER, _ORDER)) / expected
    ratios = ratios[np.isfinite(ratios)]
    excess = float(np.quantile(ratios, _QUANTILE)) / _OF_NORMAL if ratios.size else 1.0
    return expected * max(excess, 1.0)


def slopes_of(line: LineFunction, here: np.ndarray, noise: np.ndarray, steps: Sequence[float]) -> Slopes:
    r"""Slopes by central differences over several steps, extrapolated to none.

    With :math:`D(h) = (f(h) - f(-h)) / 2h = f' + c_2 h^2 + c_4 h^4 + …` over steps that halve, each column of the table
    :math:`T_{k,j} = T_{k,j-1} + (T_{k,j-1} - T_{k-1,j-1}) / (4^j - 1)` cancels one more term. The entry is taken whose
    neighbours agree best, noise included.

    Args:
        line: The functions.
        here: Their values at 0.
        noise: The root mean square of the rounding error of each value.
        steps: Each half of the one before; at least three.

    Example:
        >>> line = lambda t: np.array([(1 + t) ** 3, abs(t)])
        >>> found = slopes_of(line, line(0.0), np.full(2, 1e-16), [0.1, 0.05, 0.025])
        >>> round(float(found.value[0]), 6), found.smooth.tolist(), found.kink.tolist(), float(found.low[1])
        (3.0, [True, False], [False, True], -1.0)

    Source:
        Richardson, 1911; Ridders, "Accurate computation of F'(x) and F'(x)F''(x)", Adv. Eng. Softw. 4 (1982).
    """
    with np.errstate(all="ignore"):
        above, below = [line(step) for step in steps], [line(-step) for step in steps]
        table = _table([(a - b) / (2 * h) for a, b, h in zip(above, below, steps, strict=True)])
        value, raw, level = _best(table, noise, steps)
        scale = np.abs(value) + _rms(value)
        slope_noise = 1.5 * noise / (np.sqrt(2) * steps[level])
        finite = np.all([np.isfinite(v) for v in (here, *above, *below)], axis=0)
        wrong = raw > _SMOOTH * scale + _SURELY_BENT * slope_noise
        right_slope, left_slope = (above[-1] - here) / steps[-1], (here - below[-1]) / steps[-1]
        # where the function is bent at the very point: it leaves the line as the step grows, not as its square does
        near, far = (np.abs(above[k] + below[k] - 2 * here) for k in (-1, -2))
        large = near / steps[-1] > 10 * _SMOOTH * scale + _SURELY_BENT * 2.5 * noise / steps[-1]
        bent = large & (far < 3 * near)
        smooth = finite & ~wrong & ~bent
        one_sided = np.abs((above[-2] - here) / steps[-2] - right_slope) + np.abs(
            (here - below[-2]) / steps[-2] - left_slope
        )
        kink = finite & ~smooth & (one_sided <= 0.05 * np.abs(right_slope - left_slope) + _SURELY_BENT * noise / steps[-1])
    return Slopes(
        np.where(smooth, value, 0.0),
        np.where(smooth, np.maximum(raw - 3 * slope_noise, 0.0), 0.0),
        slope_noise,
        smooth,
        kink,
        np.where(kink, np.minimum(left_slope, right_slope), 0.0),
        np.where(kink, np.maximum(left_slope, right_slope), 0.0),
    )


def _table(column: list[np.ndarray]) -> list[list[np.ndarray]]:
    """Richardson's table, one row for each step."""
    rows: list[list[np.ndarray]] = []
    for k, first in enumerate(column):
        row = [first]
        for j in range(1, k + 1):
            row.append(row[-1] + (row[-1] - rows[-1][j - 1]) / (4**j - 1))
        rows.append(row)
    return rows


@dataclass(frozen=True, eq=False)
class _Entry:
    """An entry of the table: its values, how far their neighbours are, their noise, the step, and the usual error."""

    value: np.ndarray
    error: np.ndarray
    noise: np.ndarray
    step: int
    usual: float


def _best(rows: list[list[np.ndarray]], noise: np.ndarray, steps: Sequence[float]) -> tuple[np.ndarray, np.ndarray, int]:
    """The entry with the least error over most functions that move, the error of each there, and which step it is of.

    Neighbours may agree by chance, where a term of the series happens to be 0 or a kink is near; the next best entries then
    disagree with it by more than their noise.
    """
    entries = [_entry(rows, k, j, noise, steps) for k in range(1, len(rows)) for j in range(1, k + 1)]
    best, *witnesses = sorted(entries, key=lambda entry: entry.usual)
    error = best.error
    for witness in witnesses[:_WITNESSES]:
        error = np.maximum(error, np.abs(best.value - witness.value) - 3 * (best.noise + witness.noise))
    return best.value, np.where(np.isfinite(error), error, np.inf), best.step


def _entry(rows: list[list[np.ndarray]], k: int, j: int, noise: np.ndarray, steps: Sequence[float]) -> _Entry:
    value, slope_noise = rows[k][j], 1.5 * noise / (np.sqrt(2) * steps[k])
    error = np.maximum(np.abs(value - rows[k][j - 1]), np.abs(value - rows[k - 1][j - 1]))
    size = np.abs(value)
    moving = size >= 0.01 * np.max(size[np.isfinite(size)], initial=0.0)
    usual = (error + np.sqrt(2) * slope_noise)[np.isfinite(error) & moving]
    typical = float(np.median(usual)) + 0.1 * float(np.quantile(usual, 0.9)) if usual.size else float("inf")
    return _Entry(value, error, slope_noise, k, typical)


def _rms(x: np.ndarray) -> float:
    finite = x[np.isfinite(x)]
    return float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0


_MOST_OUTPUTS = 50_000
"""With more elements than this, so many of them are drawn: the others get no gradient."""


class Mover:
    """A kernel whose inputs can be moved, and whose floating-point outputs lie one after the other in one vector.

    Instead of the kernel's, these may be the outputs of its reference, computed in float64; ``backward`` is the kernel's.

    Args:
        operator: The kernel.
        network: The case's.
        truth: What is known of the answer to ``inputs``, perhaps in another precision.
        inputs: Name to array; for the kernel's outputs rounded so that moved by a step they are still exact.
        oracle: Whether the outputs are those of the reference.
        only: The output that is looked at, if not all are; the gradients of the others are ``None``.

    Raises:
        KernelFailure: An output of another shape or element type than the network says.
    """

    def __init__(
        self,
        operator: Operator[Any],
        network: Network,
        truth: Truth,
        inputs: Mapping[str, np.ndarray],
        *,
        oracle: bool = False,
        only: str | None = None,
    ) -> None:
        self.prepared = Prepared(operator, network)
        self.oracle = oracle
        self.inputs = dict(inputs) if oracle else {name: on_grid(array) for name, array in inputs.items()}
        floats = [n for n, y in truth.outputs.items() if is_float(truth.formats.get(n, np.asarray(y).dtype))]
        self.names = [n for n in floats if only in (None, n)]
        self.shapes = {name: np.shape(truth.outputs[name]) for name in self.names}
        self.forms = {spec.name: spec.dtype for spec in network.outputs}
        self._truth = truth
        self._whole = sum(int(np.prod(shape)) for shape in self.shapes.values())
        self._chosen = None
        if self._whole > _MOST_OUTPUTS:
            self._chosen = np.sort(np.random.default_rng(self._whole).choice(self._whole, _MOST_OUTPUTS, replace=False))
        self.here = self.outputs(self.inputs)

    @property
    def size(self) -> int:
        """How many elements of its outputs are looked at."""
        return self._whole if self._chosen is None else len(self._chosen)

    def outputs(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """The floating-point outputs in one vector of float64: all elements, or many of them drawn once."""
        if self.oracle:
            exact = self._truth.reference.evaluate(inputs, arithmetic=self._truth.arithmetic())
            return self._taken([np.asarray(exact[n], np.float64) for n in self.names])
        outputs = self.prepared.answer(inputs)
        for name, shape in self.shapes.items():
            if outputs[name].shape != shape or outputs[name].dtype != self.forms[name]:
                came = f"{outputs[name].dtype}{list(outputs[name].shape)}"
                expected = f"{self.forms[name]}{list(shape)}"
                raise KernelFailure(f"{self.prepared.operator.name}.forward returned {name} as {came}", expected)
        return self._taken([outputs[n].astype(np.float64) for n in self.names])

    def _taken(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        vector = np.concatenate([a.ravel() for a in arrays] or [np.empty(0)])
        return vector if self._chosen is None else vector[self._chosen]

    def line(self, name: str, direction: np.ndarray) -> LineFunction:
        """The outputs while one input moves."""

        def at(step: float) -> np.ndarray:
            array = self.inputs[name]
            moved = array.astype(np.float64) + step * direction
            return self.outputs({**self.inputs, name: moved if self.oracle else moved.astype(array.dtype)})

        return at

    def scale(self, name: str) -> float:
        """The size of an input's elements, as a power of 2."""
        finite = np.abs(self.inputs[name].astype(np.float64))
        finite = finite[np.isfinite(finite)]
        size = float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0
        return float(2.0 ** np.round(np.log2(size))) if size > 0 else 1.0

    @cached_property
    def expected_noise(self) -> np.ndarray:
        """The root mean square of what rounding adds to each output, by the estimate."""
        if self.oracle:
            return unit_roundoff(np.dtype(np.float64)) * (np.abs(self.here) + np.finfo(np.float64).tiny)
        noises = []
        for name in self.names:
            samples = [np.asarray(sample[name]) for sample in self._truth.samples]
            estimate = pooled(np.asarray(self._truth.outputs[name]), samples, self._truth.formats[name]).spread
            finer = float(ml_dtypes.finfo(self.forms[name]).eps) / float(ml_dtypes.finfo(self._truth.formats[name]).eps)
            noises.append(estimate * finer)
        return self._taken(noises)

    def backward(self, grads: np.ndarray) -> dict[str, np.ndarray]:
        """What ``backward`` gives for each input that was fed, in float64; zeros for ``None``.

        Args:
            grads: The gradients of the outputs in one vector; exact in their element types.
        """
        prepared = self.prepared
        gradients: dict[str, np.ndarray] = {}
        for name, gradient in prepared.pull_back(prepared.native(self.inputs), prepared.native(self._split(grads))).items():
            if name not in self.inputs or not is_float(self.inputs[name].dtype):
                continue
            shape = self.inputs[name].shape
            array = np.zeros(shape) if gradient is None else prepared.read_gradient(gradient)
            if array.shape != shape:
                came = f"the gradient of {name} with shape {list(array.shape)}"
                raise KernelFailure(f"{prepared.operator.name}.backward returned {came}", f"shape {list(shape)}")
            gradients[name] = array.astype(np.float64)
        return gradients

    def _split(self, grads: np.ndarray) -> dict[str, np.ndarray]:
        if self._chosen is not None:
            scattered = np.zeros(self._whole)
            scattered[self._chosen] = grads
            grads = scattered
        by_name, start = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            by_name[name] = grads[start : start + size].reshape(shape).astype(self.forms[name])
            start += size
        return by_name

    def place(self, index: int) -> str:
        """Where in the outputs an element of the vector is."""
        index = index if self._chosen is None else int(self._chosen[index])
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            if index < size:
                return f"{name}{[int(i) for i in np.unravel_index(index, shape)]}"
            index -= size
        raise IndexError(index)


def on_grid(array: np.ndarray) -> np.ndarray:
    """Numbers rounded to multiples of the spacing at twice the largest of them: sums with powers of 2 are exact then.

    Example:
        >>> on_grid(np.array([1.0, 0.1], np.float32))[1] * 2**23 % 1
        np.float32(0.0)
    """
    if not is_float(array.dtype) or not array.size:
        return array
    wide = array.astype(np.float64)
    top = float(np.max(np.abs(np.where(np.isfinite(wide), wide, 0.0))))
    if not top:
        return array
    spacing = 2.0 ** (np.floor(np.log2(top)) + 1) * float(ml_dtypes.finfo(array.dtype).eps)
    return (np.round(wide / spacing) * spacing).astype(array.dtype)


DIRECTIONS: Mapping[Effort, int] = {"quick": 2, "full": 5}
JACOBIAN_SIZE = 64
"""The whole Jacobian is compared where inputs and outputs have at most so many elements."""


_SURE = 6.0
_KERNEL_ROUNDINGS = 8.0
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
    yield from slopes_finding(
        "slopes", problem, str(form), form, lambda: Mover(operator, problem.network, truth, truth.inputs)
    )
    tied = ties_of(problem)
    if tied is not None:
        mover = partial(Mover, operator, problem.network, tied, tied.inputs)
        yield from slopes_finding("slopes", problem, f"{form}, ties", form, mover, ties=True)
    wide = None if form == np.float64 else moved_in_float64(operator, problem, truth)
    if wide is not None:
        yield from slopes_finding("slopes", problem, "float64", np.dtype(np.float64), lambda: wide)


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
class _SlopeTrial:
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
                slopes.smooth, _KERNEL_ROUNDINGS * self.u * (np.abs(self.mover.here) + np.abs(slopes.value)), 0.0
            )
        return replace(slopes, noise=slopes.noise + rounding_noise)

    def finding(self, word: Word, reason: str, where: str, bits: float | None = None, **figures: float) -> Finding:
        """What is said of one direction, or of the Jacobian."""
        return Finding(self.check, self.problem.name, word, reason, bits, f"{self.place}, {where}", figures)


def slopes_finding(
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
    ready: list[_SlopeTrial] = []

    def prepare() -> Finding:
        ready.append(_SlopeTrial(check, problem, make(), form, place, ties))
        return Finding(check, problem.name, "right")

    failed = finding_of(check, problem, prepare, place)
    if not ready:
        yield failed
        return
    (trial,) = ready
    mover = trial.mover
    names = [n for n, a in mover.inputs.items() if is_float(a.dtype) and a.size]
    for name in names:
        for number in range(1 if ties else DIRECTIONS[problem.effort]):
            yield finding_of(check, problem, partial(_along, trial, name, number), f"{place}, input {name}")
    small = mover.size <= JACOBIAN_SIZE and sum(mover.inputs[n].size for n in names) <= JACOBIAN_SIZE
    if small and not ties:
        yield finding_of(check, problem, partial(_jacobian, trial, names), f"{place}, Jacobian")


def steps_of(form: np.dtype) -> tuple[float, ...]:
    """Steps that suit a precision, in units of the input's elements, each half of the one before.

    Example:
        >>> steps_of(np.dtype("float32"))
        (0.25, 0.125, 0.0625, 0.03125, 0.015625)
    """
    first, count = {53: (-7, 5), 24: (-2, 5), 11: (0, 4)}.get(significand_bits(form), (0, 3))
    return tuple(2.0 ** (first - k) for k in range(count))


def _along(trial: _SlopeTrial, name: str, number: int) -> Finding:
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
    trial: _SlopeTrial, name: str, direction: np.ndarray, slopes: Slopes, noise: np.ndarray, rng: np.random.Generator
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


def _at_kinks(trial: _SlopeTrial, name: str, scaled: np.ndarray, slopes: Slopes, weights: np.ndarray) -> str:
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


def _jacobian(trial: _SlopeTrial, names: list[str]) -> Finding:
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

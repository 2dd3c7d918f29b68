"""Comparing a result with the oracle's: significant bits, the largest studentised error, clusters, plain norms.

A first opinion. The opinion is clear, grey, or beyond what rounding does. Discrete results are compared by where they
differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import ml_dtypes
import numpy as np
import onnx_ir as ir

from deep_bench.check.thresholds import (
    EXACT_BITS,
    GREY_BITS,
    GREY_SHARE,
    LARGEST_RATIO,
    LINEAR_POINTS,
    LINEAR_SHARE,
    NORM_WISE,
    ROUNDING_BITS,
)
from deep_bench.graph.node import operator_name
from deep_bench.tensor import is_float, is_inexact, significand_bits, unit_roundoff

_NEIGHBOURS = 16
_PRIOR_SAMPLES = 4.0
_LINEAR_SAMPLE = 100_000
_FLUSHED_BELOW = 1e-30


@dataclass(frozen=True, slots=True, eq=False)
class Expectation:
    """What a correct result may be: the oracle's, give or take rounding.

    Args:
        value: The oracle's result, in float64.
        spread: The root mean square of what rounding adds to each element.
        settled: Where the oracle's result is certain; elsewhere some evaluations with rounding errors differ in kind
            (infinite, NaN).
        form: The element type that the result is given in.
    """

    value: np.ndarray
    spread: np.ndarray
    settled: np.ndarray
    form: np.dtype

    def norm_wise(self) -> Expectation:
        """The same for an algorithm that is accurate relative to the largest elements only."""
        largest = np.max(self.spread, initial=0.0)
        return Expectation(self.value, np.full_like(self.spread, NORM_WISE * largest), self.settled, self.form)


class Deviations:
    """Gathers how far evaluations with rounding errors lie from the oracle's, without keeping them."""

    def __init__(self, value: np.ndarray) -> None:
        self.value, self.samples = value, 0
        self._squares = np.zeros(value.shape)
        self._settled = np.ones(value.shape, bool)

    def add(self, sample: np.ndarray) -> None:
        """One more evaluation; one of another shape settles nothing."""
        self.samples += 1
        if sample.shape != self.value.shape:
            self._settled[...] = False
            return
        with np.errstate(all="ignore"):
            difference = np.asarray(sample - self.value)
        finite = np.isfinite(difference)
        if not finite.all():
            self._settled &= same_kind(sample, self.value)
            difference = np.where(finite, difference, 0.0)
        self._squares += np.square(np.abs(difference))

    def expectation(self, form: np.dtype) -> Expectation:
        """The estimate for each element, shrunk towards its neighbours' where there are few samples.

        It is never under half a rounding of the result itself, nor under what flushing a subnormal result to zero costs.
        """
        variance = self._squares / max(self.samples, 1)
        if variance.size > 1:
            variance = (self.samples * variance + _PRIOR_SAMPLES * _block_means(variance)) / (self.samples + _PRIOR_SAMPLES)
        rounding = 0.29 * unit_roundoff(form) * np.where(np.isfinite(self.value), np.abs(self.value), 0.0)
        spread = np.sqrt(np.maximum(variance, 0.0) + np.square(rounding)) + _underflow(self.value, form)
        return Expectation(self.value, spread, self._settled, form)


def _underflow(value: np.ndarray, form: np.dtype) -> np.ndarray | float:
    """What a result may lose to underflow: all of itself where it is subnormal, in formats that runtimes flush to zero.

    These are the formats with the range of float32 or more; subnormal numbers of float16 are used for real data.
    """
    info = ml_dtypes.finfo(form)
    smallest, normal = float(info.smallest_subnormal), float(info.smallest_normal)
    return np.where(np.abs(value) < normal, normal, smallest) if normal < _FLUSHED_BELOW else smallest


def _block_means(x: np.ndarray) -> np.ndarray:
    """Each element replaced by the mean of its block of neighbours in memory order."""
    flat = x.reshape(-1)
    whole = flat.size // _NEIGHBOURS * _NEIGHBOURS
    y = np.empty_like(flat)
    blocks = flat[:whole].reshape(-1, _NEIGHBOURS)
    y[:whole].reshape(-1, _NEIGHBOURS)[...] = np.mean(blocks, axis=1, keepdims=True)
    if whole < flat.size:
        y[whole:] = np.mean(flat[-_NEIGHBOURS:])
    return y.reshape(x.shape)


def same_kind(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where both are finite, both NaN, or the same infinity."""
    finite = np.isfinite(a) & np.isfinite(b)
    return finite | (np.isnan(a) & np.isnan(b)) | ((a == b) & ~finite)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a result compares with what is expected.

    Args:
        bits: Significant bits: minus the base-2 logarithm of the unit roundoff that would explain the error.
        worst_slice_bits: The same for the worst row, column, channel … along any axis.
        largest: The largest studentised error: in units of its own estimate.
        where: The index of that element.
        linear_share: The share R^2 of the error that is a linear function of the result.
        information: The estimate relative to the spread of the result: at 1, rounding drowns the signal.
        misplaced: How many elements are NaN, infinite or finite where the oracle's are not.
        max_abs_error, max_rel_error, l2_rel_error, max_ulp: Plain norms; the relative maximum is over the largest result.
    """

    bits: float
    worst_slice_bits: float
    largest: float
    where: tuple[int, ...]
    linear_share: float
    information: float
    misplaced: int
    max_abs_error: float
    max_rel_error: float
    l1_error: float
    l2_rel_error: float
    max_ulp: float


@np.errstate(all="ignore")  # errors in float64 may be beyond its own range: an infinite norm says so
def compare(actual: np.ndarray, expected: Expectation) -> Agreement:
    """Compare a floating-point result of the right shape with what is expected."""
    value = expected.value
    actual = np.asarray(actual).astype(np.complex128 if np.iscomplexobj(value) else np.float64)
    used = np.isfinite(actual) & np.isfinite(value) & expected.settled
    misplaced = 0 if used.all() else int(np.sum(~same_kind(actual, value) & expected.settled))
    error = np.where(used, actual - value, 0.0)
    z2 = np.square(np.abs(error) / expected.spread)
    u = unit_roundoff(expected.form)
    worst = int(np.argmax(z2)) if z2.size else 0
    magnitude = np.abs(np.where(np.isfinite(value), value, 0.0))
    absolute = np.abs(error)
    size = max(z2.size, 1)
    scale, norm = float(np.max(magnitude, initial=0.0)), float(np.sqrt(np.sum(magnitude**2)))
    signal = (float(np.std(magnitude)) if magnitude.size else 0.0) or scale
    spread = float(np.sqrt(np.mean(np.square(expected.spread)))) if z2.size else 0.0
    return Agreement(
        bits=_bits(float(np.sum(z2)) / size, u),
        worst_slice_bits=_bits(_worst_slice(z2), u),
        largest=float(np.sqrt(z2.flat[worst])) if z2.size else 0.0,
        where=tuple(int(i) for i in np.unravel_index(worst, z2.shape)) if z2.size else (),
        linear_share=_linear_share(error, value, expected.spread, used),
        information=_information(spread, signal, expected.form),
        misplaced=misplaced,
        max_abs_error=float(np.max(absolute, initial=0.0)),
        max_rel_error=_ratio(float(np.max(absolute, initial=0.0)), scale),
        l1_error=float(np.sum(absolute)),
        l2_rel_error=_ratio(float(np.sqrt(np.sum(absolute**2))), norm),
        max_ulp=float(np.max(absolute / _ulp(magnitude, expected.form), initial=0.0)),
    )


def _bits(mean_square: float, u: float) -> float:
    """Minus the logarithm of the roundoff that explains an error; at most three bits more than the format has."""
    most = min(EXACT_BITS, 3 - np.log2(u))
    return float(most if mean_square == 0 else min(most, -np.log2(u * np.sqrt(mean_square))))


def _information(spread: float, signal: float, form: np.dtype) -> float:
    """The estimate over the spread of the result, at most a million: a result of zeros may be all rounding."""
    if signal > 0:
        return min(spread / signal, 1e6)
    return 1e6 if spread > float(ml_dtypes.finfo(form).smallest_normal) else 0.0


def _ratio(a: float, b: float) -> float:
    return a / b if b else (0.0 if a == 0 else float("inf"))


def _ulp(magnitude: np.ndarray, form: np.dtype) -> np.ndarray:
    """The distance of neighbouring numbers of the format around each value."""
    info = ml_dtypes.finfo(form)
    normal = np.maximum(magnitude, float(info.smallest_normal))
    if form in (np.float32, np.float64):
        return np.spacing(np.minimum(normal, float(info.max)).astype(form)).astype(np.float64)
    return float(info.eps) * np.exp2(np.floor(np.log2(normal)))


def _worst_slice(z2: np.ndarray) -> float:
    """The largest mean square over a slice of at least eight elements along any axis."""
    if z2.ndim < 2:
        return float(np.mean(z2)) if z2.size else 0.0
    means = [
        np.max(np.mean(z2, axis=tuple(a for a in range(z2.ndim) if a != axis)))
        for axis in range(z2.ndim)
        if z2.size and z2.size // z2.shape[axis] >= 8
    ]
    return float(max(means, default=np.mean(z2) if z2.size else 0.0))


def _linear_share(error: np.ndarray, value: np.ndarray, spread: np.ndarray, used: np.ndarray) -> float:
    """R^2 of the least-squares line through the errors over the results, each weighted by its estimate."""
    if error.size > _LINEAR_SAMPLE:
        every = slice(None, None, error.size // _LINEAR_SAMPLE)
        error, value, spread, used = (x.reshape(-1)[every] for x in (error, value, spread, used))
    if np.sum(used) < LINEAR_POINTS or np.iscomplexobj(error):
        return 0.0
    weight = 1 / np.square(spread[used])
    e, y = error[used], value[used]
    weight = weight / np.sum(weight)
    e, y = e - np.sum(weight * e), y - np.sum(weight * y)
    total, variance = np.sum(weight * e * e), np.sum(weight * y * y)
    if total <= 0 or variance <= 0:
        return 0.0
    return float(np.sum(weight * e * y) ** 2 / (variance * total))


def pooled(value: np.ndarray, samples: Sequence[np.ndarray], form: np.dtype) -> Expectation:
    """What is expected, from evaluations that were kept."""
    deviations = Deviations(value)
    for sample in samples:
        deviations.add(np.asarray(sample))
    return deviations.expectation(form)


Level = Literal["clear", "grey", "beyond", "impossible"]
_ORDER: tuple[Level, ...] = ("clear", "grey", "beyond", "impossible")


@dataclass(frozen=True, slots=True, eq=False)
class Opinion:
    """A first opinion of one array.

    Args:
        level: *clear*: rounding explains it. *grey*: perhaps. *beyond*: not in this format. *impossible*: in no format.
        reason: What is wrong with it.
        bits: Its significant bits.
        deficit: How many bits of its format are missing, by the worst of all tests.
        agreement: The comparison, where there was one.
    """

    level: Level
    reason: str = ""
    bits: float = EXACT_BITS
    deficit: float = 0.0
    agreement: Agreement | None = None

    @property
    def rank(self) -> int:
        """Larger is worse."""
        return _ORDER.index(self.level)


def assess(actual: np.ndarray, expected: Expectation | np.ndarray) -> Opinion:
    """A first opinion of one result.

    Args:
        actual: What the system under test returned.
        expected: What it may return.
    """
    if not isinstance(expected, Expectation):
        if actual.shape != expected.shape:
            return Opinion("impossible", f"has shape {list(actual.shape)} instead of {list(expected.shape)}", 0.0, 99.0)
        if actual.dtype != expected.dtype and not (expected.dtype == object or expected.dtype.kind in "SU"):
            return Opinion("impossible", f"is {actual.dtype} instead of {expected.dtype}", 0.0, 99.0)
        differs = differing(actual, expected)
        different = int(np.sum(differs))
        if not different:
            return Opinion("clear")
        where = [int(i) for i in np.argwhere(differs)[0]] if actual.ndim else []
        return Opinion("beyond", f"differs in {different} of {actual.size} elements, first at {where}", 0.0, 99.0)
    if actual.shape != expected.value.shape or actual.dtype != expected.form:
        came = f"{actual.dtype}{list(actual.shape)}"
        return Opinion("impossible", f"is {came} instead of {expected.form}{list(expected.value.shape)}", 0.0, 99.0)
    agreement = compare(actual, expected)
    return opinion_of(agreement, significand_bits(expected.form))


def opinion_of(agreement: Agreement, precision: int) -> Opinion:
    """The opinion that a comparison leads to, for a format of this many significand bits."""
    if agreement.misplaced:
        reason = f"has {agreement.misplaced} elements that are infinite, NaN or finite where the oracle's are not"
        return Opinion("impossible", reason, 0.0, 99.0, agreement)
    overall = precision - agreement.bits
    sliced = precision - agreement.worst_slice_bits
    single = float(np.log2(max(agreement.largest, 1e-300) / LARGEST_RATIO)) + ROUNDING_BITS
    deficit = max(overall, sliced - 0.5, single)
    if deficit <= ROUNDING_BITS:
        return Opinion("clear", "", agreement.bits, deficit, agreement)
    reason = _described(agreement, overall, sliced, single)
    grey = deficit <= min(GREY_BITS, precision * GREY_SHARE)
    return Opinion("grey" if grey else "beyond", reason, agreement.bits, deficit, agreement)


def _described(agreement: Agreement, overall: float, sliced: float, single: float) -> str:
    where = list(agreement.where)
    if single > overall + 3:
        return f"is off by {agreement.largest:.3g} times its estimate at {where}, far more than elsewhere"
    if sliced > overall + 2:
        return f"has its errors in few places, the largest at {where}"
    if agreement.linear_share > LINEAR_SHARE:
        share = f"{agreement.linear_share:.0%} of its error is proportional to it"
        return f"has {agreement.bits:.1f} significant bits, and {share}"
    return f"has {agreement.bits:.1f} significant bits"


_QUOTIENT = 1
"""The input of `QuantizeLinear` in whose format it divides: the scale."""


_POWERS = np.dtype(ml_dtypes.float8_e8m0fnu)  # how one rounds to powers of two is not settled


def quantizes(node: ir.Node) -> bool:
    """Whether a node rounds what it computed in a wider format."""
    return operator_name(node) == "QuantizeLinear"


def rounds_to(node: ir.Node, form: np.dtype | None) -> bool:
    """Whether a node rounds once to this floating-point format, which is that of its result."""
    return form is not None and is_inexact(form) and form != _POWERS and quantizes(node)


def working_format(node: ir.Node, formats: Mapping[str, np.dtype]) -> np.dtype | None:
    """What such a node computes in: what it states, or the format of its scale."""
    precision = node.attributes.get("precision")
    if precision is not None and precision.as_int():
        return np.dtype(ir.DataType(precision.as_int()).numpy())
    scale = node.inputs[_QUOTIENT]
    return None if scale is None else formats.get(str(scale.name))


def differing(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays of one shape differ; NaN is NaN.

    Example:
        >>> differing(np.array([1.0, np.nan, 2.0]), np.array([1.0, np.nan, 3.0], np.float32)).tolist()
        [False, False, True]
    """
    a, b = widened(a), widened(b)
    different = np.asarray(a != b)
    return different & ~(np.isnan(a) & np.isnan(b)) if is_float(a.dtype) and is_float(b.dtype) else different


def widened(y: np.ndarray) -> np.ndarray:
    """Floating-point numbers in float64; anything else as it is."""
    return y.astype(np.float64) if is_float(y.dtype) else y

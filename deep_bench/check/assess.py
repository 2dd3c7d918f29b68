"""Turning a comparison into a first opinion: clear, grey, or beyond what rounding does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from deep_bench.check.discrete import differing
from deep_bench.check.estimate import Agreement, Expectation, compare
from deep_bench.check.thresholds import EXACT_BITS, GREY_BITS, GREY_SHARE, LARGEST_RATIO, LINEAR_SHARE, ROUNDING_BITS
from deep_bench.tensor import significand_bits

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
        return _exact(actual, expected)
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


def _exact(actual: np.ndarray, expected: np.ndarray) -> Opinion:
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

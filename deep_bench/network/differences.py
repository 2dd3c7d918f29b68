"""How far one array is from another: plain norms, and whether rounding explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deep_bench.check.estimate import Expectation, compare
from deep_bench.check.judge import assess_whole
from deep_bench.check.oracle import Truth
from deep_bench.check.special import DecisionTrials, open_decisions
from deep_bench.check.thresholds import EXACT_BITS
from deep_bench.check.verdict import OutputVerdict, Word
from deep_bench.tensor import is_inexact

ORACLE = "oracle"
"""What the reference in float64 is called in comparisons."""

_BADNESS: tuple[Word, ...] = ("right", "no information", "cannot tell", "reduced precision", "wrong")


@dataclass(frozen=True, slots=True)
class Norms:
    r"""Plain norms of the difference :math:`d = a - b` of two arrays of one shape.

    Args:
        l1, l2, linf: :math:`\sum |d|`, :math:`\sqrt{\sum |d|^2}` and :math:`\max |d|`, over elements finite in both; NaN if
            there are elements, but none of these.
        l1_rel, l2_rel, linf_rel: These over the same norm of :math:`b`; infinite where that alone is zero.
        max_ulp: The largest :math:`|d|` in units in the last place of :math:`b`; 0 for integers.
        mismatches: How many elements differ where equality is asked for (integers, booleans, strings), or are NaN or
            infinite in one array and something else in the other.
        not_finite: How many elements are NaN or infinite in at least one of them, so that no norm counts them.
        size: How many elements each array has.
    """

    l1: float
    l2: float
    linf: float
    l1_rel: float
    l2_rel: float
    linf_rel: float
    max_ulp: float
    mismatches: int
    not_finite: int = 0
    size: int = 0

    @property
    def bits(self) -> float:
        r"""The bits that agree in the mean, :math:`-\log_2` of the relative L2 norm.

        Infinite for equal arrays, 0 where NaN or infinity meets something else, and NaN where no element is finite in both.
        """
        if self.mismatches and (self.not_finite or not self.l2_rel):
            return 0.0
        return float(-np.log2(self.l2_rel)) if self.l2_rel else float("inf")

    @property
    def comparable_bits(self) -> float | None:
        """`bits`; ``None`` where no element is finite in both."""
        return None if np.isnan(self.bits) else self.bits


def norms(actual: np.ndarray, base: np.ndarray, form: np.dtype | None = None) -> Norms:
    """The norms of a difference.

    Args:
        actual: The one array.
        base: The other, of the same shape, which relative norms and units in the last place refer to.
        form: The element type whose units in the last place are meant; by default that of ``base``.

    Example:
        >>> found = norms(np.float32([1, 2, 5]), np.float32([1, 2, 4]))
        >>> found.l1, found.linf_rel
        (1.0, 0.25)
    """
    form = base.dtype if form is None else form
    if base.dtype.kind in "OSUb" or actual.dtype.kind in "OSUb" or not base.size:
        different = int(np.sum(np.asarray(actual != base)))
        return Norms(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, different, size=base.size)
    wide = np.complex128 if np.iscomplexobj(actual) or np.iscomplexobj(base) else np.float64
    value, wide_actual = base.astype(wide), actual.astype(wide)
    inexact = is_inexact(form)
    plain = Expectation(value, np.ones(value.shape), np.ones(value.shape, bool), form if inexact else np.dtype(np.float64))
    comparison = compare(wide_actual, plain)
    magnitude = np.abs(np.where(np.isfinite(value), value, 0.0))
    total, length = float(np.sum(magnitude)), float(np.sqrt(np.sum(np.square(magnitude))))
    finite = np.isfinite(value) & np.isfinite(wide_actual)
    not_finite = int(finite.size - np.count_nonzero(finite))
    misplaced = comparison.misplaced if inexact else int(np.sum(actual != base))
    if finite.size and not_finite == finite.size:
        none = float("nan")
        return Norms(none, none, none, none, none, none, none, misplaced, not_finite, base.size)
    with np.errstate(all="ignore"):
        l2 = float(np.sqrt(np.sum(np.square(np.abs(np.where(finite, wide_actual - value, 0.0))))))
    return Norms(
        comparison.l1_error,
        l2,
        comparison.max_abs_error,
        _ratio(comparison.l1_error, total),
        _ratio(l2, length),
        comparison.max_rel_error,
        comparison.max_ulp if inexact else 0.0,
        misplaced,
        not_finite,
        base.size,
    )


def _ratio(a: float, b: float) -> float:
    return a / b if b else (0.0 if a == 0 else float("inf"))


@dataclass(frozen=True, slots=True)
class OutputsAssessment:
    """What the estimate of rounding errors says of one output.

    Args:
        word: *right* (rounding explains the difference), *cannot tell*, *wrong* or *no information*.
        reason: Why, where it is not simply right.
        bits: Significant bits.
    """

    word: Word
    reason: str
    bits: float


class Yardstick:
    """Judges outputs by what rounding can do to them, whoever computed them.

    Args:
        truth: What `deep_bench.check.establish` found out about the network on the inputs in question.
    """

    def __init__(self, truth: Truth) -> None:
        self.truth = truth

    @cached_property
    def decisions(self) -> Mapping[str, DecisionTrials]:
        """What rounding can make discrete results in the network and among its outputs be."""
        with np.errstate(all="ignore"):
            return open_decisions(self.truth)

    def assess(self, name: str, actual: np.ndarray) -> OutputsAssessment:
        """One output against the oracle's."""
        oracle = self.truth.outputs[name]
        return self._assessed(name, actual, oracle, [sample[name] for sample in self.truth.samples])

    def between(self, name: str, actual: np.ndarray, base: np.ndarray) -> OutputsAssessment:
        r"""One output of a system against another system's: each may have the errors of rounding, their difference both.

        What is expected of the difference has :math:`\sqrt 2` times the spread of one system's error.
        """
        oracle = np.asarray(self.truth.outputs[name])
        if actual.dtype != base.dtype and not {actual.dtype.kind, base.dtype.kind} <= set("OSU"):
            return OutputsAssessment("wrong", f"is {actual.dtype} instead of {base.dtype}", 0.0)
        if not is_inexact(oracle.dtype):
            both = (self._assessed(name, actual, base, []), self._assessed(name, base, actual, []))
            return max(both, key=lambda assessed: badness(assessed.word))
        if not is_inexact(base.dtype) or base.shape != oracle.shape:
            return OutputsAssessment("cannot tell", "both are of another type or shape than the reference's", 0.0)
        value = base.astype(oracle.dtype)
        with np.errstate(all="ignore"):
            samples = [
                value + np.sqrt(2) * (sample - oracle) if sample.shape == oracle.shape else sample
                for sample in (np.asarray(s[name]) for s in self.truth.samples)
            ]
        return self._assessed(name, actual, value, samples)

    def _assessed(self, name: str, actual: np.ndarray, expected: Any, samples: list[Any]) -> OutputsAssessment:
        if self.truth.random:
            return OutputsAssessment(
                "cannot tell", "the network draws random numbers, and distributions are not compared yet", 0.0
            )
        oracle, sampled, actually = {name: expected}, [{name: s} for s in samples], {name: actual}
        whole = assess_whole(self.truth, actually, oracle, sampled)
        if whole.clear:
            return OutputsAssessment("no information" if whole.information else "right", whole.reason, whole.bits)
        verdict: OutputVerdict = whole.outputs[0]
        if verdict.bits == 0.0 and not verdict.mismatches:  # another shape or element type
            return OutputsAssessment(whole.word, verdict.reason, 0.0)
        if name in self.decisions and self.decisions[name].admits(actual):
            return OutputsAssessment(
                "right", "decided otherwise than the reference, within the margin of rounding", EXACT_BITS
            )
        if self.decisions and name not in self.decisions:
            undecided = "; but decisions in the network lie within the margin of rounding, and this may follow from one"
            return OutputsAssessment("cannot tell", f"{verdict.reason}{undecided}", whole.bits)
        misplaced = verdict.mismatches and is_inexact(np.asarray(expected).dtype)  # NaN or infinity, which no bits measure
        return OutputsAssessment(whole.word, verdict.reason, 0.0 if misplaced else whole.bits)


def assess_outputs(truth: Truth, outputs: Mapping[str, np.ndarray]) -> OutputsAssessment:
    """All outputs of a network against the oracle's: the worst of them.

    Raises:
        KeyError: One of the network's outputs is not there.
    """
    yardstick = Yardstick(truth)
    assessments = {name: yardstick.assess(name, outputs[name]) for name in truth.outputs}
    return worst(assessments)


def worst(found: Mapping[str, OutputsAssessment]) -> OutputsAssessment:
    """The worst of what is said of several outputs, with its name in the reason."""
    name = max(found, key=lambda n: (badness(found[n].word), -found[n].bits))
    assessment = found[name]
    return OutputsAssessment(
        assessment.word,
        f"output {name!r} {assessment.reason}" if assessment.reason else "",
        min(a.bits for a in found.values()),
    )


def badness(word: Word) -> int:
    """Larger is worse."""
    return _BADNESS.index(word)


@dataclass(frozen=True, slots=True)
class Difference:
    """How one output of one system differs from that of another, the base.

    Args:
        output: The output's name.
        label: The system.
        base: What it is compared with: another system, or ``"oracle"``, the reference in float64.
        word: *equal* (every bit); by the estimate of rounding errors, *rounding* (it explains the difference), *more than
            rounding*, *cannot tell* or *no information*; or *no reference*: there is nothing to judge by.
        reason: What else there is to say, such as another shape or element type.
        bits: Significant bits by the estimate; where there is none, the bits that agree in the mean (`Norms.bits`). ``None``
            for arrays of different shapes, or without an element that is finite in both.
        norms: ``None`` for arrays of different shapes.
        alike: Whether the arrays have the same shape and element type.
    """

    output: str
    label: str
    base: str
    word: str
    reason: str
    bits: float | None
    norms: Norms | None
    alike: bool = True


_WORDS: Mapping[Word, str] = {"right": "rounding", "wrong": "more than rounding"}


def difference(
    output: str, label: str, actual: np.ndarray, base_label: str, base: np.ndarray, yardstick: Yardstick | None
) -> Difference:
    """Compare one output of two systems; see `Difference`."""
    judged = yardstick is not None and output in yardstick.truth.outputs
    if actual.shape != base.shape:
        word = "more than rounding" if judged else "no reference"
        return Difference(output, label, base_label, word, unlike(actual, base), None, None, alike=False)
    alike, figures = actual.dtype == base.dtype, norms(actual, base)
    remark = _not_finite(figures) if alike else unlike(actual, base)
    if alike and same_bits(actual, base):
        return Difference(output, label, base_label, "equal", remark, figures.comparable_bits, figures)
    if yardstick is None or not judged:
        return Difference(output, label, base_label, "no reference", remark, figures.comparable_bits, figures, alike)
    assessed = yardstick.between(output, actual, base)
    word = _WORDS.get(assessed.word, assessed.word)
    return Difference(output, label, base_label, word, remark or assessed.reason, _bits(assessed, figures), figures, alike)


def from_oracle(output: str, label: str, actual: np.ndarray, yardstick: Yardstick) -> Difference:
    """Compare one output with the oracle's; see `Difference`."""
    oracle = np.asarray(yardstick.truth.outputs[output])
    form = yardstick.truth.formats.get(output, oracle.dtype)
    assessed = yardstick.assess(output, actual)
    word = _WORDS.get(assessed.word, assessed.word)
    if actual.shape != oracle.shape:
        return Difference(output, label, ORACLE, word, assessed.reason, None, None, alike=False)
    figures = norms(actual, oracle, form)
    reason = assessed.reason or _not_finite(figures)
    return Difference(output, label, ORACLE, word, reason, _bits(assessed, figures), figures, actual.dtype == form)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have the same type, shape and contents; NaNs of the same bits are the same."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return a.tobytes() == b.tobytes() if a.dtype != object else bool(np.all(a == b))


def _bits(assessed: OutputsAssessment, figures: Norms) -> float | None:
    """Bits by the estimate; those that agree in the mean where another element type kept it from being made."""
    if figures.size and figures.not_finite == figures.size:
        return figures.comparable_bits
    return assessed.bits if assessed.bits or figures.mismatches else figures.bits


def _not_finite(figures: Norms) -> str:
    """What NaN and infinity there is, of which no norm tells."""
    if not figures.not_finite:
        return ""
    where = f", {figures.mismatches} of them in one of the two only" if figures.mismatches else ", and the same in both"
    return f"{figures.not_finite} of {figures.size} elements are NaN or infinite{where}"


def unlike(actual: np.ndarray, base: np.ndarray) -> str:
    """That an array has another shape or element type than another one."""
    return f"is {actual.dtype}{list(actual.shape)} instead of {base.dtype}{list(base.shape)}"

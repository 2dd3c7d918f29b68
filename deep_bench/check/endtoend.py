"""The outputs of a whole network against what rounding can make of the oracle's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.check.decisions import Seen
from deep_bench.check.estimate import Agreement, Expectation, compare, pooled, same_kind
from deep_bench.check.subject import named
from deep_bench.check.thresholds import (
    END_TO_END_RATIO,
    EXACT_BITS,
    GREY_BITS,
    INFORMATION,
    LARGEST_RATIO,
    ROUNDING_BITS,
    SHRINKS_BY,
)
from deep_bench.check.truth import Truth
from deep_bench.check.verdict import OutputVerdict, Word
from deep_bench.tensor import is_inexact, significand_bits, unit_roundoff


@dataclass(frozen=True, slots=True)
class Whole:
    """What the outputs of the network say.

    Args:
        outputs: One verdict for each.
        word: *right*, *cannot tell* (outside what rounding does), or *wrong* (what rounding never does).
        reason: Why not *right*, or why there is no information.
        information: Whether rounding drowns some output.
        impossible: Whether no format explains it: another shape or type, or NaN where the oracle has none.
    """

    outputs: tuple[OutputVerdict, ...]
    word: Word
    reason: str = ""
    information: bool = False
    impossible: bool = False

    @property
    def clear(self) -> bool:
        """Whether rounding explains all outputs."""
        return self.word == "right"

    @property
    def bits(self) -> float:
        """The significant bits of the worst output."""
        return min((o.bits for o in self.outputs), default=EXACT_BITS)

    def because(self, reason: str) -> Whole:
        """The same outputs, wrong for this reason."""
        return dataclasses.replace(self, word="wrong", reason=reason)


def assess_whole(
    truth: Truth,
    actual: Mapping[str, np.ndarray],
    oracle: Mapping[str, Any],
    samples: Sequence[Mapping[str, Any]],
    decisions: Mapping[str, Seen] | None = None,
    expected: Mapping[str, Expectation] | None = None,
) -> Whole:
    """Compare all outputs.

    Args:
        truth: Of the network.
        actual: The outputs of the system under test, by the network's names.
        oracle, samples: The oracle's outputs and those with rounding errors, perhaps with decisions imposed.
        decisions: What discrete outputs may be.
        expected: What outputs may be, as far as that is known already from the very samples.
    """
    expectations = expected or {}
    verdicts: list[OutputVerdict] = []
    word: Word = "right"
    reason, drowned = "", False
    for name, reference in oracle.items():
        rounded = [s[name] for s in samples]
        verdict, level = _assess_output(
            truth, name, actual[name], reference, rounded, decisions or {}, expectations.get(name)
        )
        verdicts.append(verdict)
        drowned |= verdict.information >= INFORMATION
        if level != "right" and word != "wrong":
            word, reason = level, f"output {name!r} {verdict.reason}"
    if word == "right" and drowned:
        reason = "rounding alone changes the outputs by as much as their own spread"
    return Whole(tuple(verdicts), word, reason, drowned, any(o.bits == 0.0 or o.mismatches for o in verdicts))


def _assess_output(
    truth: Truth,
    name: str,
    actual: Any,
    expected: Any,
    samples: Sequence[Any],
    decisions: Mapping[str, Seen],
    precomputed: Expectation | None,
) -> tuple[OutputVerdict, Word]:
    if isinstance(expected, list) or isinstance(actual, list):
        return _assess_list(name, actual)
    expected = np.asarray(expected)
    form = truth.formats.get(name, expected.dtype)
    shape = tuple(int(d) for d in actual.shape)
    if not is_inexact(expected.dtype):
        return _assess_discrete(name, actual, expected, form, decisions)
    if actual.shape != expected.shape or actual.dtype != form:
        reason = f"is {actual.dtype}{list(shape)} instead of {form}{list(expected.shape)}"
        return OutputVerdict(name, shape, str(actual.dtype), reason, 0.0), "wrong"
    expectation = precomputed if precomputed is not None and precomputed.form == form else pooled(expected, samples, form)
    agreement = compare(actual, expectation)
    level, reason = _level(agreement, form, 1.0)
    if level != "right" and not agreement.misplaced:
        typical = max((compare_ratio(np.asarray(s), expectation) for s in samples), default=1.0)
        level, reason = _level(agreement, form, typical)
    where = agreement.where
    if agreement.misplaced:
        where = _first_misplaced(actual, expectation)
        reason += f": first {list(where)}, which is {actual[where]:.6g} instead of {expected[where]:.6g}"
    bits = agreement.bits - (significand_bits(form) - _working_bits(truth, form))
    verdict = OutputVerdict(
        name,
        shape,
        str(form),
        reason,
        bits if agreement.bits < EXACT_BITS or agreement.max_abs_error else EXACT_BITS,
        agreement.largest,
        where,
        agreement.linear_share,
        agreement.information,
        agreement.max_abs_error,
        agreement.max_rel_error,
        agreement.l1_error,
        agreement.l2_rel_error,
        agreement.max_ulp,
        agreement.misplaced,
    )
    return verdict, level


def _first_misplaced(actual: np.ndarray, expectation: Expectation) -> tuple[int, ...]:
    """The first element that is NaN, infinite or finite where the oracle's is not."""
    wide = actual.astype(np.complex128 if np.iscomplexobj(expectation.value) else np.float64)
    apart = expectation.settled & ~same_kind(wide, expectation.value)
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(apart)), apart.shape))


def compare_ratio(sample: np.ndarray, expectation: Expectation) -> float:
    """The root mean square of a sample's studentised deviations."""
    if sample.shape != expectation.value.shape:
        return 1.0
    with np.errstate(all="ignore"):
        z = np.abs(sample - expectation.value) / expectation.spread
    return float(np.sqrt(np.mean(np.square(np.where(np.isfinite(z), z, 0.0))))) if z.size else 1.0


def _level(agreement: Agreement, form: np.dtype, typical: float) -> tuple[Word, str]:
    """Whether an output's error lies inside the distribution of evaluations with rounding errors."""
    if agreement.misplaced:
        return "wrong", f"has {agreement.misplaced} elements that are infinite, NaN or finite where the oracle's are not"
    ratio = 2.0**-agreement.bits / unit_roundoff(form)
    sliced = 2.0**-agreement.worst_slice_bits / unit_roundoff(form)
    allowed = END_TO_END_RATIO * max(typical, 1.0)
    excess = max(ratio, sliced / 2, agreement.largest / LARGEST_RATIO * 2) / allowed
    if excess <= 1:
        return "right", ""
    reason = f"is off by {ratio:.3g} times what rounding explains, at most {agreement.largest:.3g} times"
    return ("cannot tell" if excess <= 2.0 ** (GREY_BITS - ROUNDING_BITS) else "wrong"), reason


def _assess_discrete(
    name: str, actual: np.ndarray, expected: np.ndarray, form: np.dtype, decisions: Mapping[str, Seen]
) -> tuple[OutputVerdict, Word]:
    shape = tuple(int(d) for d in actual.shape)
    strings = form.kind in "OSU"
    if actual.dtype != form and not strings:
        return OutputVerdict(name, shape, str(actual.dtype), f"is {actual.dtype} instead of {form}", 0.0), "wrong"
    identical = actual.shape == expected.shape and np.array_equal(actual, expected)
    if identical or (name in decisions and decisions[name].admits(actual)):
        return OutputVerdict(name, shape, str(form), "", EXACT_BITS), "right"
    if actual.shape != expected.shape:
        reason = f"has shape {list(shape)} instead of {list(expected.shape)}"
        return OutputVerdict(name, shape, str(form), reason, 0.0), "wrong"
    count = int(np.sum(np.asarray(actual != expected)))
    reason = f"differs in {count} of {actual.size} elements"
    return OutputVerdict(name, shape, str(form), reason, 0.0, mismatches=count), "wrong"


def _assess_list(name: str, actual: Any) -> tuple[OutputVerdict, Word]:
    reason = f"is {type(actual).__name__}, and sequences are not compared"
    return OutputVerdict(name, (), "sequence", reason, 0.0), "cannot tell"


def _working_bits(truth: Truth, form: np.dtype) -> int:
    """The precision of the narrowest format that the network works in, at most the output's own."""
    forms = {d for n, d in truth.formats.items() if is_inexact(d) and d.itemsize > 1 and n not in truth.settings}
    return min((significand_bits(d) for d in forms), default=significand_bits(form))


def settle_whole(
    truth: Truth,
    subject: Any,
    whole: Whole,
    *,
    besides: str = ", although all nodes alone are right",
    precise_oracle: Callable[[], Mapping[str, Any]] | None = None,
) -> Whole:
    """Where all nodes alone are right but the outputs are not.

    The network is run afresh; sums may have been added term by term, which loses bits on long ones; last comes float64.

    Args:
        truth: Of the network.
        subject: The system under test.
        whole: What was said of its outputs: *cannot tell* or *wrong*.
        besides: What is known already, for the reason.
        precise_oracle: Gives what the network in float64 must give, where that is not the oracle's outputs: constants of
            ``truth.network`` may be rounded to its own precision.
    """
    again = named(subject.run(truth.network, truth.inputs), truth.outputs)
    fresh = assess_whole(truth, again, truth.outputs, truth.samples)
    if fresh.clear:
        return whole.because(f"{whole.reason}, but not when the network is prepared and run afresh")
    if _added_term_by_term(truth, again).clear:
        return dataclasses.replace(whole, word="right", reason="")
    if whole.word == "wrong":
        return whole.because(f"{whole.reason}{besides}")
    try:
        precise = subject.run_precisely(truth.network, truth.inputs)
    except Exception:  # a framework says in its own ways that it has no such kernel
        return dataclasses.replace(whole, reason=f"{whole.reason}, and it cannot run in float64 here")
    expected = truth.outputs if precise_oracle is None else precise_oracle()
    if all(_vanishes(expected[o.name], precise.get(o.name), o.max_abs_error) for o in whole.outputs):
        return dataclasses.replace(whole, word="right", reason="")
    return whole.because(f"{whole.reason}{besides}; in float64 the error stays")


def _added_term_by_term(truth: Truth, actual: Mapping[str, np.ndarray]) -> Whole:
    samples = truth.sampled(len(truth.samples), 7, accumulation="sequential")
    return assess_whole(truth, actual, truth.outputs, samples)


def _vanishes(expected: Any, precise: np.ndarray | None, error: float) -> bool:
    """Whether an output in float64 is far closer to the oracle's than by ``error``."""
    expected = np.asarray(expected)
    if precise is None or precise.shape != expected.shape:
        return False
    if not is_inexact(expected.dtype):
        return bool(np.array_equal(precise, expected))
    with np.errstate(all="ignore"):
        largest = float(np.nanmax(np.abs(precise - expected), initial=0.0))
    return largest <= max(error * SHRINKS_BY, float(np.finfo(np.float32).tiny))

"""``check``: does a transformed network compute the same as the one it was made from, rounding aside?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deep_bench import frameworks
from deep_bench.check import Effort, OutputVerdict, Truth, Word, establish
from deep_bench.check.decisions import open_decisions
from deep_bench.check.endtoend import Whole, assess_whole
from deep_bench.check.ladder import in_float64
from deep_bench.check.oracle import in_range
from deep_bench.check.rounding import Rounding
from deep_bench.check.subject import named
from deep_bench.check.thresholds import SHRINKS_BY
from deep_bench.framework import check_inputs
from deep_bench.graph import Network
from deep_bench.tensor import is_float, is_inexact, unit_roundoff

Arrays = Mapping[str, np.ndarray]
Call = Callable[[Arrays], Mapping[str, Any]]
Through = Callable[[Call, Arrays], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Whether two networks compute the same.

    Args:
        word: *right*; *reduced precision* (the error is larger than the lower format explains, and vanishes in float64);
            *wrong*; *cannot tell* (random numbers, or an error at the edge of what rounding does); *no information*
            (rounding drowns the outputs).
        reason: Why, in one sentence.
        bits: The significant bits of the worst output.
        identical: Whether the outputs are the same bit by bit on the reference.
        outputs: One verdict for each output.
        formats: The element types that the changed network rounds to.
        seconds: What the check took.
    """

    word: Word
    reason: str
    bits: float
    identical: bool
    outputs: tuple[OutputVerdict, ...]
    formats: tuple[str, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether it is *right*."""
        return self.word == "right"


def check(
    before: Network,
    after: Network,
    inputs: Arrays,
    *,
    effort: Effort = "quick",
    seed: int = 0,
    through: Through | None = None,
) -> Equivalence:
    """Judge a transformed network by the one it was made from.

    The oracle of ``before``, in float64, is what is expected; the reference runs ``after``; and the difference must be one
    that rounding explains. Where ``after`` holds values in a lower format (under their own name, or as ``name.float16``),
    the estimate is made with the roundings of that format, weights and inputs included.

    Args:
        before: The network.
        after: What a transformation made of it.
        inputs: Name to array, for ``before``.
        effort: ``"quick"`` estimates from 4 evaluations with rounding errors, ``"full"`` from 16.
        seed: Of the rounding errors.
        through: How to get the outputs of ``before`` from ``after``, where inputs or outputs differ in shape or type: called
            with a function that runs ``after``, and with ``inputs``.

    Raises:
        UnsupportedOperator: A node has no reference.
        InvalidInput: The inputs do not fit.

    Example:
        >>> import numpy as np, deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> image = {"image": np.random.default_rng(0).random((2, 1, 8, 8), np.float32)}
        >>> fused = db.network.transform.fuse_batchnorm(network)
        >>> check(network, fused, image).word
        'right'
    """
    start = time.perf_counter()
    through = through or _directly
    truth = establish(before, check_inputs(before.inputs, inputs), effort, seed=seed)
    run = _Run(after)
    actual = {n: np.asarray(y) for n, y in named(through(run, truth.inputs), truth.outputs).items()}
    plain = truth.reference.evaluate(truth.inputs)
    identical = all(np.asarray(y).tobytes() == actual[n].tobytes() for n, y in plain.items())
    lowered = _lowered(truth, run.formats)
    if lowered:
        truth = _in_lower_formats(truth, lowered, {n: y.dtype for n, y in actual.items()}, seed)
    whole = assess_whole(truth, actual, truth.outputs, truth.samples)
    if not whole.clear and not truth.random and (decisions := open_decisions(truth)):
        whole = assess_whole(truth, actual, truth.outputs, truth.samples, decisions)
    word, reason = _said(whole, identical, lowered)
    if truth.random:
        word, reason = "cannot tell", "the network draws random numbers, and distributions are not compared"
    elif not whole.clear and not whole.impossible and not identical:
        word, reason = _settled(truth, after, through, whole, word, reason, bool(lowered))
    formats = tuple(sorted({str(f) for f in lowered.values()}))
    return Equivalence(word, reason, whole.bits, identical, whole.outputs, formats, time.perf_counter() - start)


def recast_name(name: str, form: np.dtype) -> str:
    """What a value is called where it is held in another format as well.

    Example:
        >>> recast_name("x", np.dtype("float16"))
        'x.float16'
    """
    return f"{name}.{form.name}"


def _directly(call: Call, inputs: Arrays) -> Mapping[str, Any]:
    return call(inputs)


class _Run:
    """Runs a network on the reference, and notes the element type of every value."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.reference: Any = frameworks["reference"]().prepare(network)
        self.formats: dict[str, np.dtype] = {}

    def __call__(self, inputs: Arrays) -> Mapping[str, Any]:
        given = check_inputs(self.network.inputs, inputs)
        self.formats |= {name: np.asarray(x).dtype for name, x in given.items()}
        outputs: Mapping[str, Any] = self.reference.evaluate(given, observe=self._observe)
        return outputs

    def _observe(self, step: Any, arrays: Sequence[Any], results: Sequence[Any]) -> None:
        for name, x in zip((*step.inputs, *step.outputs), (*arrays, *results), strict=False):
            if name and isinstance(x, np.ndarray | np.generic):
                self.formats.setdefault(name, x.dtype)


def _lowered(truth: Truth, after: Mapping[str, np.dtype]) -> dict[str, np.dtype]:
    """The values of the network that the changed one holds in a coarser format."""
    narrow = [np.dtype(d) for d in set(after.values()) if is_float(np.dtype(d))]
    found: dict[str, np.dtype] = {}
    for name, own in truth.formats.items():
        if not is_float(own) or name in truth.settings:
            continue
        held = [after[n] for n in (name, *(recast_name(name, d) for d in narrow)) if n in after and is_float(after[n])]
        coarsest = max(held, key=unit_roundoff, default=own)
        if unit_roundoff(coarsest) > unit_roundoff(own):
            found[name] = coarsest
    return found


def _in_lower_formats(truth: Truth, lowered: Mapping[str, np.dtype], outputs: Mapping[str, np.dtype], seed: int) -> Truth:
    """What is known of a network, with the rounding errors of lower formats."""
    held = {**truth.network.upgraded().initializers, **truth.inputs}
    coarse = {n: x for n, x in held.items() if n in lowered and is_inexact(x.dtype)}
    low = replace(truth, formats={**truth.formats, **lowered})
    samples = []
    for k in range(len(truth.samples)):
        rng = np.random.default_rng([seed, 7, k])
        rounded = {n: _rounded(x, lowered[n], rng) for n, x in coarse.items()}
        samples.append(truth.reference.evaluate({**truth.inputs, **rounded}, arithmetic=low.arithmetic(rng)))
    declared = {n: d for n, d in outputs.items() if n in lowered}
    return replace(low, samples=samples, formats={**low.formats, **declared})


def _rounded(x: np.ndarray, form: np.dtype, rng: np.random.Generator) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(in_range(np.asarray(Rounding(form, rng).of_result(x.astype(np.float64))), form))


def _said(whole: Whole, identical: bool, lowered: Mapping[str, np.dtype]) -> tuple[Word, str]:
    if identical:
        return "right", "the outputs are the same, bit by bit"
    if not whole.clear:
        return whole.word, whole.reason
    if whole.information:
        return "no information", whole.reason
    formats = sorted({str(f) for f in lowered.values()})
    return "right", f"the outputs differ by rounding{' in ' + ', '.join(formats) if formats else ''} only"


def _settled(
    truth: Truth, after: Network, through: Through, whole: Whole, word: Word, reason: str, lower: bool
) -> tuple[Word, str]:
    """Where rounding in the network's own formats does not explain the difference: does it vanish in float64?"""

    def precisely(inputs: Arrays) -> Mapping[str, Any]:
        wide, arrays = in_float64(after, inputs)
        outputs: Mapping[str, Any] = frameworks["reference"]().prepare(wide)(arrays)
        return outputs

    outputs = through(precisely, truth.inputs)
    if not all(_vanishes(truth.outputs[o.name], outputs[o.name], o.max_abs_error) for o in whole.outputs):
        return word, f"{reason}; in float64 the difference stays"
    if lower:
        return "reduced precision", f"{reason}; in float64 the difference vanishes"
    return "right", "the outputs differ by rounding only: in float64 the difference vanishes"


def _vanishes(expected: Any, precise: Any, error: float) -> bool:
    expected, precise = np.asarray(expected), np.asarray(precise)
    if precise.shape != expected.shape:
        return False
    if not is_inexact(expected.dtype):
        return bool(np.array_equal(precise, expected))
    with np.errstate(all="ignore"):
        largest = float(np.nanmax(np.abs(precise - expected), initial=0.0))
    return largest <= max(error * SHRINKS_BY, float(np.finfo(np.float32).tiny))

"""``check``: does a transformed network compute the same as the one it was made from, rounding aside?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from deep_bench import frameworks
from deep_bench.check import Effort, OutputVerdict, Truth, Word, establish
from deep_bench.check.arithmetic import Rounding
from deep_bench.check.judge import EndToEnd, assess_whole
from deep_bench.check.oracle import WideArithmetic, in_range, settings_of
from deep_bench.check.special import nothing_to_compare, open_decisions
from deep_bench.check.subject import named
from deep_bench.check.thresholds import INFORMATION
from deep_bench.framework import check_inputs, map_arrays
from deep_bench.graph import Network, NetworkLike, as_network
from deep_bench.network.transform.draft import runs
from deep_bench.tensor import TensorSpec, is_float, unit_roundoff

Arrays = Mapping[str, np.ndarray]
Call = Callable[[Arrays], Mapping[str, Any]]
Through = Callable[[Call, Arrays], Mapping[str, Any]]

_WIDE = np.dtype(np.float32)


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Whether two networks compute the same.

    Args:
        word: *right*; *wrong* (in float64, too, they differ by more than the rounding of constants); *reduced precision* (in
            float64 they agree, but not in the formats of the changed network: overflow, cancellation, too few bits); *cannot
            tell* (random numbers, or an error at the edge of what rounding does); *no information* (rounding may drown the
            outputs, or they are empty or without a finite element).
        reason: Why, in one sentence.
        bits: The significant bits of the worst output; NaN where there is nothing to compare.
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
    before: NetworkLike,
    after: NetworkLike,
    inputs: Arrays,
    *,
    effort: Effort = "quick",
    seed: int = 0,
    through: Through | None = None,
) -> Equivalence:
    """Judge a transformed network by the one it was made from.

    The oracle of ``before``, in float64, is what is expected. The reference runs ``after`` in its own element types, and the
    difference must be one that rounding explains. Where ``after`` holds values in a lower format (under their own name, or
    as ``name.float16``), the estimate is made with the roundings of that format, weights and inputs included. It is also run
    as the oracle would, in float64, where only the rounding of the constants that it holds otherwise may show: this finds
    faults that rounding would hide.

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
    before, after = as_network(before), as_network(after)
    start = time.perf_counter()
    through = through or _directly
    before = _lifted(before)
    with runs(before):
        truth = establish(before, check_inputs(before.inputs, inputs), effort, seed=seed)
    run = _TypedRun(_lifted(after))
    actual = {n: map_arrays(np.asarray, y) for n, y in named(through(run, truth.inputs), truth.outputs).items()}
    plain = truth.reference.evaluate(truth.inputs)
    identical = all(_bitwise_equal(y, actual[n]) for n, y in plain.items())
    lowered = _lowered(truth, run.formats)
    working = _in_lower_formats(truth, lowered, run.formats, actual, seed) if lowered else truth
    whole = _assess(working, actual)
    word: Word
    if truth.random:
        word, reason = "cannot tell", "the network draws random numbers, and distributions are not compared"
    elif identical:
        word, reason = "right", "the outputs are the same, bit by bit"
    else:
        exact = _assess(*_in_float64(truth, run, through, lowered, seed))
        word, reason = _verdict(truth, actual, whole, exact, lowered)
        if word == "no information" and lowered and _lost_much(whole) and not _assess(truth, plain).information:
            word, reason = "reduced precision", f"{reason} in {_names(lowered)}, and not so in the network's own formats"
    bits = whole.bits
    if word == "right" and (nothing := nothing_to_compare(truth.outputs)):
        word, reason, bits = "no information", nothing, float("nan")
    formats = tuple(sorted({f.name for f in lowered.values()}))
    return Equivalence(word, reason, bits, identical, whole.outputs, formats, time.perf_counter() - start)


def recast_name(name: str, form: np.dtype) -> str:
    """What a value is called where it is held in another format as well.

    Example:
        >>> recast_name("x", np.dtype("float16"))
        'x.float16'
    """
    return f"{name}.{form.name}"


def _directly(call: Call, inputs: Arrays) -> Mapping[str, Any]:
    return call(inputs)


class _TypedRun:
    """Runs a network on the reference, and notes the element type of every value."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.reference: Any = frameworks["reference"]().prepare(network)
        self.formats: dict[str, np.dtype] = {}

    def __call__(self, inputs: Arrays) -> Mapping[str, Any]:
        arrays = check_inputs(self.network.inputs, inputs)
        self.formats |= {name: np.asarray(x).dtype for name, x in arrays.items()}
        outputs: Mapping[str, Any] = self.reference.evaluate(arrays, observe=self._observe)
        return outputs

    def _observe(self, step: Any, arrays: Sequence[Any], results: Sequence[Any]) -> None:
        for name, x in zip((*step.inputs, *step.outputs), (*arrays, *results), strict=False):
            if name and isinstance(x, np.ndarray | np.generic):
                self.formats.setdefault(name, x.dtype)


def _lowered(truth: Truth, after: Mapping[str, np.dtype]) -> dict[str, np.dtype]:
    """The values of the network that the changed one holds in a coarser format."""
    narrow = [np.dtype(d) for d in set(after.values()) if is_float(np.dtype(d))]
    coarse_formats: dict[str, np.dtype] = {}
    for name, form in truth.formats.items():
        if not is_float(form) or name in truth.settings:
            continue
        held = [after[n] for n in (name, *(recast_name(name, d) for d in narrow)) if n in after and is_float(after[n])]
        coarsest = max(held, key=unit_roundoff, default=form)
        if unit_roundoff(coarsest) > unit_roundoff(form):
            coarse_formats[name] = coarsest
    return coarse_formats


def _in_lower_formats(
    truth: Truth,
    lowered: Mapping[str, np.dtype],
    after: Mapping[str, np.dtype],
    actual: Mapping[str, np.ndarray],
    seed: int,
) -> Truth:
    """What is known of a network, with the rounding errors of lower formats."""
    held = {**truth.network.upgraded().initializers, **truth.inputs}
    coarse = {n: (held[n], lowered[n]) for n in held if n in lowered}
    low = replace(truth, formats={**truth.formats, **lowered})
    cast = {n: form for n, form in lowered.items() if recast_name(n, form) in after}

    def arithmetic(rng: np.random.Generator) -> Any:
        return _Casting(low.arithmetic(rng), cast, rng)

    samples = _sampled(truth, coarse, seed, arithmetic)
    declared = {n: y.dtype for n, y in actual.items() if n in lowered and isinstance(y, np.ndarray)}
    return replace(low, samples=samples, formats={**low.formats, **declared})


@dataclass(frozen=True)
class _Casting:
    """An arithmetic that also rounds the values that the changed network casts to a lower format."""

    inner: WideArithmetic
    cast: Mapping[str, np.dtype]
    rng: np.random.Generator

    def __call__(self, step: Any, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        results = self.inner(step, function, inputs)
        return tuple(
            _rounded(y, self.cast[n], self.rng) if n in self.cast and isinstance(y, np.ndarray) and is_float(y.dtype) else y
            for n, y in zip(step.outputs, results, strict=False)
        )


def _in_float64(
    truth: Truth, run: _TypedRun, through: Through, lowered: Mapping[str, np.dtype], seed: int
) -> tuple[Truth, dict[str, Any]]:
    """The outputs of the changed network without rounding, and what is known of them.

    What is expected is the oracle with the constants and inputs as the changed network holds them in a lower format. Of
    those that it does not hold at all any more, since others were computed from them, the estimate has the rounding.
    """
    after = run.network.upgraded()
    formats = {n: _wide_format(n, d, truth, lowered) for n, d in run.formats.items()}
    arithmetic = WideArithmetic(formats, settings_of(after.graph))
    outputs = through(lambda fed: run.reference.evaluate(fed, arithmetic=arithmetic), truth.inputs)
    held, new_constants = truth.network.upgraded().initializers, after.initializers
    low = _held_low(held, new_constants, lowered)
    low |= {
        s.name: truth.inputs[s.name].astype(s.dtype) for s in run.network.inputs if s.name in lowered and _narrower(truth, s)
    }
    changed = {
        n: (x, lowered.get(n, x.dtype))
        for n, x in held.items()
        if is_float(x.dtype)
        and n not in low
        and n not in truth.settings
        and (n in lowered or not (n in new_constants and _bitwise_equal(x, new_constants[n])))
    }
    expected = replace(truth, inputs={**truth.inputs, **{n: x.astype(np.float64) for n, x in low.items()}})
    expected.outputs = expected.evaluate(truth.arithmetic())
    expected.samples = _sampled(expected, changed, seed, lambda rng: truth.arithmetic()) if changed else []  # noqa: ARG005
    return expected, {n: _in_format(y, truth.formats.get(n)) for n, y in outputs.items()}


def _wide_format(name: str, form: np.dtype, truth: Truth, lowered: Mapping[str, np.dtype]) -> np.dtype:
    """The format of a value in the network before: its own there, or that of the value that it was cast from."""
    original_form = truth.formats.get(name)
    if original_form is not None or not (lowered and is_float(form)):
        return form if original_form is None else original_form
    cast_from = truth.formats.get(name.rpartition(".")[0])
    return cast_from if cast_from is not None and is_float(cast_from) else _WIDE


def _in_format(y: Any, form: np.dtype | None) -> Any:
    if isinstance(y, list | tuple) or y is None:
        return y
    y = np.asarray(y)
    with np.errstate(all="ignore"):
        return y.astype(form) if form is not None and is_float(form) and is_float(y.dtype) else y


def _narrower(truth: Truth, spec: TensorSpec) -> bool:
    return is_float(spec.dtype) and spec.name in truth.inputs and spec.dtype != truth.inputs[spec.name].dtype


def _held_low(
    held: Mapping[str, np.ndarray], new_constants: Mapping[str, np.ndarray], lowered: Mapping[str, np.dtype]
) -> dict[str, np.ndarray]:
    """The constants that the changed network holds in a lower format only, if they are roundings of the original ones."""
    roundings = {}
    for name, x in held.items():
        ways = [n for n in (name, *(recast_name(name, d) for d in set(lowered.values()))) if n in new_constants]
        if name not in lowered or len(ways) != 1 or new_constants[ways[0]].dtype != lowered[name]:
            continue
        low, form = new_constants[ways[0]], lowered[name]
        if low.shape == x.shape and _is_rounding(low.astype(np.float64), x.astype(np.float64), form):
            roundings[name] = low
    return roundings


def _is_rounding(low: np.ndarray, x: np.ndarray, form: np.dtype) -> bool:
    """Whether each element is the nearest of a format, or the largest one where the original is beyond."""
    info = ml_dtypes.finfo(form)
    with np.errstate(all="ignore"):
        near = np.abs(low - x) <= unit_roundoff(form) * np.abs(x) + float(info.smallest_subnormal)
        beyond = (np.abs(x) > float(info.max)) & (np.abs(low) >= float(info.max)) & (np.sign(low) == np.sign(x))
    return bool(np.all(near | beyond | (low == x) | (np.isnan(low) & np.isnan(x))))


def _sampled(
    truth: Truth,
    constants: Mapping[str, tuple[np.ndarray, np.dtype]],
    seed: int,
    arithmetic: Callable[[np.random.Generator], Any],
) -> list[dict[str, Any]]:
    """Evaluations of the network with constants and inputs rounded at random, each to a format."""
    samples = []
    for k in range(len(truth.samples)):
        rng = np.random.default_rng([seed, 7, k])
        rounded = {n: _rounded(x, form, rng) for n, (x, form) in constants.items()}
        samples.append(truth.reference.evaluate({**truth.inputs, **rounded}, arithmetic=arithmetic(rng)))
    return samples


def _rounded(x: np.ndarray, form: np.dtype, rng: np.random.Generator) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(in_range(np.asarray(Rounding(form, rng).of_result(x.astype(np.float64))), form))


def _assess(truth: Truth, actual: Mapping[str, np.ndarray]) -> EndToEnd:
    """The outputs against what is expected; decisions may fall otherwise within their margins."""
    whole = assess_whole(truth, actual, truth.outputs, truth.samples)
    if not whole.clear and not truth.random and (decisions := open_decisions(truth)):
        return assess_whole(truth, actual, truth.outputs, truth.samples, decisions)
    return whole


def _verdict(
    truth: Truth, actual: Mapping[str, np.ndarray], whole: EndToEnd, exact: EndToEnd, lowered: Mapping[str, np.dtype]
) -> tuple[Word, str]:
    """The verdict, from the outputs in the working formats and from those in float64."""
    if exact.word == "wrong" or not (exact.clear or whole.clear):
        return exact.word, f"{exact.reason}, in float64 as well"
    for name, y in actual.items():
        expected = truth.outputs[name]
        if isinstance(y, np.ndarray) and is_float(y.dtype) and y.shape == np.shape(expected):
            lost = int(np.sum(np.isfinite(expected) & ~np.isfinite(y.astype(np.float64))))
            if lost:
                return "reduced precision", f"output {name!r} has {lost} elements that are infinite or NaN only now"
    if whole.word == "wrong":
        return "reduced precision", f"{whole.reason}; in float64 it is right"
    if whole.information:
        return "no information", whole.reason
    return "right", f"the outputs differ by rounding{' in ' + _names(lowered) if lowered else ''} only"


def _lost_much(whole: EndToEnd) -> bool:
    """Whether some error is of the size of the results themselves."""
    return any(o.max_rel_error >= INFORMATION for o in whole.outputs)


def _names(lowered: Mapping[str, np.dtype]) -> str:
    return ", ".join(sorted({f.name for f in lowered.values()}))


def _bitwise_equal(a: Any, b: Any) -> bool:
    """Whether two results are the same bit by bit: arrays, lists of them, or nothing."""
    if isinstance(a, list | tuple) or isinstance(b, list | tuple) or a is None or b is None:
        alike = isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b)
        return (a is None and b is None) or (alike and all(map(_bitwise_equal, a, b)))
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool((a == b).all()) if a.dtype == object else a.tobytes() == b.tobytes()


def _lifted(network: Network) -> Network:
    """The network with its ``Constant`` nodes as initializers, which the estimate can round."""
    changed = network.copy()
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(changed.model)
    return Network(changed.model, name=network.name)

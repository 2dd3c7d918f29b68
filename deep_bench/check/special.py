"""Results that need more than a comparison: discrete ones, those in a narrower format, those that tell nothing.

A decision may flip where its margin is within rounding, and what follows is judged by that decision. TF32, bfloat16 and
float16 are recognised where the network states a wider format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.check.estimate import Expectation, assess, compare, differing, rounds_to, widened
from deep_bench.check.oracle import Truth
from deep_bench.check.replay import IsolatedNodes, form_of
from deep_bench.check.subject import named
from deep_bench.check.thresholds import GREY_BITS, MARGIN_RATIO, ROUNDING_BITS
from deep_bench.graph import Network
from deep_bench.graph.node import operator_facts
from deep_bench.tensor import is_float, is_inexact, significand_bits

_TRIALS = 12


@dataclass(frozen=True, slots=True, eq=False)
class DecisionTrials:
    """The values that a discrete result took over evaluations with enlarged rounding errors.

    Args:
        oracle: The oracle's.
        trials: The others.
    """

    oracle: np.ndarray
    trials: Sequence[np.ndarray]

    @property
    def open(self) -> bool:
        """Whether rounding can change it at all."""
        return any(t.shape != self.oracle.shape or differing(t, self.oracle).any() for t in self.trials)

    def admits(self, actual: np.ndarray) -> bool:
        """Whether every element of ``actual`` is the oracle's or lies within what was seen at its place."""
        if actual.shape == self.oracle.shape and not differing(actual, self.oracle).any():
            return True
        if any(t.shape != self.oracle.shape for t in self.trials):
            return True  # the number of results is itself a decision
        if actual.shape != self.oracle.shape:
            return False
        different = differing(actual, self.oracle)
        stack = np.stack([widened(np.asarray(t)[different]) for t in (self.oracle, *self.trials)])
        if stack.dtype == object:
            return bool(np.all(np.any(stack == actual[different], axis=0)))
        stack, chosen = stack.astype(np.float64), actual[different].astype(np.float64)
        return bool(np.all((stack.min(axis=0) <= chosen) & (chosen <= stack.max(axis=0))))


@dataclass(frozen=True, slots=True, eq=False)
class ImposedDecisions:
    """The oracle's results with a system's own decisions imposed.

    Args:
        outputs, samples: As those of `Truth`.
        flipped: Names of the values that the system decided otherwise, within the margin.
        refused: Why its decisions cannot be accepted, or ``""``.
    """

    outputs: Mapping[str, Any]
    samples: Sequence[Mapping[str, Any]]
    flipped: tuple[str, ...]
    refused: str = ""


def open_decisions(truth: Truth) -> dict[str, DecisionTrials]:
    """The decisions of the outermost graph, and the discrete outputs, that rounding can change."""
    names = _deciding(truth)
    discrete = {n for n, y in truth.outputs.items() if not is_float(np.asarray(y).dtype)}
    oracle: dict[str, np.ndarray] = {}
    truth_outputs = truth.evaluate(truth.arithmetic(), _collector(names, oracle))
    oracle.update({n: np.asarray(truth_outputs[n]) for n in discrete})
    trials: list[dict[str, np.ndarray]] = []
    for k in range(_TRIALS if oracle else 0):
        values: dict[str, np.ndarray] = {}
        rng = np.random.default_rng([3, k])
        outputs = truth.evaluate(truth.arithmetic(rng, scale=MARGIN_RATIO), _collector(names, values))
        trials.append({**values, **{n: np.asarray(outputs[n]) for n in discrete}})
    observations = {n: DecisionTrials(y, [t[n] for t in trials if n in t]) for n, y in oracle.items()}
    return {n: s for n, s in observations.items() if s.open}


def impose(truth: Truth, subject: Any, decisions: Mapping[str, DecisionTrials]) -> ImposedDecisions | None:
    """Ask a system for its decisions, and evaluate the oracle with them.

    Returns:
        ``None`` if it decides as the oracle does.
    """
    form = form_of(truth.network, subject.upgrades)
    inner = {v.name for node in form.nodes for v in node.outputs}
    names = [n for n in decisions if n in inner]
    actual = named(subject.run(form.with_outputs(names), truth.inputs), names) if names else {}
    flipped = tuple(n for n in names if _decided_otherwise(actual[n], decisions[n].oracle))
    if not flipped:
        return None
    beyond = [n for n in flipped if not decisions[n].admits(actual[n])]
    if beyond:
        return ImposedDecisions(
            {}, (), flipped, f"decision {beyond[0]!r} differs from the oracle's where rounding leaves no choice"
        )
    imposed = {n: widened(actual[n]) for n in flipped}
    outputs = truth.evaluate(truth.arithmetic(imposed=imposed))
    return ImposedDecisions(outputs, truth.sampled(len(truth.samples), 4, imposed=imposed), flipped)


def _decided_otherwise(actual: np.ndarray, oracle: np.ndarray) -> bool:
    return actual.shape != oracle.shape or bool(differing(actual, oracle).any())


def _deciding(truth: Truth) -> frozenset[str]:
    """Names of results of the outermost graph that are discrete functions of floating-point inputs."""
    formats, deciding = truth.formats, set()
    for node in truth.network.upgraded().nodes:
        names = [str(v.name) for v in node.outputs if v.name]
        if not any(v is not None and is_float(formats.get(str(v.name), np.dtype(bool))) for v in node.inputs):
            continue
        stepped = operator_facts(node).stepped
        for name in names:
            form = formats.get(name)
            if form is None or name in truth.settings:
                continue
            if stepped or not is_float(form) or rounds_to(node, form):
                deciding.add(name)
    return frozenset(deciding)


def _collector(names: frozenset[str], values: dict[str, np.ndarray]) -> Any:
    def observe(step: Any, arrays: Sequence[Any], results: Sequence[Any]) -> None:  # noqa: ARG001 (an Observer)
        for name, y in zip(step.outputs, results, strict=False):
            if name in names:
                values[name] = np.asarray(y)

    return observe


def _to_tf32(x: np.ndarray, *, nearest: bool) -> np.ndarray:
    bits = x.astype(np.float32).view(np.uint32)
    if nearest:
        bits = bits + np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


_FORMATS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "TF32": lambda x: _to_tf32(x, nearest=True),
    "truncated TF32": lambda x: _to_tf32(x, nearest=False),
    "bfloat16": lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float32),
    "float16": lambda x: x.astype(np.float16).astype(np.float32),
}

_STORED = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}


def recognise(isolated: IsolatedNodes, actual: Mapping[str, np.ndarray], expected: Mapping[str, Any]) -> str:
    """The narrower format that a single float32 node was computed in, or ``""``.

    Either its result is what float32 arithmetic gives on factors rounded to that format, or it is itself representable
    there and right for that format.
    """
    rounded = {n: e for n, e in expected.items() if isinstance(e, Expectation) and e.form == np.float32 and e.value.size > 1}
    if not rounded or any(actual[n].shape != e.value.shape for n, e in rounded.items()):
        return ""
    for name, form in _STORED.items():
        if all(_stored_in(actual[n], e, form) for n, e in rounded.items()):
            return name
    if not operator_facts(isolated.nodes[0]).multiplies:
        return ""
    return next((name for name in _FORMATS if _explains(name, isolated, actual, rounded)), "")


def _stored_in(actual: np.ndarray, expected: Expectation, form: np.dtype) -> bool:
    with np.errstate(all="ignore"):
        if not np.array_equal(actual.astype(form).astype(np.float32), actual, equal_nan=True):
            return False
    factor = 2.0 ** (significand_bits(expected.form) - significand_bits(form))
    wider = Expectation(expected.value, expected.spread * factor, expected.settled, form)
    return assess(actual.astype(form), wider).level == "clear"


def _explains(
    name: str, isolated: IsolatedNodes, actual: Mapping[str, np.ndarray], expected: Mapping[str, Expectation]
) -> bool:
    from deep_bench import frameworks

    network, inputs = _rounded(isolated, _FORMATS[name])
    from deep_bench.check.subject import in_float64

    outputs = (
        frameworks["reference"]()
        .prepare(in_float64(network.without_kernels(), {})[0])
        .evaluate({n: x.astype(np.float64) if x.dtype == np.float32 else x for n, x in inputs.items()})
    )
    for output, e in expected.items():
        before = compare(actual[output], e)
        after = compare(actual[output], Expectation(outputs[output], e.spread, e.settled, e.form))
        near = after.bits >= significand_bits(e.form) - GREY_BITS + ROUNDING_BITS
        if not near or after.misplaced or after.bits < before.bits + 2:
            return False
    return True


@np.errstate(over="ignore")  # what is too large for the narrow format is infinite there, and explains nothing
def _rounded(isolated: IsolatedNodes, to: Callable[[np.ndarray], np.ndarray]) -> tuple[Network, dict[str, np.ndarray]]:
    """The isolated node with its two factors rounded; what is only added stays."""
    import onnx_ir as ir

    changed = isolated.network.copy()
    inputs = dict(isolated.inputs)
    for value in changed.nodes[0].inputs[:2]:
        if value is None:
            continue
        name = str(value.name)
        if name in inputs and inputs[name].dtype == np.float32:
            inputs[name] = to(inputs[name])
        elif value.const_value is not None and value.const_value.dtype == ir.DataType.FLOAT:
            value.const_value = ir.tensor(to(value.const_value.numpy()), name=name)
    return changed, inputs


def nothing_in(arrays: Iterable[np.ndarray]) -> str:
    """Why arrays that are expected tell nothing of a framework: any would do. Empty if they tell something.

    Example:
        >>> nothing_in([np.zeros((0, 3))]), nothing_in([np.array([np.nan, np.nan])]), nothing_in([np.array([np.nan, 1])])
        ('empty', 'without a finite element', '')
    """
    contents = list(arrays)
    if not contents or any(a.size and not (is_inexact(a.dtype) and not np.isfinite(a).any()) for a in contents):
        return ""
    return "without a finite element" if any(a.size for a in contents) else "empty"


def nothing_to_compare(outputs: Mapping[str, Any]) -> str:
    """Why the expected outputs of a network tell nothing, as a sentence; empty if they tell something.

    Args:
        outputs: Name to array; sequences and empty optionals are passed over.

    Example:
        >>> nothing_to_compare({"y": np.zeros((0, 3))}), nothing_to_compare({"y": np.zeros((0, 3)), "n": np.zeros(())})
        ('the outputs are empty, so there is nothing to compare', '')
    """
    nothing = nothing_in(np.asarray(y) for y in outputs.values() if isinstance(y, np.ndarray | np.generic))
    return f"the outputs are {nothing}, so there is nothing to compare" if nothing else ""

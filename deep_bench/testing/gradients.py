"""Whether the gradients of a network are right: compared with differences of the reference in float64.

A loss is a function of one variable along a direction, which may be smooth or have a kink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import numpy as np
import onnx

from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidNetwork, Unsupported
from deep_bench.facts import facts_of
from deep_bench.framework import Adapter
from deep_bench.graph import OPSET, Network
from deep_bench.reference.network import ReferenceAdapter, in_float64
from deep_bench.tensor import is_float, unit_roundoff
from deep_bench.testing.case import Case

_STEPS = (2.0**-9, 2.0**-13, 2.0**-20)
_AGREE = 2.0**-17
"""How closely, beside the largest of them, slopes over different steps agree where a function is smooth."""


_KINK = 2.0**-11
"""How far apart, beside the larger one, slopes to both sides are at a kink."""


@dataclass(frozen=True)
class Slope:
    """The slopes of a function to both sides of a point; equal where it is smooth.

    Args:
        low: The lesser one.
        high: The greater one.
        word: ``"smooth"``, ``"kink"``, ``"jump"`` (no slope at all), or ``"undefined"`` (no number there).
    """

    low: float
    high: float
    word: str = "smooth"

    def admits(self, found: float, tolerance: float) -> bool:
        """Whether a gradient is one of these slopes, or between them; at a jump, and where nothing is defined, any is."""
        return self.word in ("jump", "undefined") or self.low - tolerance <= found <= self.high + tolerance

    def __str__(self) -> str:
        return f"{self.low:.6g}" if self.low == self.high else f"{self.low:.6g} to {self.high:.6g} ({self.word})"


def slope(function: Callable[[float], float], scale: float = 1.0) -> Slope:
    r"""The slope of ``function`` at 0.

    Where central differences over two steps agree, Richardson's extrapolation of them; else the differences to both sides
    over a step so small that what lies near the point no longer matters.

    Args:
        function: In float64, of a step from the point.
        scale: The size of the point's coordinates; steps are taken in proportion.

    Example:
        >>> slope(lambda t: (1 + t) ** 3).low, slope(abs)
        (3.0, Slope(low=-1.0, high=1.0, word='kink'))

    Source:
        Richardson, 1911; Clarke, *Optimization and Nonsmooth Analysis*, section 2.1.
    """
    center = function(0.0)
    if not isfinite(center):
        return Slope(0.0, 0.0, "undefined")
    values = {step: (function(step * scale), function(-step * scale)) for step in _STEPS[:2]}
    wide, near = (_central(values[step], step * scale) for step in _STEPS[:2])
    if abs(wide - near) <= _AGREE * max(abs(wide), abs(near), _small(2.0**-10, scale)) and _joins(
        values[_STEPS[1]], center, near, scale
    ):
        ratio = (_STEPS[0] / _STEPS[1]) ** 2
        refined = near + (near - wide) / (ratio - 1)
        return Slope(refined, refined)
    above, below = (
        [(function(sign * step * scale) - center) / (sign * step * scale) for step in _STEPS[1:]] for sign in (1, -1)
    )
    if not all(map(isfinite, (*above, *below))):
        return Slope(0.0, 0.0, "undefined")
    low, high = sorted((above[-1], below[-1]))
    apart, before = high - low, abs(above[0] - below[0])
    if max(abs(above[-1]), abs(below[-1])) > 4 * max(abs(above[0]), abs(below[0]), _small(2.0**-10, scale)):
        return Slope(low, high, "jump")
    curved = apart < before / 4  # what is only curved is straight over a smaller step
    if curved or apart <= _KINK * max(abs(low), abs(high), _small(2.0**-6, scale)):
        middle = (low + high) / 2
        return Slope(middle, middle)
    return Slope(low, high, "kink")


def _central(values: tuple[float, float], step: float) -> float:
    return (values[0] - values[1]) / (2 * step)


def _joins(values: tuple[float, float], center: float, central: float, scale: float) -> bool:
    """Whether the point lies between its neighbours, as it does not on top of a kink that is the same to both sides."""
    bend = abs(values[0] + values[1] - 2 * center) / (_STEPS[1] * scale)
    return bend <= 64 * _STEPS[1] * max(abs(central), _small(2.0**-6, scale))


def _small(slope: float, scale: float) -> float:
    """A slope that counts as none: over a longer step it changes as much."""
    return slope / max(scale, 1.0)


GradientWord = Literal["right", "kink", "refused", "wrong", "failed"]

LOSS = "weighted sum"
"""The name of the loss that `gradient_problem` adds."""


_COORDINATES = 64
"""Up to how many elements of an input are tried one by one; of a larger one as many, drawn, and some directions."""


_DIRECTIONS = 3

_HUGE = 2.0**10
"""Elements of results above this size weigh less in the loss."""


_RANDOM = frozenset({"Bernoulli", "Dropout", "Multinomial"})
"""Operators that draw random numbers besides what they are given."""


@dataclass(frozen=True)
class GradientOutcome:
    """How the gradients of a case came out.

    Args:
        case: The case's name.
        word: ``right``; ``kink``: right, but at one element at least the function has no single slope, or none, and the
            gradient was one that is allowed there; ``refused``: said that there is none; ``wrong``; ``failed``: any error.
        detail: What differs, or the error.
    """

    case: str
    word: GradientWord
    detail: str = ""


@dataclass(frozen=True, eq=False)
class GradientProblem:
    """A case with a loss.

    Args:
        network: The case's network with one more output, `LOSS`: the sum of all outputs' elements with random weights.
        inputs: Name to array.
        wrt: The floating-point inputs that are no settings, such as the scales of ``Resize``.
    """

    network: Network
    inputs: Mapping[str, Any]
    wrt: tuple[str, ...]


def gradient_problem(case: Case, *, seed: int = 0) -> GradientProblem | None:
    """The case with a loss, or ``None`` if it has no floating-point input or no floating-point output."""
    proto = onnx.ModelProto()
    proto.CopyFrom(case.proto)
    proto.ir_version = max(proto.ir_version, 4)  # the loss adds initializers that are no inputs
    fed = [v for v in proto.graph.input if v.name not in {t.name for t in proto.graph.initializer}]
    inputs = {v.name: a for v, a in zip(fed, case.inputs, strict=True)}
    settings = {n for node in proto.graph.node for i in _settings(node.op_type) for n in node.input[i : i + 1]}
    wrt = tuple(n for n, a in inputs.items() if _is_real(a) and n not in settings)
    outputs = [(v.name, y) for v, y in zip(proto.graph.output, case.outputs, strict=True) if _is_real(y)]
    if not wrt or not outputs:
        return None
    _add_loss(proto, outputs, np.random.default_rng(seed))
    return GradientProblem(Network.from_proto(proto, name=case.name), inputs, wrt)


def _settings(op_type: str) -> Iterable[int]:
    """The inputs that only set an operator up; the ratio of a Dropout also decides what is dropped."""
    return (1, 2) if op_type == "Dropout" else facts_of(op_type).settings


def _is_real(array: Any) -> bool:
    return isinstance(array, np.ndarray | np.generic) and is_float(array.dtype)


def _add_loss(proto: onnx.ModelProto, outputs: Sequence[tuple[str, np.ndarray]], rng: np.random.Generator) -> None:
    """The sum of the outputs with random weights; elements that are infinite or no number count for nothing."""
    if all(o.domain not in ("", "ai.onnx") for o in proto.opset_import):
        proto.opset_import.append(onnx.helper.make_opsetid("", OPSET))
    terms = []
    for name, y in outputs:
        wide = np.float64 if y.dtype == np.float64 else np.float32
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(wide))
        finite = np.isfinite(np.asarray(y, np.float64))
        weights = rng.choice([-1, 1], y.shape) * rng.uniform(0.5, 1.5, y.shape)
        # A sum with huge terms would lose the small ones.
        weights = weights / np.maximum(np.abs(np.where(finite, y, 0), dtype=np.float64) / _HUGE, 1)
        constants = {"weights": weights.astype(wide), "finite": finite, "zero": np.zeros((), wide)}
        proto.graph.initializer.extend(
            onnx.numpy_helper.from_array(np.asarray(a), f"{name}/{label}") for label, a in constants.items()
        )
        last, nodes = name, []
        if y.dtype != wide:
            nodes.append(onnx.helper.make_node("Cast", [last], [f"{name}/wide"], to=kind))
            last = f"{name}/wide"
        if not finite.all():
            nodes.append(onnx.helper.make_node("Where", [f"{name}/finite", last, f"{name}/zero"], [f"{name}/kept"]))
            last = f"{name}/kept"
        nodes.append(onnx.helper.make_node("Mul", [last, f"{name}/weights"], [f"{name}/weighted"]))
        nodes.append(onnx.helper.make_node("ReduceSum", [f"{name}/weighted"], [f"{name}/sum"], keepdims=0))
        proto.graph.node.extend(nodes)
        terms.append((f"{name}/sum", kind))
    _add_terms(proto, terms)


def _add_terms(proto: onnx.ModelProto, terms: Sequence[tuple[str, int]]) -> None:
    widest = max(kind for _, kind in terms)  # DOUBLE follows FLOAT
    names = []
    for name, kind in terms:
        if kind != widest:
            proto.graph.node.append(onnx.helper.make_node("Cast", [name], [f"{name}/wide"], to=widest))
        names.append(name if kind == widest else f"{name}/wide")
    proto.graph.node.append(onnx.helper.make_node("Sum", names, [LOSS]))
    proto.graph.output.append(onnx.helper.make_tensor_value_info(LOSS, widest, []))


def judge_gradients(
    problem: GradientProblem, found: Mapping[str, np.ndarray], *, seed: int = 1, precise: bool = False
) -> tuple[GradientWord, str]:
    """Compare gradients with differences of the reference.

    Args:
        problem: The case with its loss.
        found: Name of each of ``problem.wrt`` to a gradient.
        seed: Of the elements and directions that are tried where an input is large.
        precise: Whether ``found`` was computed in float64.

    Returns:
        ``right``, ``kink`` or ``wrong``, and what differs.
    """
    loss = _Loss(problem)
    rng = np.random.default_rng(seed)
    slopes = {name: list(_slopes(loss, name, rng)) for name in problem.wrt}
    size = max((abs(s.high) for probes in slopes.values() for _, s in probes if s.word == "smooth"), default=0.0)
    smooth = True
    coarsest = max(unit_roundoff(o.dtype) for o in problem.network.outputs if o.is_tensor and is_float(o.dtype))
    fed_nan = any(np.isnan(x).any() for x in loss.inputs.values() if _is_real(x))
    for name in problem.wrt:
        x, gradient = problem.inputs[name], np.asarray(found[name])
        if gradient.shape != np.shape(x):
            return "wrong", f"the gradient of {name} has shape {list(gradient.shape)} instead of {list(np.shape(x))}"
        unit = 0.0 if precise else max(unit_roundoff(gradient.dtype), coarsest)
        tolerance = max(2.0**-16 if precise else 2.0**-13, 8 * unit) * max(size, 2.0**-10 if precise else 2.0**-7)
        for direction, expected in slopes[name]:
            value = float(np.sum(direction(gradient.astype(np.float64))))
            if expected.word == "kink" and np.count_nonzero(direction.weights) > 1:
                smooth = False  # where several elements are at kinks, one-sided slopes bound no generalized gradient
            elif np.isnan(value) and fed_nan:
                smooth = False  # no number in, no number out, even where the loss does not count it
            elif not expected.admits(value, tolerance * direction.size):
                return "wrong", f"the gradient of {name} {direction.where} is {value:.6g} instead of {expected}"
            smooth = smooth and expected.word == "smooth"
    return ("right" if smooth else "kink"), ""


class _Loss:
    """The loss as a function of the inputs, in float64."""

    def __init__(self, problem: GradientProblem) -> None:
        self._executor = ReferenceAdapter().prepare(problem.network, outputs=[LOSS])
        # Settings keep their types: a zero point's is that of the result.
        self.inputs = {n: a.astype(np.float64) if n in problem.wrt else a for n, a in problem.inputs.items()}

        self._evaluate(self.inputs)  # an error of the reference itself is none of a probe

    def __call__(self, name: str, x: np.ndarray) -> float:
        try:
            return self._evaluate({**self.inputs, name: x})
        except ValueError:  # a result that has another shape here, as of Unique, does not fit the weights
            return float("nan")

    def _evaluate(self, inputs: Mapping[str, Any]) -> float:
        return float(np.asarray(self._executor.evaluate(inputs, arithmetic=in_float64)[LOSS]))


@dataclass(frozen=True, eq=False)
class _GradientDirection:
    """What of a gradient one probe sees: its product with a direction."""

    weights: np.ndarray
    where: str

    def __call__(self, gradient: np.ndarray) -> np.ndarray:
        chosen = self.weights != 0
        return gradient[chosen] * self.weights[chosen]

    @property
    def size(self) -> float:
        return float(np.abs(self.weights).sum())


def _slopes(loss: _Loss, name: str, rng: np.random.Generator) -> Iterator[tuple[_GradientDirection, Slope]]:
    x = loss.inputs[name]
    for direction in _directions(x, rng):
        moved = float(np.max(np.abs(x), where=direction.weights != 0, initial=0.0))
        if np.isfinite(moved):
            yield direction, slope(_along(loss, name, x, direction.weights), _scale(moved))
        else:  # nothing is beside what is infinite or no number
            yield direction, Slope(0.0, 0.0, "undefined")


def _scale(size: float) -> float:
    """The unit of steps beside a coordinate of some size: they must neither vanish in it nor leave the neighbourhood."""
    return min(max(size, 2.0**-6), max(size / 16, 1.0)) if np.isfinite(size) else 1.0


def _along(loss: _Loss, name: str, x: np.ndarray, weights: np.ndarray) -> Callable[[float], float]:
    return lambda step: loss(name, np.where(weights != 0, x + step * weights, x))


def _directions(x: np.ndarray, rng: np.random.Generator) -> Iterator[_GradientDirection]:
    places = np.arange(x.size) if x.size <= _COORDINATES else rng.choice(x.size, _COORDINATES, replace=False)
    for place in places:
        weights = np.zeros(x.shape)
        weights.reshape(-1)[place] = 1.0
        yield _GradientDirection(weights, f"at {[int(i) for i in np.unravel_index(place, x.shape)]}")
    if x.size > _COORDINATES:
        for _ in range(_DIRECTIONS):
            yield _GradientDirection(rng.choice([-1.0, 1.0], x.shape), "along a random direction")


def gradient_outcome(adapter: Adapter[Any], case: Case) -> GradientOutcome | None:
    """Ask an executor for the gradients of a case, and compare them with differences of the reference.

    Returns:
        ``None`` if the case has no floating-point input or output.
    """
    try:
        problem = gradient_problem(case)
        if problem is None:
            return None
        executor = adapter.prepare(problem.network, mode="train")
        native = {name: adapter.from_numpy(np.asarray(array)) for name, array in problem.inputs.items()}
        results, gradients = executor.gradients(native, LOSS, wrt=problem.wrt)
        adapter.synchronize()
        if set(gradients) != set(problem.wrt):
            names = [", ".join(map(repr, sorted(some))) for some in (gradients, problem.wrt)]
            return GradientOutcome(case.name, "failed", f"gradients named {names[0]} instead of {names[1]}")
        arrays = {name: adapter.to_numpy(gradient) for name, gradient in gradients.items()}
    except (Unsupported, InvalidNetwork, InvalidArgument) as error:
        return GradientOutcome(case.name, "refused", str(error))
    except (DeepBenchError, Exception) as error:  # whatever a framework raises, it costs this case only
        return GradientOutcome(case.name, "failed", f"{type(error).__name__}: {error}")
    word, detail = judge_gradients(problem, arrays)
    if word == "wrong" and _drew_otherwise(adapter, case, results):
        return GradientOutcome(case.name, "refused", "its random numbers are not those of the reference")
    return GradientOutcome(case.name, word, detail)


def _drew_otherwise(adapter: Adapter[Any], case: Case, results: Mapping[str, Any]) -> bool:
    """Whether an executor's random numbers, and so its gradients, are not those that the case was made with."""
    if _RANDOM.isdisjoint(case.operators):
        return False
    outputs = [(v.name, y) for v, y in zip(case.proto.graph.output, case.outputs, strict=True) if _is_real(y)]
    pairs = [(adapter.to_numpy(results[name]).astype(np.float64), y.astype(np.float64)) for name, y in outputs]
    return not all(np.allclose(actual, y, rtol=2.0**-7, equal_nan=True) for actual, y in pairs)

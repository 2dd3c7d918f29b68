"""How the reference evaluates a network as the oracle does, or with the rounding errors of its working format.

`establish` finds everything that is known of a network on given inputs before any system under test is looked at. Some
values of a network only set it up (shapes, indices, trip counts, the scales of a resize); some errors belong to an operator
as a whole, beyond those of the operations that its reference is written with.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import ml_dtypes
import numpy as np
import onnx_ir as ir

from deep_bench.check.arithmetic import Accumulation, Recall, Rounding, as_plain, disturb
from deep_bench.check.estimate import quantizes, rounds_to, working_format
from deep_bench.check.thresholds import NORM_WISE
from deep_bench.graph import Network, operator_name
from deep_bench.graph.node import operator_facts, settings, subgraphs
from deep_bench.tensor import is_float, is_inexact, unit_roundoff


class ExecutorStep(Protocol):
    """What is asked of one step of the reference executor."""

    node: ir.Node
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    bodies: Mapping[str, Any]


class WideArithmetic:
    """Evaluates every node in float64, with the casts and the ranges of the formats that the network works in.

    With a generator it also makes the rounding errors of these formats: one evaluation is then one sample of what a correct
    implementation may return.

    Args:
        formats: Name of each value to its element type in the network.
        settings: Names of the values that keep their element type.
        rng: Where rounding errors are drawn from; ``None`` for the oracle.
        accumulation: How sums are assumed to be added.
        scale: How much larger than expected rounding errors are made.
        imposed: Name of a value to what it is taken to be, whatever the arithmetic says.
        recall: Shared by evaluations of the same network on the same inputs, to save time.
        norm_wise: Operators whose errors are as large as those of their largest results.
    """

    def __init__(
        self,
        formats: Mapping[str, np.dtype],
        settings: Collection[str] = (),
        *,
        rng: np.random.Generator | None = None,
        accumulation: Accumulation = "blocked",
        scale: float = 1.0,
        imposed: Mapping[str, np.ndarray] | None = None,
        recall: Recall | None = None,
        norm_wise: Collection[str] = (),
    ) -> None:
        self.formats, self.settings, self.rng = formats, settings, rng
        self.accumulation, self.scale, self.imposed = accumulation, scale, dict(imposed or {})
        self.recall, self.norm_wise = recall, norm_wise
        self._executed: Counter[str] = Counter()

    def __call__(self, step: ExecutorStep, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        """The outputs of one step."""
        with np.errstate(all="ignore"):
            result = self._evaluate(step, function, inputs)
        outputs = result if isinstance(result, tuple) else (result,)
        return tuple(self.imposed.get(n, y) for n, y in zip(step.outputs, outputs, strict=False))

    def _evaluate(self, step: ExecutorStep, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        if step.bodies:
            return function(*inputs)
        facts = operator_facts(step.node)
        if operator_name(step.node) == "BitCast" or any(name in self.settings for name in step.outputs if name):
            return function(*map(self._narrowed, step.inputs, inputs))
        target = self.formats.get(step.outputs[0])
        if facts.casts and target is not None and is_inexact(target):
            return self._cast(inputs[0], step, target)
        rounding = Rounding(self._format(step), self.rng, self.accumulation, self.scale, self.recall)
        if self.recall is not None:
            name = str(step.node.name)
            self.recall.start(name, self._executed[name])
            self._executed[name] += 1
        arguments = [x if i in facts.settings else _widened(x, rounding) for i, x in enumerate(inputs)]
        result = function(*arguments)
        outputs = result if isinstance(result, tuple) else (result,)
        return tuple(self._finished(y, n, step.node, inputs, rounding) for n, y in zip(step.outputs, outputs, strict=False))

    def _format(self, step: ExecutorStep) -> np.dtype:
        """The working format of a step: its first floating-point output's, else input's; or another one that it states."""
        if quantizes(step.node) and (declared := working_format(step.node, self.formats)) is not None:
            return declared
        candidates = (self.formats.get(name) for name in (*step.outputs, *step.inputs) if name)
        form = next((d for d in candidates if d is not None and is_inexact(d)), np.dtype(np.float64))
        inner = _stash(step.node)
        return form if inner is None or unit_roundoff(inner) <= unit_roundoff(form) else inner

    def _narrowed(self, name: str, x: Any) -> Any:
        form = self.formats.get(name)
        return x.astype(form) if form is not None and isinstance(x, np.ndarray) and x.dtype != form else x

    def _cast(self, x: Any, step: ExecutorStep, target: np.dtype) -> np.ndarray:
        source = self.formats.get(step.inputs[0], x.dtype)
        if x.dtype == object:
            x = x.astype(np.float64)
        if is_float(source) and unit_roundoff(target) <= unit_roundoff(source):
            return x.astype(np.float64, copy=False)
        if self.rng is not None and is_float(source):
            wide = x.astype(np.float64, copy=False)
            return in_range(Rounding(target, self.rng, scale=self.scale).of_result(wide), target)
        return x.astype(target).astype(np.complex128 if np.iscomplexobj(x) else np.float64)

    def _finished(self, y: Any, name: str, node: ir.Node, inputs: Sequence[Any], rounding: Rounding) -> Any:
        y = _plain_values(y)
        if not isinstance(y, np.ndarray) or not is_float(y.dtype) or not y.size:
            return y
        if rounding.rng is not None:
            extra = allowance(node, inputs, y)
            if operator_name(node) in self.norm_wise:
                extra = extra + NORM_WISE * np.max(np.abs(y), initial=0.0, where=np.isfinite(y))
            if np.any(extra):
                y = rounding.disturbed(y, rounding.u * extra)
        form = self.formats.get(name, rounding.format)
        return y.astype(form).astype(np.float64) if rounds_to(node, form) else in_range(y, form)


def _stash(node: ir.Node) -> np.dtype | None:
    """What a normalization computes its mean and variance in, whatever the type of its input: by default float32."""
    if not operator_facts(node).stashes:
        return None
    declared = node.attributes.get("stash_type")
    return np.dtype(ir.DataType(declared.as_int() if declared is not None else ir.DataType.FLOAT).numpy())


def in_range(y: np.ndarray, form: np.dtype) -> np.ndarray:
    """``y`` with infinity where the format overflows; formats without infinity are left alone."""
    info = ml_dtypes.finfo(form)
    if info.bits < 16 or info.bits > 32:
        return y
    largest = float(info.max)
    limit = largest * (1 + float(info.eps) / 4)
    if np.max(np.abs(y), initial=0.0) <= limit:  # also False where y has NaNs
        return y
    return np.where(np.abs(y) > limit, np.copysign(np.inf, y), y)


def _widened(x: Any, rounding: Rounding) -> Any:
    if isinstance(x, list):
        return [_widened(y, rounding) for y in x]
    if isinstance(x, np.ndarray | np.generic) and is_inexact(x.dtype):
        return disturb(np.asarray(x), rounding)
    return x


def _plain_values(y: Any) -> Any:
    if isinstance(y, list):
        return [_plain_values(v) for v in y]
    if isinstance(y, np.ndarray | np.generic):
        y = np.asarray(as_plain(y))
        return y.astype(np.float64, copy=False) if is_float(y.dtype) else y
    return y


def allowance(node: ir.Node, inputs: Sequence[Any], y: np.ndarray) -> Any:
    """The amplitude of the error that is allowed in addition, in units of the working format's roundoff; 0 for most.

    Args:
        node: The node.
        inputs: Its inputs in float64.
        y: One of its outputs.
    """
    rule = operator_facts(node).allowance
    return rule(inputs, settings(node), y) if callable(rule) else rule


def settings_of(graph: ir.Graph) -> frozenset[str]:
    """The names of the values that only feed settings, through nothing but the arithmetic of shapes and indices."""
    data: set[ir.Value] = set(graph.outputs)
    while True:
        before = len(data)
        _mark_data(graph, data)
        if len(data) == before:
            break
    computed = {str(v.name) for n in graph.all_nodes() for v in n.outputs if _is_setting(v, n, data)}
    return frozenset(computed | {str(v.name) for v in graph.initializers.values() if v.uses() and v not in data})


def _is_setting(value: ir.Value, node: ir.Node, data: set[ir.Value]) -> bool:
    needed = bool(value.uses()) or value.is_graph_output()
    return value not in data and needed and operator_facts(node).index_arithmetic


def _mark_data(graph: ir.Graph, data: set[ir.Value]) -> None:
    """One pass from the back: the inputs of whatever computes data are data, settings aside."""
    for node in reversed(graph):
        inner = subgraphs(node)
        if inner:
            for body in inner.values():
                data.update(_linked(node, body, data))
                _mark_data(body, data)
                skipped = {"If": 0, "Loop": 2}.get(node.op_type, 0)
                fed = list(node.inputs)[skipped:]
                received = list(body.inputs)[skipped:]
                data.update(v for v, b in zip(fed, received, strict=False) if v is not None and b in data)
            continue
        if operator_facts(node).index_arithmetic and not any(v in data for v in node.outputs):
            continue
        settings = operator_facts(node).settings
        data.update(v for i, v in enumerate(node.inputs) if v is not None and i not in settings)


def _linked(node: ir.Node, body: ir.Graph, data: set[ir.Value]) -> Iterable[ir.Value]:
    """The outputs of a body that become data outputs of the node, or that the body's next iteration uses as data."""
    skipped = 1 if node.op_type == "Loop" else 0
    outputs = list(body.outputs)[skipped:]
    yield from (b for b, v in zip(outputs, node.outputs, strict=False) if v in data)
    if node.op_type == "If":
        return
    carried = list(body.inputs)[2 if node.op_type == "Loop" else 0 :]
    yield from (b for b, v in zip(outputs, carried, strict=False) if v in data)


Effort = Literal["quick", "full"]
SAMPLES: Mapping[str, int] = {"quick": 4, "full": 16}
"""How many evaluations with rounding errors each effort makes."""


@dataclass(eq=False)
class Truth:
    """The oracle's results, and what rounding can do to them.

    Args:
        network: The network as it was given.
        inputs: What it is judged on.
        effort: ``"quick"`` or ``"full"``.
        outputs: The oracle's outputs, in float64 where they are floating point.
        samples: Outputs with the errors of rounding, one mapping for each evaluation.
        formats: Name of every value to its element type in the network.
        values: Name of every value to the oracle's, in the network's element types, at the first execution of its node.
        random: Names of nodes that draw random numbers.
        seconds: What all this took.
    """

    network: Network
    inputs: Mapping[str, np.ndarray]
    effort: Effort
    reference: Any
    outputs: Mapping[str, Any]
    samples: Sequence[Mapping[str, Any]]
    formats: Mapping[str, np.dtype]
    settings: frozenset[str]
    values: Mapping[str, np.ndarray]
    random: tuple[str, ...]
    seconds: float
    replays: dict[bool, Any] = field(default_factory=dict, repr=False)

    def arithmetic(self, rng: np.random.Generator | None = None, **options: Any) -> WideArithmetic:
        """The oracle's arithmetic for this network, with rounding errors if there is a generator."""
        return WideArithmetic(self.formats, self.settings, rng=rng, **options)

    def evaluate(self, arithmetic: WideArithmetic, observe: Callable[..., None] | None = None) -> dict[str, Any]:
        """The network's outputs with a given arithmetic."""
        return self.reference.evaluate(self.inputs, arithmetic=arithmetic, observe=observe)

    def sampled(self, count: int, seed: int, **options: Any) -> list[dict[str, Any]]:
        """The network's outputs in ``count`` evaluations with rounding errors."""
        recall = Recall()
        generators = (np.random.default_rng([seed, k]) for k in range(count))
        return [self.evaluate(self.arithmetic(rng, recall=recall, **options)) for rng in generators]


def establish(network: Network, inputs: Mapping[str, np.ndarray], effort: Effort = "quick", *, seed: int = 0) -> Truth:
    """Evaluate a network plainly, as the oracle, and with rounding errors.

    Args:
        network: Any network whose operators have a reference. Kernels in it are what is judged, and not asked.
        inputs: Name to array.
        effort: ``"quick"`` makes 4 evaluations with rounding errors, ``"full"`` 16.
        seed: Of the rounding errors.

    Raises:
        UnsupportedOperator: A node has no reference.
    """
    from deep_bench import frameworks

    start = time.perf_counter()
    reference = frameworks["reference"]().prepare(network.without_kernels())
    formats = formats_of(reference, inputs)
    upgraded = network.upgraded()
    settings = settings_of(upgraded.graph)
    recorder = _Recorder(formats)
    oracle = WideArithmetic(formats, settings)
    outputs = reference.evaluate(inputs, arithmetic=oracle, observe=recorder)
    random = tuple(str(n.name) for n in upgraded.all_nodes() if operator_facts(n).random)
    truth = Truth(
        network,
        inputs,
        effort,
        reference,
        outputs,
        (),
        formats,
        settings,
        recorder.values,
        random,
        time.perf_counter() - start,
    )
    truth.samples = truth.sampled(SAMPLES[effort], seed)
    truth.seconds = time.perf_counter() - start
    return truth


def formats_of(reference: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, np.dtype]:
    """The element type of every value, from one evaluation in the network's own types."""
    formats = {name: np.asarray(x).dtype for name, x in inputs.items()}

    def observe(step: Any, arrays: Sequence[Any], results: Sequence[Any]) -> None:
        for name, x in zip((*step.inputs, *step.outputs), (*arrays, *results), strict=False):
            if name and isinstance(x, np.ndarray | np.generic):
                formats.setdefault(name, x.dtype)

    with np.errstate(all="ignore"):
        reference.evaluate(inputs, observe=observe)
    return formats


@dataclass(eq=False)
class _Recorder:
    """Keeps the inputs and outputs of every node at its first execution, in the network's element types."""

    formats: Mapping[str, np.dtype]
    values: dict[str, np.ndarray] = field(default_factory=dict)

    def __call__(self, step: Any, arrays: Sequence[Any], results: Sequence[Any]) -> None:
        if any(name in self.values for name in step.outputs if name):
            return
        for name, x in zip((*step.inputs, *step.outputs), (*arrays, *results), strict=False):
            if name and isinstance(x, np.ndarray | np.generic) and not self._kept(name, x):
                self.values[name] = narrowed(np.asarray(x), self.formats.get(name))

    def _kept(self, name: str, x: Any) -> bool:
        return name in self.values and self.values[name].shape == x.shape


def narrowed(x: np.ndarray, form: np.dtype | None) -> np.ndarray:
    """``x`` in an element type of the network; strings and integers as they are."""
    if form is None or x.dtype == form or not is_inexact(x.dtype):
        return x
    if is_float(form) or not is_float(x.dtype):
        with np.errstate(all="ignore"):
            return x.astype(form)
    return x

"""The slow executor: walks the graph in order and calls one NumPy function per node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidNetwork, UnsupportedOperator
from deep_bench.events import Moment, NodeEvent
from deep_bench.framework import Adapter, Executor, Forms, Mode
from deep_bench.graph import Network, attributes, operator_name
from deep_bench.graph.attached import function_of
from deep_bench.graph.network import tensor_spec
from deep_bench.graph.node import as_array, outer_values, settings, subgraphs
from deep_bench.network.gradient.derived import DerivedGradients
from deep_bench.node_profile import NodeProfile
from deep_bench.operators.placed import THROUGH_NUMPY
from deep_bench.reference.network.kernels import kernel_functions
from deep_bench.reference.network.parameters import Parameters
from deep_bench.reference.operators import find, misuse, takes_count
from deep_bench.request import describe_numpy
from deep_bench.tensor import TensorSpec, is_float

Values = tuple[Any, ...]
_Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Step:
    """One node, ready to be evaluated.

    Args:
        node: The node of the graph.
        function: Its reference; subgraphs are bound to it as callables when it runs.
        attributes: The keyword arguments to call it with.
        inputs: Names of the values to pass, ``""`` for an omitted one.
        outputs: Names of the values it gives, ``""`` for one that nobody asked for.
        bodies: The subgraphs, by attribute name.
        last: Names of the values that no later node needs.
    """

    node: ir.Node
    function: Callable[..., Any]
    attributes: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    bodies: Mapping[str, Body]
    last: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """A graph as a list of steps.

    Args:
        inputs: Names of the values to start from.
        steps: In the order to do them.
        outputs: Names of the values to give.
        constants: Values that are known.
        declared: The outputs' types and shapes, where the graph states all of them.
        reads: For a part of the graph around it, done again apart from it: names of the values it takes from there.
    """

    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, np.ndarray]
    declared: tuple[TensorSpec, ...] | None = None
    reads: tuple[str, ...] | None = None


class Arithmetic(Protocol):
    """How a step is evaluated: plainly, with more precision than the network's, or with its roundings disturbed."""

    def __call__(self, step: Step, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        """The step's outputs: one value, or a tuple.

        Args:
            step: The step; those with ``bodies`` call back into the executor for every node of the subgraph.
            function: The step's function with attributes and subgraphs bound.
            inputs: One value per input, ``None`` for an omitted one.
        """
        ...


def plain(step: Step, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:  # noqa: ARG001 (an Arithmetic)
    """The arithmetic of the network itself: every node in the element type of its inputs."""
    return function(*inputs)


Observer = Callable[[Step, Sequence[Any], Values], None]


class ReferenceExecutor(Executor[np.ndarray]):
    """Runs a network with the functions of ``deep_bench.reference.operators``.

    Args:
        network: The network; it is upgraded to `OPSET` first.
        adapter: The host.
        outputs: Names of values of the outermost graph to return instead of the network's outputs.
        mode: ``"inference"``, or ``"train"`` for gradients.
        functions: Operator to the function that computes it in place of its reference.

    Raises:
        UnsupportedOperator: A node without a reference, or with inputs or attributes that its reference does not take.
    """

    events = frozenset(Moment)

    def __init__(
        self,
        network: Network,
        adapter: Adapter[np.ndarray],
        outputs: Sequence[str] | None = None,
        mode: Mode = "inference",
        functions: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
    ) -> None:
        chosen = network if outputs is None else network.with_outputs(outputs)
        upgraded = chosen.upgraded()
        self.device = adapter
        self.inputs = chosen.inputs
        self.output_names = tuple(s.name for s in chosen.outputs) if outputs is None else tuple(outputs)
        self.body = _compile(upgraded.graph, upgraded.opsets, functions, kernel_functions(upgraded))
        self._weights = dict(self.body.constants)
        self.parameters = Parameters(self._weights, tuple(upgraded.parameters))
        kernels = network.kernels
        self.forms = Forms(
            native=tuple(str(n.name) for n in network.all_nodes() if n.name not in kernels),
            fallback=dict.fromkeys(kernels, THROUGH_NUMPY),
        )
        self.network = network
        self._network, self._names = upgraded, tuple(str(node.name) for node in network.nodes)
        self._gradients = DerivedGradients(upgraded, adapter, mode, describe_numpy)

    def forward(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the network."""
        return self.evaluate(inputs)

    def bind(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], dict[str, np.ndarray]]:
        """A call without arguments that runs the network on these inputs."""
        return lambda: self.evaluate(inputs)

    def gradients(
        self,
        inputs: Mapping[str, np.ndarray],
        loss: str,
        *,
        wrt: Sequence[str] | None = None,
        on_ready: Callable[[str, np.ndarray], None] | None = None,
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Run the network and the gradients that `differentiate` derives from it."""
        return self._gradients(self.parameters, inputs, loss, wrt, on_ready)

    def walk(self, inputs: Mapping[str, np.ndarray], tell: Callable[[Moment, NodeEvent], None]) -> dict[str, np.ndarray]:
        """Run the network, and tell before and after each node, those in subgraphs included."""

        def telling(step: Step, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
            tell(Moment.BEFORE_NODE, NodeEvent(str(step.node.name), operator_name(step.node)))
            result = function(*inputs)
            outputs = result if isinstance(result, tuple) else (result,)
            tell(Moment.AFTER_NODE, NodeEvent(str(step.node.name), operator_name(step.node), outputs))
            return result

        return self.evaluate(inputs, arithmetic=telling)

    def profile(
        self,
        inputs: Mapping[str, np.ndarray],
        *,
        repeat: int = 20,
        loss: str | None = None,
        wrt: Sequence[str] | None = None,
    ) -> NodeProfile:
        """The time of each node, and with ``loss`` of those that compute the gradients."""
        from deep_bench.reference.network.profile import profile

        if loss is None:
            return profile(self, self._network, inputs, repeat, self.bind(inputs), self._names)
        _, derived = self._gradients.executor(loss, wrt)
        assert isinstance(derived, ReferenceExecutor)
        return profile(derived, self._network, inputs, repeat, lambda: self.gradients(inputs, loss, wrt=wrt), self._names)

    def algorithms(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, tuple[str, ...] | str]:
        """The algorithm that each node is computed with, where the reference has several; nothing is run for that."""
        from deep_bench.reference.operators.algorithms import name_of

        del inputs
        single = "the reference has one algorithm for it"
        by_node = {str(s.node.name): name_of(operator_name(s.node), s.function) for s in self.body.steps}
        return {name: (by_node[name],) if by_node.get(name) else single for name in self._names}

    def evaluate(
        self, inputs: Mapping[str, Any], *, arithmetic: Arithmetic = plain, observe: Observer | None = None
    ) -> dict[str, Any]:
        """Run the network with a given arithmetic.

        Args:
            inputs: Name to array.
            arithmetic: How each step is evaluated.
            observe: Told of every step with its inputs and outputs, those in subgraphs included.

        Returns:
            Name to value of each output.
        """
        values: dict[str, Any] = {**self._weights, **inputs, "": None}
        with np.errstate(all="ignore"):  # infinities and NaN are results like any other
            _Walk(values, arithmetic, observe).run(self.body)
        return {name: values[name] for name in self.body.outputs}


@dataclass(frozen=True, slots=True)
class _Walk:
    """One evaluation. Values of all subgraphs share one dictionary, since names are unique in a network."""

    values: dict[str, Any]
    arithmetic: Arithmetic
    observe: Observer | None

    def run(self, body: Body) -> None:
        values = self.values
        for step in body.steps:
            inputs = [values[name] for name in step.inputs]
            function: Callable[..., Any] = step.function
            if step.bodies or step.attributes:
                function = _Bound(function, {**step.attributes, **self._callables(step)})
            try:
                result = self.arithmetic(step, function, inputs)
            except Exception as error:
                error.add_note(f"in node {step.node.name!r} ({operator_name(step.node)})")
                raise
            outputs = result if isinstance(result, tuple) else (result,)
            for name, value in zip(step.outputs, outputs, strict=False):
                values[name] = value
            values[""] = None
            if self.observe is not None:
                self.observe(step, inputs, outputs[: len(step.outputs)])
            for name in step.last:
                del values[name]

    def _callables(self, step: Step) -> dict[str, Callable[..., Values]]:
        return {n: _Subgraph(self, b) if b.reads is None else _Part(self.values, b) for n, b in step.bodies.items()}


@dataclass(frozen=True, slots=True)
class _Bound:
    function: Callable[..., Any]
    attributes: Mapping[str, Any]

    def __call__(self, *inputs: Any) -> Any:
        return self.function(*inputs, **self.attributes)


@dataclass(frozen=True, slots=True)
class _Subgraph:
    walk: _Walk
    body: Body

    @property
    def outputs(self) -> tuple[TensorSpec, ...] | None:
        """What the subgraph declares, for a loop that never runs."""
        return self.body.declared

    def __call__(self, *inputs: Any) -> Values:
        values = self.walk.values
        values.update(self.body.constants)
        values.update(zip(self.body.inputs, inputs, strict=True))
        self.walk.run(self.body)
        return tuple(values[name] for name in self.body.outputs)


@dataclass(frozen=True, slots=True)
class _Part:
    """Part of a graph as a function in float64, which leaves the graph's own values as they are."""

    around: Mapping[str, Any]
    body: Body

    def __call__(self, *inputs: Any) -> Values:
        values = {"": None, **{name: _wide(self.around[name]) for name in self.body.reads or ()}}
        values.update(zip(self.body.inputs, inputs, strict=True))
        _Walk(values, in_float64, None).run(self.body)
        return tuple(values[name] for name in self.body.outputs)


def _wide(x: Any) -> Any:
    return x.astype(np.float64) if isinstance(x, np.ndarray | np.generic) and is_float(x.dtype) else x


_STATED_PRECISIONS = {
    "DequantizeLinear": "output_dtype",
    "LayerNormalization": "stash_type",
    "Attention": "softmax_precision",
    "ai.onnx.preview:FlexAttention": "softmax_precision",
}
"""The attribute by which a node states the element type of a part of what it computes."""


def in_float64(step: Step, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """Every node in float64; casts between floating-point types keep what they are given."""
    precision_attribute = _STATED_PRECISIONS.get(operator_name(step.node))
    if precision_attribute is not None:
        bound = function if isinstance(function, _Bound) else _Bound(function, {})
        function = _Bound(bound.function, {**bound.attributes, precision_attribute: int(ir.DataType.DOUBLE)})
    result = function(*inputs)
    if step.node.op_type in ("Cast", "CastLike") and is_float(inputs[0].dtype) and is_float(result.dtype):
        return inputs[0]
    return tuple(map(_wide, result)) if isinstance(result, tuple) else _wide(result)


def _compile(graph: ir.Graph, opsets: Mapping[str, int], functions: _Functions, kernels: _Functions) -> Body:
    constants = {str(name): array for name, v in graph.initializers.items() if (array := as_array(v)) is not None}
    steps = []
    for node in graph:
        if node.op_type == "Constant" and (array := as_array(node.outputs[0])) is not None:
            constants[_name(node.outputs[0])] = array
        else:
            steps.append(_step(node, opsets, functions, kernels))
    for i, step in enumerate(steps):
        if step.node.op_type == "Gradient":
            steps[i] = _with_function(step, [*steps[:i], *steps[i + 1 :]])
    outputs = tuple(_name(v) for v in graph.outputs)
    keep = {*outputs, *constants, *(_name(v) for v in graph.inputs)}
    inputs = tuple(_name(v) for v in graph.inputs)
    return Body(inputs, _with_last_uses(steps, keep), outputs, constants, _declared(graph))


def _declared(graph: ir.Graph) -> tuple[TensorSpec, ...] | None:
    if all(isinstance(v.type, ir.TensorType) and v.shape is not None for v in graph.outputs):
        return tuple(tensor_spec(v) for v in graph.outputs)
    return None


def _step(node: ir.Node, opsets: Mapping[str, int], functions: _Functions, kernels: _Functions) -> Step:
    if str(node.name) in kernels:
        return Step(node, kernels[str(node.name)], {}, tuple(map(_name, node.inputs)), tuple(map(_name, node.outputs)), {})
    function = functions.get(operator_name(node)) or function_of(node) or find(node.domain, node.op_type)
    if function is None:
        raise UnsupportedOperator(str(node.name), operator_name(node), opsets.get(node.domain), "it has no reference")
    if reason := misuse(function, len(node.inputs), attributes(node)):
        raise UnsupportedOperator(str(node.name), operator_name(node), opsets.get(node.domain), reason)
    bodies = {name: _compile(g, opsets, functions, kernels) for name, g in subgraphs(node).items()}
    options = {name: value for name, value in settings(node).items() if name not in bodies}
    if takes_count(function):
        options["n_outputs"] = len(node.outputs)
    return Step(node, function, options, tuple(map(_name, node.inputs)), tuple(map(_name, node.outputs)), bodies)


def _with_function(step: Step, candidates: Sequence[Step]) -> Step:
    """A Gradient with the function that it differentiates: the steps from ``xs`` and ``zs`` to ``y``.

    Raises:
        InvalidNetwork: No step of this graph gives ``y``.
    """
    sources = (*step.attributes["xs"], *step.attributes.get("zs", ()))
    target = step.attributes["y"]
    chosen: list[Step] = []
    needed = {target} - {*sources}
    for candidate in reversed(candidates):
        if needed & {*candidate.outputs}:
            chosen.insert(0, candidate)
            needed = (needed - {*candidate.outputs}) | (_uses(candidate) - {*sources, ""})
    if target in needed:
        where = f"node {step.node.name!r} differentiates {target!r}"
        raise InvalidNetwork(f"{where}, which no node of the same graph gives", "a value that depends on 'xs'")
    keep = {*sources, target}
    part = Body(sources, _with_last_uses(chosen, keep), (target,), {}, reads=tuple(sorted(needed)))
    return replace(step, bodies={**step.bodies, "function": part})


def _uses(step: Step) -> set[str]:
    captured = {_name(v) for g in subgraphs(step.node).values() for v in outer_values(g)}
    return {*step.inputs, *captured, *(name for body in step.bodies.values() for name in body.reads or ())}


def _with_last_uses(steps: list[Step], keep: set[str]) -> tuple[Step, ...]:
    """Mark after which step each value of this graph can be forgotten."""
    local_values = {name for step in steps for name in step.outputs if name} - keep
    marked: list[Step] = []
    later_uses: set[str] = set()
    for step in reversed(steps):
        used = {*_uses(step), *step.outputs} & local_values
        marked.append(replace(step, last=tuple(sorted(used - later_uses))))
        later_uses |= used
    return tuple(reversed(marked))


def _name(value: ir.Value | None) -> str:
    return "" if value is None else str(value.name)

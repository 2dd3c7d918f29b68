"""Reference of layer 1: an executor that walks the graph in order and calls one NumPy function per node; and its adapter.

Nodes may be computed by a kernel of the user's. Where time goes is known by the executor's own arithmetic hook: every node
between two stamps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import onnx_ir as ir
from threadpoolctl import threadpool_info

from deep_bench.arrays import NUMPY, NumpyFunctions
from deep_bench.errors import InvalidArgument, InvalidNetwork, UnsupportedOperator
from deep_bench.events import Direction, Moment, NodeEvent, NodeProfile, NodeTime, Stopwatch, in_turn
from deep_bench.framework import THROUGH_NUMPY, Adapter, Executor, Forms, Mode, describe_numpy
from deep_bench.graph import Network, attributes, operator_name
from deep_bench.graph.edit import ORIGIN
from deep_bench.graph.network import tensor_spec
from deep_bench.graph.node import as_array, function_of, kernel_of, outer_values, settings, subgraphs
from deep_bench.graph.shapes import Knowledge
from deep_bench.network.gradient.derived import DerivedGradients, origin
from deep_bench.reference.operators import find, misuse, takes_count
from deep_bench.reference.operators.algorithms import choose
from deep_bench.tensor import TensorSpec, is_float

if TYPE_CHECKING:
    from deep_bench.network.gradient.pullback import Pullback

__all__ = ["Arithmetic", "ReferenceAdapter", "ReferenceExecutor"]


def kernel_functions(network: Network) -> dict[str, Callable[..., Any]]:
    """Name of each node that a kernel computes to that kernel, as a function of NumPy arrays.

    Args:
        network: In the newest opset.

    Raises:
        UnsupportedOperator: A kernel does not take an attribute that its node states.
    """
    if not network.kernels:
        return {}
    from deep_bench.operators.placed import placed  # what few networks need loads for these only

    knowledge = Knowledge(network)
    by_name: dict[str, Callable[..., Any]] = {}
    for node in network.all_nodes():
        if kernel_of(node) is not None:
            dtypes = [knowledge.dtype(value) for value in node.outputs]
            by_name[str(node.name)] = _kernel_function(placed(node, network.opsets.get(node.domain), dtypes=dtypes))
    return by_name


def _kernel_function(kernel: Any) -> Callable[..., Any]:
    def run(*arrays: Any) -> Any:
        with np.errstate(all="ignore"):
            outputs = kernel.forward_numpy(*arrays)
        return outputs[0] if len(outputs) == 1 else outputs

    return run


class ReferenceParameters(MutableMapping[str, np.ndarray]):
    """The parameters by name: read and assigned without copying.

    Args:
        weights: All constants of the network, which are assigned to.
        names: Those of them that are parameters.
    """

    def __init__(self, weights: dict[str, np.ndarray], names: Sequence[str]) -> None:
        self._weights, self._names = weights, tuple(names)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        return self._weights[name]

    def __setitem__(self, name: str, array: np.ndarray) -> None:
        old = self[name]
        if array.shape != old.shape or array.dtype != old.dtype:
            raise InvalidArgument(
                f"parameter {name!r} was assigned {array.dtype}{list(array.shape)}", f"{old.dtype}{list(old.shape)}"
            )
        self._weights[name] = array

    def __delitem__(self, name: str) -> None:
        raise InvalidArgument(f"parameter {name!r} cannot be deleted", "an assignment")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


Values = tuple[Any, ...]
_Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class NodeSequence:
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
    steps: tuple[NodeStep, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, np.ndarray]
    declared: tuple[TensorSpec, ...] | None = None
    reads: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class NodeStep:
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
    bodies: Mapping[str, NodeSequence]
    last: tuple[str, ...] = ()


class Arithmetic(Protocol):
    """How a step is evaluated: plainly, with more precision than the network's, or with its roundings disturbed."""

    def __call__(self, step: NodeStep, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        """The step's outputs: one value, or a tuple.

        Args:
            step: The step; those with ``bodies`` call back into the executor for every node of the subgraph.
            function: The step's function with attributes and subgraphs bound.
            inputs: One value per input, ``None`` for an omitted one.
        """
        ...


def plain(step: NodeStep, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:  # noqa: ARG001 (an Arithmetic)
    """The arithmetic of the network itself: every node in the element type of its inputs."""
    return function(*inputs)


Observer = Callable[[NodeStep, Sequence[Any], Values], None]


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
        self.parameters = ReferenceParameters(self._weights, tuple(upgraded.parameters))
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

        def telling(step: NodeStep, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
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

    def run(self, body: NodeSequence) -> None:
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

    def _callables(self, step: NodeStep) -> dict[str, Callable[..., Values]]:
        return {n: _Subgraph(self, b) if b.reads is None else _GraphPart(self.values, b) for n, b in step.bodies.items()}


@dataclass(frozen=True, slots=True)
class _Bound:
    function: Callable[..., Any]
    attributes: Mapping[str, Any]

    def __call__(self, *inputs: Any) -> Any:
        return self.function(*inputs, **self.attributes)


@dataclass(frozen=True, slots=True)
class _Subgraph:
    walk: _Walk
    body: NodeSequence

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
class _GraphPart:
    """Part of a graph as a function in float64, which leaves the graph's own values as they are."""

    around: Mapping[str, Any]
    body: NodeSequence

    def __call__(self, *inputs: Any) -> Values:
        values = {"": None, **{name: _wide(self.around[name]) for name in self.body.reads or ()}}
        values.update(zip(self.body.inputs, inputs, strict=True))
        _Walk(values, in_float64, None).run(self.body)
        return tuple(values[name] for name in self.body.outputs)


def _wide(x: Any) -> Any:
    return x.astype(np.float64) if isinstance(x, np.ndarray | np.generic) and is_float(x.dtype) else x


_PRECISION_ATTRIBUTES = {
    "DequantizeLinear": "output_dtype",
    "LayerNormalization": "stash_type",
    "Attention": "softmax_precision",
    "ai.onnx.preview:FlexAttention": "softmax_precision",
}
"""The attribute by which a node states the element type of a part of what it computes."""


def in_float64(step: NodeStep, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """Every node in float64; casts between floating-point types keep what they are given."""
    precision_attribute = _PRECISION_ATTRIBUTES.get(operator_name(step.node))
    if precision_attribute is not None:
        bound = function if isinstance(function, _Bound) else _Bound(function, {})
        function = _Bound(bound.function, {**bound.attributes, precision_attribute: int(ir.DataType.DOUBLE)})
    result = function(*inputs)
    if step.node.op_type in ("Cast", "CastLike") and is_float(inputs[0].dtype) and is_float(result.dtype):
        return inputs[0]
    return tuple(map(_wide, result)) if isinstance(result, tuple) else _wide(result)


def _compile(graph: ir.Graph, opsets: Mapping[str, int], functions: _Functions, kernels: _Functions) -> NodeSequence:
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
    return NodeSequence(inputs, _with_last_uses(steps, keep), outputs, constants, _declared(graph))


def _declared(graph: ir.Graph) -> tuple[TensorSpec, ...] | None:
    if all(isinstance(v.type, ir.TensorType) and v.shape is not None for v in graph.outputs):
        return tuple(tensor_spec(v) for v in graph.outputs)
    return None


def _step(node: ir.Node, opsets: Mapping[str, int], functions: _Functions, kernels: _Functions) -> NodeStep:
    if str(node.name) in kernels:
        return NodeStep(
            node, kernels[str(node.name)], {}, tuple(map(_name, node.inputs)), tuple(map(_name, node.outputs)), {}
        )
    function = functions.get(operator_name(node)) or function_of(node) or find(node.domain, node.op_type)
    if function is None:
        raise UnsupportedOperator(str(node.name), operator_name(node), opsets.get(node.domain), "it has no reference")
    if reason := misuse(function, len(node.inputs), attributes(node)):
        raise UnsupportedOperator(str(node.name), operator_name(node), opsets.get(node.domain), reason)
    bodies = {name: _compile(g, opsets, functions, kernels) for name, g in subgraphs(node).items()}
    options = {name: value for name, value in settings(node).items() if name not in bodies}
    if takes_count(function):
        options["n_outputs"] = len(node.outputs)
    return NodeStep(node, function, options, tuple(map(_name, node.inputs)), tuple(map(_name, node.outputs)), bodies)


def _with_function(step: NodeStep, candidates: Sequence[NodeStep]) -> NodeStep:
    """A Gradient with the function that it differentiates: the steps from ``xs`` and ``zs`` to ``y``.

    Raises:
        InvalidNetwork: No step of this graph gives ``y``.
    """
    sources = (*step.attributes["xs"], *step.attributes.get("zs", ()))
    target = step.attributes["y"]
    chosen: list[NodeStep] = []
    needed = {target} - {*sources}
    for candidate in reversed(candidates):
        if needed & {*candidate.outputs}:
            chosen.insert(0, candidate)
            needed = (needed - {*candidate.outputs}) | (_uses(candidate) - {*sources, ""})
    if target in needed:
        where = f"node {step.node.name!r} differentiates {target!r}"
        raise InvalidNetwork(f"{where}, which no node of the same graph gives", "a value that depends on 'xs'")
    keep = {*sources, target}
    part = NodeSequence(sources, _with_last_uses(chosen, keep), (target,), {}, reads=tuple(sorted(needed)))
    return replace(step, bodies={**step.bodies, "function": part})


def _uses(step: NodeStep) -> set[str]:
    captured = {_name(v) for g in subgraphs(step.node).values() for v in outer_values(g)}
    return {*step.inputs, *captured, *(name for body in step.bodies.values() for name in body.reads or ())}


def _with_last_uses(steps: list[NodeStep], keep: set[str]) -> tuple[NodeStep, ...]:
    """Mark after which step each value of this graph can be forgotten."""
    local_values = {name for step in steps for name in step.outputs if name} - keep
    marked: list[NodeStep] = []
    later_uses: set[str] = set()
    for step in reversed(steps):
        used = {*_uses(step), *step.outputs} & local_values
        marked.append(replace(step, last=tuple(sorted(used - later_uses))))
        later_uses |= used
    return tuple(reversed(marked))


def _name(value: ir.Value | None) -> str:
    return "" if value is None else str(value.name)


ProfileKey = tuple[str, Direction, str]
"""A node of the network, the way, and what is run for it."""


def profile(
    executor: ReferenceExecutor,
    network: Network,
    inputs: Mapping[str, Any],
    repeat: int,
    plain: Callable[[], Any],
    names: Sequence[str],
) -> NodeProfile:
    """See `Executor.profile`.

    Args:
        executor: What runs: the network, or the one derived from it for gradients.
        network: The network, whose nodes are asked for.
        inputs: What it is fed.
        repeat: Calls of each kind.
        plain: The call that nobody observes.
        names: The nodes as the network's file names them.
    """
    watch: Stopwatch[ProfileKey] = Stopwatch()
    origins = {str(node.name): str(node.meta.get(ORIGIN, node.name)) for node in network.all_nodes()}
    observer = _ProfileObserver(watch, origins)

    def observed() -> None:
        watch.begin()
        executor.evaluate(inputs, arithmetic=observer)

    timings = in_turn({"plain": plain, "observed": observed}, lambda: None, repeat)
    times = tuple(
        NodeTime((name,) if name else (), ns, label, direction)
        for (name, direction, label), ns in watch.samples(repeat).items()
    )
    covered = {name for time in times for name in time.nodes}
    return NodeProfile(
        "each node's NumPy function between two stamps, subgraphs counted with the node that holds them",
        times,
        timings["observed"],
        timings["plain"],
        absent={name: "a constant, or in a branch that was not taken" for name in names if name not in covered},
    )


class _ProfileObserver:
    """An arithmetic that is the network's own, with stamps around the nodes of the outermost graph."""

    def __init__(self, watch: Stopwatch[ProfileKey], origins: Mapping[str, str]) -> None:
        self._watch, self._origins, self._inside = watch, origins, False

    def __call__(self, step: NodeStep, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        if self._inside:
            return function(*inputs)
        name, direction = origin(str(step.node.meta.get(ORIGIN, step.node.name)), self._origins)
        name = self._origins.get(name, name)
        self._inside = True
        try:
            return self._watch.timed((name, direction, operator_name(step.node)), function, *inputs)
        finally:
            self._inside = False


class ReferenceAdapter(Adapter[np.ndarray]):
    """NumPy, one function per operator, in the element types of the network.

    Args:
        algorithms: Which algorithm computes an operator, where there are several: ``"Conv/winograd_4+MatMul/strassen"``, or
            a mapping from operator to name; see `deep_bench.reference.operators.algorithms`. Derived gradients are computed
            with the same ones.

    Raises:
        UnknownName: No such operator or algorithm.

    Example:
        >>> import deep_bench as db
        >>> executor = db.frameworks["reference"]().prepare(db.load("digits-cnn"))
        >>> executor({"image": np.zeros((1, 1, 8, 8), np.float32)})["logits"].shape
        (1, 10)
        >>> dict(ReferenceAdapter(algorithms="Conv/direct").describe())["algorithms"]
        'Conv/direct'
    """

    name = "reference"
    runs_kernels = True

    def __init__(self, *, algorithms: str | Mapping[str, str] | None = None) -> None:
        self._functions = {} if algorithms is None else choose(algorithms)
        chosen = algorithms if isinstance(algorithms, str) else "+".join(map("/".join, (algorithms or {}).items()))
        self._facts = {"algorithms": chosen} if chosen else {}

    def prepare(
        self, network: Network, *, mode: Mode = "inference", outputs: Sequence[str] | None = None
    ) -> ReferenceExecutor:
        """Look up the function of every node."""
        if mode not in ("inference", "train"):
            raise InvalidArgument(f"mode {mode!r}", "'inference' or 'train'")
        return ReferenceExecutor(network, self, outputs, mode, self._functions)

    def describe(self) -> Mapping[str, str]:
        """NumPy's version, and the threads of its BLAS."""
        blas = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
        counts = dict.fromkeys(
            f"{lib['internal_api']} {lib['num_threads']}" for lib in blas
        )  # NumPy and SciPy bring one each
        threads = ", ".join(counts) or "1"
        return {
            "version": f"numpy {np.__version__}",
            "device": "cpu",
            "threads": threads,
            "precision": "as the network",
            **self._facts,
        }

    def pull_back(self, network: Network, inputs: Mapping[str, np.ndarray], gradients: Mapping[str, np.ndarray]) -> Pullback:
        """The network with a loss that has given gradients with respect to its outputs, and what is known of its gradients.

        See `deep_bench.network.gradient.pullback.pull_back`: layers before it reach it here.
        """
        from deep_bench.network.gradient.pullback import pull_back

        return pull_back(network, inputs, gradients)

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        """The array itself."""
        return array

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        """The array itself, every call makes fresh ones; a scalar as one of rank 0."""
        return np.asarray(array)

    def synchronize(self) -> None:
        """Nothing to wait for: NumPy returns when it is done."""

    @property
    def xp(self) -> NumpyFunctions:
        """See `Device.xp`."""
        return NUMPY

"""Nodes and values of a graph: reading them, naming them, what is attached to them.

And leaving out what no output needs. Python code that is attached to a node goes with it through copies of a network, and
is lost in a file. Some initializers only set an operator up; of those with a single element, some are learnt all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.errors import InvalidArgument
from deep_bench.facts import OperatorFacts, facts_of
from deep_bench.tensor import text

_DEFAULT_DOMAINS = ("", "ai.onnx")


def is_standard(node: ir.Node) -> bool:
    """Whether the node's operator is of ONNX's default domain."""
    return node.domain in _DEFAULT_DOMAINS


def operator_name(node: ir.Node) -> str:
    """The operator as messages name it: ``Conv``, or ``com.microsoft:FusedConv`` outside the default domain."""
    return node.op_type if is_standard(node) else f"{node.domain}:{node.op_type}"


def operator_facts(node: ir.Node) -> OperatorFacts:
    """What is known of the node's operator."""
    return facts_of(node.op_type, node.domain)


def attributes(node: ir.Node) -> dict[str, Any]:
    """The attributes that the node states, as plain Python values.

    Tensors become arrays, strings ``str``, lists ``tuple``; graphs stay ``onnx_ir.Graph``. Attributes that the node leaves
    to their default are absent: every operator function states the defaults in its signature.
    """
    return {name: _plain(attribute) for name, attribute in node.attributes.items()}


def settings(node: ir.Node) -> dict[str, Any]:
    """What `attributes` gives, and the defaults that are real numbers, as the standard has them: in float32.

    A default such as 0.01 is another number in float64, and in that precision the difference shows.

    Example:
        >>> settings(ir.Node("", "LeakyRelu", [None]))
        {'alpha': 0.009999999776482582}
    """
    return {**_real_defaults(node.op_type, "" if is_standard(node) else node.domain), **attributes(node)}


@lru_cache(maxsize=1024)
def _real_defaults(op_type: str, domain: str) -> Mapping[str, float]:
    """Those of the newest version, which networks are brought to before they run."""
    try:
        operator_schema = onnx.defs.get_schema(op_type, domain)
    except onnx.defs.SchemaError:
        return MappingProxyType({})
    real = onnx.defs.OpSchema.AttrType.FLOAT
    defaults = {n: a.default_value for n, a in operator_schema.attributes.items() if a.type == real}
    return MappingProxyType({n: float(np.float32(value.f)) for n, value in defaults.items() if value.HasField("f")})


def _plain(attribute: ir.Attr) -> Any:
    kind, value = attribute.type, attribute.value
    if kind is ir.AttributeType.TENSOR:
        return text(value.numpy())
    if kind is ir.AttributeType.TENSORS:
        return tuple(text(t.numpy()) for t in value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | tuple):
        return tuple(v.decode() if isinstance(v, bytes) else v for v in value)
    return value


def schema(node: ir.Node, opset: int) -> onnx.defs.OpSchema | None:
    """The standard's schema of the node's operator in version ``opset`` of its domain, if the standard has one."""
    domain = "" if is_standard(node) else node.domain
    try:
        return onnx.defs.get_schema(node.op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


def subgraphs(node: ir.Node) -> dict[str, ir.Graph]:
    """The graphs that the node holds as attributes: the branches of ``If``, the body of ``Loop`` and ``Scan``."""
    return {name: a.value for name, a in node.attributes.items() if a.type is ir.AttributeType.GRAPH}


def outer_values(graph: ir.Graph) -> list[ir.Value]:
    """The values that a subgraph uses from the graphs around it, in order of first use."""
    values: dict[ir.Value, None] = {}
    _collect_outer(graph, set(), values)
    return list(values)


def _collect_outer(graph: ir.Graph, inside: set[ir.Value], values: dict[ir.Value, None]) -> None:
    inside = {*inside, *graph.inputs, *graph.initializers.values()}
    for node in graph:
        for value in node.inputs:
            if value is not None and value not in inside:
                values[value] = None
        for inner in subgraphs(node).values():
            _collect_outer(inner, inside, values)
        inside.update(node.outputs)
    for value in graph.outputs:
        if value not in inside:
            values[value] = None


def as_array(value: ir.Value) -> np.ndarray | None:
    """The array of an initializer or of a ``Constant`` node's output; ``None`` for anything else."""
    if value.const_value is not None:
        return text(value.const_value.numpy())
    producer = value.producer()
    if producer is None or producer.op_type != "Constant" or not is_standard(producer):
        return None
    (name, constant), *_ = attributes(producer).items()
    dtypes = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
    if name == "value":
        return constant
    return np.asarray(constant, dtype=dtypes.get(name, object))


def is_learnt(initializer: ir.Value) -> bool:
    """Whether an initializer of a single element is a layer's weight, bias, scale or slope, and no constant of a formula.

    It is what a layer takes as such, or has dimensions, and is added to what a convolution or a product of matrices gives.
    """
    return any(use.idx in operator_facts(use.node).learnt or _is_bias(initializer, use) for use in initializer.uses())


def _is_bias(initializer: ir.Value, use: Any) -> bool:
    if use.node.op_type != "Add" or initializer.shape is None or not len(initializer.shape):
        return False
    operand = use.node.inputs[1 - use.idx]
    maker = None if operand is None else operand.producer()
    return maker is not None and operator_facts(maker).adds_bias


def only_sets_up(initializer: ir.Value) -> bool:
    """Whether an initializer feeds nothing but inputs that set an operator up, or hold running statistics."""
    uses = initializer.uses()
    return bool(uses) and all(use.idx in operator_facts(use.node).initializer_settings for use in uses)


def make_names_unique(graph: ir.Graph) -> None:
    """Name every node and value that has no name, and rename those whose name is taken.

    Sibling subgraphs may use the same names in ONNX. Here names identify values across a whole network, so the first
    holder in document order keeps its name and later ones get a suffix.
    """
    nodes: set[str] = set()
    values: set[str] = set()
    for inner in _graphs(graph):
        for value in _own_values(inner):
            if not value.name or value.name in values:
                value.name = _fresh(value.name or "value", values)
            values.add(value.name)
        for node in inner:
            if not node.name or node.name in nodes:
                node.name = _fresh(node.name or node.op_type, nodes)
            nodes.add(node.name)


def _graphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    """The graph, then the subgraphs of its nodes, depth first."""
    yield graph
    for node in graph:
        for inner in subgraphs(node).values():
            yield from _graphs(inner)


def _own_values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from (v for v in graph.initializers.values() if not v.is_graph_input())
    for node in graph:
        # An omitted optional output has the empty name and no uses; it must stay unnamed.
        yield from (v for v in node.outputs if v.name or v.uses() or v.is_graph_output())


def _fresh(name: str, used_names: set[str]) -> str:
    number = 1
    while f"{name}_{number}" in used_names:
        number += 1
    return f"{name}_{number}"


FUNCTION_DOMAIN = "numpy"
"""The domain of nodes that compute a NumPy function of the user's, which is attached to them."""


KERNEL_DOMAIN = "deep_bench.kernel"
"""The domain of nodes that only a kernel says how to compute, such as the gradient of one."""


_FUNCTION = "deep_bench.function"
_KERNEL = "deep_bench.kernel"


@runtime_checkable
class Kernel(Protocol):
    """What can compute a node in the place of a framework's own code: a `deep_bench.Operator`."""

    @property
    def name(self) -> str:
        """How it is called."""
        ...

    @property
    def device(self) -> Any:
        """Where its arrays live: a `deep_bench.framework.Device`."""
        ...

    @property
    def differentiates(self) -> bool:
        """Whether it has a ``backward``."""
        ...

    def forward(self, *inputs: Any, **attributes: Any) -> Any:
        """The node's output, or a tuple of them."""
        ...

    def backward(self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], **attributes: Any) -> Any:
        """The gradient of each input, ``None`` where there is none."""
        ...


def attach_function(node: ir.Node, function: Callable[..., Any]) -> None:
    """Say what a node of `FUNCTION_DOMAIN` computes: a NumPy function of its inputs and attributes."""
    node.meta[_FUNCTION] = function


def function_of(node: ir.Node) -> Callable[..., Any] | None:
    """The NumPy function that is attached to a node, if there is one.

    Example:
        >>> node = ir.Node("numpy", "doubled", [ir.Value(name="x")])
        >>> attach_function(node, lambda x: x + x)
        >>> function_of(node)(2)
        4
    """
    function: Callable[..., Any] | None = node.meta.get(_FUNCTION)
    return function


def attach_kernel(node: ir.Node, kernel: Kernel) -> None:
    """Have a node computed by a kernel; what it is meant to compute stays what the node says."""
    node.meta[_KERNEL] = kernel


def kernel_of(node: ir.Node) -> Kernel | None:
    """The kernel that computes a node, if there is one."""
    kernel: Kernel | None = node.meta.get(_KERNEL)
    return kernel


def attach_kernels(nodes: Iterable[ir.Node], kernels: Mapping[str, Kernel]) -> None:
    """Have nodes computed by kernels.

    Args:
        nodes: Those of a network.
        kernels: Name of a node to its kernel.

    Raises:
        InvalidArgument: There is no node of such a name.
    """
    named = {str(node.name): node for node in nodes}
    for name, kernel in kernels.items():
        if name not in named:
            raise InvalidArgument(f"a kernel for the node {name!r}, which the network does not have", "one of its nodes")
        attach_kernel(named[name], kernel)


def kernels_of(nodes: Iterable[ir.Node]) -> dict[str, Kernel]:
    """Name to kernel of the nodes that have one."""
    return {str(node.name): kernel for node in nodes if (kernel := kernel_of(node)) is not None}


def detach_kernel(node: ir.Node) -> None:
    """Have a node computed as any other."""
    node.meta.pop(_KERNEL, None)


def keep_attached(source: ir.Node, copy: ir.Node) -> None:
    """Attach to a copy of a node what is attached to the node."""
    copy.meta.update(source.meta)


def needs(node: ir.Node) -> set[ir.Value]:
    """The values that a node uses, and the graphs in it."""
    inner = {v for graph in subgraphs(node).values() for v in outer_values(graph)}
    return {v for v in node.inputs if v is not None} | inner


def prune(graph: ir.Graph) -> None:
    """Remove the nodes and the initializers that no output needs, in the graphs inside nodes too.

    Uses by the graphs inside removed nodes end too, which ``onnx_ir``'s own pass leaves.

    Args:
        graph: Changed in place; its nodes are in order. Inputs stay, needed or not.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").copy()
        >>> network.graph.outputs[:] = [network.nodes[0].outputs[0]]
        >>> prune(network.graph)
        >>> [node.name for node in network.nodes]
        ['stem']
    """
    needed = set(graph.outputs)
    dead = []
    for node in reversed(graph):
        if any(v in needed for v in node.outputs):
            for held in subgraphs(node).values():
                prune(held)
            needed |= needs(node)
        else:
            dead.append(node)
    for node in dead:
        _let_go(node)
    graph.remove(dead)
    for name, value in list(graph.initializers.items()):
        if value not in needed and not value.is_graph_input():
            del graph.initializers[name]


def _let_go(node: ir.Node) -> None:
    """End all uses of values by a node and the graphs in it."""
    inner = [g for held in subgraphs(node).values() for g in (held, *held.subgraphs())]
    for user in [node, *(n for g in inner for n in g)]:
        for index in range(len(user.inputs)):
            user.replace_input_with(index, None)
    for held in inner:
        held.outputs.clear()

"""Networks with kernels of the user's: the graph is cut around these into several sessions, kernels between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from deep_bench.adapters.onnxruntime.executor import SessionParameters, Value, describe_value, to_array
from deep_bench.errors import Unsupported, UnsupportedOperator
from deep_bench.events import NodeProfile, NodeTime, Stopwatch, in_turn
from deep_bench.framework import THROUGH_NUMPY, Executor, Forms, Mode
from deep_bench.graph import Network, operator_name
from deep_bench.graph.node import as_array, is_standard, kernel_of, needs, prune
from deep_bench.graph.shapes import Knowledge
from deep_bench.network.gradient.derived import DerivedGradients
from deep_bench.operators.placed import Placed, placed

if TYPE_CHECKING:
    from deep_bench.adapters.onnxruntime.adapter import OnnxRuntimeAdapter

Values = dict[str, Value]


@dataclass(frozen=True, slots=True)
class SessionPiece:
    """A part of the graph without kernels, in a session of its own.

    Args:
        executor: The session.
        reads: Names of what it is fed.
        nodes: Names of the network's nodes in it.
    """

    executor: Executor[Value]
    reads: tuple[str, ...]
    nodes: tuple[str, ...]

    def run(self, values: Values) -> Values:
        """Its results."""
        return self.executor.forward({name: values[name] for name in self.reads})


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A kernel between two sessions.

    Args:
        kernel: The kernel.
        reads: Names of its inputs, ``""`` for an omitted one.
        gives: Names of its outputs, ``""`` for one that nobody asked for.
        direct: Whether it takes ONNX Runtime's own values.
        device: Where values come from and go to.
    """

    kernel: Placed
    reads: tuple[str, ...]
    gives: tuple[str, ...]
    direct: bool
    device: OnnxRuntimeAdapter

    @property
    def nodes(self) -> tuple[str, ...]:
        """The name of its node."""
        return (self.kernel.node,)

    def run(self, values: Values) -> Values:
        """Its results."""
        inputs: list[Any] = [values[name] if name else None for name in self.reads]
        if self.direct:
            outputs = self.kernel.forward(inputs, describe_value)
        else:
            with np.errstate(all="ignore"):
                results = self.kernel.forward_numpy(*(None if x is None else to_array(x) for x in inputs))
            outputs = tuple(map(self.device.from_numpy, results))
        return {name: y for name, y in zip(self.gives, outputs, strict=True) if name}


class CutExecutor(Executor[Value]):
    """A network with kernels, as sessions and kernels in turn.

    Args:
        network: The network, with kernels.
        adapter: What makes the sessions.
        mode: In ``"train"`` the parameters may be assigned, and are fed to each session.

    Raises:
        UnsupportedOperator: A kernel inside a subgraph, or beside a value whose element type is not known.
    """

    def __init__(self, network: Network, adapter: OnnxRuntimeAdapter, mode: Mode) -> None:
        kernels = network.kernels
        self.device = adapter
        self.inputs = network.inputs
        self.output_names = tuple(str(value.name) for value in network.graph.outputs)
        names = (str(node.name) for node in network.all_nodes())
        self.forms = Forms(tuple(n for n in names if n not in kernels), fallback=dict.fromkeys(kernels, THROUGH_NUMPY))
        assignable = network.parameters if mode == "train" else ()
        self._assigned: Values = {n: adapter.from_numpy(network.initializers[n]) for n in assignable}
        self.parameters = SessionParameters(network, adapter, self._assigned)
        cut = _GraphCut(network, adapter, frozenset(assignable))
        self._parts = tuple(cut.parts())
        read = {*self.output_names, *(name for part in self._parts for name in part.reads)}
        self._constants: Values = {n: adapter.from_numpy(a) for n, a in cut.arrays.items() if n in read}
        self._gradients = DerivedGradients(network, adapter, mode, describe_value)

    def forward(self, inputs: Mapping[str, Value]) -> Values:
        """Run the sessions and the kernels, one after the other."""
        return self._finish(self._known(inputs), self._parts)

    def bind(self, inputs: Mapping[str, Value]) -> Callable[[], Values]:
        """A call on these inputs: a first session is bound to them, what follows is fed anew in each call."""
        values, first = self._known(inputs), self._parts[0]
        if not isinstance(first, SessionPiece):
            return lambda: self._finish(dict(values), self._parts)
        call, remaining = first.executor.bind({name: values[name] for name in first.reads}), self._parts[1:]
        return lambda: self._finish({**values, **call()}, remaining)

    def gradients(
        self,
        inputs: Mapping[str, Value],
        loss: str,
        *,
        wrt: Sequence[str] | None = None,
        on_ready: Callable[[str, Value], None] | None = None,
    ) -> tuple[Values, Values]:
        """Run the network that `differentiate` derives, in which the kernels' own gradients are kernels again."""
        return self._gradients(self._assigned, inputs, loss, wrt, on_ready)

    def profile(
        self, inputs: Mapping[str, Value], *, repeat: int = 20, loss: str | None = None, wrt: Sequence[str] | None = None
    ) -> NodeProfile:
        """The time of each session as a whole, and of each kernel.

        Raises:
            Unsupported: Gradients are asked for.
        """
        del wrt
        if loss is not None:
            raise Unsupported("the way back of a network that is cut around kernels cannot be profiled", "the way forward")
        watch: Stopwatch[tuple[tuple[str, ...], str]] = Stopwatch()

        def observed() -> None:
            watch.begin()
            values = self._known(inputs)
            for part in self._parts:
                label = "a session" if isinstance(part, SessionPiece) else part.kernel.kernel.name
                values.update(watch.timed((part.nodes, label), part.run, values))

        timings = in_turn({"plain": self.bind(inputs), "observed": observed}, self.device.synchronize, repeat)
        covered = {name for part in self._parts for name in part.nodes}
        node_names = (*self.forms.native, *self.forms.fallback)
        return NodeProfile(
            "each session and each kernel between two stamps",
            tuple(NodeTime(nodes, ns, label) for (nodes, label), ns in watch.samples(repeat).items()),
            timings["observed"],
            timings["plain"],
            absent={
                name: "a constant, inside another node, or nobody needs it" for name in node_names if name not in covered
            },
        )

    def _known(self, inputs: Mapping[str, Value]) -> Values:
        return {**self._constants, **self._assigned, **inputs}

    def _finish(self, values: Values, parts: Sequence[SessionPiece | KernelCall]) -> Values:
        for part in parts:
            values.update(part.run(values))
        return {name: values[name] for name in self.output_names}


class _GraphCut:
    """The parts of a graph, in the order to run them.

    A node belongs to the first session that can run it: after as many kernels as there are on the longest way to it.

    Args:
        network: The network.
        adapter: What makes the sessions.
        trained: Names of the parameters that are fed.
    """

    def __init__(self, network: Network, adapter: OnnxRuntimeAdapter, trained: frozenset[str]) -> None:
        self.network, self.adapter, self.trained = network, adapter, trained
        for graph in network.graph.subgraphs():
            for node in graph:
                if kernel_of(node) is not None:
                    raise self._refusal(node, "it is inside a subgraph, where ONNX Runtime cannot be interrupted")
        newest = network.upgraded()
        self._newest = {str(node.name): node for node in newest.nodes}
        self._opsets = newest.opsets
        self._knowledge, self._newest_knowledge = Knowledge(network), Knowledge(newest)
        self._made_beforehand = {v for node in network.nodes if _is_constant(node) for v in node.outputs}
        constants = {str(v.name): as_array(v) for v in self._made_beforehand}
        self.arrays = {
            **{n: a for n, a in constants.items() if a is not None},
            **newest.initializers,
            **network.initializers,
        }
        self._names = {v.name for node in network.nodes for v in node.outputs} | {spec.name for spec in network.inputs}

    def parts(self) -> Iterator[SessionPiece | KernelCall]:
        """The sessions and the kernels."""
        levels = self._levels()
        for level in range(1 + max(levels.values(), default=0)):
            at_hand = [n for n in self._live() if levels[str(n.name)] == level and not _is_constant(n)]
            plain = [node for node in at_hand if kernel_of(node) is None]
            if plain:
                yield self._piece(plain, level)
            yield from (self._call(node) for node in at_hand if kernel_of(node) is not None)

    def _live(self) -> list[ir.Node]:
        """The nodes that an output needs."""
        needed, live = {*self.network.graph.outputs}, list[ir.Node]()
        for node in reversed(self.network.nodes):
            if not needed.isdisjoint(node.outputs):
                needed.update(needs(node))
                live.append(node)
        return live[::-1]

    def _levels(self) -> dict[str, int]:
        """Name of each node to how many kernels come before it on the longest way."""
        levels: dict[str, int] = {}
        after: dict[ir.Value, int] = {}
        for node in self.network.nodes:
            level = max((after.get(value, 0) for value in needs(node)), default=0)
            levels[str(node.name)] = level
            after.update(dict.fromkeys(node.outputs, level + (kernel_of(node) is not None)))
        return levels

    def _piece(self, nodes: Sequence[ir.Node], level: int) -> SessionPiece:
        """The session of some nodes: it is fed what is made elsewhere, and gives what is used elsewhere."""
        inside = {str(node.name) for node in nodes}
        local_values = {v for node in nodes for v in node.outputs}
        fed = dict.fromkeys(v for node in nodes for v in self._taken(node) if v not in local_values)
        used = {v for node in self._live() if node.name not in inside for v in needs(node)}
        used |= {*self.network.graph.outputs}
        output_names = [str(v.name) for node in nodes for v in node.outputs if v in used]
        model = self.network.model.clone()
        graph = model.graph
        old = _values(graph)
        inputs = [self._declared(value, nodes[0]) for value in fed]
        graph.outputs.clear()
        for value in inputs:
            ir.convenience.replace_all_uses_with(old[str(value.name)], value, replace_graph_outputs=True)
        for name in output_names:
            declared = self._declared(old[name], nodes[0])
            old[name].type, old[name].shape = declared.type, declared.shape
        graph.inputs[:] = inputs
        graph.outputs[:] = [old[name] for name in output_names]
        prune(graph)
        part = Network(model, name=f"{self.network.name}, part {level}")
        names = tuple(str(node.name) for node in nodes)
        return SessionPiece(self.adapter.prepare(part), tuple(str(value.name) for value in inputs), names)

    def _taken(self, node: ir.Node) -> list[ir.Value]:
        """What a session must be fed for a node to run there; constants are part of it."""
        initializers = self.network.graph.initializers
        return [
            v
            for v in needs(node)
            if v not in self._made_beforehand and (v.name in self.trained or initializers.get(str(v.name)) is not v)
        ]

    def _declared(self, value: ir.Value, node: ir.Node) -> ir.Value:
        type_proto = self._knowledge.type_of(value)
        if type_proto is None or not type_proto.HasField("tensor_type"):
            raise self._refusal(node, f"the value {value.name!r} beside a kernel is no tensor, or its type is not known")
        kind, shape = (
            ir.serde.deserialize_type_proto_for_type(type_proto),
            ir.serde.deserialize_type_proto_for_shape(type_proto),
        )
        return ir.Value(name=value.name, type=kind, shape=shape)

    def _call(self, node: ir.Node) -> KernelCall:
        """The kernel of a node, in the form that the node has in the newest opset."""
        newest = self._newest.get(str(node.name))
        reads = () if newest is None else tuple("" if v is None else str(v.name) for v in newest.inputs)
        if newest is None or any(name and name not in self._names and name not in self.arrays for name in reads):
            raise self._refusal(node, "its inputs are others in the newest opset; run network.upgraded()")
        dtypes = [self._newest_knowledge.dtype(v) for v in newest.outputs]
        kernel = placed(newest, self._opsets.get(newest.domain), dtypes=dtypes)
        device = kernel.device
        direct = isinstance(device, type(self.adapter)) and device.memory == self.adapter.memory
        gives = tuple(str(v.name) if v.name else "" for v in newest.outputs)
        return KernelCall(kernel, reads, gives, direct, self.adapter)

    def _refusal(self, node: ir.Node, reason: str) -> UnsupportedOperator:
        return UnsupportedOperator(str(node.name), operator_name(node), self.network.opsets.get(node.domain), reason)


def _is_constant(node: ir.Node) -> bool:
    return node.op_type == "Constant" and is_standard(node)


def _values(graph: ir.Graph) -> dict[str, ir.Value]:
    values = (*graph.inputs, *graph.initializers.values(), *(v for node in graph for v in node.outputs))
    return {str(v.name): v for v in values if v.name}

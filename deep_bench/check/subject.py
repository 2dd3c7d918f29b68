"""The system under test, as the checker sees it; and the precision ladder.

The ladder is the same network in float64, where rounding shrinks and a fault stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.errors import DeepBenchError
from deep_bench.framework import Adapter, Executor, as_declared
from deep_bench.graph import Network
from deep_bench.graph.node import as_array, is_standard, schema, subgraphs
from deep_bench.tensor import is_float

Arrays = dict[str, np.ndarray]


def named(found: Mapping[str, np.ndarray], names: Iterable[str]) -> Arrays:
    """What a system returned, which must be the network's outputs by their names.

    Raises:
        DeepBenchError: Other names.
    """
    expected = sorted(names)
    if sorted(found) != expected:
        raise DeepBenchError(
            f"the system returned outputs named {', '.join(map(repr, sorted(found))) or '(none)'}",
            f"the network's own names: {', '.join(map(repr, expected))}",
            "its adapter must return each output under the name that the network gives it",
        )
    return dict(found)


class Subject(Protocol):
    """A system under test, prepared with a network and fed with the inputs that it is judged on.

    `SubjectCalls` is one of two functions, `InProcessSubject` one of an adapter in this process.
    """

    @property
    def upgrades(self) -> bool:
        """Whether it runs networks in opset `OPSET` (True), or as the file has them (False)."""
        ...

    @property
    def outputs(self) -> Callable[[], Mapping[str, np.ndarray]]:
        """Gives its outputs, computed anew at each call."""
        ...

    @property
    def run(self) -> Callable[[Network, Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]:
        """Prepares another network in the same adapter with the same options, and runs it."""
        ...


class SubjectCalls(NamedTuple):
    """A `Subject` wherever its system lives: what gives its outputs, and what runs another network on other inputs."""

    outputs: Callable[[], Mapping[str, np.ndarray]]
    run: Callable[[Network, Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
    upgrades: bool = True


class InProcessSubject:
    """A `Subject`: an adapter in this process.

    Args:
        adapter: The adapter, with its options.
        network: The network to judge it on.
        inputs: Name to array.
        cast: Whether floats that it returns are brought to the element type that the network declares.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> image = {"image": np.zeros((1, 1, 8, 8), np.float32)}
        >>> InProcessSubject(db.frameworks["reference"](), network, image).outputs()["logits"].shape
        (1, 10)
    """

    def __init__(
        self, adapter: Adapter[Any], network: Network, inputs: Mapping[str, np.ndarray], *, cast: bool = False
    ) -> None:
        self.adapter, self.network, self.inputs = adapter, network, inputs
        self.cast, self.upgrades = cast, adapter.upgrades
        self.executor = adapter.prepare(network)

    def outputs(self) -> Arrays:
        """Its outputs, computed anew at each call."""
        return self._called(self.executor, self.network, self.inputs)

    def run(self, network: Network, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Prepare another network in the same adapter, and run it."""
        return self._called(self.adapter.prepare(network), network, inputs)

    def values(self, names: Sequence[str]) -> Arrays:
        """Values of the outermost graph of its network, which it is asked for as outputs."""
        return self._called(self.adapter.prepare(self.network, outputs=list(names)), self.network, self.inputs)

    def _called(self, executor: Executor[Any], network: Network, inputs: Mapping[str, np.ndarray]) -> Arrays:
        with np.errstate(all="ignore"):
            outputs = {name: np.array(y) if isinstance(y, np.ndarray) else y for name, y in executor(inputs).items()}
        return as_declared(network, outputs) if self.cast else outputs


def run_precisely(subject: Subject, network: Network, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """Run a network with all of float32 and narrower widened to float64: the next step of the precision ladder.

    Raises:
        Unsupported: The system cannot compute this in float64.
    """
    return subject.run(*in_float64(network, inputs))


_WIDENED = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_TYPE_ATTRIBUTES = ("to", "dtype", "stash_type", "softmax_precision", "output_dtype", "output_datatype")
_FLOAT, _DOUBLE = ir.DataType.FLOAT.value, ir.DataType.DOUBLE.value


def in_float64(network: Network, inputs: Mapping[str, np.ndarray]) -> tuple[Network, dict[str, np.ndarray]]:
    """A network and its inputs with float32, float16 and bfloat16 widened to float64: weights, casts and constants too.

    Inputs that the standard has in narrower types only, such as the scales of ``Resize``, keep their type.
    """
    changed = network.copy()
    _widen_graph(changed.graph, changed.opsets)
    wide = {n: x.astype(np.float64) if is_float(x.dtype) and x.dtype.itemsize > 1 else x for n, x in inputs.items()}
    return Network(changed.model, name=f"{network.name} in float64"), wide


def _widen_graph(graph: ir.Graph, opsets: Mapping[str, int]) -> None:
    nodes = [(node, schema(node, opsets.get("" if is_standard(node) else node.domain, 0))) for node in graph]
    unwidened = {value for node, definition in nodes if definition is not None for value in _keep_narrow(node, definition)}
    for value in graph.initializers.values():
        if value.const_value is not None and value.const_value.dtype in _WIDENED and value not in unwidened:
            value.const_value = ir.tensor(value.const_value.numpy().astype(np.float64), name=value.name)
            value.type = ir.TensorType(ir.DataType.DOUBLE)
    for node, definition in nodes:
        narrow = set() if definition is None else set(_narrow_outputs(node, definition))
        for value in node.outputs:
            if value in narrow:
                _widen_after(node, value)
            else:
                _widen_type(value)
        for name, attribute in list(node.attributes.items()):
            states_type = definition is None or not any(map(_only_narrow, definition.outputs))
            if attribute.type is ir.AttributeType.TENSOR and attribute.value.dtype in _WIDENED:
                node.attributes[name] = ir.AttrTensor(name, ir.tensor(attribute.value.numpy().astype(np.float64)))
            elif name in ("value_float", "value_floats") and node.op_type == "Constant":
                del node.attributes[name]
                node.attributes["value"] = ir.AttrTensor("value", ir.tensor(np.asarray(attribute.value, np.float64)))
            elif (
                states_type
                and name in _TYPE_ATTRIBUTES
                and attribute.type is ir.AttributeType.INT
                and attribute.value in [d.value for d in _WIDENED]
            ):
                node.attributes[name] = ir.AttrInt64(name, _DOUBLE)
        if definition is not None:
            _widen_defaults(node, definition)
        for body in subgraphs(node).values():
            _widen_graph(body, opsets)
    for value in (*graph.inputs, *graph.outputs):
        _widen_type(value)


def _keep_narrow(node: ir.Node, definition: onnx.defs.OpSchema) -> Iterator[ir.Value]:
    """Feed the inputs that may be float32 but not float64 with values of their own; yields those that are constants."""
    for index, (value, formal) in enumerate(zip(node.inputs, definition.inputs, strict=False)):
        if value is None or not _only_narrow(formal):
            continue
        graph, array = node.graph, as_array(value)
        assert graph is not None
        if array is None:
            cast = ir.Node("", "Cast", [value], [ir.AttrInt64("to", _FLOAT)], num_outputs=1)
            graph.insert_before(node, cast)
            node.replace_input_with(index, cast.outputs[0])
        else:
            name = f"{value.name}.kept.{node.name}.{index}"
            tensor = ir.tensor(array, name=name)
            copy = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
            graph.register_initializer(copy)
            node.replace_input_with(index, copy)
            if not value.uses() and not value.is_graph_output() and value.name in graph.initializers:
                del graph.initializers[str(value.name)]
            yield copy


def _narrow_outputs(node: ir.Node, definition: onnx.defs.OpSchema) -> Iterator[ir.Value]:
    """The outputs that the standard has in types narrower than float64 only."""
    last = definition.outputs[-1] if definition.outputs else None
    for index, value in enumerate(node.outputs):
        formal = definition.outputs[index] if index < len(definition.outputs) else last
        if formal is not None and _only_narrow(formal):
            yield value


def _only_narrow(formal: onnx.defs.OpSchema.FormalParameter) -> bool:
    return "tensor(float)" in formal.types and "tensor(double)" not in formal.types


def _widen_after(node: ir.Node, value: ir.Value) -> None:
    """Let what comes after a node have its result in float64."""
    if isinstance(value.type, ir.TensorType) and value.type.dtype not in _WIDENED:
        return
    graph, name = node.graph, value.name
    assert graph is not None
    cast = ir.Node("", "Cast", [value], [ir.AttrInt64("to", _DOUBLE)], num_outputs=1)
    wide = cast.outputs[0]
    wide.type, wide.shape = ir.TensorType(ir.DataType.DOUBLE), value.shape
    value.replace_all_uses_with(wide, replace_graph_outputs=True)
    cast.replace_input_with(0, value)
    value.name, wide.name = f"{name}.narrow", name
    value.type = ir.TensorType(ir.DataType.FLOAT)
    graph.insert_after(node, cast)


def _widen_defaults(node: ir.Node, definition: onnx.defs.OpSchema) -> None:
    """State float64 where a node leaves out what is float32 by default."""
    if node.op_type == "ConstantOfShape" and "value" not in node.attributes:
        node.attributes["value"] = ir.AttrTensor("value", ir.tensor(np.zeros(1, np.float64)))
    if any(map(_only_narrow, definition.outputs)):
        return
    for name in ("dtype", "output_datatype", "stash_type"):
        declared = definition.attributes.get(name)
        if declared is not None and name not in node.attributes and declared.default_value.i == _FLOAT:
            node.attributes[name] = ir.AttrInt64(name, _DOUBLE)


def _widen_type(value: ir.Value) -> None:
    if isinstance(value.type, ir.TensorType) and value.type.dtype in _WIDENED:
        value.type = ir.TensorType(ir.DataType.DOUBLE)

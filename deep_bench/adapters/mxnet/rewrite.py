"""Networks as MXNet's ONNX import reads them: opset 9, IR version 3, every initializer among the inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from deep_bench.errors import UnsupportedOperator
from deep_bench.graph import Network

OPSET, IR_VERSION = 9, 3

# fmt: off
_UNCHANGED = frozenset({
    "Abs", "Acos", "Add", "ArgMax", "ArgMin", "Asin", "Atan", "AveragePool", "BatchNormalization", "Ceil", "Concat",
    "Conv", "ConvTranspose", "Cos", "Div", "Elu", "Exp", "Flatten", "Floor", "Gather", "Gemm", "GlobalAveragePool",
    "GlobalMaxPool", "HardSigmoid", "Identity", "InstanceNormalization", "LRN", "LeakyRelu", "Log", "MatMul", "Max",
    "MaxPool", "Mean", "Min", "Mul", "Neg", "PRelu", "Pow", "Reciprocal", "Relu", "Reshape", "Selu", "Sigmoid", "Sin",
    "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Tan", "Tanh", "Transpose",
})
# fmt: on
"""Operators that later opsets gave more element types, and attributes and inputs that one may leave out, but no other
meaning."""

# fmt: off
_REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
)
# fmt: on


class _Node:
    """A node that is being rewritten.

    Args:
        proto: The node; it is changed.
        opset: The version of the default operator set that it is written in.
        constants: Name to value of the initializers.
        ranks: Name to rank of the values whose rank is known.
    """

    def __init__(
        self, proto: onnx.NodeProto, opset: int, constants: Mapping[str, np.ndarray], ranks: Mapping[str, int]
    ) -> None:
        self.proto, self.opset, self._constants, self._ranks = proto, opset, constants, ranks

    def refuse(self, reason: str) -> UnsupportedOperator:
        """The error for it."""
        domain = f"{self.proto.domain}:" if self.proto.domain else ""
        return UnsupportedOperator(self.proto.name, domain + self.proto.op_type, self.opset, f"for MXNet, {reason}")

    @property
    def attributes(self) -> dict[str, Any]:
        """Name to value."""
        return {a.name: onnx.helper.get_attribute_value(a) for a in self.proto.attribute}

    def set(self, **values: Any) -> None:
        """Give attributes these values; None removes one."""
        remaining = [a for a in self.proto.attribute if a.name not in values]
        del self.proto.attribute[:]
        self.proto.attribute.extend(remaining)
        self.proto.attribute.extend(onnx.helper.make_attribute(n, v) for n, v in values.items() if v is not None)

    def constant(self, position: int) -> np.ndarray | None:
        """The value of an input, which must be constant; None if it is left out."""
        if position >= len(self.proto.input) or not self.proto.input[position]:
            return None
        name = self.proto.input[position]
        if name not in self._constants:
            raise self.refuse(f"its input {name!r} must be constant: in opset {OPSET} it is an attribute")
        return self._constants[name]

    def keep_inputs(self, count: int) -> None:
        """Leave the other inputs out."""
        del self.proto.input[count:]

    def rank(self) -> int:
        """Of its first input."""
        name = self.proto.input[0]
        if name not in self._ranks:
            raise self.refuse(f"the rank of its input {name!r} must be known")
        return self._ranks[name]


def rewritten(network: Network) -> bytes:
    """A network as MXNet reads it.

    Raises:
        UnsupportedOperator: A node that MXNet's import has no operator for, or that cannot be said in opset 9; and why.
    """
    held = network.copy()
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(held.model)
    proto = held.to_proto()
    opset = network.opset
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    ranks = _ranks(proto)
    for node in proto.graph.node:
        _rewrite(_Node(node, opset, constants, ranks))
    used = {name for node in proto.graph.node for name in node.input} | {v.name for v in proto.graph.output}
    fed = {spec.name for spec in network.inputs}
    initializers = [tensor for tensor in proto.graph.initializer if tensor.name in used]
    inputs = [value for value in proto.graph.input if value.name in fed]
    inputs += [onnx.helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in initializers]
    graph = onnx.helper.make_graph(proto.graph.node, "network", inputs, list(proto.graph.output), initializers)
    opsets = [onnx.helper.make_opsetid("", min(opset, OPSET))]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _ranks(proto: onnx.ModelProto) -> dict[str, int]:
    graph = onnx.shape_inference.infer_shapes(proto).graph
    values = [*graph.input, *graph.value_info, *graph.output]
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in values if v.type.tensor_type.HasField("shape")}
    return ranks | {t.name: len(t.dims) for t in graph.initializer}


def _rewrite(node: _Node) -> None:
    operator = node.proto.op_type
    if node.proto.domain:
        raise node.refuse("only operators of the default domain are read")
    if operator not in _UNCHANGED and operator not in _RULES:
        raise node.refuse("its ONNX import has no such operator, or no form of it that is rewritten here")
    if node.opset <= OPSET:
        return
    if rule := _RULES.get(operator):
        rule(node)
    _as_before(node)


def _as_before(node: _Node) -> None:
    """See that opset 9 has the node's attributes, inputs and outputs; those it has not must say what is understood there."""
    operator = node.proto.op_type
    current, then = (onnx.defs.get_schema(operator, version, "") for version in (node.opset, OPSET))
    for name, value in node.attributes.items():
        if name in then.attributes:
            if name == "axis" and value < 0:
                node.set(axis=value + node.rank())
            continue
        default = onnx.helper.get_attribute_value(current.attributes[name].default_value)
        if value != default:
            raise node.refuse(f"its {name}={value} has no form in opset {OPSET}")
        node.set(**{name: None})
    while node.proto.input and not node.proto.input[-1]:
        node.proto.input.pop()
    while len(node.proto.output) > 1 and not node.proto.output[-1]:
        node.proto.output.pop()
    for role, count, least, most in (
        ("inputs", len(node.proto.input), then.min_input, then.max_input),
        ("outputs", len(node.proto.output), then.min_output, then.max_output),
    ):
        if not least <= count <= most:
            raise node.refuse(f"it has {count} {role}, and {least} to {most} in opset {OPSET}")


def _clip(node: _Node) -> None:
    low, high = node.constant(1), node.constant(2)
    node.keep_inputs(1)
    node.set(min=None if low is None else float(low), max=None if high is None else float(high))


def _axes(node: _Node) -> None:
    """Axes as an attribute, from zero on."""
    axes = node.constant(1)
    declared_axes = node.attributes.get("axes", None if axes is None else axes.reshape(-1).tolist())
    node.keep_inputs(1)
    if not declared_axes and node.attributes.get("noop_with_empty_axes"):
        raise node.refuse("it has no axes to reduce")
    extra = len(declared_axes or ()) if node.proto.op_type == "Unsqueeze" else 0
    if declared_axes and min(declared_axes) < 0:
        rank = node.rank() + extra
        declared_axes = [axis + rank if axis < 0 else axis for axis in declared_axes]
    node.set(axes=declared_axes or None)


def _softmax(node: _Node) -> None:
    """Before opset 13 all axes from the given one on are one: for the last axis that is the same."""
    axis, last = int(node.attributes.get("axis", -1 if node.opset >= 13 else 1)), node.rank() - 1
    if axis % (last + 1) != last:
        raise node.refuse("it must go along the last axis")
    node.set(axis=last)


def _dropout(node: _Node) -> None:
    """In inference it is the identity."""
    training = node.constant(2)
    if len(node.proto.output) > 1 or (training is not None and bool(training)):
        raise node.refuse("it must be one of inference, without its mask")
    node.keep_inputs(1)
    node.set(seed=None, ratio=None)
    node.proto.op_type = "Identity"


def _pad(node: _Node) -> None:
    pads, value, axes = node.constant(1), node.constant(2), node.constant(3)
    if axes is not None:
        raise node.refuse("it must pad all axes")
    node.keep_inputs(1)
    if pads is not None:
        node.set(pads=pads.tolist(), value=0.0 if value is None else float(value))


def _reshape(node: _Node) -> None:
    node.constant(1)  # MXNet reads it when it imports


_RULES: Mapping[str, Callable[[_Node], None]] = {
    "Clip": _clip,
    "Dropout": _dropout,
    "LogSoftmax": _softmax,
    "Pad": _pad,
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Squeeze": _axes,
    "Unsqueeze": _axes,
    **dict.fromkeys(_REDUCTIONS, _axes),
}

"""A composite operator, written out in the operators that the ONNX standard itself defines it by.

Bodies of the standard that lose digits of float64 have their constants and conversions in float64 instead.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, numpy_helper

from deep_bench.facts import facts_of
from deep_bench.graph.edit import Names
from deep_bench.graph.network import OPSET, newest_schema, upgrade_nodes
from deep_bench.graph.node import outer_values, subgraphs


def expand(node: ir.Node, types: Sequence[onnx.TypeProto | None], names: Names) -> ir.Graph | None:
    """The body that ONNX defines for a node's operator, in version `OPSET`.

    Args:
        node: A node of the default domain in version `OPSET`, or of another domain of the standard in its newest version.
            Its graphs (the body of ``SequenceMap``, the ``score_mod`` of ``FlexAttention``) become part of the result.
        types: What is known of each of its inputs; some bodies depend on it.
        names: Where names for the values inside come from.

    Returns:
        A graph whose inputs and outputs have the names and the order of the node's own (omitted inputs are left out; values
        that the node's graphs take from around it follow the inputs), or ``None`` if the standard has no body for this use
        of the operator.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> relu = next(n for n in network.nodes if n.op_type == "Relu")
        >>> [n.op_type for n in expand(relu, [None], Names(network))]
        ['Constant', 'CastLike', 'Max']

    Source:
        ``FunctionProto`` of the operator's schema.
    """
    call = _BodyCall(node)
    function = _function(node, call.proto, types)
    if function is None:
        return None
    renamed = _FunctionBody(node, call, function, names).graph()
    inputs = [v for v in node.inputs if v is not None] + call.captured
    proto = onnx.GraphProto(name=names.fresh(f"{node.name}.body"), node=renamed)
    proto.input.extend(onnx.ValueInfoProto(name=v.name) for v in dict.fromkeys(inputs))
    proto.output.extend(onnx.ValueInfoProto(name=v.name) for v in node.outputs if v.name)
    graph = ir.serde.deserialize_graph(proto)
    if outer_values(graph):
        return None  # the standard's code loses names in graphs within the graphs that FlexAttention is given
    for value in [v for n in graph.all_nodes() for v in n.outputs]:
        if not value.name:
            value.name = names.fresh(f"{node.name}.unused")
    if not subgraphs(node):  # what the node's own graphs add is in the newest version already, and so is what is around it
        upgrade_nodes(graph, _version(function), names)
    return graph


class _BodyCall:
    """A node as the standard's code shall see it: the names in its graphs replaced by some that no body uses itself.

    Args:
        node: The node.

    Attributes:
        proto: The node.
        captured: The values that its graphs take from around it.
        names: The replacement to the name of each of them.
    """

    def __init__(self, node: ir.Node) -> None:
        self.proto = ir.to_proto(node)
        outer = {v: None for graph in subgraphs(node).values() for v in outer_values(graph)}
        self.captured = [v for v in outer if v not in node.inputs]
        renamed: dict[str, str] = {}
        for attribute in self.proto.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, renamed)
        self.names = {renamed[str(v.name)]: str(v.name) for v in outer}


def _rename(graph: onnx.GraphProto, renamed: dict[str, str]) -> None:
    """Replace all names of values; they are unique in the network."""

    def new(name: str) -> str:
        return renamed.setdefault(name, f"graph_value_{len(renamed)}") if name else ""

    for value in [*graph.input, *graph.initializer, *graph.output]:
        value.name = new(value.name)
    del graph.value_info[:]
    for node in graph.node:
        node.input[:] = [new(name) for name in node.input]
        node.output[:] = [new(name) for name in node.output]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, renamed)


def _version(function: onnx.FunctionProto) -> int:
    return next((o.version for o in function.opset_import if o.domain in ("", "ai.onnx")), OPSET)


@functools.cache
def _schema(domain: str, op_type: str) -> Any:  # onnx's stubs lack half of OpSchema
    """The newest schema of an operator, if it is one of the standard's."""
    if domain in ("", "ai.onnx"):
        return newest_schema(op_type)
    return onnx.defs.get_schema(op_type, domain=domain) if onnx.defs.has(op_type, domain) else None


def _is_mistaken(node: ir.Node, types: Sequence[onnx.TypeProto | None]) -> bool:
    """Whether the standard's own body contradicts its text.

    That of Bernoulli gives 1 with probability ``1 - x``; that of CastLike ignores the way to round; that of CenterCropPad
    compares a shape in int32 with numbers in int64.
    """
    if node.op_type == "CenterCropPad":
        return types[1] is not None and types[1].tensor_type.elem_type == onnx.TensorProto.INT32
    return node.op_type == "Bernoulli" or (node.op_type == "CastLike" and "round_mode" in node.attributes)


def _function(node: ir.Node, proto: onnx.NodeProto, types: Sequence[onnx.TypeProto | None]) -> onnx.FunctionProto | None:
    schema = _schema(node.domain, node.op_type)
    if schema is None or _is_mistaken(node, types):
        return None
    if schema.has_function:
        return _plain_function(node.domain, node.op_type)
    if not schema.has_context_dependent_function:
        return None
    input_types = [t if t is not None else onnx.TypeProto() for t in types]
    version = max(v for v in schema.context_dependent_function_opset_versions if v <= OPSET)
    data = schema.get_context_dependent_function_with_opset_version(
        version, proto.SerializeToString(), [t.SerializeToString() for t in input_types]
    )
    return wide_body(node.op_type, onnx.FunctionProto.FromString(data), types) if data else None


@functools.cache
def _plain_function(domain: str, op_type: str) -> onnx.FunctionProto:
    schema = _schema(domain, op_type)
    version = max(v for v in schema.function_opset_versions if v <= OPSET)
    return onnx.FunctionProto.FromString(schema.get_function_with_opset_version(version))


class _FunctionBody:
    """A function's nodes with the names of one call."""

    def __init__(self, node: ir.Node, call: _BodyCall, function: onnx.FunctionProto, names: Names) -> None:
        self.node, self.function, self.names = node, function, names
        self.attributes = {**_defaults(node.domain, node.op_type), **{a.name: a for a in function.attribute_proto}}
        self.attributes |= {a.name: ir.to_proto(a) for a in node.attributes.values()}
        inputs = [v.name if v is not None else "" for v in node.inputs]
        self.border = dict(zip(function.input, inputs + [""] * len(function.input), strict=False))
        self.border |= {f: v.name for f, v in zip(function.output, node.outputs, strict=False) if v.name}
        self.border |= call.names

    def graph(self) -> list[onnx.NodeProto]:
        """The nodes, with all names replaced and all references to attributes resolved."""
        return self._nodes(self.function.node, dict(self.border))

    def _nodes(self, nodes: Sequence[onnx.NodeProto], scope: dict[str, str]) -> list[onnx.NodeProto]:
        for name in [o for n in nodes for o in n.output if o and o not in scope]:
            scope[name] = self.names.fresh(f"{self.node.name}.{name}")
        return [self._one(n, scope) for n in nodes]

    def _one(self, node: onnx.NodeProto, scope: Mapping[str, str]) -> onnx.NodeProto:
        clone = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
        clone.name = self.names.fresh(f"{self.node.name}.{node.name or node.op_type}")
        clone.input.extend(scope.get(i, i) if i else "" for i in node.input)
        clone.output.extend(scope.get(o, o) if o else "" for o in node.output)
        for attribute in node.attribute:
            resolved = self._attribute(attribute, scope)
            if resolved is not None:
                clone.attribute.append(resolved)
        return clone

    def _attribute(self, attribute: onnx.AttributeProto, scope: Mapping[str, str]) -> onnx.AttributeProto | None:
        clone = onnx.AttributeProto()
        if attribute.ref_attr_name:
            call_attribute = self.attributes.get(attribute.ref_attr_name)
            if call_attribute is None:
                return None
            clone.CopyFrom(call_attribute)
            clone.name = attribute.name
            return clone
        clone.CopyFrom(attribute)
        if attribute.HasField("g"):
            self._subgraph(clone.g, dict(scope))
        return clone

    def _subgraph(self, graph: onnx.GraphProto, scope: dict[str, str]) -> None:
        for value in [*graph.input, *graph.initializer]:
            scope[value.name] = self.names.fresh(f"{self.node.name}.{value.name}")
            value.name = scope[value.name]
        nodes = self._nodes(graph.node, dict(scope))
        inner = {
            o: n for old, new in zip(graph.node, nodes, strict=True) for o, n in zip(old.output, new.output, strict=True)
        }
        for value in graph.output:
            value.name = inner.get(value.name, scope.get(value.name, value.name))
        del graph.node[:]
        graph.node.extend(nodes)


@functools.cache
def _defaults(domain: str, op_type: str) -> Mapping[str, onnx.AttributeProto]:
    schema = _schema(domain, op_type)
    return {n: a.default_value for n, a in schema.attributes.items() if a.default_value.name}


def wide_body(op_type: str, function: onnx.FunctionProto, types: Sequence[onnx.TypeProto | None]) -> onnx.FunctionProto:
    """A body as it should be for these inputs; itself for most operators and types.

    The standard's text has Attention's scale, ``1 / sqrt(head size)``, and its mask in the type of the inputs; its body has
    them in float32, which leaves float64 with 27 bits.

    Args:
        op_type: The operator.
        function: Its body for these inputs.
        types: What is known of them.
    """
    first = types[0] if types else None
    if not facts_of(op_type).float32_body or first is None or first.tensor_type.elem_type != TensorProto.DOUBLE:
        return function
    clone = onnx.FunctionProto()
    clone.CopyFrom(function)
    for node in clone.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
            elif node.op_type in ("Constant", "ConstantOfShape") and attribute.name == "value":
                array = numpy_helper.to_array(attribute.t)
                if array.dtype == np.float32:
                    attribute.t.CopyFrom(numpy_helper.from_array(array.astype(np.float64)))
        if node.op_type == "ConstantOfShape" and not node.attribute:
            zero = onnx.helper.make_attribute("value", numpy_helper.from_array(np.zeros(1)))
            node.attribute.append(zero)
    return clone

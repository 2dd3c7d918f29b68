"""Reading one node of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.tensor import text

_DEFAULT_DOMAINS = ("", "ai.onnx")


def is_standard(node: ir.Node) -> bool:
    """Whether the node's operator is of ONNX's default domain."""
    return node.domain in _DEFAULT_DOMAINS


def operator_name(node: ir.Node) -> str:
    """The operator as messages name it: ``Conv``, or ``com.microsoft:FusedConv`` outside the default domain."""
    return node.op_type if is_standard(node) else f"{node.domain}:{node.op_type}"


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

"""Bodies of the standard that lose digits of float64, with their constants and conversions in float64 instead."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

_ROUNDING = frozenset({"Attention"})
"""Operators whose body computes scale and mask in float32, whatever the type of the inputs."""


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
    if op_type not in _ROUNDING or first is None or first.tensor_type.elem_type != TensorProto.DOUBLE:
        return function
    clone = onnx.FunctionProto()
    clone.CopyFrom(function)
    for node in clone.node:
        _widen(node)
    return clone


def _widen(node: onnx.NodeProto) -> None:
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

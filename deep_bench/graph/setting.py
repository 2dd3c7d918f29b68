"""Initializers that set an operator up, and those of a single element that are learnt all the same."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

_SETTINGS = {
    "Resize": {1, 2},
    "Clip": {1, 2},
    "Pad": {2},
    "Upsample": {1},
    "Dropout": {1},
    "Range": {0, 1, 2},
    "OneHot": {2},
    "BatchNormalization": {3, 4},
}


_LEARNT = {
    "BatchNormalization": {1, 2},
    "Conv": {1, 2},
    "ConvTranspose": {1, 2},
    "GRU": {1, 2, 3},
    "Gemm": {0, 1, 2},
    "GroupNormalization": {1, 2},
    "InstanceNormalization": {1, 2},
    "LSTM": {1, 2, 3},
    "LayerNormalization": {1, 2},
    "MatMul": {0, 1},
    "PRelu": {1},
    "RMSNormalization": {1},
    "RNN": {1, 2, 3},
}
_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""What a bias is added to, where that is a node of its own."""


def is_learnt(initializer: ir.Value) -> bool:
    """Whether an initializer of a single element is a layer's weight, bias, scale or slope, and no constant of a formula.

    It is what a layer takes as such, or has dimensions, and is added to what a convolution or a product of matrices gives.
    """
    return any(use.idx in _LEARNT.get(use.node.op_type, ()) or _is_bias(initializer, use) for use in initializer.uses())


def _is_bias(initializer: ir.Value, use: Any) -> bool:
    if use.node.op_type != "Add" or initializer.shape is None or not len(initializer.shape):
        return False
    operand = use.node.inputs[1 - use.idx]
    maker = None if operand is None else operand.producer()
    return maker is not None and maker.op_type in _LAYERS


def only_sets_up(initializer: ir.Value) -> bool:
    """Whether an initializer feeds nothing but inputs that set an operator up, or hold running statistics."""
    uses = initializer.uses()
    return bool(uses) and all(use.idx in _SETTINGS.get(use.node.op_type, ()) for use in uses)

"""Initializers that set an operator up."""

from __future__ import annotations

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


def only_sets_up(initializer: ir.Value) -> bool:
    """Whether an initializer feeds nothing but inputs that set an operator up, or hold running statistics."""
    uses = initializer.uses()
    return bool(uses) and all(use.idx in _SETTINGS.get(use.node.op_type, ()) for use in uses)

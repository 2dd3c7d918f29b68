"""The operator that ONNX Runtime adds to the standard's own domain, and its files use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx
from onnx.defs import OpSchema

NAME = "SimplifiedLayerNormalization"
_FLOATS = ["tensor(float16)", "tensor(float)", "tensor(double)", "tensor(bfloat16)"]


@contextmanager
def known_to_onnx() -> Iterator[None]:
    """Let onnx's own checks pass ONNX Runtime's SimplifiedLayerNormalization, which is written in the default domain.

    Example:
        >>> with known_to_onnx():
        ...     onnx.defs.has("SimplifiedLayerNormalization")
        True
    """
    if onnx.defs.has(NAME):
        yield
        return
    onnx.defs.register_schema(_schema())
    try:
        yield
    finally:
        onnx.defs.deregister_schema(NAME, 1, "")


def _schema() -> OpSchema:
    formal, optional = OpSchema.FormalParameter, OpSchema.FormalParameterOption.Optional
    kinds = {"axis": OpSchema.AttrType.INT, "epsilon": OpSchema.AttrType.FLOAT, "stash_type": OpSchema.AttrType.INT}
    return OpSchema(
        NAME,
        "",
        1,
        inputs=[formal("X", "T"), formal("scale", "V")],
        outputs=[formal("Y", "V"), formal("inv_std_var", "U", param_option=optional)],
        type_constraints=[("T", _FLOATS, ""), ("V", _FLOATS, ""), ("U", ["tensor(float)", "tensor(double)"], "")],
        attributes=[OpSchema.Attribute(name, kind, required=False) for name, kind in kinds.items()],
    )

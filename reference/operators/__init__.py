"""One NumPy function per ONNX operator, in the semantics of operator set 28: slow, short and meant to be read.

A function takes the operator's inputs by position in ONNX's order (``None`` for an optional one that is absent) and its
attributes by keyword, under ONNX's names and defaults. It returns one array, or a tuple in the order of ONNX's outputs.
Those whose result depends on how many outputs are asked for take ``n_outputs``.

Arithmetic is done in the dtype of the input, and only through ufuncs and NumPy functions that subclasses of ``ndarray``
can intercept: that is how rounding errors are estimated. Infinities and NaNs are results like any other, so call these
functions under ``numpy.errstate(all="ignore")`` if NumPy's warnings about them are unwanted.

Example:
    >>> import numpy as np
    >>> find("", "Relu")(np.array([-1.0, 2.0]))
    array([0., 2.])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from deep_bench.reference.operators import (
    activation,
    attention,
    cast,
    contrib,
    control,
    convolution,
    elementwise,
    generate,
    image,
    indexing,
    linear,
    loss,
    ml,
    normalization,
    pooling,
    preview,
    quantize,
    recurrent,
    reduction,
    sequence,
    shape,
    signal,
    text,
    training,
)
from deep_bench.reference.operators.contrib import standard

_FAMILIES: Mapping[str, tuple[ModuleType, ...]] = {
    "": (
        activation,
        attention,
        cast,
        control,
        convolution,
        elementwise,
        generate,
        image,
        indexing,
        linear,
        loss,
        normalization,
        pooling,
        quantize,
        recurrent,
        reduction,
        sequence,
        shape,
        signal,
        standard,
        text,
    ),
    "ai.onnx.ml": ml.FAMILIES,
    "ai.onnx.preview": (preview,),
    "ai.onnx.preview.training": (training,),
    "com.microsoft": contrib.FAMILIES,
}

OPERATORS: Mapping[tuple[str, str], Callable[..., Any]] = MappingProxyType(
    {(domain, name): getattr(f, name) for domain, families in _FAMILIES.items() for f in families for name in f.__all__}
)
"""Every operator that has a reference, by domain (``""`` is ONNX's default one) and type."""


def find(domain: str, op_type: str) -> Callable[..., Any] | None:
    """The reference of an operator, or ``None`` if it has none.

    Args:
        domain: The operator's domain; ``""`` and ``"ai.onnx"`` both name the default one.
        op_type: The operator as ONNX spells it.

    Example:
        >>> find("ai.onnx", "MatMul").__name__, find("", "NoSuchOperator")
        ('MatMul', None)
    """
    return OPERATORS.get(("" if domain == "ai.onnx" else domain, op_type))

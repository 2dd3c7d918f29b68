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

import functools
import inspect
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


@functools.cache
def takes_count(function: Callable[..., Any]) -> bool:
    """Whether a reference must be told how many outputs are asked for, as ``n_outputs``.

    Example:
        >>> takes_count(find("", "Split")), takes_count(find("", "Relu"))
        (True, False)
    """
    return "n_outputs" in inspect.signature(function).parameters


def misuse(function: Callable[..., Any], n_inputs: int, attributes: Mapping[str, Any]) -> str:
    """Why a reference cannot be called as a node states it, or ``""`` if it can.

    Args:
        function: The reference of the node's operator.
        n_inputs: How many inputs the node lists, omitted ones between them included.
        attributes: What the node states, by name.

    Example:
        >>> misuse(find("", "Relu"), 2, {}), misuse(find("", "Elu"), 1, {"beta": 1.0}), misuse(find("", "Elu"), 1, {})
        ('it takes 1 input, 2 given', "it has no attribute 'beta'", '')
    """
    inputs, settings, open_ended = _signature(function)
    least = sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in inputs)
    most = None if any(p.kind is p.VAR_POSITIONAL for p in inputs) else len(inputs)
    if n_inputs < least or (most is not None and n_inputs > most):
        count = f"at least {least}" if most is None else str(most) if least == most else f"{least} to {most}"
        return f"it takes {count} input{'' if count == '1' else 's'}, {n_inputs} given"
    for name, value in attributes.items():
        if name not in settings and not open_ended:
            return f"it has no attribute {name!r}"
        default = settings[name].default if name in settings else None
        if type(default) in _KINDS and not isinstance(value, type(default)):
            return f"its attribute {name!r} is {_KINDS[type(default)]}, {value!r} given"
    absent = [name for name, p in settings.items() if p.default is p.empty and name not in attributes]
    return f"its attribute {absent[0]!r} is missing" if absent else ""


_KINDS: Mapping[type, str] = {int: "an integer", float: "a floating-point number", str: "a string", tuple: "a list"}

_BOUND_LATER = ("n_outputs", "function")
"""Arguments that whoever calls a reference adds: no node states them."""


@functools.cache
def _signature(
    function: Callable[..., Any],
) -> tuple[tuple[inspect.Parameter, ...], Mapping[str, inspect.Parameter], bool]:
    """A reference's inputs, its attributes, and whether it takes further ones."""
    parameters = inspect.signature(function).parameters.values()
    inputs = tuple(p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL))
    settings = {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in _BOUND_LATER}
    return inputs, settings, any(p.kind is p.VAR_KEYWORD for p in parameters)

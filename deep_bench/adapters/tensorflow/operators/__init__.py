"""The table from ONNX operators to TensorFlow code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from deep_bench.adapters.lowering import NotNative, Site

_FAMILIES = (
    "elementwise",
    "cast",
    "activation",
    "reduction",
    "linear",
    "convolution",
    "pooling",
    "normalization",
    "shape",
    "padding",
    "indexing",
    "scatter",
    "generate",
    "recurrent",
    "control",
    "image",
    "quantize",
)

Builder = Callable[[Site], Callable[..., Any]]


def _table() -> Mapping[str, Builder]:
    table: dict[str, Builder] = {}
    for family in _FAMILIES:
        module = import_module(f"{__name__}.{family}")
        table.update({operator: getattr(module, operator) for operator in module.__all__})
    return table


TABLE = _table()


def native(site: Site) -> Callable[..., Any]:
    """TensorFlow code for a node.

    Raises:
        NotNative: There is none for this operator, or for this use of it.
    """
    if site.operator not in TABLE:
        raise NotNative("TensorFlow has no code for it")
    return TABLE[site.operator](site)

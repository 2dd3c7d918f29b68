"""The table from ONNX operators to TensorFlow code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.tensorflow.layout import Value, apply, on_values

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
    "indexing",
    "generate",
    "recurrent",
    "control",
    "image",
    "quantize",
    "sequence",
    "signal",
    "text",
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
    try:
        return TABLE[site.operator](site)
    except NotNative:
        if all(slot is None or slot.shape is not None for slot in site.inputs):
            raise
        return _late(site, TABLE[site.operator])


def _late(site: Site, build: Builder) -> Callable[..., Any]:
    """Code built when it is traced, as TensorFlow then knows the rank and type of an input that the network leaves open.

    What cannot be built then either is refused in the trace, and so still while the network is prepared.
    """

    @on_values
    def run(*values: Value | None) -> tuple[Value, ...]:
        slots = [
            slot
            if slot is None or value is None or slot.shape is not None
            else replace(slot, shape=value.shape, dtype=slot.dtype or value.dtype)
            for slot, value in zip(site.inputs, values, strict=False)
        ]
        return apply(build(replace(site, inputs=tuple(slots))), values)

    return run

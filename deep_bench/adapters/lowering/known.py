"""What builders ask of a site: types, ranks, shapes and settings, or a refusal where they are not known yet."""

from __future__ import annotations

import numpy as np

from deep_bench.adapters.lowering.plan import NotNative, Site
from deep_bench.tensor import is_float, is_integer


class NotKnownYet(NotNative):
    """The builder needs a type or rank that is only known when the network runs."""


def dtype_of(site: Site, index: int = 0) -> np.dtype:
    """The element type of an input.

    Raises:
        NotKnownYet: It is not known.
    """
    slot = site.input(index)
    if slot is None or slot.dtype is None:
        raise NotKnownYet(f"the type of input {index} is not known before it runs")
    return slot.dtype


def output_dtype(site: Site, index: int = 0) -> np.dtype:
    """The element type of an output.

    Raises:
        NotKnownYet: It is not known.
    """
    slot = site.outputs[index]
    if slot is None or slot.dtype is None:
        raise NotKnownYet(f"the type of output {index} is not known before it runs")
    return slot.dtype


def kind_of(site: Site, index: int = 0) -> str:
    """``"float"``, ``"integer"``, ``"bool"`` or ``"complex"``."""
    dtype = dtype_of(site, index)
    if is_float(dtype):
        return "float"
    if is_integer(dtype):
        return "integer"
    return "bool" if dtype == np.bool_ else "complex"


def dims_of(site: Site, index: int = 0) -> tuple[int | None, ...]:
    """The dimensions of an input, ``None`` for each that is open.

    Raises:
        NotKnownYet: Not even their number is known.
    """
    slot = site.input(index)
    if slot is None or slot.shape is None:
        raise NotKnownYet(f"the rank of input {index} is not known before it runs")
    return slot.shape


def rank_of(site: Site, index: int = 0) -> int:
    """The rank of an input.

    Raises:
        NotKnownYet: It is not known.
    """
    return len(dims_of(site, index))


def static_shape(site: Site, index: int = 0) -> tuple[int, ...] | None:
    """The shape of an input, if all of it is known."""
    slot = site.input(index)
    if slot is None or slot.shape is None or any(d is None for d in slot.shape):
        return None
    return tuple(d for d in slot.shape if d is not None)


def ints(site: Site, index: int) -> tuple[int, ...] | None:
    """A constant input as Python integers; ``None`` if unknown or omitted."""
    array = site.constant(index)
    return None if array is None else tuple(int(v) for v in np.asarray(array).reshape(-1))


def dynamic(site: Site, index: int) -> bool:
    """Whether an input is given but not known before it runs."""
    return site.has(index) and site.constant(index) is None


def constant(site: Site, index: int, what: str) -> np.ndarray | None:
    """A given input's contents; ``None`` if it is omitted.

    Raises:
        NotKnownYet: It is given, but not known before the network runs.
    """
    if dynamic(site, index):
        raise NotKnownYet(f"{what} is not known before it runs")
    return site.constant(index)

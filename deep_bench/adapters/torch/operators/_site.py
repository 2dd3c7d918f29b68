"""What builders read from a site, in the terms of torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.torch.arrays import SMALL, torch_dtype
from deep_bench.tensor import is_float, is_integer

Builder = Callable[[Site], Callable[..., Any]]


class NotKnownYet(NotNative):
    """The builder needs a type or rank that is only known when the network runs."""


Tensor = torch.Tensor


def dtype(site: Site, index: int = 0) -> np.dtype:
    """The element type of an input.

    Raises:
        NotKnownYet: It is not known.
    """
    slot = site.input(index)
    if slot is None or slot.dtype is None:
        raise NotKnownYet(f"the type of input {index} is not known before it runs")
    return slot.dtype


def kind(site: Site, index: int = 0) -> str:
    """``"float"``, ``"integer"``, ``"bool"`` or ``"complex"``."""
    found = dtype(site, index)
    if is_float(found):
        return "float"
    if is_integer(found):
        return "integer"
    return "bool" if found == np.bool_ else "complex"


def torch_type(site: Site, index: int = 0) -> torch.dtype:
    """The torch type of an input."""
    return torch_dtype(dtype(site, index))


def output_type(site: Site, index: int = 0) -> torch.dtype:
    """The torch type of an output, which an attribute may state.

    Raises:
        NotKnownYet: It is not known.
    """
    slot = site.outputs[index]
    stated = site.attribute("to") or site.attribute("dtype") or site.attribute("output_dtype")
    if stated:
        return torch_dtype(int(stated))
    if slot is None or slot.dtype is None:
        raise NotKnownYet(f"the type of output {index} is not known before it runs")
    return torch_dtype(slot.dtype)


def rank(site: Site, index: int = 0) -> int:
    """The rank of an input.

    Raises:
        NotKnownYet: It is not known.
    """
    slot = site.input(index)
    if slot is None or slot.rank is None:
        raise NotKnownYet(f"the rank of input {index} is not known before it runs")
    return slot.rank


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


def number(site: Site, index: int) -> float | int | bool | None:
    """A constant scalar input as a Python number within the range of the first input's type; ``None`` if unknown."""
    array = site.constant(index)
    if array is None:
        return None
    value = np.asarray(array).reshape(-1)[0].item()
    return in_range(value, torch_type(site)) if isinstance(value, float) else value


def in_range(value: float, kind: torch.dtype) -> float:
    """``value`` as the type has it: beyond its largest finite number lies infinity."""
    if kind.is_floating_point and math.isfinite(value) and abs(value) > torch.finfo(kind).max:
        return math.copysign(math.inf, value)
    return value


def listed(value: Tensor) -> list[int]:
    """A tensor of integers as a list; waits for the device it is on."""
    return value.reshape(-1).tolist()


def stacked(values: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors of one shape along a new axis; torch does not copy integers of less than a byte itself."""
    if values and values[0].dtype in SMALL:
        storage = SMALL[values[0].dtype][1]
        return torch.stack([v.view(storage) for v in values], axis).view(values[0].dtype)
    return torch.stack(tuple(values), axis)

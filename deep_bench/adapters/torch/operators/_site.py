"""What builders read from a site, in the terms of torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from deep_bench.adapters.lowering import Site
from deep_bench.adapters.lowering.known import dtype_of, output_dtype
from deep_bench.adapters.torch.arrays import SMALL, torch_dtype

Builder = Callable[[Site], Callable[..., Any]]
Tensor = torch.Tensor


def torch_type(site: Site, index: int = 0) -> torch.dtype:
    """The torch type of an input."""
    return torch_dtype(dtype_of(site, index))


def output_type(site: Site, index: int = 0) -> torch.dtype:
    """The torch type of an output, which an attribute may state.

    Raises:
        NotKnownYet: It is not known.
    """
    declared = site.attribute("to") or site.attribute("dtype") or site.attribute("output_dtype")
    return torch_dtype(int(declared) if declared else output_dtype(site, index))


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

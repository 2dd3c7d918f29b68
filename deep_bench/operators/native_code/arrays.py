"""What native calls need of arrays, NumPy's and others'."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.operators.case_values import element_type
from deep_bench.tensor import TensorSpec


def spec_of(array: Any, name: str) -> TensorSpec:
    """An array's shape and element type."""
    if isinstance(array, np.ndarray):
        return TensorSpec(name, array.shape, array.dtype)
    dtype = getattr(array, "dtype", None)
    if dtype is None:
        raise InvalidInput(f"the input {name} is a {type(array).__name__}", "an array of the operator's device, or None")
    named = getattr(dtype, "name", None) or str(dtype).rpartition(".")[2]
    return TensorSpec(name, tuple(map(int, array.shape)), element_type(named))


def usable(array: Any) -> Any:
    """The array, or a copy of it where it is not contiguous or not aligned."""
    if not isinstance(array, np.ndarray):
        return array.contiguous() if hasattr(array, "contiguous") else array
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")


def empty_like(template: Any) -> Any:
    """A new array of its framework's, on its device; its contents are anything."""
    if isinstance(template, np.ndarray):
        return np.empty_like(template)
    framework = sys.modules[type(template).__module__.partition(".")[0]]
    make = getattr(framework, "empty_like", None) or framework.zeros_like
    return make(template)


def address(array: Any) -> int:
    """Where an array's first element is. A framework's array that does not say is looked at through DLPack."""
    if isinstance(array, np.ndarray):
        return array.ctypes.data
    if hasattr(array, "data_ptr"):
        return int(array.data_ptr())
    return np.from_dlpack(array).ctypes.data

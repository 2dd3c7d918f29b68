"""NumPy arrays to ONNX Runtime's values and back, for element types that its own conversion lacks too."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort

from deep_bench.tensor import STRING

Value: TypeAlias = "ort.OrtValue | np.ndarray"
"""An ``OrtValue``; or an array of strings, since no ``OrtValue`` can be made from those."""


def to_value(array: np.ndarray, memory: str) -> Value:
    """A value with the contents of an array.

    Args:
        array: Of any element type of the standard.
        memory: ``cpu`` or ``cuda``. Element types that NumPy itself lacks stay in the CPU's memory, from which a session
            copies them: ONNX Runtime's Python has no way to write them elsewhere.

    Example:
        >>> to_array(to_value(np.array([1, -2, 3], ml_dtypes.int4), "cpu"))
        array([1, -2, 3], dtype=int4)
    """
    if array.dtype == object:
        return array
    array = np.ascontiguousarray(array).reshape(array.shape)
    if not is_narrow(array.dtype):
        return ort.OrtValue.ortvalue_from_numpy(array, memory)
    tensor = onnx.numpy_helper.from_array(array)  # packs several elements into a byte, where ONNX does
    value = ort.OrtValue.ortvalue_from_shape_and_type(array.shape, tensor.data_type, "cpu")
    ctypes.memmove(value.data_ptr(), tensor.raw_data, len(tensor.raw_data))
    return value


def to_array(value: Value) -> np.ndarray:
    """A copy of a value's contents."""
    if isinstance(value, np.ndarray):
        return value.copy()
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.element_type())
    if not is_narrow(dtype):
        array = value.numpy()
        return array.astype(object) if array.dtype.kind in "OUST" else array.copy()
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    tensor = onnx.TensorProto(data_type=value.element_type(), dims=value.shape(), raw_data=raw)
    return onnx.numpy_helper.to_array(tensor).copy()


def described(value: Any) -> tuple[Sequence[int], np.dtype] | None:
    """The shape and element type of a value; see `deep_bench.request.Describe`."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype) if value.dtype.kind in "OUST" else None
    if not isinstance(value, ort.OrtValue):
        return None
    code = value.element_type()
    return value.shape(), STRING if code == onnx.TensorProto.STRING else onnx.helper.tensor_dtype_to_np_dtype(code)


def to_feed(value: Value) -> Value:
    """What ``InferenceSession.run`` takes for a value: an array where NumPy has the element type."""
    if isinstance(value, np.ndarray) or is_narrow(onnx.helper.tensor_dtype_to_np_dtype(value.element_type())):
        return value
    return value.numpy()


def is_narrow(dtype: np.dtype) -> bool:
    """Whether NumPy has the element type from ``ml_dtypes`` only: bfloat16, the float8 and float4 families, int4, int2."""
    return hasattr(ml_dtypes, dtype.name)


def is_narrow_type(kind: str) -> bool:
    """Whether a type as a session writes it, such as ``tensor(bfloat16)``, has an element type that NumPy itself lacks."""
    return bool(re.search(r"\((bfloat16|float[48]\w*|u?int[24])\)", kind))

"""Element types: ONNX's codes for them, and formats narrower than what NumPy computes in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import onnx

from deep_bench.tensor import STRING, is_float

F = TypeVar("F", bound=Callable[..., Any])


def dtype_of(code: int) -> np.dtype:
    """The NumPy dtype of an ``onnx.TensorProto.DataType`` code; strings are ``object``.

    Example:
        >>> dtype_of(onnx.TensorProto.FLOAT), dtype_of(onnx.TensorProto.STRING)
        (dtype('float32'), dtype('O'))
    """
    return STRING if code == onnx.TensorProto.STRING else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))


def is_narrow(x: Any) -> bool:
    """Whether ``x`` is an array of floating point narrower than float32: float16, bfloat16 or fewer bits."""
    return isinstance(x, np.ndarray | np.generic) and is_float(x.dtype) and x.dtype.itemsize < 4


def widened(x: Any) -> Any:
    """``x`` in float32 if it `is_narrow`, else as it is."""
    return x.astype(np.float32) if is_narrow(x) else x


def in_float32(function: F) -> F:
    """Let ``function`` compute in float32 what comes in a narrower floating-point format, and round its results once.

    Several operations in a row would otherwise round, and overflow, after each of them; and NumPy multiplies matrices of
    such formats element by element.
    """

    @functools.wraps(function)
    def wrapper(*inputs: Any, **attributes: Any) -> Any:
        narrow = next((x.dtype for x in inputs if is_narrow(x)), None)
        if narrow is None:
            return function(*inputs, **attributes)
        result = function(*map(widened, inputs), **attributes)
        if isinstance(result, tuple):
            return tuple(_rounded(y, narrow) for y in result)
        return _rounded(result, narrow)

    return wrapper  # type: ignore[return-value]


def _rounded(y: Any, dtype: np.dtype) -> Any:
    return y.astype(dtype) if y is not None and y.dtype == np.float32 else y

"""``TensorFlowFunctions``: what an update rule needs, for TensorFlow's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.arrays import is_number
from deep_bench.errors import Unsupported


class TensorFlowFunctions:
    """The functions of `deep_bench.arrays.ArrayFunctions` for tensors on one device, eager or in a ``tf.function``.

    Args:
        place: TensorFlow's name of the device where new tensors are made.

    Example:
        >>> xp = TensorFlowFunctions()
        >>> xp.sqrt(xp.array(np.float32([4, 9]))).numpy()
        array([2., 3.], dtype=float32)
    """

    def __init__(self, place: str = "CPU:0") -> None:
        self.place = place

    def array(self, x: Any, dtype: np.dtype | type | None = None) -> Any:
        if tf.is_tensor(x):
            return tf.convert_to_tensor(x) if dtype is None else tf.cast(x, np.dtype(dtype))
        with tf.device(self.place):
            return tf.constant(np.asarray(x, dtype))

    def cast(self, x: Any, like: Any) -> Any:
        return x if is_number(x) else tf.cast(x, like.dtype if tf.is_tensor(like) else np.dtype(like))

    def dtype(self, x: Any) -> np.dtype:
        return np.dtype(x.dtype.as_numpy_dtype)

    def shape(self, x: Any) -> tuple[int, ...]:
        return tuple(x.shape)

    def zeros_like(self, x: Any) -> Any:
        return tf.zeros_like(x)

    def sqrt(self, x: Any) -> Any:
        return tf.sqrt(x)

    def exp(self, x: Any) -> Any:
        return tf.exp(x)

    def cos(self, x: Any) -> Any:
        return tf.cos(x)

    def floor(self, x: Any) -> Any:
        return tf.floor(x)

    def abs(self, x: Any) -> Any:
        return tf.abs(x)

    def sign(self, x: Any) -> Any:
        return tf.sign(x)

    def power(self, base: float, exponent: Any) -> Any:
        return tf.pow(tf.constant(base, tf.float64), tf.cast(exponent, tf.float64))

    def maximum(self, x: Any, y: Any) -> Any:
        return tf.maximum(x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return tf.minimum(x, y)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return tf.where(condition, x, y if tf.is_tensor(y) else tf.constant(y, x.dtype))

    def sum(self, x: Any, axes: Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
        return tf.reduce_sum(x, axis=axes, keepdims=keepdims)

    def mean(self, x: Any, axes: Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
        return tf.reduce_mean(x, axis=axes, keepdims=keepdims)

    def matmul(self, x: Any, y: Any) -> Any:
        return tf.matmul(x, y)

    def transpose(self, x: Any) -> Any:
        return tf.transpose(x)

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        return tf.reshape(x, tuple(shape))

    def untracked(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def host(self, x: Any) -> np.ndarray:
        return np.asarray(x)

    def adopt(self, array: np.ndarray) -> Any:
        with tf.device(self.place):
            return tf.constant(array)

    def write(self, x: Any, contents: np.ndarray) -> None:
        raise Unsupported(
            f"{contents.dtype}{list(contents.shape)} to be written into a tensor: TensorFlow's tensors stay what they are",
            f"a new tensor in place of that of {x.dtype.name}{list(x.shape)}",
        )

"""Products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of
from deep_bench.adapters.tensorflow.operators._site import computes, in_float, scalar, tf_dtype

__all__ = ["Det", "Einsum", "Gemm", "MatMul", "MatMulInteger"]


def _product_dtype(dtype: np.dtype) -> tf.DType:
    """The type a product is computed in: small integers in a wider one; 16-bit floats are accumulated in float32 anyway."""
    native = tf_dtype(dtype)
    if computes(_square, native, 1):
        return native
    if dtype.kind in "iu" and dtype.itemsize <= 4:
        return tf.int64
    if dtype == np.uint64:
        return tf.int64  # the same bits modulo 2**64
    raise NotNative(f"TensorFlow has no product of {dtype} matrices")


def _square(x: Any) -> Any:
    return tf.linalg.matmul(tf.reshape(x, [1, 1]), tf.reshape(x, [1, 1]))


def MatMul(site: Site) -> Callable[..., Any]:
    """The product of matrices, batched and broadcast as in NumPy."""
    dtype = dtype_of(site)
    native, inner = tf_dtype(dtype), _product_dtype(dtype)
    if native == inner:
        return matmul
    return lambda a, b: tf.cast(matmul(tf.cast(a, inner), tf.cast(b, inner)), native)


def matmul(a: Any, b: Any) -> Any:
    """NumPy's ``matmul`` on tensors whose ranks are known."""
    rank_a, rank_b = a.shape.rank, b.shape.rank
    if rank_b == 2 and rank_a is not None and rank_a > 2:
        shape = a.shape.as_list()
        flat = tf.matmul(tf.reshape(a, [-1, _size(a, -1)]), b)
        if shape[:-1].count(None) <= 1 and 0 not in shape:
            return tf.reshape(flat, [*(-1 if d is None else d for d in shape[:-1]), _size(b, -1)])
        return tf.reshape(flat, tf.concat([tf.shape(a)[:-1], tf.shape(b)[-1:]], 0))
    if rank_a == 1 or rank_b == 1:
        result = tf.matmul(a[None, :] if rank_a == 1 else a, b[:, None] if rank_b == 1 else b)
        return tf.squeeze(result, [axis for axis, rank in ((-2, rank_a), (-1, rank_b)) if rank == 1])
    return tf.matmul(a, b)


def as_bias(c: Any) -> Any:
    """A row as a vector: TensorFlow's optimiser fuses a product with the row added to it, and then wants a vector."""
    return tf.reshape(c, [-1]) if c.shape.rank == 2 and c.shape[0] == 1 else c


def _size(x: Any, axis: int) -> Any:
    size = x.shape[axis]
    return tf.shape(x)[axis] if size is None else size


def Gemm(site: Site) -> Callable[..., Any]:
    """``alpha * A' @ B' + beta * C``, each matrix transposed if asked for."""
    alpha, beta = site.attribute("alpha", 1.0), site.attribute("beta", 1.0)
    across_a, across_b = bool(site.attribute("transA", 0)), bool(site.attribute("transB", 0))
    dtype = dtype_of(site)
    native, inner = tf_dtype(dtype), _product_dtype(dtype)

    def run(a: Any, b: Any, c: Any = None) -> Any:
        result = tf.matmul(tf.cast(a, inner), tf.cast(b, inner), transpose_a=across_a, transpose_b=across_b)
        if alpha != 1:
            result = _scaled(result, alpha)
        if c is not None:
            c = as_bias(tf.cast(c, inner))
            result = result + (c if beta == 1 else _scaled(c, beta))
        return tf.cast(result, native)

    return run


def _scaled(x: Any, factor: float) -> Any:
    return x * scalar(factor, x) if x.dtype.is_floating else tf.cast(tf.cast(x, tf.float64) * factor, x.dtype)


def Einsum(site: Site) -> Callable[..., Any]:
    """Einstein's sum."""
    equation = _explicit(site.attributes["equation"].replace(" ", ""))
    dtype = dtype_of(site)
    native, inner = tf_dtype(dtype), _product_dtype(dtype)
    return lambda *tensors: tf.cast(tf.einsum(equation, *(tf.cast(t, inner) for t in tensors)), native)


def _explicit(equation: str) -> str:
    """With the result written out: TensorFlow takes one that is left out for one without an ellipsis."""
    if "->" in equation:
        return equation
    letters = sorted(letter for letter in set(equation) if letter.isalpha() and equation.count(letter) == 1)
    return f"{equation}->{'...' if '...' in equation else ''}{''.join(letters)}"


def MatMulInteger(site: Site) -> Callable[..., Any]:
    """The product of 8-bit matrices less their zero points, in int32."""
    tf_dtype(dtype_of(site))

    def run(a: Any, b: Any, zero_a: Any = None, zero_b: Any = None) -> Any:
        a, b = tf.cast(a, tf.int32), tf.cast(b, tf.int32)
        if zero_a is not None:
            zero = tf.cast(zero_a, tf.int32)
            a = a - (zero[..., None] if zero.shape.rank == 1 and zero.shape[0] != 1 else zero)
        return matmul(a, b if zero_b is None else b - tf.cast(zero_b, tf.int32))

    return run


def Det(site: Site) -> Callable[..., Any]:
    """The determinant of the innermost matrices."""
    tf_dtype(dtype_of(site))
    return in_float(tf.linalg.det, dtype_of(site))

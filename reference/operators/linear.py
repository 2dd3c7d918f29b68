"""Products of matrices and tensors."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators._arguments import in_float32

__all__ = ["Det", "Einsum", "Gemm", "MatMul", "MatMulInteger"]


@in_float32
def MatMul(a, b):
    """The matrix product; vectors are rows or columns, leading axes broadcast. Source: ONNX MatMul, opset 13."""
    return np.matmul(a, b)


@in_float32
def Gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    """``alpha * A B + beta * C``, with ``A`` or ``B`` transposed on demand. Source: ONNX Gemm, opset 13."""
    product = np.matmul(a.T if transA else a, b.T if transB else b)
    y = product if alpha == 1 else _scaled(product, alpha)
    if c is None:
        return y
    return y + (c if beta == 1 else _scaled(c, beta))


def _scaled(x, factor):
    return (x * factor).astype(x.dtype, copy=False)


@in_float32
def Einsum(*inputs, equation):
    """Products, summed over the indices that the result lacks (Einstein's convention). Source: ONNX Einsum, opset 28."""
    equation = equation.replace(" ", "")
    return np.einsum(equation, *inputs, optimize=len(inputs) > 1)


def MatMulInteger(a, b, a_zero_point=None, b_zero_point=None):
    """The matrix product of ``a - a_zero_point`` (one per row) and ``b - b_zero_point`` (one per column) in int32.

    Source:
        ONNX MatMulInteger, opset 10.
    """
    # float64 holds these sums exactly, and NumPy multiplies matrices of integers element by element.
    a, b = a.astype(np.float64), b.astype(np.float64)
    if a_zero_point is not None:
        a = a - (a_zero_point[:, np.newaxis] if a_zero_point.ndim == 1 and a.ndim > 1 else a_zero_point)
    if b_zero_point is not None:
        b = b - b_zero_point
    return np.matmul(a, b).astype(np.int64).astype(np.int32)


@in_float32
def Det(x):
    """The determinant of the last two axes. Source: ONNX Det, opset 22."""
    return np.linalg.det(x)

"""Products of matrices, with what stands around them."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators import linear
from deep_bench.reference.operators._dtypes import in_float32
from deep_bench.reference.operators.contrib._fused import after_gemm

__all__ = ["FusedGemm", "FusedMatMul", "Inverse", "TransposeMatMul"]


@in_float32
def FusedMatMul(a, b, *, alpha=1.0, transA=0, transB=0, transBatchA=0, transBatchB=0):
    """``alpha * A B``, as MatMul, with ``A`` or ``B`` transposed on demand.

    ``transA`` and ``transB`` swap the last two axes. ``transBatchA`` and ``transBatchB`` move the first axis before the
    last one ahead of that: ``(M, batch…, K)`` becomes ``(batch…, M, K)``.

    Source:
        ONNX Runtime FusedMatMul.
    """
    product = np.matmul(_transposed(a, transA, transBatchA), _transposed(b, transB, transBatchB))
    return product if alpha == 1 else (product * alpha).astype(product.dtype, copy=False)


def _transposed(x, matrix, batch):
    if batch and x.ndim > 2:
        x = np.moveaxis(x, 0, -2)
    return np.swapaxes(x, -1, -2) if matrix and x.ndim > 1 else x


def TransposeMatMul(a, b, *, alpha=1.0, transA=0, transB=0):
    """The older name of FusedMatMul. Source: ONNX Runtime TransposeMatMul."""
    return FusedMatMul(a, b, alpha=alpha, transA=transA, transB=transB)


@in_float32
def FusedGemm(
    a,
    b,
    c=None,
    *,
    activation=None,
    activation_alpha=None,
    activation_beta=None,
    activation_gamma=None,
    alpha=1.0,
    beta=1.0,
    transA=0,
    transB=0,
):
    """``activation(alpha * A B + beta * C)``. Source: ONNX Runtime FusedGemm."""
    values = {"alpha": activation_alpha, "beta": activation_beta, "gamma": activation_gamma}
    function = after_gemm(activation, values)
    return function(linear.Gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB))


@in_float32
def Inverse(x):
    """The inverse of the matrix in the last two axes. Source: ONNX Runtime Inverse."""
    return np.linalg.inv(x)

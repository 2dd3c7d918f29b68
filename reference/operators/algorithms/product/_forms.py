"""The two operators that multiply matrices, around any algorithm that does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators._dtypes import in_float32

Product = Callable[[Any, Any], Any]
"""From ``(…, m, k)`` and ``(…, k, n)`` to ``(…, m, n)``; leading axes broadcast."""


def matmul_by(product: Product) -> Callable[..., Any]:
    """ONNX's ``MatMul`` with another product of matrices."""

    @in_float32
    def MatMul(a, b):
        lhs, right = (a[np.newaxis] if a.ndim == 1 else a), (b[:, np.newaxis] if b.ndim == 1 else b)
        if lhs.shape[-1] != right.shape[-2]:
            raise InvalidInput(f"MatMul of {list(a.shape)} and {list(b.shape)}", "as many columns as rows")
        y = product(lhs, right)
        y = y if b.ndim > 1 else y[..., 0]
        return y if a.ndim > 1 else y[..., 0, :] if b.ndim > 1 else y[..., 0]

    MatMul.__doc__ = product.__doc__
    return MatMul


def gemm_by(product: Product) -> Callable[..., Any]:
    """ONNX's ``Gemm`` with another product of matrices."""
    matmul = matmul_by(product)

    @in_float32
    def Gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
        y = _scaled(matmul(a.T if transA else a, b.T if transB else b), alpha)
        return y if c is None else y + _scaled(c, beta)

    Gemm.__doc__ = product.__doc__
    return Gemm


def _scaled(x: Any, factor: float) -> Any:
    return x if factor == 1 else (x * factor).astype(x.dtype, copy=False)


def zeros(a: Any, b: Any) -> Any:
    """The product before anything was added."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return np.zeros_like(a, shape=(*lead, a.shape[-2], b.shape[-1]))

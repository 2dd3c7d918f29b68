"""Products of matrices: with what stands around them; and quantized, by tensor, by column, or by block with few bits."""

from __future__ import annotations

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.reference.operators import linear, quantize
from deep_bench.reference.operators._arguments import check_choice, in_float32
from deep_bench.reference.operators.contrib.activation import after_gemm
from deep_bench.reference.operators.contrib.quantize import quantized
from deep_bench.reference.operators.linear import MatMulInteger

__all__ = [
    "DynamicQuantizeMatMul",
    "FusedGemm",
    "FusedMatMul",
    "Inverse",
    "MatMulInteger16",
    "MatMulIntegerToFloat",
    "MatMulNBits",
    "QGemm",
    "TransposeMatMul",
]


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


@in_float32
def MatMulIntegerToFloat(a, b, a_scale, b_scale, a_zero_point=None, b_zero_point=None, bias=None):
    """The matrix product of what ``a`` and ``b`` stand for, plus ``bias``; scales are scalars, or one per column of ``b``.

    Source:
        ONNX Runtime MatMulIntegerToFloat.
    """
    y = MatMulInteger(a, b, a_zero_point, b_zero_point).astype(a_scale.dtype) * (a_scale * b_scale)
    return y if bias is None else y + bias


def DynamicQuantizeMatMul(a, b, b_scale, b_zero_point=None, bias=None):
    """``A B + bias``, with ``A`` quantized to uint8 as DynamicQuantizeLinear does it, and ``B`` quantized already.

    Source:
        ONNX Runtime DynamicQuantizeMatMul.
    """
    whole, scale, zero_point = quantize.DynamicQuantizeLinear(a)
    return MatMulIntegerToFloat(whole, b, scale.astype(a.dtype, copy=False), b_scale, zero_point, b_zero_point, bias)


def MatMulInteger16(a, b):
    """The matrix product of 16-bit integers in int32, or in uint32 if both are unsigned; it wraps around.

    Source:
        ONNX Runtime MatMulInteger16.
    """
    signed = a.dtype == np.int16 or b.dtype == np.int16
    return np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(np.int32 if signed else np.uint32)


def QGemm(
    a,
    a_scale,
    a_zero_point,
    b,
    b_scale,
    b_zero_point,
    c=None,
    y_scale=None,
    y_zero_point=None,
    *,
    alpha=1.0,
    transA=0,
    transB=0,
):
    """``alpha * A B + C`` of what the matrices stand for, quantized if there is a ``y_scale``.

    ``c`` is an integer in units of ``alpha * a_scale * b_scale``.

    Source:
        ONNX Runtime QGemm.
    """
    total = MatMulInteger(a.T if transA else a, b.T if transB else b, a_zero_point, b_zero_point)
    total = total if c is None else total + c
    y = total.astype(a_scale.dtype) * (alpha * a_scale * b_scale).astype(a_scale.dtype, copy=False)
    return y if y_scale is None else quantized(y, y_scale, y_zero_point, a.dtype)


@in_float32
def MatMulNBits(
    a,
    b,
    scales,
    zero_points=None,
    g_idx=None,
    bias=None,
    *,
    K,
    N,
    block_size,
    accuracy_level=0,
    bits=4,
    weight_prepacked=0,
):
    """``A W^T + bias``, with the weights ``(N, K)`` in a few bits each and a scale and zero point for each block of ``K``.

    A byte holds the earlier weights in its lower bits. Zero points are packed likewise, or numbers of the format of ``A``,
    or ``2^(bits - 1)``. With ``g_idx`` the weights of column ``k`` belong to block ``g_idx[k]``. Weights of size 0 are
    zeros. An ``accuracy_level`` allows a kernel to round ``A``; here it is not rounded.

    Args:
        b: ``(N, blocks, block_size * bits / 8)`` bytes.
        scales: ``(N, blocks)``, or those in one axis.
        zero_points: ``(N, blocks)``, or ``(N, ceil(blocks * bits / 8))`` bytes, or those in one axis.

    Raises:
        Unsupported: The weights are laid out for one kind of device.

    Source:
        ONNX Runtime MatMulNBits.
    """
    check_choice("MatMulNBits", "weight_prepacked", weight_prepacked, (0,))
    check_choice("MatMulNBits", "bits", bits, range(2, 9))
    weights = np.zeros_like(scales, shape=(N, K)) if not b.size else _weights(b, scales, zero_points, g_idx, K, N, bits)
    y = np.matmul(a, weights.T.astype(a.dtype, copy=False))
    return y if bias is None else y + bias


def _weights(b, scales, zero_points, g_idx, k, n, bits):
    """The weights ``(n, k)`` that the bytes stand for."""
    scales = scales.reshape(n, -1)
    blocks = scales.shape[1]
    if zero_points is None:
        zero_points = np.full((n, blocks), 2 ** (bits - 1))
    elif zero_points.dtype == np.uint8:
        zero_points = unpacked(zero_points.reshape(n, -1), bits)[:, :blocks]
    zero_points = zero_points.reshape(n, blocks).astype(scales.dtype, copy=False)
    whole = unpacked(b.reshape(n, blocks, -1), bits)
    size = whole.shape[2]
    block = np.arange(k) // size if g_idx is None else g_idx[:k]
    if np.any(block < 0) or np.any(block >= blocks):
        raise Unsupported(f"MatMulNBits with {blocks} blocks and the block {int(np.max(block))}", "indices of its blocks")
    whole = whole.reshape(n, -1)[:, :k].astype(scales.dtype)
    return (whole - zero_points[:, block]) * scales[:, block]


def unpacked(packed, bits):
    """The numbers of ``bits`` bits each along the last axis of bytes, the earliest in the lowest bits."""
    if bits == 8:
        return packed
    each = np.unpackbits(packed, axis=-1, bitorder="little")
    whole = each.shape[-1] // bits
    each = each[..., : whole * bits].reshape(*packed.shape[:-1], whole, bits)
    return np.sum(each * (1 << np.arange(bits)), axis=-1)

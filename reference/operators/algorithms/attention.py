"""The softmax in one pass for both the maximum and the sum, and attention by it without ever holding all of its scores.

The reference itself passes over its input for the maximum, and again for the sum; and holds all scores at once.
"""

from __future__ import annotations

import math

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.reference.operators._arguments import dtype_of, in_float32
from deep_bench.reference.operators.attention import attention_bias, join_heads, split_heads


@in_float32
def Softmax(x, *, axis=-1):
    """``exp(x - m) / d``, with the maximum ``m`` and the sum ``d`` found in a single pass.

    ``m_j = max(m_(j-1), x_j)``; ``d_j = d_(j-1) * exp(m_(j-1) - m_j) + exp(x_j - m_j)``: whenever the maximum grows, what
    has been summed is scaled down.

    Source:
        Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, algorithm 3; ONNX Softmax, opset 13.
    """
    rows = np.moveaxis(x, axis, -1)
    largest = np.full_like(rows, -np.inf, shape=rows.shape[:-1])
    total = np.zeros_like(rows, shape=rows.shape[:-1])
    for j in range(rows.shape[-1]):
        new = np.maximum(largest, rows[..., j])
        shift = finite_or_zero(new)
        total = total * np.exp(largest - shift) + np.exp(rows[..., j] - shift)
        largest = new
    shift = finite_or_zero(largest)[..., np.newaxis]
    return np.moveaxis(np.exp(rows - shift) / total[..., np.newaxis], -1, axis)


def finite_or_zero(largest):
    """What to subtract before exponentials: the maximum, or 0 while there was nothing but minus infinity."""
    return np.where(np.isneginf(largest), 0, largest).astype(largest.dtype, copy=False)


QUERIES, KEYS = 16, 16
"""Rows and columns of a tile of scores."""


@in_float32
def Attention(
    q,
    k,
    v,
    attn_mask=None,
    past_key=None,
    past_value=None,
    nonpad_kv_seqlen=None,
    *,
    is_causal=0,
    kv_num_heads=None,
    left_window_size=-1,
    q_num_heads=None,
    qk_matmul_output_mode=0,
    right_window_size=-1,
    scale=None,
    softcap=0.0,
    softmax_precision=None,
    n_outputs=1,
):
    """Attention tile by tile, with an online softmax: for each block of keys, and in it each block of queries,

    ``S = scale * Q K^T + bias``; ``m' = max(m, rowmax(S))``; ``P = exp(S - m')``; ``l' = exp(m - m') l + rowsum(P)``;
    ``O' = exp(m - m') O + P V``. In the end ``O / l``, which the paper divides in every step.

    Returns:
        The result, and the keys and values with the past ones before them.

    Raises:
        Unsupported: The scores are asked for as an output: they are never there at once.

    Source:
        Dao et al., FlashAttention, 2022, algorithm 1; Dao, FlashAttention-2, 2023, section 3.1, for the division at the end;
        ONNX Attention, opset 25.
    """
    if n_outputs > 3:
        raise Unsupported("Attention in tiles with its scores as an output", "outputs Y, present_key and present_value only")
    packed = q.ndim == 3
    q, k, v = split_heads(q, q_num_heads), split_heads(k, kv_num_heads), split_heads(v, kv_num_heads)
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        k, v = np.concatenate((past_key, k), axis=2), np.concatenate((past_value, v), axis=2)
    shared = q.shape[1] // k.shape[1]
    keys, values = np.repeat(k, shared, axis=1), np.repeat(v, shared, axis=1)
    shape = (*q.shape[:3], keys.shape[2])
    unscored = np.broadcast_to(np.zeros_like(q, shape=()), shape)
    bias = attention_bias(unscored, attn_mask, past, nonpad_kv_seqlen, is_causal, left_window_size, right_window_size)
    root = math.sqrt(1 / math.sqrt(q.shape[3]) if scale is None else scale)
    precision = dtype_of(softmax_precision) if softmax_precision else q.dtype
    y = _tiled(q * root, keys * root, values, np.broadcast_to(bias, shape), softcap, precision)
    nothing = np.all(np.isneginf(bias), axis=-1, keepdims=True)
    y = np.where(nothing, 0, y).astype(q.dtype, copy=False)
    return (join_heads(y) if packed else y), k, v


def _tiled(q, k, v, bias, softcap, precision):
    """The result for scaled ``q`` and ``k``, with statistics in ``precision``."""
    shape = (*q.shape[:3], 1)
    total = np.zeros_like(v, shape=(*q.shape[:3], v.shape[3]))
    largest, weight = np.full_like(q, -np.inf, shape=shape, dtype=precision), np.zeros_like(q, shape=shape, dtype=precision)
    for j in range(0, k.shape[2], KEYS):
        block = np.s_[:, :, j : j + KEYS]
        for i in range(0, q.shape[2], QUERIES):
            rows = np.s_[:, :, i : i + QUERIES]
            scores = np.matmul(q[rows], np.swapaxes(k[block], 2, 3))
            scores = softcap * np.tanh(scores / softcap) if softcap else scores
            scores = (scores + bias[..., i : i + QUERIES, j : j + KEYS]).astype(precision, copy=False)
            new = np.maximum(largest[rows], np.max(scores, axis=-1, keepdims=True))
            shift = finite_or_zero(new)
            decay, weights = np.exp(largest[rows] - shift), np.exp(scores - shift)
            weight[rows] = decay * weight[rows] + np.sum(weights, axis=-1, keepdims=True)
            total[rows] = decay * total[rows] + np.matmul(weights.astype(v.dtype, copy=False), v[block])
            largest[rows] = new
    return total / weight

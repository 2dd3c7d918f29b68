"""Attention in its forms, and the rotary embedding of positions."""

from __future__ import annotations

import math

import numpy as np

from deep_bench.reference.operators._arguments import check_choice, dtype_of, in_float32, widened
from deep_bench.reference.operators.activation import Softmax

__all__ = ["Attention", "LinearAttention", "RotaryEmbedding"]


def split_heads(x, count):
    """``(batch, length, heads * size)`` as ``(batch, heads, length, size)``; a tensor with four axes is so already."""
    if x.ndim == 4:
        return x
    batch, length, width = x.shape
    return np.transpose(x.reshape(batch, length, count, width // count), (0, 2, 1, 3))


def join_heads(x):
    """``(batch, heads, length, size)`` as ``(batch, length, heads * size)``."""
    batch, count, length, size = x.shape
    return np.transpose(x, (0, 2, 1, 3)).reshape(batch, length, count * size)


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
    """``softmax(scale * Q K^T + bias) V``, where the bias is 0 or a mask, and minus infinity where no attention is paid.

    With ``softcap`` the scores become ``softcap * tanh(scores / softcap)`` first. A query that attends to nothing gives 0.
    Several heads of ``q`` share one of ``k`` and ``v`` if they have fewer.

    Returns:
        The result, the keys and values with the past ones before them, and the scores at the stage that
        ``qk_matmul_output_mode`` names: 0 raw, 1 capped, 2 with bias, 3 after the softmax.

    Source:
        ONNX Attention, opset 25; Vaswani et al., 2017, section 3.2; Ainslie et al., 2023 for shared heads.
    """
    check_choice("Attention", "qk_matmul_output_mode", qk_matmul_output_mode, (0, 1, 2, 3))
    packed = q.ndim == 3
    q, k, v = split_heads(q, q_num_heads), split_heads(k, kv_num_heads), split_heads(v, kv_num_heads)
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        k, v = np.concatenate((past_key, k), axis=2), np.concatenate((past_value, v), axis=2)
    shared = q.shape[1] // k.shape[1]
    keys, values = np.repeat(k, shared, axis=1), np.repeat(v, shared, axis=1)

    root = math.sqrt(1 / math.sqrt(q.shape[3]) if scale is None else scale)
    raw = np.matmul(q * root, np.swapaxes(keys, 2, 3) * root)
    capped = softcap * np.tanh(raw / softcap) if softcap else raw
    bias = attention_bias(raw, attn_mask, past, nonpad_kv_seqlen, is_causal, left_window_size, right_window_size)
    scores = capped + bias
    nothing = np.all(np.isneginf(bias), axis=-1, keepdims=True)
    x = np.where(nothing, 0, scores)
    if softmax_precision:
        x = x.astype(dtype_of(softmax_precision), copy=False)
    weights = np.where(nothing, 0, Softmax(x).astype(scores.dtype, copy=False))
    y = np.matmul(weights, values)
    return (join_heads(y) if packed else y), k, v, (raw, capped, scores, weights)[qk_matmul_output_mode]


def attention_bias(scores, mask, past, lengths, is_causal, left, right):
    """What is added to the scores ``(batch, heads, queries, keys)``."""
    queries, keys = scores.shape[2:]
    offset = past if lengths is None or past else lengths.reshape(-1, 1, 1, 1) - queries
    position = np.arange(queries).reshape(-1, 1) + offset
    key = np.arange(keys)
    allowed = np.ones((queries, keys), dtype=np.bool_)
    if is_causal:
        allowed = allowed & (key <= position)
    if left >= 0:
        allowed = allowed & (position - left <= key)
    if right >= 0:
        allowed = allowed & (key <= position + right)
    if lengths is not None:
        allowed = allowed & (key < lengths.reshape(-1, 1, 1, 1))
    bias = np.where(allowed, np.zeros_like(scores, shape=()), -np.inf).astype(scores.dtype, copy=False)
    if mask is None:
        return bias
    boolean = mask.dtype == np.bool_
    missing = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
    mask = np.pad(mask, missing, constant_values=False if boolean else -np.inf)
    return np.where(mask, bias, -np.inf).astype(scores.dtype, copy=False) if boolean else bias + mask


@in_float32
def RotaryEmbedding(x, cos_cache, sin_cache, position_ids=None, *, interleaved=0, num_heads=None, rotary_embedding_dim=0):
    """Turn pairs of features by an angle that grows with the position: ``(x1 cos - x2 sin, x1 sin + x2 cos)``.

    A pair is two neighbours if ``interleaved``, else one feature of the first half and one of the second. Features from
    ``rotary_embedding_dim`` on stay as they are.

    Source:
        ONNX RotaryEmbedding, opset 23; Su et al., 2021.
    """
    heads = split_heads(x, num_heads)
    turned = heads[..., : rotary_embedding_dim or heads.shape[3]]
    tail = heads[..., turned.shape[3] :]
    if position_ids is not None:
        cos_cache, sin_cache = np.take(cos_cache, position_ids, axis=0), np.take(sin_cache, position_ids, axis=0)
    cos, sin = np.expand_dims(cos_cache, 1), np.expand_dims(sin_cache, 1)
    if interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        first, second = np.split(turned, 2, axis=-1)
    pair = (cos * first - sin * second, sin * first + cos * second)
    turned = np.stack(pair, axis=-1).reshape(turned.shape) if interleaved else np.concatenate(pair, axis=-1)
    y = np.concatenate((turned, tail), axis=-1)
    return join_heads(y) if x.ndim == 3 else y


def LinearAttention(
    query,
    key,
    value,
    past_state=None,
    decay=None,
    beta=None,
    *,
    q_num_heads,
    kv_num_heads,
    chunk_size=64,
    scale=0.0,
    update_rule="gated_delta",
):
    """Attention without a softmax, as a recurrence on a state ``S`` per head: ``y = scale * q S``.

    At each time ``S`` first decays to ``exp(g) S`` (the rules with "gated"), then ``k`` (x) ``v`` is added, or with "delta"
    ``beta * k (x) (v - k S)``.

    Returns:
        The result, and the last state in the dtype of the past one.

    Source:
        ONNX LinearAttention, opset 27; Yang et al., Gated Delta Networks, 2025.
    """
    check_choice("LinearAttention", "update_rule", update_rule, ("linear", "gated", "delta", "gated_delta"))
    out_dtype, state_kept = query.dtype, query.dtype if past_state is None else past_state.dtype
    query, key, value, state, decay, beta = map(widened, (query, key, value, past_state, decay, beta))
    q, k, v = split_heads(query, q_num_heads), split_heads(key, kv_num_heads), split_heads(value, kv_num_heads)
    batch, _, length, size = q.shape
    scale = scale or 1 / math.sqrt(size)
    if state is None:
        state = np.zeros_like(k, shape=(batch, kv_num_heads, size, v.shape[3]))
    y = np.zeros_like(v, shape=(batch, q_num_heads, length, v.shape[3]))
    for t in range(length):
        kt, vt = k[:, :, t], v[:, :, t]
        if update_rule.startswith("gated"):
            state = np.exp(split_heads(decay, kv_num_heads)[:, :, t])[..., np.newaxis] * state
        if update_rule.endswith("delta"):
            vt = split_heads(beta, beta.shape[2])[:, :, t] * (vt - np.einsum("bhk,bhkv->bhv", kt, state))
        state = state + kt[..., :, np.newaxis] * vt[..., np.newaxis, :]
        shared = np.repeat(state, q_num_heads // kv_num_heads, axis=1)
        y[:, :, t] = scale * np.einsum("bhk,bhkv->bhv", q[:, :, t], shared)
    return join_heads(y).astype(out_dtype, copy=False), state.astype(state_kept, copy=False)

"""Attention with its projections, masks and caches, as transformers are fused into it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.reference.operators import attention
from deep_bench.reference.operators._arguments import check_choice, in_float32
from deep_bench.reference.operators.activation import Softmax
from deep_bench.reference.operators.linear import MatMulInteger

__all__ = ["Attention", "MultiHeadAttention", "QAttention", "RotaryEmbedding"]

MASKED = -10000.0  # what is added to the scores that a mask excludes, unless the node says otherwise


def heads(x: Any, count: int) -> Any:
    """``(batch, length, heads * size)`` as ``(batch, heads, length, size)``; a tensor with four axes is so already."""
    if x.ndim == 4:
        return x
    batch, length, width = x.shape
    return np.transpose(x.reshape(batch, length, count, width // count), (0, 2, 1, 3))


def joined(x: Any) -> Any:
    """``(batch, heads, length, size)`` as ``(batch, length, heads * size)``."""
    batch, count, length, size = x.shape
    return np.transpose(x, (0, 2, 1, 3)).reshape(batch, length, count * size)


def unmasked_keys(mask: Any, batch: int, past: int, queries: int, keys: int) -> Any:
    """Which keys a mask lets each query see, to be broadcast to ``(batch, heads, queries, keys)``.

    Args:
        mask: One of: the length of each sequence of keys, ``(batch,)``, or with cumulative lengths behind them,
            ``(3 * batch + 2,)``; ends and then starts, ``(2 * batch,)``; positive where a key is seen, ``(batch, keys)``
            or ``(batch, queries, keys)``, or ``(batch, 1, longest, longest)`` for all positions that there may ever be.
        batch: The number of sequences.
        past: The position of the first query.
        queries: The number of queries.
        keys: The number of keys, past ones included.
    """
    if mask.ndim == 1:
        return _between(mask, batch, np.arange(keys))
    if mask.ndim == 2:
        return (mask > 0)[:, np.newaxis, np.newaxis]
    if mask.ndim == 3:
        return (mask > 0)[:, np.newaxis]
    return mask[:, :, past : past + queries, :keys] > 0


def _between(mask: Any, batch: int, key: Any) -> Any:
    if len(mask) not in (batch, 2 * batch, 3 * batch + 2):
        raise Unsupported(
            f"a mask of {len(mask)} numbers for {batch} sequences", "one, two or three for each, the last with two more"
        )
    inside = key < mask[:batch, np.newaxis]
    if len(mask) == 2 * batch:
        inside = inside & (key >= mask[batch:, np.newaxis])
    return inside[:, np.newaxis, np.newaxis]


def causal_keys(queries: int, keys: int, past: int) -> Any:
    """Which keys are no later than each query, ``(queries, keys)``, if ``past`` keys come before the first query's own."""
    return np.arange(keys) <= np.arange(queries)[:, np.newaxis] + past


def mask_bias(scores: Any, mask: Any, past: int, unidirectional: int, masked: float) -> Any:
    """What is added to the ``scores``: ``masked`` where the mask excludes a key, the lowest number where it is later."""
    batch, _, queries, keys = scores.shape
    bias = np.zeros_like(scores, shape=())
    if mask is not None:
        bias = np.where(unmasked_keys(mask, batch, past, queries, keys), bias, masked)
    if unidirectional:
        bias = np.where(causal_keys(queries, keys, past), bias, np.finfo(scores.dtype).min)
    return bias.astype(scores.dtype, copy=False)


def scores_of(q: Any, k: Any, scale: float | None) -> Any:
    """``scale * Q K^T``, the scale being ``1 / sqrt(size of a head)`` if there is none or it is 0."""
    return np.matmul(q, np.swapaxes(k, 2, 3)) * (scale or 1 / math.sqrt(q.shape[3]))


def attend(
    q: Any, k: Any, v: Any, *, mask: Any, bias: Any, past: int, unidirectional: int, scale: float | None, masked: float
) -> tuple[Any, Any]:
    """``softmax(scale * Q K^T + mask + bias) V`` as ``(batch, length, heads * size)``, and the scores before the softmax."""
    scores = scores_of(q, k, scale)
    scores = scores + mask_bias(scores, mask, past, unidirectional, masked)
    if bias is not None:
        scores = scores + bias
    return joined(np.matmul(Softmax(scores), v)), scores


def extended(cache: Any, new: Any, length: Any) -> tuple[Any, Any, int]:
    """Keys or values with the past ones before them.

    Args:
        cache: The past ones, ``(batch, heads, length, size)``, or ``None``.
        new: Those of now.
        length: ``None``, or how much of the cache is in use; the rest is room for the new ones.

    Returns:
        All of them; the cache after this, which is the same, or as large as before if it has room; and how many are past.
    """
    if cache is None:
        return new, new, 0
    if length is None:
        whole = np.concatenate((cache, new), axis=2)
        return whole, whole, cache.shape[2]
    past = int(length.reshape(()))
    whole = np.concatenate((cache[:, :, :past], new), axis=2)
    return whole, np.concatenate((whole, cache[:, :, whole.shape[2] :]), axis=2), past


@in_float32
def Attention(
    x,
    weights,
    bias=None,
    mask_index=None,
    past=None,
    attention_bias=None,
    past_sequence_length=None,
    *,
    num_heads,
    do_rotary=0,
    mask_filter_value=MASKED,
    past_present_share_buffer=0,
    qkv_hidden_sizes=None,
    rotary_embedding_dim=0,
    scale=None,
    unidirectional=0,
    n_outputs=1,
):
    """Self-attention of several heads, with the projection of the input: ``Q, K, V = x W + b``.

    ``softmax(scale * Q K^T + mask + attention_bias) V``, where the mask is ``mask_filter_value`` for what ``mask_index``
    excludes, and the lowest number for later positions if ``unidirectional``. The forms of ``mask_index`` are: lengths
    ``(batch,)``; ends, then starts ``(2 * batch,)``; lengths, then cumulative lengths ``(3 * batch + 2,)``; or 1 for what
    is seen: ``(batch, keys)``, ``(batch, queries, keys)`` or ``(batch, 1, longest, longest)``.

    Returns:
        The result, and the keys and values ``(2, batch, heads, length, size)`` with the past ones before them.

    Raises:
        Unsupported: ``do_rotary`` asks for a rotation, for which the operator defines no angles; or keys and values are
            asked for that have different sizes.

    Source:
        ONNX Runtime Attention; Vaswani et al., 2017, section 3.2.
    """
    check_choice("Attention", "do_rotary", do_rotary, (0,))
    if n_outputs > 1 and qkv_hidden_sizes is not None:
        check_choice("Attention with two outputs", "qkv_hidden_sizes[2]", qkv_hidden_sizes[2], qkv_hidden_sizes[1:2])
    projected = np.matmul(x, weights)
    projected = projected if bias is None else projected + bias
    return _self_attention(
        projected,
        qkv_hidden_sizes,
        num_heads,
        past,
        past_sequence_length if past_present_share_buffer else None,
        mask=mask_index,
        bias=attention_bias,
        unidirectional=unidirectional,
        scale=scale,
        masked=mask_filter_value,
    )


def _self_attention(projected, sizes, count, past, past_length, **options):
    width = projected.shape[-1]
    q_size, k_size = (width // 3, width // 3) if sizes is None else sizes[:2]
    q, k, v = (heads(part, count) for part in np.split(projected, [q_size, q_size + k_size], axis=-1))
    k, present_k, length = extended(None if past is None else past[0], k, past_length)
    v, present_v, _ = extended(None if past is None else past[1], v, past_length)
    present = np.stack((present_k, present_v)) if present_k.shape == present_v.shape else None
    return attend(q, k, v, past=length, **options)[0], present


@in_float32
def QAttention(
    x,
    weight,
    bias,
    input_scale,
    weight_scale,
    mask_index=None,
    input_zero_point=None,
    weight_zero_point=None,
    past=None,
    *,
    num_heads,
    do_rotary=0,
    mask_filter_value=MASKED,
    past_present_share_buffer=0,
    scale=None,
    unidirectional=0,
):
    """Attention, whose input and weights are quantized; the scores and values are not. Source: ONNX Runtime QAttention."""
    check_choice("QAttention", "do_rotary", do_rotary, (0,))
    check_choice("QAttention", "past_present_share_buffer", past_present_share_buffer, (0,))
    product = MatMulInteger(x, weight, input_zero_point, weight_zero_point)
    return _self_attention(
        product.astype(bias.dtype) * (input_scale * weight_scale) + bias,
        None,
        num_heads,
        past,
        None,
        mask=mask_index,
        bias=None,
        unidirectional=unidirectional,
        scale=scale,
        masked=mask_filter_value,
    )


@in_float32
def MultiHeadAttention(
    query,
    key=None,
    value=None,
    bias=None,
    key_padding_mask=None,
    attention_bias=None,
    past_key=None,
    past_value=None,
    past_sequence_length=None,
    cache_indirection=None,
    *,
    num_heads,
    mask_filter_value=MASKED,
    scale=None,
    unidirectional=0,
):
    """``softmax(scale * Q K^T + mask + attention_bias) V`` for several heads, of queries, keys and values plus ``bias``.

    Keys and values may come packed in one tensor ``(batch, length, heads, 2, size)``, or with the queries in one
    ``(batch, length, heads, 3, size)``; or split into heads already, ``(batch, heads, length, size)``, in which case they
    are those of an earlier call. The masks are those of Attention.

    Returns:
        The result, the keys and the values with the past ones before them, and the scores before the softmax.

    Source:
        ONNX Runtime MultiHeadAttention; Vaswani et al., 2017, section 3.2.
    """
    check_choice("MultiHeadAttention", "cache_indirection", None if cache_indirection is None else "given", (None,))
    q, k, v = _unpacked(query, key, value)
    if bias is not None:
        q, k, v = _biased((q, k, v), bias)
    q, k, v = (heads(part, num_heads) for part in (q, k, v))
    k, present_key, length = extended(past_key, k, past_sequence_length)
    v, present_value, _ = extended(past_value, v, past_sequence_length)
    y, scores = attend(
        q,
        k,
        v,
        mask=key_padding_mask,
        bias=attention_bias,
        past=length,
        unidirectional=unidirectional,
        scale=scale,
        masked=mask_filter_value,
    )
    return y, present_key, present_value, scores


def _unpacked(query, key, value):
    """Queries, keys and values, each ``(batch, length, heads * size)`` or split into heads already."""
    if query.ndim == 5:
        query, key, value = (_part(query, i) for i in range(3))
    elif key.ndim == 5:
        key, value = (_part(key, i) for i in range(2))
    return query, key, value


def _part(packed, number):
    batch, length, count, _, size = packed.shape
    return packed[:, :, :, number].reshape(batch, length, count * size)


def _biased(parts, bias):
    """Add to each of queries, keys and values its part of the bias; what is split into heads has it already."""
    q, k, _ = parts
    size = q.shape[-1]
    starts = [size, size + (k.shape[-1] if k.ndim == 3 else size)]
    added = np.split(bias, starts)
    return tuple(p + b if p.ndim == 3 else p for p, b in zip(parts, added, strict=True))


@in_float32
def RotaryEmbedding(
    x,
    position_ids,
    cos_cache,
    sin_cache,
    *,
    interleaved=0,
    is_packed_batching=0,
    num_heads=0,
    rotary_embedding_dim=0,
    scale=1.0,
):
    """RotaryEmbedding with tables of angles; ``position_ids`` are all positions, or the first one if there is but one.

    A head has twice as many features as the tables, unless ``rotary_embedding_dim`` says how many of them are turned.

    Raises:
        Unsupported: ``scale`` is not 1; what it scales is not defined.

    Source:
        ONNX Runtime RotaryEmbedding; Su et al., 2021.
    """
    check_choice("RotaryEmbedding", "scale", scale, (1.0,))
    batch, length = x.shape[0], x.shape[-2]
    if position_ids.ndim == 1:
        position_ids = np.broadcast_to(position_ids.reshape(1, 1) + np.arange(length), (batch, length))
    count = num_heads if rotary_embedding_dim else x.shape[-1] // (2 * cos_cache.shape[1])
    return attention.RotaryEmbedding(
        x,
        cos_cache,
        sin_cache,
        position_ids,
        interleaved=interleaved,
        num_heads=count,
        rotary_embedding_dim=rotary_embedding_dim,
    )

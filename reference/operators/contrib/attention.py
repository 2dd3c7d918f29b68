"""Attention with its projections, masks and caches, as transformers are fused into it."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators import attention
from deep_bench.reference.operators._arguments import check_choice
from deep_bench.reference.operators._dtypes import in_float32
from deep_bench.reference.operators.contrib._attention import MASKED, attend, extended, heads
from deep_bench.reference.operators.linear import MatMulInteger

__all__ = ["Attention", "MultiHeadAttention", "QAttention", "RotaryEmbedding"]


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

"""Attention of language models: heads that share keys and values, a cache, and sequences of different lengths."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators._arguments import check_choice, in_float32
from deep_bench.reference.operators.attention import RotaryEmbedding
from deep_bench.reference.operators.contrib.attention import heads, joined, scores_of
from deep_bench.reference.operators.normalization import RMSNormalization

__all__ = ["GroupQueryAttention"]


@in_float32
def GroupQueryAttention(
    query,
    key=None,
    value=None,
    past_key=None,
    past_value=None,
    seqlens_k=None,
    total_sequence_length=None,
    cos_cache=None,
    sin_cache=None,
    position_ids=None,
    attention_bias=None,
    head_sink=None,
    k_scale=None,
    v_scale=None,
    q_norm_weight=None,
    k_norm_weight=None,
    query_seqlens=None,
    *,
    kv_num_heads,
    num_heads,
    causal=1,
    do_rotary=0,
    k_norm_epsilon=None,
    k_quant_type="NONE",
    kv_cache_bit_width=0,
    local_window_size=-1,
    q_norm_epsilon=None,
    qk_norm_epsilon=9.999999974752427e-07,
    qk_output=0,
    rotary_interleaved=0,
    scale=None,
    sliding_window_cache=0,
    smooth_softmax=-1,
    softcap=0.0,
    v_quant_type="NONE",
):
    """Attention in which several heads of ``query`` share one of ``key`` and ``value``, over a cache of earlier ones.

    Sequence ``b`` has ``seqlens_k[b] + 1`` keys, the new ones included; the first call begins at position 0 (or the first
    one in ``position_ids``), a later one where its cache ends. Queries and keys are normalized (with weights for that),
    turned by their position (``do_rotary``), and multiplied; scores become ``softcap * tanh(score / softcap)``, get
    ``attention_bias``, and are minus infinity for keys that come later (``causal``), lie ``local_window_size`` or more
    before, or are not there. The softmax has ``exp(head_sink)``, or 1 with ``smooth_softmax``, as one more term below the
    line.

    Returns:
        The result, the cache of keys and that of values as long as the longer of the given cache and
        ``total_sequence_length``, with zeros where nothing is; and the scores, before (``qk_output`` 1, zeros where a key is
        not seen) or after (2) the softmax. Results for the padding of ``query`` mean nothing.

    Raises:
        Unsupported: The cache is quantized, or a window of the last positions only.

    Source:
        ONNX Runtime GroupQueryAttention; Ainslie et al., 2023; Xiao et al., 2024 for sinks.
    """
    for name, kind in (("k_quant_type", k_quant_type), ("v_quant_type", v_quant_type)):
        check_choice("GroupQueryAttention", name, kind, ("NONE",))
    check_choice("GroupQueryAttention", "sliding_window_cache", sliding_window_cache, (0,))
    q, k, v = _split(query, key, value, num_heads, kv_num_heads)
    starts, counts = _placed(q.shape[2], seqlens_k, total_sequence_length, query_seqlens)
    positions = starts[:, np.newaxis] + np.arange(q.shape[2])
    if q_norm_weight is not None:
        q = RMSNormalization(q, q_norm_weight, epsilon=q_norm_epsilon or qk_norm_epsilon)
        k = RMSNormalization(k, k_norm_weight, epsilon=k_norm_epsilon or qk_norm_epsilon)
    if do_rotary:
        at = positions if position_ids is None else _given_positions(position_ids, starts, q.shape[2])
        q, k = (_turned(x, cos_cache, sin_cache, at, rotary_interleaved) for x in (q, k))
    total = int(total_sequence_length.reshape(()))
    present_key = _cached(past_key, k, starts, counts, total)
    present_value = _cached(past_value, v, starts, counts, total)

    shared = num_heads // kv_num_heads
    keys, values = (np.repeat(x[:, :, :total], shared, axis=1) for x in (present_key, present_value))
    scores = scores_of(q, keys, scale)
    scores = softcap * np.tanh(scores / softcap) if softcap else scores
    scores = scores if attention_bias is None else scores + attention_bias
    allowed = _allowed(positions, starts + counts, total, causal, local_window_size)
    visible_scores = np.where(allowed, scores, 0)
    sink = np.zeros_like(scores, shape=num_heads) if head_sink is None and smooth_softmax > 0 else head_sink
    weights = _softmax(np.where(allowed, scores, -np.inf), sink)
    y = joined(np.matmul(weights, values))
    return y, present_key, present_value, weights if qk_output == 2 else visible_scores


def _split(query, key, value, count, shared):
    """Queries, keys and values, each split into heads; all three may be packed in the first."""
    if key is None:
        size = query.shape[2] // (count + 2 * shared)
        query, key, value = np.split(query, [count * size, (count + shared) * size], axis=2)
    return heads(query, count), heads(key, shared), heads(value, shared)


def _placed(length, seqlens_k, total, query_seqlens):
    """For each sequence the position of its first query, and how many of its queries are no padding."""
    ends = seqlens_k.reshape(-1).astype(np.int64) + 1
    if query_seqlens is not None:
        return ends - query_seqlens, query_seqlens.astype(np.int64)
    if int(total.reshape(())) == length:
        return np.zeros_like(ends), ends
    return ends - length, np.full_like(ends, length)


def _turned(x, cos, sin, positions, interleaved):
    positions = np.clip(positions, 0, len(cos) - 1)  # those of the padding may be anywhere
    return RotaryEmbedding(x, cos, sin, positions, interleaved=interleaved, rotary_embedding_dim=2 * cos.shape[1])


def _given_positions(position_ids, starts, length):
    """Positions that are given: each by itself, except that sequences that begin take the first one and count on."""
    if np.any(starts):
        return position_ids
    return np.broadcast_to(position_ids.reshape(-1)[:1] + np.arange(length), (len(starts), length))


def _cached(past, new, starts, counts, total):
    """The cache with the new keys or values where they belong."""
    batch, count, _, size = new.shape
    room = 0 if past is None else past.shape[2]
    cache = np.zeros_like(new, shape=(batch, count, max(room, total), size))
    for number, (start, valid) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        if start:
            cache[number, :, :start] = past[number, :, :start]
        cache[number, :, start : start + valid] = new[number, :, :valid]
    return cache


def _allowed(positions, ends, total, causal, window):
    """Which keys each query sees, ``(batch, 1, queries, keys)``."""
    key, position = np.arange(total), positions[:, np.newaxis, :, np.newaxis]
    allowed = key < ends[:, np.newaxis, np.newaxis, np.newaxis]
    if causal:
        allowed = allowed & (key <= position)
    if window >= 0:
        allowed = allowed & (key > position - window)
    return allowed


def _softmax(scores, sink):
    """The softmax of each row, with the sink of its head as one more score; zeros for a row of nothing."""
    largest = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        sink = sink.reshape(1, -1, 1, 1)
        largest = np.maximum(largest, sink)
    largest = np.where(np.isneginf(largest), 0, largest)
    e = np.exp(scores - largest)
    total = np.sum(e, axis=-1, keepdims=True)
    total = total if sink is None else total + np.exp(sink - largest)
    return e / np.where(total == 0, 1, total)

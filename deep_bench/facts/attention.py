"""Attention in its forms, and the rotary embedding of positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from deep_bench.facts.row import OperatorFacts, Shape, Unknown, Work
from deep_bench.facts.rules import ShapedCase, at, below, lengths, named, powers, products, shape_at


def _heads(x: Shape, count: int | None) -> Shape:
    """``(batch, length, heads * size)`` as ``(batch, heads, length, size)``."""
    if len(x) == 4:
        return x
    assert count is not None
    return x[0], count, x[1], x[2] // count


def Attention(
    q: Shape,
    k: Shape,
    v: Shape,
    attn_mask: Shape | None = None,
    past_key: Shape | None = None,
    past_value: Shape | None = None,
    nonpad_kv_seqlen: Shape | None = None,
    *,
    values: Sequence[np.ndarray | None] = (),
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
) -> Work:
    """``softmax(scale * Q K^T + bias) V``: for each pair of a query and a key ``2 d + 2 d_v``, and the softmax between them.

    That is: the scores and the result; the scale; a mask's addition; a division, a ``tanh`` and a product for ``softcap``; a
    maximum, a difference, an exponential, a sum and a division. Pairs that causality, a window or the lengths rule out
    are not counted: no kernel needs them. Those that only the contents of a mask rule out are.

    Source:
        ONNX Attention, opset 25; Vaswani et al., 2017, section 3.2; Dao, FlashAttention-2, 2023, section 4.1, halves the
        count of causal attention likewise.
    """
    queries, keys = _heads(q, q_num_heads), _heads(k, kv_num_heads)
    value_size = _heads(v, kv_num_heads)[3]
    past = 0 if past_key is None else past_key[2]
    lengths = None
    if nonpad_kv_seqlen is not None:
        lengths = values[6]
        if lengths is None:
            raise Unknown
    windows = (left_window_size, 0 if is_causal else right_window_size)
    pairs = queries[1] * _pairs(queries[0], queries[2], keys[2] + past, past, lengths, *windows)
    products = 2 * queries[3] + 2 * value_size
    added = (scale != 1) + (attn_mask is not None) + 2 * (softcap != 0)
    return Work(flops=products + added + 3, special=1 + (softcap != 0), comparisons=1) * pairs


def _pairs(batch: int, queries: int, keys: int, past: int, lengths: np.ndarray | None, left_window: int, right: int) -> int:
    """How many keys all queries of a batch attend to."""
    ends = np.full((batch, 1), keys) if lengths is None else np.minimum(np.reshape(lengths, (-1, 1)), keys)
    offset = past if lengths is None or past else np.reshape(lengths, (-1, 1)) - queries
    position = np.arange(queries) + offset
    first = np.maximum(position - left_window, 0) if left_window >= 0 else np.zeros_like(position)
    last = np.minimum(position + right + 1, ends) if right >= 0 else ends
    return int(np.sum(np.maximum(last - first + np.zeros((batch, queries), np.int64), 0)))


def RotaryEmbedding(
    x: Shape,
    cos_cache: Shape,
    sin_cache: Shape,
    position_ids: Shape | None = None,
    *,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> Work:
    """``(x1 cos - x2 sin, x1 sin + x2 cos)``: 6 for each pair of features that is turned.

    Source:
        ONNX RotaryEmbedding, opset 23; Su et al., 2021, section 3.4.2.
    """
    if not rotary_embedding_dim:
        return Work(flops=3 * prod(x))
    return Work(flops=3 * prod(_heads(x, num_heads)[:3]) * rotary_embedding_dim)


def LinearAttention(
    query: Shape,
    key: Shape,
    value: Shape,
    past_state: Shape | None = None,
    decay: Shape | None = None,
    beta: Shape | None = None,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    update_rule: str = "gated_delta",
) -> Work:
    """A recurrence on a state of ``d`` by ``d_v`` for each head: ``2 d d_v`` to read it, and ``2 d d_v`` to add to it.

    The rules with "gated" take the decay's exponential and a product with the state; those with "delta" ``2 d d_v`` for what
    the state holds, and its difference from the value times ``beta``.

    Source:
        ONNX LinearAttention, opset 27; Yang et al., Gated Delta Networks, 2025, section 3.
    """
    q, k, v = _heads(query, q_num_heads), _heads(key, kv_num_heads), _heads(value, kv_num_heads)
    state, width, steps = k[3] * v[3], v[3], q[0] * q[2]
    work = Work(flops=2 * state + width) * (steps * q_num_heads) + Work(flops=2 * state) * (steps * kv_num_heads)
    if update_rule.startswith("gated"):
        assert decay is not None
        work += Work(special=prod(decay)) + Work(flops=state) * (steps * kv_num_heads)
    if update_rule.endswith("delta"):
        work += Work(flops=2 * state + 2 * width) * (steps * kv_num_heads)
    return work


def _per_head(case: ShapedCase) -> str:
    return f"scaled:{max(1, named(case, 'key').shape[-1] // case.attributes.get('kv_num_heads', 1))}"


def _batch(case: ShapedCase) -> dict[str, int] | None:
    """Samples lie in the queries, keys and values, where there is nothing else."""
    query, key, value = (at(case, i) for i in range(3))
    optional_arguments = case.arguments[3:]
    if any(a is not None for a in optional_arguments) or query is None or key is None or value is None:
        return None
    return {a.spec.name: 0 for a in (query, key, value)}


OPERATORS: Mapping[str, OperatorFacts] = {
    "Attention": OperatorFacts(
        cost=Attention,
        float32_body=True,
        draws={"attn_mask": "attention_mask", "nonpad_kv_seqlen": lengths("K", -2)},
        growth=products(lambda case: shape_at(case, 0)[-1]),
        row_axes=_batch,
    ),
    "LinearAttention": OperatorFacts(
        cost=LinearAttention,
        draws={"beta": "between:0:1", "decay": "between:-1:0", "key": _per_head},
        growth=powers(lambda case: 2 * shape_at(case, 0)[1] + 2),
    ),
    "RotaryEmbedding": OperatorFacts(
        cost=RotaryEmbedding,
        draws={"cos_cache": "between:-1:1", "position_ids": below("cos_cache", 0), "sin_cache": "between:-1:1"},
    ),
}
"""The rows, by operator."""

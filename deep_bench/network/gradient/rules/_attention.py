"""The gradient of attention, in few products of large matrices."""

from __future__ import annotations

import math

import numpy as np

from deep_bench.network.gradient.rules._heads import bias_of, head_count, join_heads, regroup, size, split_heads, width
from deep_bench.network.gradient.rules._precision import total, wide


class Scores:
    """The scores of an attention and their softmax, computed again.

    Heads that share their keys are stacked: with ``g`` of them queries are ``[batch, shared heads, g * length, size]``, so
    that the gradients of keys and values, sums over these heads too, are single products.

    Args:
        at: The site of the attention.
        q: Queries, with axes for heads.
        keys: Keys, with the past ones.
        scale: Factor of the scores.
        softcap: Bound of the scores, 0 for none.
        mask: What is added, or ``None``; broadcast to ``[batch, heads, length, keys]``.
        allowed: Where attention is paid, or ``None``; broadcast too.
        may_be_empty: Whether a query may attend to nothing.

    Attributes:
        scaled: The queries times the scale.
        keys: The keys.
        tangent: ``tanh(scores / softcap)``, or ``None``.
        weights: After the softmax.
        alive: Where a query attends to anything, or ``None`` if all do.
    """

    def __init__(self, at, q, keys, scale, softcap, mask, allowed, may_be_empty):
        self.at, self.keys, self.scale, self.softcap = at, keys, scale, softcap
        self.heads, self.shared = q.dims[1], keys.dims[1]
        self.scaled = regroup(q, self.shared) * scale
        scores = self.scaled @ keys.transpose([0, 1, 3, 2])
        self.tangent = at.op.Tanh(scores / softcap) if softcap else None
        scores = self.tangent * softcap if softcap else scores
        bias, self.alive = self._bias(scores, mask, allowed, may_be_empty)
        if bias is not None:
            scores = regroup(regroup(scores, self.heads) + bias, self.shared)
        self.weights = at.op.Softmax(scores, axis=-1)

    def _bias(self, scores, mask, allowed, may_be_empty):
        """Where nothing is attended to the bias is 0 instead of minus infinity, of which a softmax would make NaN."""
        op = self.at.op
        if mask is None and allowed is None:
            return None, None
        bias = mask
        if allowed is not None:
            bias = op.Where(allowed, op.constant(0, scores.dtype) if mask is None else mask, -math.inf)
        if not may_be_empty:
            return bias, None
        alive = op.reduce("ReduceMax", bias, [-1], keepdims=True) > -math.inf
        return op.Where(alive, bias, 0), alive

    def living(self, gradient):
        """A gradient, but 0 for queries that attend to nothing, of which nothing depends on the inputs."""
        return gradient if self.alive is None else self.at.op.Where(self.alive, gradient, 0)

    def back(self, dy, values, delta, stages):
        """The gradients of queries, keys, values and bias.

        Args:
            dy: That of the result ``[batch, heads, length, size]``.
            values: The values, with the past ones.
            delta: The sum of ``dy`` times the result for each query, or ``None``.
            stages: Gradients of the scores: raw, capped, with bias, and after the softmax; ``None`` where there are none.
        """
        raw, capped, biased, after = (None if s is None else regroup(s, self.shared) for s in stages)
        dy = regroup(dy, self.shared)
        dweights = total(dy @ values.transpose([0, 1, 3, 2]), after)
        if delta is None or after is not None:
            delta = (dweights * self.weights).sum([-1], keepdims=True)
        else:
            delta = regroup(delta, self.shared)
        dbiased = total(self.weights * (dweights - delta), biased)
        draw = total(dbiased, capped)
        if self.tangent is not None:
            draw = draw * (1 - self.tangent * self.tangent)
        draw = total(draw, raw)
        dq = regroup(draw @ self.keys, self.heads) * self.scale
        dk = draw.transpose([0, 1, 3, 2]) @ self.scaled
        dv = self.weights.transpose([0, 1, 3, 2]) @ dy
        return dq, dk, dv, regroup(dbiased, self.heads)


def scale_of(at, q, count, scale, dtype):
    """The factor of the scores: ``1 / sqrt(size)`` unless it is stated."""
    if scale is not None:
        return scale
    static_width = width(q, count)
    if static_width is not None:
        return 1 / math.sqrt(static_width) if static_width else 1.0
    features = at.op.Squeeze(at.op.Shape(q, start=q.rank - 1, end=q.rank)).cast(dtype)
    return at.op.Reciprocal(at.op.Sqrt(features if q.rank == 4 else features / count))


def attention(
    at,
    q,
    k,
    v,
    mask=None,
    past_key=None,
    past_value=None,
    lengths=None,
    *,
    is_causal=0,
    kv_num_heads=None,
    left_window_size=-1,
    q_num_heads=None,
    qk_matmul_output_mode=0,
    right_window_size=-1,
    scale=None,
    softcap=0.0,
):
    """See `attention.Attention`."""
    kind = np.dtype(np.float64 if q.dtype == np.float64 else np.float32)
    count = head_count(at, q, q_num_heads, "the queries")
    shared = head_count(at, k, kv_num_heads, "the keys")
    queries, keys, values = (split_heads(x.cast(kind), n) for x, n in ((q, count), (k, shared), (v, shared)))
    if past_key is not None:
        keys = at.op.Concat(past_key.cast(kind), keys, axis=2)
        values = at.op.Concat(past_value.cast(kind), values, axis=2)
    past = None if past_key is None else size(at, past_key, 2)
    added, allowed = bias_of(
        at,
        mask if mask is None or mask.dtype == np.bool_ else mask.cast(kind),
        size(at, queries, 2),
        size(at, keys, 2),
        past,
        lengths,
        is_causal=is_causal,
        left=left_window_size,
        right=right_window_size,
    )
    factor = scale_of(at, q, count, scale, kind)
    may_be_empty = mask is not None or lengths is not None or left_window_size >= 0
    scores = Scores(at, queries, keys, factor, softcap, added, allowed, may_be_empty)
    dy = scores.living(split_heads(at.dy.cast(kind), count))
    stages = _stages(at, scores, qk_matmul_output_mode, kind)
    delta = None if at.y.dtype.itemsize < 4 else (dy * split_heads(at.y.cast(kind), count)).sum([-1], keepdims=True)
    dq, dk, dv, dbias = scores.back(dy, values, delta, stages)
    dk, dpast_key = _parted(at, total(dk, _widened(at.gradient_or_none(1))), k, past_key)
    dv, dpast_value = _parted(at, total(dv, _widened(at.gradient_or_none(2))), v, past_value)
    return join_heads(dq, q).cast(q), dk, dv, _of_mask(at, dbias, mask), dpast_key, dpast_value


def _stages(at, scores, mode, kind):
    """The gradient of the scores that the node returns, at their stage."""
    stages = [None, None, None, None]
    gradient = at.gradient_or_none(3)
    if gradient is not None:
        stages[mode] = scores.living(gradient.cast(kind)) if mode == 3 else gradient.cast(kind)
    return stages


def _widened(x):
    return None if x is None else wide(x)


def _parted(at, gradient, x, past):
    """The gradient of keys or values, and that of the past ones before them."""
    before = None
    if past is not None:
        length = (
            at.op.constant([past.dims[2]], np.int64) if isinstance(past.dims[2], int) else at.op.Shape(past, start=2, end=3)
        )
        before = gradient.slice(2, 0, length).cast(past)
        gradient = gradient.slice(2, length, np.iinfo(np.int64).max)
    return join_heads(gradient, x).cast(x), before


def _of_mask(at, gradient, mask):
    """The gradient of a mask of numbers; it may be shorter than the keys."""
    if mask is None or mask.dtype == np.bool_ or not at.wants(3):
        return None
    if mask.dims[-1] != gradient.dims[-1] or not isinstance(mask.dims[-1], int):
        gradient = gradient.slice(3, 0, size(at, mask, -1).reshape([1]))
    return at.op.sum_to(gradient, mask).cast(mask)

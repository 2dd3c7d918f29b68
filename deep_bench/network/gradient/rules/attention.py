"""Attention and its relatives.

The gradient of attention is in few products of large matrices, on tensors with an axis of heads; that of linear attention
is two recurrences, and products over all times at once.
"""

from __future__ import annotations

import math

import numpy as np

from deep_bench.network.gradient.rules._arithmetic import total, wide
from deep_bench.network.gradient.rules._subgraphs import Scanned, scan

__all__ = ["Attention", "LinearAttention", "RotaryEmbedding"]


def Attention(at, *inputs, softmax_precision=None, **attributes):
    """``dV = P' dY``, ``dS = P (dP - sum of (dP P))`` with ``dP = dY V'``, ``dQ = scale dS K``, ``dK = scale dS' Q``.

    ``P`` are the weights, computed again, and the sum is that of ``dY Y``. With ``softcap`` a factor ``1 - tanh^2`` follows
    ``dS``. A query that attends to nothing has no gradient.

    Source:
        Dao et al., FlashAttention, 2022, appendix B.2.
    """
    return attention(at, *inputs, **attributes)


def RotaryEmbedding(
    at, x, cos_cache, sin_cache, position_ids=None, *, interleaved=0, num_heads=None, rotary_embedding_dim=0
):
    """Turned back: ``dx`` is ``dy`` with the sines negated; ``dcos = dy1 x1 + dy2 x2``, ``dsin = dy2 x1 - dy1 x2``."""
    turned = at.op.RotaryEmbedding(
        at.dy,
        cos_cache,
        -sin_cache,
        position_ids,
        interleaved=interleaved,
        num_heads=num_heads,
        rotary_embedding_dim=rotary_embedding_dim,
    )
    if not (at.wants(1) or at.wants(2)):
        return turned, None, None
    count = head_count(at, x, num_heads, "the input")
    half = _half(at, cos_cache, rotary_embedding_dim)
    x1, x2 = _pair(split_heads(wide(x), count), half, interleaved)
    dy1, dy2 = _pair(split_heads(wide(at.dy), count), half, interleaved)
    dcos, dsin = (dy1 * x1 + dy2 * x2).sum([1]), (dy2 * x1 - dy1 * x2).sum([1])
    return turned, _to_cache(at, dcos, cos_cache, position_ids), _to_cache(at, dsin, sin_cache, position_ids)


def _half(at, cache, features):
    half = features // 2 or cache.dims[-1]
    if not isinstance(half, int):
        raise at.refusal("the number of features that are turned is known only in a run")
    return half


def _pair(heads, half, interleaved):
    if interleaved:
        return heads.slice(3, 0, 2 * half, 2), heads.slice(3, 1, 2 * half, 2)
    return heads.slice(3, 0, half), heads.slice(3, half, 2 * half)


def _to_cache(at, gradient, cache, position_ids):
    """The sum over all places that took a line of the cache."""
    if position_ids is None:
        return at.op.sum_to(gradient, cache).cast(cache)
    zeros = at.op.constant(0, gradient.dtype).expand(cache.shape)
    return at.op.ScatterND(zeros, position_ids.unsqueeze(-1), gradient, reduction="add").cast(cache)


def LinearAttention(
    at,
    query,
    key,
    value,
    past_state=None,
    decay=None,
    beta=None,
    *,
    q_num_heads,
    kv_num_heads,
    scale=0.0,
    update_rule="gated_delta",
    **attributes,
):
    """The gradient ``G`` of the state runs back: ``G = exp(g) (G - beta k k' G)`` plus ``scale q dy`` at each time.

    With it, the states (computed again), ``S = exp(g) S_before`` and what is written, ``d = beta (v - k S)``:
    ``dv = beta k G``, ``dk = d G' - dv S'``, ``dq = scale dy S_after'``, ``dbeta = k G (v - k S)'`` and
    ``dg = sum of S (G - k' dv)``, for all times at once.

    Source:
        Yang et al., Parallelizing Linear Transformers with the Delta Rule, 2024, appendix.
    """
    return linear_attention(
        at,
        query,
        key,
        value,
        past_state,
        decay,
        beta,
        q_num_heads=q_num_heads,
        kv_num_heads=kv_num_heads,
        scale=scale,
        update_rule=update_rule,
    )


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


def size(at, x, axis):
    """The length of an axis as a scalar of int64: a constant where it is known."""
    length = x.dims[axis]
    if isinstance(length, int):
        return at.op.constant(length, np.int64)
    return at.op.Squeeze(at.op.Shape(x, start=axis % x.rank, end=axis % x.rank + 1))


def width(x, count):
    """The number of features of each head; ``None`` if only a run tells."""
    last = x.dims[-1]
    if not isinstance(last, int):
        return None
    return last if x.rank == 4 else last // count


def head_count(at, x, stated, name):
    """How many heads a tensor has."""
    count = stated if x.rank == 3 else x.dims[1]
    if not isinstance(count, int):
        raise at.refusal(f"the number of heads of {name} is known only in a run")
    return count


def split_heads(x, count):
    """``[batch, length, heads * size]`` as ``[batch, heads, length, size]``; a tensor with four axes is so already."""
    if x.rank == 4:
        return x
    static = x.static_shape
    shape = [0, 0, count, -1] if static is None else [*static[:2], count, static[2] // count]
    return x.reshape(shape).transpose([0, 2, 1, 3])


def join_heads(x, like):
    """The reverse of `split_heads`, in the shape of ``like``."""
    return x if like.rank == 4 else x.transpose([0, 2, 1, 3]).reshape(like.shape)


def regroup(x, count):
    """``[batch, heads, length, size]`` as ``[batch, count, heads * length / count, size]``, a matrix for each key head."""
    if x.dims[1] == count:
        return x
    static = x.static_shape
    return x.reshape([0, count, -1, 0] if static is None else [static[0], count, static[1] * static[2] // count, static[3]])


def bias_of(at, mask, queries, keys, past, lengths, *, is_causal, left, right):
    """What is added to the scores, and where attention is paid at all; ``None`` for nothing, and for everywhere.

    Args:
        at: The site.
        mask: The mask in the type of the scores, or of booleans; or ``None``.
        queries: How many positions ask, a scalar.
        keys: How many are asked.
        past: How many of these are from before.
        lengths: For each sequence how many keys count, or ``None``.
        is_causal: Whether later positions are left out.
        left: How far back attention reaches; -1 for all the way.
        right: How far ahead.
    """
    place = at.op.Range(0, queries, at.op.constant(1, np.int64)).unsqueeze(1)
    key = at.op.Range(0, keys, at.op.constant(1, np.int64))
    if lengths is not None:
        lengths = lengths.cast(np.int64).reshape([-1, 1, 1, 1])
    place = place + (past if past is not None else lengths - queries if lengths is not None else 0)
    allowed = [key <= place] if is_causal else []
    if left >= 0:
        allowed.append(key >= place - left)
    if right >= 0:
        allowed.append(key <= place + right)
    if lengths is not None:
        allowed.append(key < lengths)
    if mask is not None:
        boolean = mask.dtype == np.bool_
        mask = padded(at, mask, keys)
        allowed, mask = ([*allowed, mask], None) if boolean else (allowed, mask)
    together = None
    for part in allowed:
        together = part if together is None else together & part
    return mask, together


def padded(at, mask, keys):
    """A mask whose last axis is shorter than the keys: those it says nothing of are left out."""
    if keys.known is not None and mask.dims[-1] == int(keys.known):
        return mask
    missing = (keys - size(at, mask, -1)).reshape([1])
    before = at.op.constant([0] * (2 * mask.rank - 1), np.int64)
    value = at.op.constant(False if mask.dtype == np.bool_ else -math.inf, mask.dtype)
    return at.op.Pad(mask, at.op.Concat(before, missing, axis=0), value)


def linear_attention(at, query, key, value, past, decay, beta, *, q_num_heads, kv_num_heads, scale, update_rule):
    """See `attention.LinearAttention`. All tensors are ``[time, batch, heads, rows, columns]`` here."""
    shared = q_num_heads // kv_num_heads
    q = _by_time(wide(query), kv_num_heads, shared, _each(query, q_num_heads))
    k = _by_time(wide(key), kv_num_heads, 1, _each(key, kv_num_heads))
    v = _by_time(wide(value), kv_num_heads, 1, _each(value, kv_num_heads))
    dy = _by_time(wide(at.dy), kv_num_heads, shared, _each(value, kv_num_heads))
    gated, delta = update_rule.startswith("gated"), update_rule.endswith("delta")
    retention = at.op.Exp(_by_time(wide(decay), kv_num_heads, -1, 1)) if gated else None
    share = _by_time(wide(beta), beta.dims[2] if isinstance(beta.dims[2], int) else -1, 1, 1) if delta else None
    factor = scale or scale_of(at, query.slice(2, 0, _each(query, q_num_heads)).unsqueeze(0), 1, None, q.dtype)
    first = _first_state(at, past, k, v)
    states = _states(at, first, k, v, retention, share)
    # The scores' factor belongs to the gradient of the result: dq and dS have it both.
    dy = dy * factor
    last = at.gradient_or_none(1)
    pulls, dfirst = _pulls(at, _swapped(q) @ dy, zeros_or(at, last, first), k, retention, share)
    before = at.op.concat([first.unsqueeze(0), states.slice(0, 0, -1)])
    dk, dv, dbeta, ddecay = _parts(before, pulls, k, v, retention, share)
    dq = dy @ _swapped(states)
    return (
        _back(dq, query),
        _back(dk, key),
        _back(dv, value),
        None if past is None else dfirst.cast(past),
        None if ddecay is None else _back(at.op.sum_to(ddecay, retention), decay),
        None if dbeta is None else _back(at.op.sum_to(dbeta, share), beta),
    )


def zeros_or(at, gradient, like):
    """A gradient in the type of the states; zeros where there is none."""
    return at.op.zeros_like(like) if gradient is None else wide(gradient).cast(like)


def _each(x, heads):
    width = x.dims[-1]
    return width // heads if isinstance(width, int) else -1


def _by_time(x, heads, rows, columns):
    """``[batch, time, heads * rows * columns]`` with time first; one of the three may be -1."""
    static = x.static_shape
    sizes = [heads, rows, columns]
    if static is not None and -1 in sizes:
        static_product = math.prod(s for s in sizes if s != -1)
        sizes = [static[2] // static_product if s == -1 else s for s in sizes]
    ahead = [0, 0 if -1 in sizes else -1] if static is None else list(static[:2])
    return x.reshape([*ahead, *sizes]).transpose([1, 0, 2, 3, 4])


def _back(gradient, like):
    return gradient.transpose([1, 0, 2, 3, 4]).reshape(like.shape).cast(like)


def _swapped(x):
    return x.transpose([*range(x.rank - 2), x.rank - 1, x.rank - 2])


def _first_state(at, past, k, v):
    """The past state, or zeros ``[batch, heads, size of a key, size of a value]``."""
    if past is not None:
        return wide(past).cast(k)
    sizes = [size(at, k, 1), size(at, k, 2), size(at, k, 4), size(at, v, 4)]
    static_sizes = [None if s.known is None else int(s.known) for s in sizes]
    shape = static_sizes if None not in static_sizes else at.op.Concat(*(s.reshape([1]) for s in sizes), axis=0)
    return at.op.constant(0, k.dtype).expand(shape)


def _states(at, first, k, v, retention, share):
    """The state after each time."""

    def write(tape, state, k, v, *optional_values):
        retention, share = _optional(optional_values, kept_given, share_given)
        state = state if retention is None else retention * state
        added = v if share is None else share * (v - k @ state)
        state = state + _swapped(k) @ added
        return state, state

    kept_given, share_given = retention is not None, share is not None
    scanned = [Scanned(x) for x in (k, v, retention, share) if x is not None]
    _, (states,) = scan(at.op, write, [first], scanned, [(0, False)], [at.op.knowledge.type_of(first.value)])
    return states


def _optional(values, *flags):
    remaining = iter(values)
    return [next(remaining) if flag else None for flag in flags]


def _pulls(at, pushed, last, k, retention, share):
    """The gradient of the state after each time, and that of the first state."""

    def write(tape, gradient, pushed, k, *optional_values):
        retention, share = _optional(optional_values, kept_given, share_given)
        total = gradient + pushed
        before = total if share is None else total - _swapped(k) @ (share * (k @ total))
        return (before if retention is None else retention * before), total

    kept_given, share_given = retention is not None, share is not None
    scanned = [Scanned(x, backwards=True) for x in (pushed, k, retention, share) if x is not None]
    (dfirst,), (pulls,) = scan(at.op, write, [last], scanned, [(0, True)], [at.op.knowledge.type_of(last.value)])
    return pulls, dfirst


def _parts(before, pulls, k, v, retention, share):
    """The gradients of keys, values, shares and the logarithms of decay, from the states and their gradients."""
    decayed = before if retention is None else retention * before
    pulled = k @ pulls
    if share is None:
        dk, dv, dbeta, ddecayed = v @ _swapped(pulls), pulled, None, pulls
    else:
        missing = v - k @ decayed
        dv = share * pulled
        dk = (share * missing) @ _swapped(pulls) - dv @ _swapped(decayed)
        dbeta = (pulled * missing).sum([4], keepdims=True)
        ddecayed = pulls - _swapped(k) @ dv
    ddecay = None if retention is None else (ddecayed * decayed).sum([4], keepdims=True)
    return dk, dv, dbeta, ddecay

"""Attention and its relatives."""

from __future__ import annotations

from deep_bench.network.gradient.rules._attention import attention
from deep_bench.network.gradient.rules._heads import head_count, split_heads
from deep_bench.network.gradient.rules._linear_attention import linear_attention
from deep_bench.network.gradient.rules._precision import wide

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

"""The gradient of linear attention: two recurrences, and products over all times at once."""

from __future__ import annotations

import math

from deep_bench.network.gradient.rules._attention import scale_of
from deep_bench.network.gradient.rules._heads import size
from deep_bench.network.gradient.rules._precision import wide
from deep_bench.network.gradient.rules._subgraphs import Scanned, scan


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

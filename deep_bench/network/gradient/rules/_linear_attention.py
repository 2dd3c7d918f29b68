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
    kept = at.op.Exp(_by_time(wide(decay), kv_num_heads, -1, 1)) if gated else None
    share = _by_time(wide(beta), beta.dims[2] if isinstance(beta.dims[2], int) else -1, 1, 1) if delta else None
    factor = scale or scale_of(at, query.slice(2, 0, _each(query, q_num_heads)).unsqueeze(0), 1, None, q.dtype)
    first = _first_state(at, past, k, v)
    states = _states(at, first, k, v, kept, share)
    # The scores' factor belongs to the gradient of the result: dq and dS have it both.
    dy = dy * factor
    last = at.gradient_or_none(1)
    pulls, dfirst = _pulls(at, _swapped(q) @ dy, zeros_or(at, last, first), k, kept, share)
    before = at.op.concat([first.unsqueeze(0), states.slice(0, 0, -1)])
    dk, dv, dbeta, ddecay = _parts(before, pulls, k, v, kept, share)
    dq = dy @ _swapped(states)
    return (
        _back(dq, query),
        _back(dk, key),
        _back(dv, value),
        None if past is None else dfirst.cast(past),
        None if ddecay is None else _back(at.op.sum_to(ddecay, kept), decay),
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
        known = math.prod(s for s in sizes if s != -1)
        sizes = [static[2] // known if s == -1 else s for s in sizes]
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
    known = [None if s.known is None else int(s.known) for s in sizes]
    shape = known if None not in known else at.op.Concat(*(s.reshape([1]) for s in sizes), axis=0)
    return at.op.constant(0, k.dtype).expand(shape)


def _states(at, first, k, v, kept, share):
    """The state after each time."""

    def write(tape, state, k, v, *others):
        kept, share = _optional(others, kept_given, share_given)
        state = state if kept is None else kept * state
        added = v if share is None else share * (v - k @ state)
        state = state + _swapped(k) @ added
        return state, state

    kept_given, share_given = kept is not None, share is not None
    scanned = [Scanned(x) for x in (k, v, kept, share) if x is not None]
    _, (states,) = scan(at.op, write, [first], scanned, [(0, False)], [at.op.knowledge.type_of(first.value)])
    return states


def _optional(others, *given):
    rest = iter(others)
    return [next(rest) if there else None for there in given]


def _pulls(at, pushed, last, k, kept, share):
    """The gradient of the state after each time, and that of the first state."""

    def write(tape, gradient, pushed, k, *others):
        kept, share = _optional(others, kept_given, share_given)
        here = gradient + pushed
        before = here if share is None else here - _swapped(k) @ (share * (k @ here))
        return (before if kept is None else kept * before), here

    kept_given, share_given = kept is not None, share is not None
    scanned = [Scanned(x, backwards=True) for x in (pushed, k, kept, share) if x is not None]
    (dfirst,), (pulls,) = scan(at.op, write, [last], scanned, [(0, True)], [at.op.knowledge.type_of(last.value)])
    return pulls, dfirst


def _parts(before, pulls, k, v, kept, share):
    """The gradients of keys, values, shares and the logarithms of decay, from the states and their gradients."""
    decayed = before if kept is None else kept * before
    pulled = k @ pulls
    if share is None:
        dk, dv, dbeta, ddecayed = v @ _swapped(pulls), pulled, None, pulls
    else:
        missing = v - k @ decayed
        dv = share * pulled
        dk = (share * missing) @ _swapped(pulls) - dv @ _swapped(decayed)
        dbeta = (pulled * missing).sum([4], keepdims=True)
        ddecayed = pulls - _swapped(k) @ dv
    ddecay = None if kept is None else (ddecayed * decayed).sum([4], keepdims=True)
    return dk, dv, dbeta, ddecay

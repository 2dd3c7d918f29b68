"""The gradients of one direction of a gated layer: see `_recurrent_cells`."""

from __future__ import annotations

from deep_bench.network.gradient.rules._recurrent_cells import Direction, Found, _added, _found, _of_products, _sum
from deep_bench.network.gradient.rules._recurrent_sweep import sweep
from deep_bench.network.gradient.rules._subgraphs import inside
from deep_bench.network.gradient.symbol import Symbol


def _split(x: Symbol, count: int, axis: int = -1) -> list[Symbol]:
    return list(x.tape.Split(x, outputs=count, axis=axis, num_outputs=count))


def gru(run: Direction, *, linear_before_reset: bool) -> Found:
    """``Dz = G (h - c) f'``, ``Dc = G (1 - z) g'``; that of the reset gate goes through the state's product.

    ``G`` of the step before is ``G z``, and what goes through the products.
    """
    h, (f, g) = run.h, run.functions
    wb, rb = run.b or (None, None)
    xz, xr, xc = _split(run.project(run.x, run.w, *([] if wb is None else [wb])), 3)
    rz, rr, rc = _split(run.r, 3, 0)
    bz, br, bc = [None] * 3 if rb is None else _split(rb, 3)
    az, ar = (_added(x + run.project(h, r), b) for x, r, b in ((xz, rz, bz), (xr, rr, br)))
    z, reset = f(az), f(ar)
    product = _added(run.project(h if linear_before_reset else reset * h, rc), bc)
    ac = xc + (reset * product if linear_before_reset else product)
    c = g(ac)
    to_z, to_c = (h - c) * f.slope(az), (1 - z) * g.slope(ac)
    to_reset = f.slope(ar) * (product if linear_before_reset else h)
    z = run.kept(z, 1)
    if linear_before_reset:
        return _linear_first(run, h, z, (to_z, to_c * to_reset, to_c), reset)
    return _reset_first(run, h, z, (to_z, to_reset, to_c), reset)


def _linear_first(run, h, z, factors, reset):
    """All of ``D`` is ``G`` times what is known before: the state's product takes one matrix product."""
    op = run.op
    by_input = run.kept(op.Concat(*factors, axis=-1), 0)
    by_state = run.kept(op.Concat(*factors[:2], factors[2] * reset, axis=-1), 0)

    def step(op, states, elements):
        factor, z, dy = elements
        g = _added(states[0], dy)
        d = op.Concat(g, g, g, axis=-1) * factor
        return [g * z + d @ inside(op, run.r)], [g]

    first, (g,) = sweep(op, step, run.last, [by_state, z, run.dy], backwards=not run.backwards)
    repeated = op.Concat(g, g, g, axis=-1)
    recurrent = repeated * by_state
    return _found(run, repeated * by_input, recurrent, _of_products(op, recurrent, h), first)


def _reset_first(run, h, z, factors, reset):
    """``Dr = (Dc Rh) h f'``."""
    op = run.op
    to_z, to_reset, to_c = (run.kept(x, 0) for x in factors)
    rz, rr, rc = _split(run.r, 3, 0)
    gates = op.Concat(rz, rr, axis=0)

    def step(op, states, elements):
        to_z, to_reset, to_c, z, reset, dy = elements
        g = _added(states[0], dy)
        dc = g * to_c
        through = dc @ inside(op, rc)
        two = op.Concat(g * to_z, through * to_reset, axis=-1)
        return [g * z + through * reset + two @ inside(op, gates)], [two, dc]

    sequences = [to_z, to_reset, to_c, z, reset, run.dy]
    first, (two, dc) = sweep(op, step, run.last, sequences, backwards=not run.backwards, n_outputs=2)
    d = op.Concat(two, dc, axis=-1)
    dr = op.Concat(_of_products(op, two, h), _of_products(op, dc, reset * h), axis=0)
    return _found(run, d, d, dr, first)


def lstm(run: Direction, *, input_forget: bool) -> Found:
    """``Do = G s(c) f'``; ``C``, the gradient of the cell's state, grows by ``G o s'(c) + Do Po``; and all other ``D`` are
    ``C`` times a factor that is known before.

    ``C`` of the step before is ``C u + Di Pi + Du Pu``, and ``G`` is ``D R``.
    """
    op, h, (f, g, squash) = run.op, run.h, run.functions
    pi, po, pu = (None,) * 3 if run.p is None else _split(run.p, 3)
    ai, ao, au, ac = _split(run.project(run.x, run.w, *(run.b or ())) + run.project(h, run.r), 4)
    candidate = g(ac)
    c = _cell_states(run, ai, au, candidate, (pi, pu), input_forget)
    earlier = run.before(c, run.first[1])
    ai, au, ao = (_peeped(a, p, s) for a, p, s in ((ai, pi, earlier), (au, pu, earlier), (ao, po, c)))
    i, o, squashed = f(ai), f(ao), squash(c)
    u = 1 - i if input_forget else f(au)
    to_i = (candidate - earlier if input_forget else candidate) * f.slope(ai)
    to_u = op.zeros_like(earlier) if input_forget else earlier * f.slope(au)
    to_o, to_c = squashed * f.slope(ao), i * g.slope(ac)
    grows = _peeped(o * squash.slope(c), po, to_o)
    remains = _peeped(_peeped(u, pi, to_i), pu, to_u)
    factor, grows, remains = (
        run.kept(x, beyond) for x, beyond in ((op.Concat(to_i, to_o, to_u, to_c, axis=-1), 0), (grows, 0), (remains, 1))
    )

    def step(op, states, elements):
        factor, grows, remains, dy, passed = elements
        h = _added(states[0], dy)
        c = states[1] + h * grows
        d = op.Concat(c, h, c, c, axis=-1) * factor
        before = d @ inside(op, run.r)
        return [before if passed is None else before + h * passed, c * remains], [d]

    sequences = [factor, grows, remains, run.dy, run.passed]
    first, (d,) = sweep(op, step, run.last, sequences, backwards=not run.backwards)
    gradients = _found(run, d, d, _of_products(op, d, h), first)
    di, do, du, _ = _split(d, 4)
    gradients.p = op.Concat(_sum(di * earlier), _sum(do * c), _sum(du * earlier), axis=0)
    return gradients


def _peeped(a: Symbol, weights: Symbol | None, state: Symbol) -> Symbol:
    return a if weights is None else a + weights * state


def _cell_states(run, ai, au, candidate, peepholes, input_forget):
    """The states of the cell after each step: what the operator returns only for the last one."""
    f = run.functions[0]
    if peepholes[0] is None:
        i = f(ai)
        remains, new = run.kept(1 - i if input_forget else f(au), 1), run.kept(i * candidate, 0)

        def step(op, states, elements):
            c = states[0] * elements[0] + elements[1]
            return [c], [c]

        return sweep(run.op, step, run.first[1:], [remains, new], backwards=run.backwards)[1][0]

    def peeping(op, states, elements):
        ai, au, candidate, beyond = elements
        (c,), (pi, pu) = states, (inside(op, p) for p in peepholes)
        i = f(_peeped(ai, pi, c))
        u = 1 - i if input_forget else f(_peeped(au, pu, c))
        new = c * u + i * candidate
        new = new if beyond is None else op.Where(beyond > 0, c, new)
        return [new], [new]

    return sweep(run.op, peeping, run.first[1:], [ai, au, candidate, run.passed], backwards=run.backwards)[1][0]

"""One step of an optimizer, differentiated through its formula: domain ``ai.onnx.preview.training``."""

from __future__ import annotations

from deep_bench.network.gradient.rules._arithmetic import wide

__all__ = ["Adagrad", "Adam", "Momentum"]


def _through(at, r, inputs, kinds, update):
    """The gradients of all inputs by those of ``update``, which is given the rate and one tensor of each kind.

    The outputs are ordered by kind first, as the inputs are.
    """
    count = len(inputs) // kinds

    def step(rate, *tensors):
        rate = wide(rate).reshape([])
        results = [update(rate, *(wide(x) for x in tensors[i::count])) for i in range(count)]
        return [y.cast(inputs[0]) for kind in zip(*results, strict=True) for y in kind]

    dr, *gradients = at.through(step, r, *inputs)
    return [dr, None, *gradients]


def _root(at, h):
    """The square root; where it is 0 its slope counts as 0, since what it divides is 0 there too."""
    zero = h.equals(0)
    return at.op.Where(zero, 0, at.op.Sqrt(at.op.Where(zero, 1, h)))


def _steps(at, r, t):
    return t.reshape([]).cast(wide(r))


def Adagrad(at, r, t, *inputs, decay_factor=0.0, epsilon=9.999999974752427e-07, norm_coefficient=0.0):
    """``x - r / (1 + t * decay) * g / (sqrt(h) + epsilon)``, where ``h`` gathers the squares of all gradients ``g``."""
    slowed = 1 + _steps(at, r, t) * decay_factor

    def update(rate, x, g, h):
        g = x * norm_coefficient + g
        h = h + g * g
        return x - (rate / slowed).cast(x) * g / (_root(at, h) + epsilon), h

    return _through(at, r, inputs, 3, update)


def Adam(
    at,
    r,
    t,
    *inputs,
    alpha=0.8999999761581421,
    beta=0.9990000128746033,
    epsilon=9.999999974752427e-07,
    norm_coefficient=0.0,
    norm_coefficient_post=0.0,
):
    """``x - r' v / (sqrt(h) + epsilon)`` with running means ``v`` of the gradient and ``h`` of its square."""
    steps = _steps(at, r, t)
    first, second = (1 - at.op.constant(base, steps.dtype) ** steps for base in (alpha, beta))
    started = steps > 0
    correction = at.op.Where(started, at.op.Sqrt(second) / at.op.Where(started, first, 1), 1)

    def update(rate, x, g, v, h):
        g = x * norm_coefficient + g
        v = v * alpha + g * (1 - alpha)
        h = h * beta + g * g * (1 - beta)
        x = x - (rate * correction).cast(x) * v / (_root(at, h) + epsilon)
        return x * (1 - norm_coefficient_post), v, h

    return _through(at, r, inputs, 4, update)


def Momentum(at, r, t, *inputs, alpha, beta, mode, norm_coefficient):
    """``x - r v`` with ``v = alpha v + beta g``, where ``beta`` is 1 at ``t = 0``; ``nesterov``: ``x - r (g + alpha v)``."""
    steps = _steps(at, r, t)
    share = at.op.Where(steps > 0, at.op.constant(beta, steps.dtype), 1)

    def update(rate, x, g, v):
        g = x * norm_coefficient + g
        v = v * alpha + share.cast(x) * g
        return x - rate.cast(x) * (g + v * alpha if mode == "nesterov" else v), v

    return _through(at, r, inputs, 3, update)

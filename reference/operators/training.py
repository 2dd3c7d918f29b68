"""One step of an optimizer on several tensors at once, and gradients: domain ``ai.onnx.preview.training``."""

from __future__ import annotations

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators._arguments import check_choice, integer
from deep_bench.tensor import is_float

__all__ = ["Adagrad", "Adam", "Gradient", "Momentum"]


def _each(operator, inputs, kinds, update):
    """``update`` of each tensor with what belongs to it; the inputs and the outputs are ordered by kind first."""
    if not inputs or len(inputs) % kinds:
        raise InvalidInput(f"{operator} of {len(inputs)} tensors", f"{kinds} for each one that is optimized")
    count = len(inputs) // kinds
    results = [update(*inputs[i::count]) for i in range(count)]
    return tuple(y.astype(inputs[0].dtype, copy=False) for kind in zip(*results, strict=True) for y in kind)


def Adagrad(r, t, *inputs, decay_factor=0.0, epsilon=9.999999974752427e-07, norm_coefficient=0.0):
    """``x - r / (1 + t * decay) * g / (sqrt(h) + epsilon)``, where ``h`` gathers the squares of all gradients ``g``.

    To the gradient is added ``norm_coefficient * x``.

    Args:
        r: The learning rate.
        t: How many steps were done before.
        *inputs: The tensors ``x``, then their gradients, then their ``h``.

    Returns:
        The new ``x``, then the new ``h``.

    Source:
        ONNX Adagrad, ai.onnx.preview.training 1; Duchi, Hazan and Singer, 2011, figure 1.
    """
    rate = r / (1 + integer(t) * decay_factor)

    def update(x, g, h):
        g = norm_coefficient * x + g
        h = h + np.square(g)
        return x - rate * g / (np.sqrt(h) + epsilon), h

    return _each("Adagrad", inputs, 3, update)


def Adam(
    r,
    t,
    *inputs,
    alpha=0.8999999761581421,
    beta=0.9990000128746033,
    epsilon=9.999999974752427e-07,
    norm_coefficient=0.0,
    norm_coefficient_post=0.0,
):
    """``x - r' v / (sqrt(h) + epsilon)`` with running means ``v`` of the gradient and ``h`` of its square.

    ``v = alpha v + (1 - alpha) g``, ``h = beta h + (1 - beta) g^2``; the rate is ``r sqrt(1 - beta^t) / (1 - alpha^t)``, or
    ``r`` at ``t = 0``. To the gradient is added ``norm_coefficient * x``; at last ``x`` is multiplied by
    ``1 - norm_coefficient_post``.

    Args:
        r: The learning rate.
        t: How many steps were done before.
        *inputs: The tensors ``x``, then their gradients, then their ``v``, then their ``h``.

    Returns:
        The new ``x``, then the new ``v``, then the new ``h``.

    Source:
        ONNX Adam, ai.onnx.preview.training 1; Kingma and Ba, 2015, algorithm 1 with the order of section 2's end.
    """
    steps = integer(t)
    rate = r * np.sqrt(1 - beta**steps).item() / (1 - alpha**steps) if steps > 0 else r

    def update(x, g, v, h):
        g = norm_coefficient * x + g
        v = alpha * v + (1 - alpha) * g
        h = beta * h + (1 - beta) * np.square(g)
        x = x - rate * v / (np.sqrt(h) + epsilon)
        return (1 - norm_coefficient_post) * x, v, h

    return _each("Adam", inputs, 4, update)


def Momentum(r, t, *inputs, alpha, beta, mode, norm_coefficient):
    """``x - r v`` with ``v = alpha v + beta g``, where ``beta`` is 1 at ``t = 0``; ``nesterov``: ``x - r (g + alpha v)``.

    To the gradient is added ``norm_coefficient * x``.

    Args:
        r: The learning rate.
        t: How many steps were done before.
        *inputs: The tensors ``x``, then their gradients, then their ``v``.

    Returns:
        The new ``x``, then the new ``v``.

    Source:
        ONNX Momentum, ai.onnx.preview.training 1; Polyak, 1964; Nesterov, 1983.
    """
    check_choice("Momentum", "mode", mode, ("standard", "nesterov"))
    share = beta if integer(t) > 0 else 1

    def update(x, g, v):
        g = norm_coefficient * x + g
        v = alpha * v + share * g
        return x - r * (g + alpha * v if mode == "nesterov" else v), v

    return _each("Momentum", inputs, 3, update)


_STEP = 2.0**-9


def Gradient(*inputs, xs, y, function, zs=()):
    """The gradient of the sum of ``y`` with respect to each of ``xs``, by differences in float64.

    With ``D(h) = (f(x + h) - f(x - h)) / 2h`` it is ``(4 D(h/2) - D(h)) / 3`` for each element of each tensor, four
    evaluations of ``f``. The step ``h`` is ``max(1, |x|) / 512``.

    The error is ``h^4 / 480`` times the fifth derivative, plus rounding, about ``1e-13`` of ``f``: some 12 digits where
    ``f`` is smooth over ``h``. Within ``h`` of a kink, as Relu has one, the result mixes the slopes of both sides; where the
    graph rounds, in float16 say, it is differentiated as if it did not. A gradient of a gradient has about 9 digits.

    Args:
        *inputs: Values of the tensors ``xs``, then of ``zs``.
        xs: Names of the tensors to differentiate with respect to.
        y: Name of the tensor to differentiate.
        function: ``y`` as a function of ``xs`` and ``zs``: the part of the graph between them.
        zs: Names of the tensors that ``y`` depends on besides.

    Returns:
        One gradient for each of ``xs``, of its shape and element type.

    Raises:
        InvalidInput: One of ``xs`` is not floating point, or an input is missing.

    Source:
        ONNX Gradient, ai.onnx.preview.training 1; Richardson, 1911.
    """
    if len(inputs) != len(xs) + len(zs or ()):
        raise InvalidInput(f"Gradient of {y!r} with {len(inputs)} inputs", f"one for each of {[*xs, *(zs or ())]}")
    for name, x in zip(xs, inputs, strict=False):
        if not is_float(x.dtype):
            raise InvalidInput(f"Gradient with respect to {name!r}, which is {x.dtype}", "a floating-point tensor")
    wide = [x.astype(np.float64) if is_float(x.dtype) else x for x in inputs]
    return tuple(_partial(function, wide, i).astype(inputs[i].dtype) for i in range(len(xs)))


def _partial(function, inputs, index):
    x = inputs[index]

    def total(position, value):
        moved = x.copy()
        moved[position] = value
        (y,) = function(*inputs[:index], moved, *inputs[index + 1 :])
        return np.sum(y, dtype=np.float64)

    def slope(position, h):
        above, below = x[position] + h, x[position] - h
        return (total(position, above) - total(position, below)) / (above - below)

    gradient = np.zeros_like(x)
    for position in np.ndindex(x.shape):
        h = _STEP * max(1.0, abs(x[position]))
        gradient[position] = (4 * slope(position, h / 2) - slope(position, h)) / 3
    return gradient

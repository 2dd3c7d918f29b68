"""The gradients of a power, with shorter forms for exponents that are known."""

from __future__ import annotations

from deep_bench.network.gradient.rules._masks import mask, root, steep, where


def base_gradient(at, x, exponent):
    """``dz * y * x ** (y - 1)`` for the exponent ``y``."""
    constant = exponent.known
    if constant is not None and constant.size == 1:
        return at.op.sum_to(_by_number(at, x, float(constant.reshape(()))), x)
    y = exponent.cast(x)
    slope = _slope(at, x, y - 1, x.equals(0) & (y < 1))
    return at.op.sum_to(at.dy * y * slope, x)


def _by_number(at, x, y):
    if y == 0:
        return at.op.zeros_like(at.dy)
    if y == 1:
        return at.dy
    if y == 2:
        return at.dy * (x + x)
    if y == 0.5:
        return at.dy / root(x) * 0.5
    scaled = at.dy * y
    if y in (1.5, 3):
        return scaled * (root(x) if y == 1.5 else x * x)
    return scaled * (at.op.Pow(x, y - 1) if y > 1 else _slope(at, x, y - 1, x.equals(0)))


def _slope(at, x, power, infinite):
    """``x ** power``, and a large number where it is infinite: times a gradient of 0, or an exponent of 0, it is 0."""
    chosen = mask(infinite, x)
    return at.op.Pow(x + chosen, power) + chosen * steep(x.dtype)


def exponent_gradient(at, x, exponent):
    """``dz * z * log(x)``; the power of a negative number has no derivative with respect to its exponent: 0."""
    base = x.cast(at.y.dtype)
    above = base > 0
    log = at.op.Log(where(above, base) + mask(~above, base))
    gradient = where(above, at.dy * at.y) * log
    return at.op.sum_to(gradient, exponent).cast(exponent)

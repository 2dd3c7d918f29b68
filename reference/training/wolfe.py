"""A line search for a step that goes down enough and at whose end the slope is flat enough."""

from __future__ import annotations

import math

DOWN, FLAT, EVALUATIONS = 1e-4, 0.9, 25


def wolfe_step(evaluate, gradients, parameters, direction, length, xp):
    r"""A length :math:`a` that satisfies the strong Wolfe conditions along a direction :math:`d`.

    With :math:`\phi(a) = f(w + a d)`: :math:`\phi(a) \le \phi(0) + 10^{-4} a \phi'(0)` and
    :math:`|\phi'(a)| \le 0.9 |\phi'(0)|`. Lengths are doubled until such a one is in between, and the interval is then
    halved, or cut at the minimum of the cubic through its ends.

    Args:
        evaluate: From parameters to loss and gradients.
        gradients, parameters: Where the search starts.
        direction: Where it goes: name to array.
        length: The first length to try, a scalar.
        xp: The functions of these arrays.

    Returns:
        A Python number; the best length found if none satisfies both conditions within 25 evaluations.

    Source:
        Nocedal and Wright, *Numerical optimization*, 2nd edition, 2006, algorithms 3.5 and 3.6.
    """

    def slope(gradient):
        return sum(float(xp.sum(gradient[name] * d)) for name, d in direction.items())

    def phi(a):
        loss, gradient = evaluate({name: w + xp.cast(a, w) * direction[name] for name, w in parameters.items()})
        return float(loss), slope(gradient)

    start = float(evaluate(parameters)[0])
    down = slope(gradients)

    def high(a, value):
        return value > start + DOWN * a * down

    low, a = (0.0, start, down), float(length)
    for tried in range(EVALUATIONS):
        value, steep = phi(a)
        if high(a, value) or (tried and value >= low[1]) or not math.isfinite(value):
            return _between(low, (a, value, steep), phi, high, down, EVALUATIONS - tried - 1)
        if abs(steep) <= -FLAT * down:
            return a
        if steep >= 0:
            return _between((a, value, steep), low, phi, high, down, EVALUATIONS - tried - 1)
        low, a = (a, value, steep), 2 * a
    return low[0]


def _between(low, far_end, phi, high, down, evaluations):
    """Algorithm 3.6: the interval's end ``low`` satisfies the first condition with the least value so far."""
    for _ in range(evaluations):
        a = _cubic(low, far_end)
        value, steep = phi(a)
        if high(a, value) or value >= low[1] or not math.isfinite(value):
            far_end = (a, value, steep)
            continue
        if abs(steep) <= -FLAT * down:
            return a
        if steep * (far_end[0] - low[0]) >= 0:
            far_end = low
        low = (a, value, steep)
    return low[0]


def _cubic(first, two):
    """The minimum of the cubic with these values and slopes; the middle if it is near an end or there is none."""
    (a, f, s), (b, g, r) = first, two
    middle = (a + b) / 2
    if not (math.isfinite(g) and math.isfinite(r)) or a == b:
        return middle
    d1 = s + r - 3 * (f - g) / (a - b)
    if d1 * d1 < s * r:
        return middle
    d2 = math.copysign(math.sqrt(d1 * d1 - s * r), b - a)
    bottom = r - s + 2 * d2
    if bottom == 0:
        return middle
    minimum = b - (b - a) * (r + d2 - d1) / bottom
    margin = abs(b - a) / 10
    return minimum if min(a, b) + margin <= minimum <= max(a, b) - margin else middle

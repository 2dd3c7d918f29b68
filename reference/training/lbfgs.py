"""L-BFGS: Newton's direction from the last few steps, and the line search that it needs.

The search is for a step that goes down enough and at whose end the slope is flat enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from deep_bench.errors import InvalidArgument
from deep_bench.training.optimizer import COUNT, FLAG, RATE, Optimizer, Rate, rate_at, setting, started

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


def dot(x, y, xp):
    """The inner product over all parameters together, a scalar of the first one's element type."""
    products = [xp.sum(x[name] * y[name]) for name in x]
    total = products[0]
    for product in products[1:]:
        total = total + xp.cast(product, total)
    return total


def plus(x, factor, y, xp):
    """``x + factor y`` for each parameter."""
    return {name: x[name] + xp.cast(factor, x[name]) * y[name] for name in x}


@dataclass(frozen=True)
class LBFGS(Optimizer):
    r"""The direction :math:`-H g`, where the inverse Hessian :math:`H` is built from the last steps.

    With steps :math:`s_i = w_{i+1} - w_i`, changes :math:`y_i = g_{i+1} - g_i` and :math:`\rho_i = 1 / y_i \cdot s_i`, from
    the newest pair to the oldest and back:

    .. math::
        q &= g; \quad \alpha_i = \rho_i s_i \cdot q, \quad q \leftarrow q - \alpha_i y_i \\
        q &\leftarrow \frac{s \cdot y}{y \cdot y} q \text{ with the newest pair} \\
        \beta &= \rho_i y_i \cdot q, \quad q \leftarrow q + (\alpha_i - \beta) s_i; \qquad w' = w - r q

    A pair with :math:`y \cdot s \le 10^{-10}` is left out. The first step has no pairs and the length
    :math:`r \min(1, 1 / \|g\|_1)`, as in torch.

    Args:
        lr: The rate :math:`r`, a number or a schedule; where the line search starts, if there is one.
        history: How many pairs are kept.
        line_search: Look for a length that satisfies the strong Wolfe conditions, which takes ``evaluate`` and is not to
            be traced.

    Source:
        Nocedal and Wright, *Numerical optimization*, 2nd edition, 2006, algorithms 7.4, 3.5 and 3.6.
    """

    lr: Rate = setting(1.0, RATE)
    history: int = setting(10, COUNT)
    line_search: bool = setting(False, FLAG)

    def init(self, parameters, xp):
        zeros = started(parameters, xp, "gradient", "step")
        like = next(iter(parameters.values()))
        weight_entry = {"weight": xp.cast(xp.array(0.0, float), like)}
        pairs = {
            str(i): {**weight_entry, **{k: v for k, v in started(parameters, xp, "s", "y").items() if k != "steps"}}
            for i in range(self.history)
        }
        return {**zeros, "pairs": pairs, "scale": xp.cast(xp.array(1.0, float), like)}

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        if self.line_search and evaluate is None:
            raise InvalidArgument("lbfgs with line_search=True and no evaluate", "update(..., evaluate=…)")
        with xp.untracked():
            pairs, scale = self._remembered(gradients, state, xp)
            direction = self._direction(gradients, pairs, scale, xp)
            rate = rate_at(self.lr, state["steps"], xp)
            total = sum(xp.cast(xp.sum(xp.abs(g)), float) for g in gradients.values())
            first = xp.minimum(1 / xp.maximum(total, 1e-300), 1.0)
            length = rate * xp.where(xp.array(state["steps"]) > 0, xp.array(1.0, float), first)
            if self.line_search:
                length = wolfe_step(evaluate, gradients, parameters, direction, length, xp)
            step = {name: xp.cast(length, d) * d for name, d in direction.items()}
            new = {name: xp.array(w + step[name]) for name, w in parameters.items()}
            state = {
                "steps": xp.array(state["steps"] + 1),
                "gradient": {name: xp.array(g * 1) for name, g in gradients.items()},
                "step": {name: xp.array(s) for name, s in step.items()},
                "pairs": pairs,
                "scale": xp.array(scale),
            }
        return new, state

    def _remembered(self, gradients, state, xp):
        """The pairs, newest last, with the one that the last step makes if it is fit; and the scale of the newest."""
        s, y = state["step"], plus(gradients, -1.0, state["gradient"], xp)
        curvature = dot(y, s, xp)
        fit = (curvature > 1e-10) & (xp.array(state["steps"]) > 0)
        newest = {"weight": 1 / xp.where(fit, curvature, 1.0), "s": s, "y": y}
        old = [state["pairs"][str(i)] for i in range(self.history)]

        def chosen(new, kept):
            if isinstance(new, dict):
                return {key: chosen(new[key], kept[key]) for key in new}
            return xp.array(xp.where(fit, new, kept))

        pairs = {
            str(i): chosen(new, previous) for i, (new, previous) in enumerate(zip([*old[1:], newest], old, strict=True))
        }
        scale = xp.where(fit, curvature / xp.where(fit, dot(y, y, xp), 1.0), state["scale"])
        return pairs, scale

    def _direction(self, gradients, pairs, scale, xp):
        """A pair that is not there yet has weight 0 and changes nothing."""
        q, alphas = {name: -g for name, g in gradients.items()}, {}
        for i in reversed(range(self.history)):
            pair = pairs[str(i)]
            alphas[i] = pair["weight"] * dot(pair["s"], q, xp)
            q = plus(q, -alphas[i], pair["y"], xp)
        q = {name: xp.cast(scale, x) * x for name, x in q.items()}
        for i in range(self.history):
            pair = pairs[str(i)]
            beta = pair["weight"] * dot(pair["y"], q, xp)
            q = plus(q, alphas[i] - beta, pair["s"], xp)
        return q

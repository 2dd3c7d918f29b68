"""Functions with known minima and known rates, with their gradients."""

from __future__ import annotations

import numpy as np

CURVATURES = np.array([1.0, 3.0, 10.0])


def quadratic(parameters):
    """Half of the sum of c x^2 with curvatures from 1 to 10; its minimum is 0."""
    x = parameters["x"]
    return 0.5 * float(np.sum(CURVATURES * x * x)), {"x": CURVATURES * x}


def rosenbrock(parameters):
    """(1 - x)^2 + 100 (y - x^2)^2; its minimum is at (1, 1)."""
    x, y = parameters["x"]
    slope = np.array([-2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)])
    return float((1 - x) ** 2 + 100 * (y - x * x) ** 2), {"x": slope}


def _sample():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((80, 3))
    labels = np.where(points @ [1.0, -2.0, 0.5] + rng.standard_normal(80) > 0, 1.0, -1.0)
    return points, labels


POINTS, LABELS = _sample()
PENALTY = 0.1


def logistic(parameters):
    """Logistic regression with a penalty, so that it is strongly convex."""
    w = parameters["x"]
    margins = LABELS * (POINTS @ w)
    loss = float(np.mean(np.log1p(np.exp(-margins))) + 0.5 * PENALTY * w @ w)
    slope = -(POINTS.T @ (LABELS / (1 + np.exp(margins)))) / len(LABELS) + PENALTY * w
    return loss, {"x": slope}


def logistic_minimum():
    """Its minimum, by Newton's method."""
    w = np.zeros(3)
    for _ in range(30):
        chance = 1 / (1 + np.exp(-(POINTS @ w)))
        hessian = (POINTS.T * (chance * (1 - chance))) @ POINTS / len(LABELS) + PENALTY * np.eye(3)
        w = w - np.linalg.solve(hessian, logistic({"x": w})[1]["x"])
    return w

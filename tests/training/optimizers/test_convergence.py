"""References reach the minima of functions that are known, and as fast as theory says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from tests.training.optimizers.problems import CURVATURES, logistic, logistic_minimum, quadratic, rosenbrock


def run(rule: Any, problem: Any, start: Any, steps: int) -> tuple[list[np.ndarray], Any]:
    w: dict[str, np.ndarray] = {"x": np.array(start, float)}
    state, path = rule.init(w, NUMPY), [w["x"]]
    for _ in range(steps):
        gradients = problem(rule.prepare(w, state))[1]
        w, state = rule.update(gradients, state, w, NUMPY, evaluate=problem)
        path.append(w["x"])
    return path, state


def test_gradient_descent_shrinks_each_direction_by_its_own_factor() -> None:
    path, _ = run(db.optimizers["sgd"](lr=0.15), quadratic, [1.0, 1.0, 1.0], 30)
    np.testing.assert_allclose(path[-1], (1 - 0.15 * CURVATURES) ** 30, rtol=1e-10)


def test_momentum_has_the_rate_of_the_heavy_ball() -> None:
    """With the best settings the error shrinks by (sqrt(k) - 1) / (sqrt(k) + 1) a step, k = 10."""
    small, large = np.sqrt(CURVATURES[[0, -1]])
    best = (large - small) / (large + small)
    rule = db.optimizers["momentum"](lr=float((2 / (large + small)) ** 2), momentum=float(best**2))
    path, _ = run(rule, quadratic, [1.0, 1.0, 1.0], 120)
    rate = (np.linalg.norm(path[-1]) / np.linalg.norm(path[60])) ** (1 / 60)
    assert abs(rate - best) < 0.02


def test_nesterov_has_its_rate() -> None:
    """With 1/L and the momentum (1 - q) / (1 + q), q = sqrt(1/k), the slowest direction shrinks by 1 - q a step."""
    q = float(np.sqrt(CURVATURES[0] / CURVATURES[-1]))
    rule = db.optimizers["nesterov"](lr=float(1 / CURVATURES[-1]), momentum=(1 - q) / (1 + q))
    path, _ = run(rule, quadratic, [1.0, 1.0, 1.0], 120)
    rate = (abs(path[-1][0]) / abs(path[60][0])) ** (1 / 60)
    assert abs(rate - (1 - q)) < 0.02


def test_lbfgs_ends_in_as_many_steps_as_a_quadratic_has_dimensions_and_few_on_others() -> None:
    rule = db.optimizers["lbfgs"](line_search=True)
    assert np.linalg.norm(run(rule, quadratic, [1.0, -2.0, 3.0], 12)[0][-1]) < 1e-6
    np.testing.assert_allclose(run(rule, rosenbrock, [-1.2, 1.0], 60)[0][-1], [1, 1], atol=1e-8)
    np.testing.assert_allclose(run(rule, logistic, [0.0, 0.0, 0.0], 20)[0][-1], logistic_minimum(), atol=1e-7)


def test_accelegrad_falls_faster_than_one_over_the_steps() -> None:
    """The weighted mean's loss is O(1/T^2) on smooth functions, without a rate that was chosen."""
    start = [0.5, -0.5, 0.5]
    losses = []
    for steps in (100, 400):
        _, state = run(db.optimizers["accelegrad"](diameter=2.0), quadratic, start, steps)
        losses.append(quadratic({"x": state["average"]["x"]})[0])
    assert losses[1] < losses[0] / 8


SETTINGS: dict[str, dict[str, Any]] = {
    "adadelta": {"lr": 3.0},
    "adafactor": {"lr": 0.05},
    "adagrad": {"lr": 0.3},
    "adam": {"lr": 0.05},
    "adamax": {"lr": 0.05},
    "adamw": {"lr": 0.05, "weight_decay": 0.0},
    "amsgrad": {"lr": 0.05},
    "lamb": {"lr": 0.02},
    "lars": {"lr": 0.5, "weight_decay": 0.0, "trust": 0.02},
    "lion": {"lr": 0.004},
    "nadam": {"lr": 0.05},
    "radam": {"lr": 0.05},
    "rmsprop": {"lr": 0.01},
    "sgd": {"lr": 0.5},
    "shampoo": {"lr": 0.3},
}


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_logistic_regression_is_solved(name: str) -> None:
    """Rules with a constant relative or absolute step end within about that step."""
    path, _ = run(db.optimizers[name](**SETTINGS[name]), logistic, [0.1, 0.1, 0.1], 600)
    excess = [logistic({"x": w})[0] - logistic({"x": logistic_minimum()})[0] for w in (path[0], path[-1])]
    assert excess[1] < excess[0] / 200, excess


def test_muon_solves_a_matrix() -> None:
    """Its steps have all singular values near 1, so it ends within the rate of the minimum."""
    target = np.random.default_rng(0).standard_normal((4, 6))

    def problem(parameters: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        away = parameters["x"] - target
        return 0.5 * float(np.sum(away**2)), {"x": away}

    path, _ = run(db.optimizers["muon"](lr=0.02, momentum=0.9), problem, np.zeros((4, 6)), 300)
    assert np.linalg.norm(path[-1] - target, 2) < 0.1 < np.linalg.norm(path[0] - target, 2)


@pytest.mark.parametrize(("turns", "order"), [(40, 2), (40, 4)])
def test_the_inverse_root_of_shampoo(turns: int, order: int) -> None:
    from deep_bench.reference.training.matrices import inverse_root

    rng = np.random.default_rng(1)
    vectors, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    values = np.geomspace(1e-4, 10, 6)
    expected = vectors * values ** (-1 / order) @ vectors.T
    found = inverse_root(vectors * values @ vectors.T, order, turns, NUMPY)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)

"""Model averaging, local SGD and post-local SGD, against closed forms on quadratics."""

from __future__ import annotations

import numpy as np

import deep_bench as db
from deep_bench.reference.distributed.averaged import AllReduce, Averaging, PostLocal
from tests.reference.distributed.problem import Squares, numbers, run, scalars

SGD = db.optimizers["sgd"](lr=0.1)
SHARPNESS, MINIMA = np.array([0.5, 1.0, 3.0]), np.array([-1.0, 2.0, 4.0])


def on_quadratics(scheme, steps: int, samples: tuple[int, ...] = (1, 1, 1)) -> list[np.ndarray]:
    """Losses a_i (x - b_i)² / 2."""
    x = scalars([10.0] * 3)
    state, found = scheme.init(x), []
    for _ in range(steps):
        slopes = scalars(SHARPNESS * (numbers(x) - MINIMA))
        x, state = scheme.step(slopes, list(samples), state, x)
        found.append(numbers(x))
    return found


def test_local_steps_between_means_have_a_closed_form() -> None:
    """H local steps take rank i from x to b_i + (1 - r a_i)^H (x - b_i); the mean of these is the next x."""
    found, x, h = on_quadratics(Averaging(SGD, every=4), 40), 10.0, 4
    for mean in range(10):
        local = MINIMA + (1 - 0.1 * SHARPNESS) ** h * (x - MINIMA)
        between = MINIMA + (1 - 0.1 * SHARPNESS) ** (h - 1) * (x - MINIMA)
        np.testing.assert_allclose(found[h * mean + h - 2], between, rtol=1e-12)
        x = local.mean()
        np.testing.assert_allclose(found[h * mean + h - 1], [x] * 3, rtol=1e-12)


def test_many_local_steps_end_beside_the_minimum() -> None:
    """With different losses, local SGD with a constant rate has a bias, which one step between means has not."""
    minimum = np.sum(SHARPNESS * MINIMA) / np.sum(SHARPNESS)
    often, seldom = (on_quadratics(Averaging(SGD, every=h), 640)[-1][0] for h in (1, 16))
    kept = (1 - 0.1 * SHARPNESS) ** 16
    np.testing.assert_allclose(often, minimum, rtol=1e-9)
    np.testing.assert_allclose(seldom, np.sum((1 - kept) * MINIMA) / np.sum(1 - kept), rtol=1e-9)
    assert abs(seldom - minimum) > 0.1


def test_a_mean_after_every_step_is_allreduce_for_linear_rules() -> None:
    problem = Squares.of(4)
    for rule in (SGD, db.optimizers["momentum"](lr=0.05)):
        averaged, reduced = run(Averaging(rule), problem, 30)[0], run(AllReduce(rule), problem, 30)[0]
        for x, y in zip(averaged, reduced, strict=True):
            np.testing.assert_allclose(x["w"], y["w"], rtol=1e-9)


def test_means_are_weighted_by_the_samples_since_the_last_one() -> None:
    scheme = Averaging(SGD, every=2)
    x, state = scalars([0.0, 0.0]), scheme.init(scalars([0.0, 0.0]))
    x, state = scheme.step(scalars([0.0, 10.0]), [1, 3], state, x)
    assert state["since"] == [1, 3]
    x, state = scheme.step(scalars([0.0, 10.0]), [3, 1], state, x)
    np.testing.assert_allclose(numbers(x), [-1.0, -1.0])
    x, state = scheme.step(scalars([0.0, 10.0]), [1, 1], state, x)
    x, state = scheme.step(scalars([0.0, 10.0]), [1, 6], state, x)
    np.testing.assert_allclose(numbers(x), [-1.0 - 2.0 * 7 / 9] * 2)
    assert state["since"] == [0, 0]


def test_post_local_is_synchronous_first_and_local_afterwards() -> None:
    momentum = db.optimizers["momentum"](lr=0.05)
    found = on_quadratics(PostLocal(momentum, until=5, every=3), 11, (1, 2, 3))
    synchronous = on_quadratics(AllReduce(momentum), 5, (1, 2, 3))
    np.testing.assert_array_equal(found[:5], synchronous)
    apart = [float(np.ptp(x)) for x in found]
    assert [step + 1 for step, x in enumerate(apart) if x == 0] == [1, 2, 3, 4, 5, 8, 11]
    assert [PostLocal(momentum, until=5, every=3).agreed(step + 1) for step in range(11)] == [x == 0 for x in apart]


def test_post_local_without_a_first_phase_is_local() -> None:
    np.testing.assert_array_equal(
        on_quadratics(PostLocal(SGD, until=0, every=3), 7), on_quadratics(Averaging(SGD, every=3), 7)
    )


def test_states_are_averaged_where_that_is_wanted() -> None:
    """Of a rule whose state is linear in the gradients, averaged after every step: that of allreduce."""
    momentum, problem = db.optimizers["momentum"](lr=0.05), Squares.of(3)
    apart, together = (run(Averaging(momentum, states=states), problem, 5)[1]["inner"] for states in (False, True))
    whole = run(AllReduce(momentum), problem, 5)[1]["inner"][0]
    for one in together:
        np.testing.assert_allclose(one["momentum"]["w"], whole["momentum"]["w"], rtol=1e-10)
        assert one["steps"] == 5
    assert not np.allclose(apart[0]["momentum"]["w"], apart[1]["momentum"]["w"])

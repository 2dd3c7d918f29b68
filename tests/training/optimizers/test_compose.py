"""``chain``: clipping, decay, averages and accumulation, against what they are made of, and traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY, leaves
from deep_bench.errors import InvalidArgument
from deep_bench.network import traced_update
from deep_bench.training import accumulate, average, chain, clip_norm, clip_value, decay

CHAINS: dict[str, Any] = {
    "clip_norm": lambda: chain(clip_norm(0.5), db.optimizers["momentum"]()),
    "clip_value": lambda: chain(clip_value(0.25), db.optimizers["sgd"]()),
    "decay": lambda: chain(decay(0.1), db.optimizers["adam"]()),
    "average": lambda: chain(average(0.9), db.optimizers["sgd"](lr=0.1)),
    "accumulate": lambda: chain(accumulate(3), db.optimizers["adam"]()),
    "all": lambda: chain(accumulate(2), average(0.5), clip_norm(1.0), decay(0.01), db.optimizers["lamb"]()),
}


def problem(steps: int = 7) -> tuple[dict[str, np.ndarray], list[dict[str, np.ndarray]]]:
    rng = np.random.default_rng(0)
    shapes = {"w": (3, 4), "b": (4,)}
    start = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    return start, [{n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()} for _ in range(steps)]


def run(rule: Any, start: dict[str, Any], gradients: list[dict[str, Any]], xp: Any = NUMPY) -> tuple[Any, Any]:
    state = rule.init(start, xp)
    for slopes in gradients:
        start, state = rule.update(slopes, state, start, xp)
    return start, state


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_traced(name: str) -> None:
    rule, (start, gradients) = CHAINS[name](), problem()
    step = traced_update(rule, start)
    execute, held = db.frameworks["reference"]().prepare(step.network), step.initial
    for slopes in gradients:
        held = step.next(execute({**held, **{f"gradient of {n}": g for n, g in slopes.items()}}))
    for parameter, expected in run(rule, start, gradients)[0].items():
        np.testing.assert_array_almost_equal_nulp(held[parameter], expected, 2)


def test_the_norm_is_clipped_as_torch_does() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    start, gradients = problem(3)
    mine, _ = run(chain(clip_norm(0.5), db.optimizers["sgd"](lr=0.1)), start, gradients)
    theirs = {n: torch.tensor(x, requires_grad=True) for n, x in start.items()}
    made = torch.optim.SGD(theirs.values(), lr=0.1)
    for slopes in gradients:
        for n, w in theirs.items():
            w.grad = torch.tensor(slopes[n])
        torch.nn.utils.clip_grad_norm_(theirs.values(), 0.5)
        made.step()
    for n, w in theirs.items():
        np.testing.assert_allclose(mine[n], w.detach().numpy(), rtol=1e-5)  # torch adds 1e-6 to the norm


def test_gradients_below_the_limit_stay_as_they_are() -> None:
    start, gradients = problem(1)
    plain = db.optimizers["sgd"](lr=0.1)
    for part in (clip_norm(100.0), clip_value(100.0), decay(0.0)):
        for n, w in run(chain(part, plain), start, gradients)[0].items():
            np.testing.assert_array_equal(w, run(plain, start, gradients)[0][n])


def test_accumulated_gradients_are_one_step_with_their_mean() -> None:
    start, gradients = problem(6)
    adam = db.optimizers["adam"]()
    means = [{n: sum(g[n] for g in gradients[i : i + 3]) / np.float32(3) for n in start} for i in (0, 3)]
    mine, state = run(chain(accumulate(3), adam), start, gradients)
    expected, inner = run(adam, start, means)
    for n, w in expected.items():
        np.testing.assert_array_equal(mine[n], w)
    assert int(state["inner"]["steps"]) == int(inner["steps"]) == 2
    assert int(state["gathered"]) == 0
    between, _ = run(chain(accumulate(3), adam), start, gradients[:2])
    assert all(np.array_equal(between[n], start[n]) for n in start)


def test_accumulation_around_a_native_rule() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    start, gradients = problem(6)
    rule, device = chain(accumulate(3), db.optimizers["torch.adam"]()), db.frameworks["torch"]()
    assert (rule.framework, rule.in_place) == ("torch", True)
    native = [{n: torch.tensor(g) for n, g in slopes.items()} for slopes in gradients]
    theirs, _ = run(rule, {n: torch.tensor(x) for n, x in start.items()}, native, device.xp)
    mine, _ = run(chain(accumulate(3), db.optimizers["adam"]()), start, gradients)
    for n, w in mine.items():
        np.testing.assert_allclose(device.to_numpy(theirs[n]), w, rtol=1e-5)


def test_an_average_is_kept_and_starts_as_a_copy() -> None:
    start, gradients = problem(4)
    rule = chain(average(0.9), db.optimizers["sgd"](lr=0.1))
    first = rule.init(start, NUMPY)
    assert not any(np.shares_memory(first["average"][n], w) for n, w in start.items())
    mean, w, state = {n: x.astype(float) for n, x in start.items()}, start, first
    for slopes in gradients:
        w, state = rule.update(slopes, state, w, NUMPY)
        mean = {n: 0.9 * m + 0.1 * w[n] for n, m in mean.items()}
    for n, expected in mean.items():
        np.testing.assert_allclose(state["average"][n], expected, rtol=1e-5)


def test_no_rule_shares_memory_with_what_it_was_given() -> None:
    """Who hands parameters in may change them later, and a native rule does."""
    for name in [n for n in db.optimizers if "." not in n]:
        start, gradients = problem(2)
        rule = db.optimizers[name]()
        state, given = rule.init(start, NUMPY), list(start.values())
        _, after = rule.update(gradients[0], state, start, NUMPY)
        for array in (*leaves(state).values(), *leaves(after).values()):
            assert not any(np.shares_memory(array, other) for other in (*given, *gradients[0].values())), name


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (lambda: chain(clip_norm(1.0)), "an optimizer at the end"),
        (lambda: chain(db.optimizers["sgd"](), db.optimizers["sgd"]()), "one optimizer, last"),
        (lambda: clip_norm(0.0), "clip_norm with limit=0.0"),
        (lambda: clip_value(float("nan")), "clip_value with limit=nan"),
        (lambda: decay(-1.0), "decay with coefficient=-1.0"),
        (lambda: average(1.0), "average with keep=1.0"),
        (lambda: accumulate(0), "accumulate with steps=0"),
        (lambda: accumulate(1.5), "accumulate with steps=1.5"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_chain_is_refused(made, named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        made()

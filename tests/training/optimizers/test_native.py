"""Native optimizers behind the interface: their own state, restored bitwise, in place or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import leaves, mapped
from deep_bench.errors import InvalidArgument
from deep_bench.training import Cosine, compare_optimizers

NATIVE = [name for name in db.optimizers if "." in name]
SETTINGS: dict[str, dict[str, Any]] = {
    "torch.lbfgs": {"max_iter": 1, "history_size": 3},
    "torch.sgd": {"momentum": 0.9, "nesterov": True},
    "tensorflow.sgd": {"momentum": 0.9},
}


def made(name: str, **settings: Any) -> tuple[Any, Any, dict[str, Any], list[dict[str, Any]]]:
    home = name.partition(".")[0]
    if db.frameworks.missing(home):
        pytest.skip(f"{home} is not installed")
    device, rng = db.frameworks[home](), np.random.default_rng(0)
    shapes = {"w": (5, 4)} if name == "torch.muon" else {"w": (5, 4), "b": (4,), "s": ()}
    start = {n: device.from_numpy(np.asarray(rng.standard_normal(s), np.float32)) for n, s in shapes.items()}
    slopes = [{n: np.asarray(rng.standard_normal(s), np.float32) for n, s in shapes.items()} for _ in range(4)]
    return db.optimizers[name](**{**SETTINGS.get(name, {}), **settings}), device, start, slopes


def run(name: str, *, restored_at: int | None = None) -> dict[Any, np.ndarray]:
    rule, device, w, slopes = made(name)
    state = rule.init(w, device.xp)
    for number, slope in enumerate(slopes):
        if number == restored_at:
            w, state = (mapped(device.from_numpy, mapped(device.to_numpy, tree)) for tree in (w, state))
            state = rule.restored(state, w)
        w, state = rule.update({n: device.from_numpy(g) for n, g in slope.items()}, state, w, device.xp)
    return {path: device.to_numpy(leaf) for path, leaf in leaves({"parameters": w, "state": state}).items()}


@pytest.mark.long
@pytest.mark.parametrize("name", NATIVE)
def test_a_state_is_restored_bitwise(name: str) -> None:
    plain, again = run(name), run(name, restored_at=2)
    assert plain.keys() == again.keys()
    for path, array in plain.items():
        np.testing.assert_array_equal(array, again[path], err_msg=str(path))
    assert int(plain["state", "steps"]) == 4


@pytest.mark.parametrize("name", [n for n in NATIVE if n.startswith("torch.") and n != "torch.lbfgs"])
def test_the_leaves_are_torchs_own_and_stay_the_same(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    rule, device, w, slopes = made(name)
    state = rule.init(w, device.xp)
    first = leaves(state)
    for slope in slopes:
        new, state = rule.update({n: device.from_numpy(g) for n, g in slope.items()}, state, w, device.xp)
    assert all(new[n] is w[n] for n in w)
    last = leaves(state)
    assert first.keys() == last.keys()
    assert all(last[path] is leaf for path, leaf in first.items())
    own = [x for held in state.native.state.values() for x in held.values() if isinstance(x, torch.Tensor)]
    assert len(own) == len(last) - 1
    assert all(any(x is leaf for leaf in last.values()) for x in own)


@pytest.mark.parametrize("name", ["torch.adam", "tensorflow.adam"])
def test_a_schedule_is_followed(name: str) -> None:
    made(name)
    keras = name.startswith("tensorflow")
    schedule = Cosine(2.0**-4, steps=8)
    mine = db.optimizers["sgd"](lr=schedule)
    assert compare_optimizers(mine, db.optimizers[name.replace("adam", "sgd")](lr=schedule), steps=10).ok, keras


def test_an_lbfgs_with_several_iterations_looks_elsewhere() -> None:
    from tests.training.optimizers.problems import rosenbrock

    rule, device, _, _ = made("torch.lbfgs", max_iter=20, line_search_fn="strong_wolfe", history_size=10)
    w = {"x": device.from_numpy(np.array([-1.2, 1.0]))}
    state = rule.init(w, device.xp)

    def evaluate(point: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        loss, slope = rosenbrock({n: device.to_numpy(x) for n, x in point.items()})
        return loss, {n: device.from_numpy(g) for n, g in slope.items()}

    with pytest.raises(InvalidArgument, match="max_iter=20 and no evaluate"):
        rule.update(evaluate(w)[1], state, w, device.xp)
    for _ in range(4):
        w, state = rule.update(evaluate(w)[1], state, w, device.xp, evaluate=evaluate)
    np.testing.assert_allclose(device.to_numpy(w["x"]), [1, 1], atol=1e-5)


@pytest.mark.parametrize(
    ("name", "settings", "named"),
    [
        ("torch.adam", {"beta1": 0.9}, "torch.optim.Adam with .*beta1"),
        ("torch.adam", {"lr": -1.0}, "torch.optim.Adam"),
        ("tensorflow.adam", {"beta1": 0.9}, "keras.optimizers.Adam"),
    ],
)
def test_what_a_library_does_not_take_is_refused(name: str, settings: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        made(name, **settings)


def test_native_code_is_not_traced() -> None:
    rule, *_ = made("torch.adam")
    network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
    with pytest.raises(InvalidArgument, match="an optimizer of torch, whose update is native code"):
        db.network.training_step(network, optimizer=rule)
    with pytest.raises(InvalidArgument, match=r"torch\.adam first"):
        compare_optimizers(rule, "adam")

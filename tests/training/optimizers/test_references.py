"""What all references have in common: one update on every kind of arrays, and traced; settings that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY, leaves
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.network import traced_update
from deep_bench.training import compare_optimizers, like
from deep_bench.training.optimizer import CONVENTIONS

REFERENCES = tuple(name for name in db.optimizers if "." not in name)
QUICK: dict[str, dict[str, Any]] = {"shampoo": {"turns": 8, "epsilon": 0.5}, "lbfgs": {"history": 3}}
FRAMEWORKS = ("torch", "tensorflow")


def problem(steps: int = 3) -> tuple[dict[str, np.ndarray], list[dict[str, np.ndarray]]]:
    rng = np.random.default_rng(0)
    shapes = {"w": (6, 4), "b": (4,), "s": (), "k": (3, 2, 2)}
    start = {n: np.asarray(rng.standard_normal(s), np.float32) for n, s in shapes.items()}
    return start, [{n: np.asarray(rng.standard_normal(s), np.float32) for n, s in shapes.items()} for _ in range(steps)]


@pytest.mark.parametrize("name", REFERENCES)
def test_one_rule_serves_all_arrays(name: str) -> None:
    """NumPy, torch and TensorFlow differ by rounding; a traced update on the reference, by nothing but that either."""
    rule, (start, gradients) = db.optimizers[name](**QUICK.get(name, {})), problem()
    others = [(rule, framework) for framework in FRAMEWORKS if not db.frameworks.missing(framework)]
    found = compare_optimizers(rule, rule, *others, parameters=start, gradients=gradients)
    assert found.ok, found.table()


@pytest.mark.parametrize("name", REFERENCES)
def test_a_traced_update_runs_in_onnxruntime(name: str) -> None:
    if db.frameworks.missing("onnxruntime"):
        pytest.skip("ONNX Runtime is not installed")
    rule, (start, gradients) = db.optimizers[name](**QUICK.get(name, {})), problem()
    step = traced_update(rule, start)
    run, held = db.frameworks["onnxruntime"]().prepare(step.network), step.initial
    w, state = start, rule.init(start, NUMPY)
    for slope in gradients:
        held = step.next(run({**held, **{f"gradient of {n}": g for n, g in slope.items()}}))
        w, state = rule.update(slope, state, w, NUMPY)
    for n, expected in w.items():
        np.testing.assert_allclose(held[n], expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", REFERENCES)
def test_states_and_parameters_are_arrays_of_the_same_type(name: str) -> None:
    rule, (start, gradients) = db.optimizers[name](**QUICK.get(name, {})), problem(2)
    before = rule.init(start, NUMPY)
    w, after = rule.update(gradients[0], before, start, NUMPY)
    assert before["steps"].dtype == after["steps"].dtype == np.int64
    assert (int(before["steps"]), int(after["steps"])) == (0, 1)
    for n, x in w.items():
        assert isinstance(x, np.ndarray)
        assert (x.shape, x.dtype) == (start[n].shape, np.float32)
    first, second = leaves(before), leaves(after)
    assert first.keys() == second.keys()
    for path, leaf in second.items():
        assert isinstance(leaf, np.ndarray), path
        assert (leaf.shape, leaf.dtype) == (first[path].shape, first[path].dtype), path


@pytest.mark.parametrize(
    ("name", "settings", "named"),
    [
        ("sgd", {"lr": -0.1}, "sgd with lr=-0.1"),
        ("sgd", {"lr": "fast"}, "sgd with lr='fast'"),
        ("adam", {"beta2": 1.0}, "adam with beta2=1.0"),
        ("adam", {"epsilon_beside": "root"}, "one of 'corrected', 'raw'"),
        ("adam", {"correct_bias": 1}, "True or False"),
        ("amsgrad", {"largest_of": "corrected", "correct_bias": False}, "correct_bias=False"),
        ("lars", {"trust": 0.0}, "a finite number above 0"),
        ("lbfgs", {"history": 0}, "lbfgs with history=0"),
        ("muon", {"others": "adam"}, "an optimizer or None"),
        ("nadam", {"momentum_decay": 0.0}, "None, or a finite number above 0"),
        ("shampoo", {"turns": 2.5}, "a whole number"),
    ],
)
def test_settings_out_of_range_are_refused(name: str, settings: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        db.optimizers[name](**settings)


def test_muon_refuses_what_it_has_no_rule_for() -> None:
    with pytest.raises(InvalidArgument, match=r"muon with 'b' of shape \[4\]"):
        db.optimizers["muon"](others=None).init(problem()[0], NUMPY)


def test_a_rate_that_is_fed_needs_a_graph() -> None:
    rule, (start, gradients) = db.optimizers["sgd"](lr=db.network.fed), problem(1)
    with pytest.raises(Unsupported, match="lr=fed outside of a traced graph"):
        rule.update(gradients[0], rule.init(start, NUMPY), start, NUMPY)


@pytest.mark.parametrize(("library", "name"), [(library, name) for library, known in CONVENTIONS.items() for name in known])
def test_conventions_are_settings(library: str, name: str) -> None:
    made = db.optimizers[name](**like(library, name))
    assert all(getattr(made, key) == value for key, value in like(library, name).items())


def test_the_conventions_of_torch_and_keras_are_their_defaults() -> None:
    """By name, where it is the same; ``lr`` where the reference's own differs."""
    import inspect

    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    keras = pytest.importorskip("keras", reason="Keras is not installed")
    kinds = {
        ("torch", "adam"): (torch.optim.Adam, {"lr": "lr", "eps": "epsilon"}),
        ("torch", "adamw"): (torch.optim.AdamW, {"lr": "lr", "eps": "epsilon", "weight_decay": "weight_decay"}),
        ("torch", "adagrad"): (torch.optim.Adagrad, {"lr": "lr", "eps": "epsilon", "lr_decay": "decay"}),
        ("torch", "adadelta"): (torch.optim.Adadelta, {"lr": "lr", "eps": "epsilon", "rho": "rho"}),
        ("torch", "adamax"): (torch.optim.Adamax, {"lr": "lr", "eps": "epsilon"}),
        ("torch", "nadam"): (torch.optim.NAdam, {"lr": "lr", "eps": "epsilon", "momentum_decay": "momentum_decay"}),
        ("torch", "radam"): (torch.optim.RAdam, {"lr": "lr", "eps": "epsilon"}),
        ("torch", "rmsprop"): (torch.optim.RMSprop, {"lr": "lr", "eps": "epsilon", "alpha": "rho"}),
        ("torch", "muon"): (torch.optim.Muon, {"lr": "lr", "momentum": "momentum", "weight_decay": "weight_decay"}),
        ("keras", "adam"): (keras.optimizers.Adam, {"learning_rate": "lr", "beta_2": "beta2", "epsilon": "epsilon"}),
        ("keras", "adamw"): (keras.optimizers.AdamW, {"learning_rate": "lr", "weight_decay": "weight_decay"}),
        ("keras", "adagrad"): (keras.optimizers.Adagrad, {"learning_rate": "lr", "initial_accumulator_value": "initial"}),
        ("keras", "adadelta"): (keras.optimizers.Adadelta, {"learning_rate": "lr", "rho": "rho", "epsilon": "epsilon"}),
        ("keras", "adamax"): (keras.optimizers.Adamax, {"learning_rate": "lr", "epsilon": "epsilon"}),
        ("keras", "nadam"): (keras.optimizers.Nadam, {"learning_rate": "lr", "epsilon": "epsilon"}),
        ("keras", "rmsprop"): (keras.optimizers.RMSprop, {"learning_rate": "lr", "rho": "rho", "epsilon": "epsilon"}),
        ("keras", "lamb"): (keras.optimizers.Lamb, {"learning_rate": "lr", "epsilon": "epsilon"}),
        ("keras", "lion"): (keras.optimizers.Lion, {"learning_rate": "lr", "beta_1": "beta1", "beta_2": "beta2"}),
    }
    for (library, name), (kind, names) in kinds.items():
        made, known = db.optimizers[name](**like(library, name)), inspect.signature(kind).parameters
        for theirs, mine in names.items():
            assert getattr(made, mine) == known[theirs].default, (library, name, mine)

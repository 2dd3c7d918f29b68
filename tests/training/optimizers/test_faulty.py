"""Optimizers that do not give what a step must give, or are not of this framework, are refused, wherever they are asked."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.arrays import leaves
from deep_bench.errors import InvalidArgument
from deep_bench.network import training_step
from deep_bench.reference.training.sgd import SGD
from deep_bench.training import chain, compare_optimizers, validate_training
from deep_bench.training.compose import average
from deep_bench.training.form import training_form
from deep_bench.training.steps import step_on
from tests.training import small

PLAIN = small.network(dropout=False, normalized=False)
REFERENCE = db.optimizers["sgd"](lr=0.1)


class Forgetful(SGD):
    def update(self, *arguments: Any, **options: Any) -> Any:
        new, state = super().update(*arguments, **options)
        new.popitem()
        return new, state


class Inventive(SGD):
    def update(self, *arguments: Any, **options: Any) -> Any:
        new, state = super().update(*arguments, **options)
        return {**new, "more": next(iter(new.values()))}, state


class Half(SGD):
    def prepare(self, parameters: Any, state: Any) -> Any:
        return dict(list(parameters.items())[1:])


class Single(SGD):
    def update(self, *arguments: Any, **options: Any) -> Any:
        return super().update(*arguments, **options)[0]


class Wide(SGD):
    def update(self, gradients: Any, state: Any, parameters: Any, xp: Any, **options: Any) -> Any:
        new, state = super().update(gradients, state, parameters, xp, **options)
        return {name: xp.cast(w, np.float64) for name, w in new.items()}, state


class Lost(SGD):
    def update(self, *arguments: Any, **options: Any) -> Any:
        return super().update(*arguments, **options)[0], {}


def apart(rule: Any) -> None:
    small.trainer(optimizer=rule, evaluated=False).run(steps=1)


def fused(rule: Any) -> None:
    small.trainer(optimizer=rule, evaluated=False, fused=True)


def validated(rule: Any) -> None:
    batch = small.data()[np.arange(4)]
    systems = {"faulty": step_on(db.frameworks["reference"](), training_form(PLAIN), rule)}
    validate_training(PLAIN, REFERENCE, [batch], systems, steps=1, samples=2, progress=False)


def compared(rule: Any) -> None:
    compare_optimizers(REFERENCE, rule, steps=1)


def judged_by(rule: Any) -> None:
    compare_optimizers(rule, REFERENCE, steps=1)


def averaged(rule: Any) -> None:
    apart(chain(average(), rule))


@pytest.mark.parametrize("ask", [apart, fused, validated, compared, judged_by, averaged])
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Forgetful, "update of Forgetful returned the parameters"),
        (Inventive, "update of Inventive returned the parameters .*'more'"),
        (Half, "prepare of Half returned the parameters"),
        (Single, "update of Single returned a dict\nExpected: a pair of dicts"),
        (Wide, "float64"),
    ],
)
def test_a_faulty_update_is_refused_everywhere(kind: Any, said: str, ask: Any) -> None:
    if ask is averaged and kind is Half:
        said = "prepare of Averaged returned the parameters"
    with pytest.raises(InvalidArgument, match=said):
        ask(kind(lr=0.1))


def test_a_state_that_loses_a_leaf_cannot_be_traced() -> None:
    with pytest.raises(InvalidArgument, match="update of Lost returned a state without steps"):
        training_step(PLAIN, optimizer=Lost(lr=0.1))


def test_an_optimizer_of_another_framework_is_refused() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    rule = db.optimizers["torch.adam"]()
    for ask in (apart, lambda one: apart(chain(average(), one)), lambda one: compared((one, "reference"))):
        with pytest.raises(InvalidArgument, match="an optimizer of torch on arrays of reference"):
            ask(rule)


def test_names_that_are_no_parameters_are_refused() -> None:
    for options in ({"fused": False}, {"fused": True}):
        with pytest.raises(InvalidArgument, match=r"'nope'.*\n.*some of w1, b1"):
            small.trainer(evaluated=False, wrt=["nope"], **options)


NARROW = """<ir_version: 10, opset_import: ["": 21]> narrow (KIND[n,4] x) => (KIND[n,3] y)
    { a = MatMul(x, w) y = Add(a, b) }"""


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["sgd", "nesterov", "adam", "accelegrad"])
def test_narrow_parameters_are_updated_in_float32_as_in_one_graph(name: str, kind: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, kind, kind))
    rng = np.random.default_rng(0)
    proto = onnx.parser.parse_model(NARROW.replace("KIND", kind))
    for label, shape in (("w", (4, 3)), ("b", (3,))):
        array = rng.standard_normal(shape).astype(dtype)
        code = onnx.helper.np_dtype_to_tensor_dtype(dtype)
        stored = onnx.helper.make_tensor(label, code, shape, array.tobytes(), raw=True)
        proto.graph.initializer.append(stored)
    network = db.Network.from_proto(proto).with_loss("MeanSquaredError", output="y", target="t")
    batch = {"x": rng.standard_normal((8, 4)).astype(dtype), "t": rng.standard_normal((8, 3)).astype(dtype)}
    found = []
    for one_graph in (False, True):
        step = step_on(db.frameworks["reference"](), training_form(network), db.optimizers[name](), fused=one_graph)
        losses = [float(step(batch)["loss"]) for _ in range(4)]
        found.append((losses, step.snapshot()))
    (losses, separate), (again, whole) = found
    assert losses == again
    for label, array in separate["parameters"].items():
        assert array.dtype == dtype
        assert np.array_equal(array, whole["parameters"][label])
    assert all(np.asarray(leaf).dtype != dtype for leaf in leaves(separate["optimizer"]).values())

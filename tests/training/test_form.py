"""The forms of a network for training: statistics and draws become inputs, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidNetwork, Unsupported
from deep_bench.graph import Network
from deep_bench.training.form import training_form
from deep_bench.training.initial import roles
from deep_bench.training.steps import step_on
from tests.training import small


def network(text: str) -> Network:
    return Network.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}'))


def run(made: Network, inputs: dict[str, Any], on: str = "reference") -> dict[str, np.ndarray]:
    return db.frameworks[on]().prepare(made)(inputs)


NORMALIZED = """g (float[n,2] x) => (float[n,2] y)
    <float[2] s = {1, 2}, float[2] b = {0, 1}, float[2] m = {0, 0}, float[2] v = {1, 1}>
    { y = BatchNormalization<momentum = 0.75>(x, s, b, m, v) }"""


def test_a_normalization_takes_the_batch_and_gives_the_next_statistics() -> None:
    form = training_form(network(NORMALIZED))
    assert dict(form.state) == {"m": "m.next", "v": "v.next"}
    x = np.float32([[1, 2], [3, 6]])
    found = run(form.training, {"x": x, **form.initial})
    assert np.allclose(found["y"], [[-1, -1], [1, 3]], atol=1e-4)
    assert np.allclose(found["m.next"], 0.25 * x.mean(0))
    assert np.allclose(found["v.next"], 0.75 + 0.25 * x.var(0))


def test_evaluation_takes_the_statistics() -> None:
    form = training_form(network(NORMALIZED))
    found = run(form.evaluation, {"x": np.float32([[1, 2]]), "m": np.float32([1, 1]), "v": np.float32([4, 1])})
    assert np.allclose(found["y"], [[0, 3]], atol=1e-4)


def test_a_network_in_training_mode_already_is_the_same() -> None:
    training = NORMALIZED.replace("momentum = 0.75", "momentum = 0.75, training_mode = 1").replace("y = B", "y, mm, vv = B")
    one, other = (training_form(network(text)) for text in (NORMALIZED, training))
    x = {"x": np.float32([[1, 2], [3, 6]]), **one.initial}
    assert np.array_equal(run(one.training, x)["y"], run(other.training, x)["y"])
    assert np.array_equal(run(one.evaluation, x)["y"], run(other.evaluation, x)["y"])


def test_dropout_keeps_where_the_draw_is_not_below_the_ratio() -> None:
    form = training_form(network("g (float[n,2] x) => (float[n,2] y) <float r = {0.25}> { y = Dropout(x, r) }"))
    (spec,) = form.draws
    draw = np.float32([[0.0, 0.25], [0.2499, 0.9]])
    found = run(form.training, {"x": np.full((2, 2), 3, np.float32), spec.name: draw})
    assert found["y"].tolist() == [[0, 4], [0, 4]]
    x = np.ones((1, 2), np.float32)
    assert np.array_equal(run(form.evaluation, {"x": x})["y"], x)


def test_dropout_of_half_by_default_and_with_its_mask() -> None:
    form = training_form(network("g (float[n] x) => (float[n] y, bool[n] mask) { y, mask = Dropout(x) }"))
    (spec,) = form.draws
    found = run(form.training, {"x": np.ones(2, np.float32), spec.name: np.float32([0.4, 0.6])})
    assert found["y"].tolist() == [0, 2]
    assert found["mask"].tolist() == [False, True]
    assert run(form.evaluation, {"x": np.ones(2, np.float32)})["mask"].tolist() == [True, True]


def test_draws_are_the_same_for_the_same_seed_and_step() -> None:
    form = training_form(small.network())
    batch = small.data()[np.arange(5)]
    (name,) = (spec.name for spec in form.draws)
    one, again, other, later = (form.draw(batch, *key)[name] for key in ((1, 2), (1, 2), (2, 2), (1, 3)))
    assert one.shape == (5, 8)
    assert one.dtype == np.float32
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert not np.array_equal(one, later)


def test_a_network_without_modes_is_itself() -> None:
    plain = small.network(dropout=False, normalized=False)
    form = training_form(plain)
    assert not form.state
    assert not form.draws
    assert [n.op_type for n in form.training.nodes] == [n.op_type for n in plain.nodes]


ONE = """one (float[n,2] x) => (float[n,1] y)
    <float[2,1] w = {1, 2}, float[1] b = {3}, float[1] slope = {0.5}, float half = {0.5}>
    { m = MatMul(x, w)  a = Add(b, m)  c = PRelu(a, slope)  y = Mul(c, half) }"""


@pytest.mark.parametrize("on", ["reference", "torch", "onnxruntime"])
def test_a_bias_of_one_element_is_trained_and_a_constant_is_not(on: str) -> None:
    if missing := db.frameworks.missing(on):
        pytest.skip(f"{', '.join(missing)} is not installed")
    form = training_form(network(ONE).with_loss("MeanSquaredError", output="y", target="t"))
    step = step_on(db.frameworks[on](), form, db.optimizers["sgd"](lr=0.5))
    assert sorted(step.parameters) == ["b", "slope", "w"]
    fed = {"x": np.float32([[-2, -2], [0, 0]]), "t": np.float32([[0], [0]])}
    step({name: step.device.from_numpy(array) for name, array in fed.items()})
    found = step.snapshot()["parameters"]
    # y = (-0.75, 1.5), dy/db = (0.25, 0.5), dy/dslope = (-1.5, 0): the mean squared error's slopes are 0.5625 and 1.125.
    assert np.allclose(found["b"], 3 - 0.5 * 0.5625)
    assert np.allclose(found["slope"], 0.5 - 0.5 * 1.125)
    kinds = {name: role.kind if role is not None else None for name, role in roles(form.source).items()}
    assert kinds == {"w": "weight", "b": "bias", "slope": "slope"}


def test_the_trained_network_has_the_new_values() -> None:
    form = training_form(small.network())
    made = form.trained({"b2": np.float32([1, 2, 3])}, {"mean": np.full(8, 0.5, np.float32)})
    assert made.parameters["b2"].tolist() == [1, 2, 3]
    assert made.initializers["mean"].tolist() == [0.5] * 8
    assert form.source.parameters["b2"].tolist() == [0, 0, 0], "the network that it was made from stays"
    with pytest.raises(InvalidArgument, match="no initializer"):
        form.trained({"b9": np.zeros(3)}, {})
    with pytest.raises(InvalidArgument, match="shape"):
        form.trained({"b2": np.zeros(4)}, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            """g (float[n,2] x, bool c) => (float[n,2] y) { y = If(c) <
                then_branch = t () => (float[n,2] a) { a = Dropout(x) },
                else_branch = e () => (float[n,2] b) { b = Identity(x) } > }""",
            "body of another operator",
        ),
        (
            NORMALIZED.replace("g (float[n,2] x)", "g (float[n,2] x, float[2] given)").replace("b, m, v", "b, given, v"),
            "computed",
        ),
        (NORMALIZED.replace("b, m, v", "b, m, m"), "shared"),
        ("g (float[n,2] x, int64[k] s) => (float[a,b] y) { r = Reshape(x, s) y = Dropout(r) }", "unknown before a run"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises((Unsupported, InvalidNetwork), match=said):
        training_form(network(text))

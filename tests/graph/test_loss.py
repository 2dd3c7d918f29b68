"""Losses appended to networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network

DENSE = '<ir_version: 10, opset_import: ["" : 21]> g (double[n,3] x) => (double[n,3] y) { y = Tanh(x) }'


def network(text: str = DENSE) -> Network:
    return Network.from_proto(onnx.parser.parse_model(text))


def run(changed: Network, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    return db.frameworks["reference"]().prepare(changed)(inputs)


X = np.array([[0.1, -2.0, 0.5], [3.0, 0.2, -0.7]])
Y = np.tanh(X)
T = np.array([[0.0, 1.0, 2.0], [-1.0, 0.5, 0.25]])


def test_the_outputs_stay_and_the_loss_follows() -> None:
    changed = network().with_loss("Sum", output="y", name="total")
    assert [spec.name for spec in changed.outputs] == ["y", "total"]
    assert changed.outputs[1].shape == ()
    found = run(changed, x=X)
    np.testing.assert_array_equal(found["y"], Y)
    assert found["total"] == pytest.approx(Y.sum())


@pytest.mark.parametrize(
    ("kind", "expected"), [("MeanSquaredError", ((Y - T) ** 2).mean()), ("MeanAbsoluteError", np.abs(Y - T).mean())]
)
def test_losses_of_a_difference(kind: str, expected: float) -> None:
    changed = network().with_loss(kind, output="y", target="t")
    assert str(changed.inputs[1]) == "t: float64[n, 3]"
    assert run(changed, x=X, t=T)["loss"] == pytest.approx(expected)


def test_losses_of_classes() -> None:
    labels = np.array([2, 0])
    logarithms = Y - np.log(np.exp(Y).sum(1, keepdims=True))
    expected = -logarithms[[0, 1], labels]
    changed = network().with_loss("SoftmaxCrossEntropyLoss", output="y", target="label")
    assert str(changed.inputs[1]) == "label: int64[n]"
    assert run(changed, x=X, label=labels)["loss"] == pytest.approx(expected.mean())
    summed = network().with_loss("SoftmaxCrossEntropyLoss", output="y", target="label", reduction="sum", ignore_index=0)
    assert run(summed, x=X, label=labels)["loss"] == pytest.approx(expected[0])
    logs = network(DENSE.replace("Tanh", "LogSoftmax")).with_loss("NegativeLogLikelihoodLoss", output="y", target="label")
    assert run(logs, x=Y, label=labels)["loss"] == pytest.approx(expected.mean())


def test_older_networks_are_upgraded_as_far_as_needed() -> None:
    old = '<ir_version: 4, opset_import: ["" : 9]> g (float[2,3] x) => (float[2,3] y) { y = Tanh(x) }'
    changed = network(old).with_loss("SoftmaxCrossEntropyLoss", output="y", target="label")
    assert changed.opset == 21
    assert run(changed, x=X.astype(np.float32), label=np.array([0, 1]))["loss"].dtype == np.float32


CLASSES = {"kind": "SoftmaxCrossEntropyLoss", "output": "y", "target": "t"}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"kind": "Hinge", "output": "y"}, "loss 'Hinge'"),
        ({"kind": "Sum", "output": "z"}, "no value 'z'"),
        ({"kind": "Sum", "output": "y", "name": "y"}, "a value 'y' already"),
        ({"kind": "Sum", "output": "y", "target": "t"}, "target 't'"),
        ({"kind": "MeanSquaredError", "output": "y"}, "target None"),
        ({"kind": "MeanSquaredError", "output": "y", "target": "x"}, "a value 'x' already"),
        ({"kind": "MeanSquaredError", "output": "y", "target": "t", "reduction": "sum"}, "no attribute 'reduction'"),
        ({"kind": "MeanSquareError", "output": "y", "target": "t"}, "did you mean 'MeanSquaredError'"),
        ({"kind": "Sum", "output": "y", "nmae": "total"}, "(?s)no attribute 'nmae'.*did you mean 'name'"),
        ({"kind": "Sum", "output": "y", "name": ""}, "name=''"),
        ({"kind": "MeanSquaredError", "output": "y", "target": 3}, "target=3"),
        (CLASSES | {"reduction": "foo"}, "(?s)reduction='foo'.*one of mean, none, sum"),
        (CLASSES | {"reduction": "Mean"}, "did you mean 'mean'"),
        (CLASSES | {"reduction": None}, "reduction=None"),
        (CLASSES | {"ignore_index": 1.5}, "ignore_index=1.5"),
        (CLASSES | {"ignore_index": True}, "ignore_index=True"),
        (CLASSES | {"ignored_index": 1}, "(?s)no attribute 'ignored_index'.*did you mean 'ignore_index'"),
        ({**CLASSES, "kind": "NegativeLogLikelihoodLoss", "reduction": "avg"}, "reduction='avg'"),
        ({"kind": "SoftmaxCrossEntropyLoss", "output": "y", "target": "t", "weight": 1}, "no attribute 'weight'"),
    ],
)
def test_what_cannot_be_appended_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        network().with_loss(**options)


@pytest.mark.parametrize("reduction", ["mean", "none", "sum"])
def test_each_reduction_of_the_standard_is_taken(reduction: str) -> None:
    changed = network().with_loss(**CLASSES, reduction=reduction, ignore_index=np.int64(-1))
    found = run(changed, x=X, t=np.array([2, -1]))["loss"]
    each = np.array([-(Y[0] - np.log(np.exp(Y[0]).sum()))[2], 0.0])
    assert found == pytest.approx(each if reduction == "none" else each.sum())


def test_classes_need_their_dimension() -> None:
    flat = network('<ir_version: 10, opset_import: ["" : 21]> g (float[n] x) => (float[n] y) { y = Tanh(x) }')
    with pytest.raises(InvalidArgument, match="at least 2 dimensions"):
        flat.with_loss("SoftmaxCrossEntropyLoss", output="y", target="label")

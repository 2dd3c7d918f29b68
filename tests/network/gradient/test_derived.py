"""`Executor.gradients` where it runs the derived network: on the reference and ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, Unsupported

TEXT = (
    '<ir_version: 10, opset_import: ["" : 21]> g (float[2,3] x) => (float[2,3] y, float loss) '
    "<float[3] w = {1, 2, 3}, float[3] unused = {4, 5, 6}> { y = Mul(x, w)  loss = ReduceSum<keepdims = 0>(y) }"
)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(params=["reference", "onnxruntime"])
def adapter(request: pytest.FixtureRequest):
    if db.frameworks.missing(request.param):
        pytest.skip(f"{request.param} is not installed")
    return db.frameworks[request.param]()


def gradients(adapter, executor, **options):
    outputs, found = executor.gradients({"x": adapter.from_numpy(X)}, "loss", **options)
    return [{name: adapter.to_numpy(value) for name, value in part.items()} for part in (outputs, found)]


@pytest.fixture
def executor(adapter):
    return adapter.prepare(db.Network.from_proto(onnx.parser.parse_model(TEXT)), mode="train")


def test_outputs_and_gradients(adapter, executor) -> None:
    outputs, found = gradients(adapter, executor, wrt=["w", "x"])
    assert set(outputs) == {"y", "loss"}
    assert list(found) == ["w", "x"]
    np.testing.assert_array_equal(found["w"], X.sum(0))
    np.testing.assert_array_equal(found["x"], np.tile([1, 2, 3], (2, 1)))


def test_by_default_all_parameters_also_those_without_effect(adapter, executor) -> None:
    _, found = gradients(adapter, executor)
    assert set(found) == {"w", "unused"}
    np.testing.assert_array_equal(found["unused"], np.zeros(3, np.float32))


def test_assigned_parameters_are_seen(adapter, executor) -> None:
    gradients(adapter, executor, wrt=["x"])
    executor.parameters["w"] = adapter.from_numpy(np.array([5, 6, 7], np.float32))
    outputs, found = gradients(adapter, executor, wrt=["x"])
    np.testing.assert_array_equal(found["x"], np.tile([5, 6, 7], (2, 1)))
    np.testing.assert_array_equal(outputs["y"], X * [5, 6, 7])


def test_each_is_told_once(adapter, executor) -> None:
    told: list[str] = []
    gradients(adapter, executor, wrt=["w", "x"], on_ready=lambda name, _: told.append(name))
    assert sorted(told) == ["w", "x"]


@pytest.mark.parametrize(
    ("loss", "wrt", "named"),
    [
        ("nothing", None, "no output 'nothing'"),
        ("y", None, "shape"),
        ("loss", ["v"], "'v'"),
        ("loss", ["w", "w"], "each name once"),
    ],
)
def test_bad_requests(adapter, executor, loss: str, wrt: list[str] | None, named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        executor.gradients({"x": adapter.from_numpy(X)}, loss, wrt=wrt)


def test_inference_has_no_gradients(adapter) -> None:
    executor = adapter.prepare(db.Network.from_proto(onnx.parser.parse_model(TEXT)))
    with pytest.raises(Unsupported, match="prepared for inference"):
        executor.gradients({"x": adapter.from_numpy(X)}, "loss")

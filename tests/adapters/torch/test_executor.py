"""Calling, binding and parameters."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from deep_bench.adapters.lowering import Site, Slot
from deep_bench.errors import InvalidArgument, InvalidInput, Unsupported, UnsupportedOperator
from deep_bench.graph import Network
from deep_bench.testing.adapter import X, Y, small_network

torch = pytest.importorskip("torch")

from deep_bench.adapters.torch import TorchAdapter  # noqa: E402 (after the skip)
from deep_bench.adapters.torch.operators import build  # noqa: E402

F = onnx.TensorProto.FLOAT


@pytest.fixture
def adapter() -> TorchAdapter:
    return TorchAdapter()


def test_parameters_are_the_modules_own(adapter) -> None:
    executor = adapter.prepare(small_network(), mode="train")
    (held,) = (p for n, p in executor.module.named_parameters() if n.endswith("w"))
    assert executor.parameters["w"] is held
    new = torch.zeros(3, 2)
    executor.parameters["w"] = new
    assert executor.parameters["w"].data_ptr() == new.data_ptr()
    new += 1  # what is assigned is used itself, not a copy
    expected = np.maximum(X.sum(1, keepdims=True) + np.array([0.5, -1]), 0)
    np.testing.assert_allclose(executor({"x": X})["y"], expected, rtol=1e-6)


def test_parameters_in_inference_mode(adapter) -> None:
    executor = adapter.prepare(small_network())
    executor.parameters["w"] = torch.zeros(3, 2)
    np.testing.assert_allclose(executor({"x": X})["y"], [[0.5, 0]] * 2)


@pytest.mark.parametrize("value", [torch.zeros(2, 3), torch.zeros(3, 2, dtype=torch.float64)])
def test_parameters_keep_their_shape_and_type(adapter, value) -> None:
    executor = adapter.prepare(small_network())
    with pytest.raises(InvalidArgument, match="'w'"):
        executor.parameters["w"] = value


def test_parameters_cannot_be_added_or_deleted(adapter) -> None:
    executor = adapter.prepare(small_network())
    with pytest.raises(KeyError):
        executor.parameters["v"] = torch.zeros(3, 2)
    with pytest.raises(Unsupported):
        del executor.parameters["w"]


def test_weights_built_into_code_are_refused_unless_it_trains(adapter, one_node) -> None:
    x, w, r = (np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in ((3, 1, 2), (1, 8, 2), (1, 8, 2)))
    network, fed = one_node("LSTM", [x, w, r], {"hidden_size": 2}, fixed=[1, 2])
    executor = adapter.prepare(network)
    with pytest.raises(Unsupported, match="train"):
        executor.parameters["x1"] = torch.zeros(1, 8, 2)
    trained = adapter.prepare(network, mode="train")
    trained.parameters["x1"] = torch.zeros(1, 8, 2)
    trained.parameters["x2"] = torch.zeros(1, 8, 2)
    assert not trained(fed)["y0"].any()


def test_train_mode_records_for_differentiation(adapter) -> None:
    executor = adapter.prepare(small_network(), mode="train")
    executor.forward({"x": adapter.from_numpy(X)})["y"].sum().backward()
    positive = (Y > 0).astype(np.float32)
    np.testing.assert_allclose(executor.parameters["w"].grad, X.T @ positive, rtol=1e-6)


def test_inference_mode_records_nothing(adapter) -> None:
    executor = adapter.prepare(small_network())
    x = torch.from_numpy(X.copy()).requires_grad_()
    assert not executor.bind({"x": x})()["y"].requires_grad
    assert not executor.forward({"x": x})["y"].requires_grad


def test_bound_inputs_are_held_not_copied(adapter) -> None:
    x = adapter.from_numpy(X)
    call = adapter.prepare(small_network()).bind({"x": x})
    x.zero_()
    np.testing.assert_allclose(call()["y"].numpy(), [[0.5, 0]] * 2)


def test_outputs_share_no_memory_with_inputs_parameters_or_each_other(adapter) -> None:
    helper = onnx.helper
    graph = helper.make_graph(
        [
            helper.make_node("Identity", ["x"], ["same"]),
            helper.make_node("Flatten", ["x"], ["view"]),
            helper.make_node("Identity", ["w"], ["weights"]),
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("Flatten", ["r"], ["again"]),
        ],
        "aliases",
        [helper.make_tensor_value_info("x", F, [2, 3])],
        [helper.make_tensor_value_info(n, F, None) for n in ("same", "view", "weights", "r", "again")],
        [onnx.numpy_helper.from_array(np.ones((2, 2), np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    from deep_bench.graph import Network

    executor = adapter.prepare(Network.from_proto(model))
    x = adapter.from_numpy(X)
    found = executor.forward({"x": x})
    memory = [t.untyped_storage().data_ptr() for t in (x, *executor.module.buffers(), *executor.module.parameters())]
    memory += [t.untyped_storage().data_ptr() for t in found.values()]
    assert len(set(memory)) == len(memory)
    np.testing.assert_array_equal(found["again"].numpy(), np.maximum(X, 0))


def test_wrong_names_for_native_inputs(adapter) -> None:
    executor = adapter.prepare(small_network())
    for bad in ({}, {"z": torch.zeros(2, 3)}):
        with pytest.raises(InvalidInput, match="exactly"):
            executor.bind(bad)


def test_the_reference_computes_what_torch_cannot(adapter, one_node) -> None:
    x = np.array([2**63 + 5, 0], np.uint64)
    network, fed = one_node("Sign", [x], {}, outputs=[onnx.TensorProto.UINT64])
    executor = adapter.prepare(network)
    assert "uint64" in executor.forms.fallback["only"]
    assert executor(fed)["y0"].tolist() == [1, 0]


def test_composites_without_native_code_are_expanded(adapter, one_node) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    network, fed = one_node("NegativeLogLikelihoodLoss", [x, np.array([2, 0])], {"reduction": "sum"})
    executor = adapter.prepare(network)
    assert executor.forms.decomposed == ("only",)
    np.testing.assert_allclose(executor(fed)["y0"], -(x[0, 2] + x[1, 0]), rtol=1e-6)


def test_code_that_needs_a_type_is_built_when_it_is_known() -> None:
    site = Site("only", "ReduceMean", 28, {"keepdims": 0}, (Slot("x"),), (Slot("y"),))
    code = build(site)
    assert code(torch.tensor([1, 2, 6])).item() == 3
    assert code(torch.tensor([1.0, 2.0])).item() == 1.5
    with pytest.raises(UnsupportedOperator, match="uint64"):
        code(torch.tensor([1, 2], dtype=torch.uint64))


def test_no_derivative_passes_through_the_reference_unnoticed(adapter) -> None:
    """To torch, what the reference computes looks like a constant."""
    helper = onnx.helper
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "w"], ["h"]),
            helper.make_node("MaxRoiPool", ["h", "rois"], ["y"], name="pool", pooled_shape=[1, 1]),
        ],
        "regions",
        [helper.make_tensor_value_info("x", F, [1, 1, 2, 2])],
        [helper.make_tensor_value_info("y", F, None)],
        [
            onnx.numpy_helper.from_array(np.full(1, 3, np.float32), "w"),
            onnx.numpy_helper.from_array(np.array([[0, 0, 0, 1, 1]], np.float32), "rois"),
        ],
    )
    network = Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)]))
    executor = adapter.prepare(network, mode="train")
    y = executor.forward({"x": torch.arange(4.0).reshape(1, 1, 2, 2)})["y"]
    assert y.item() == 9
    with pytest.raises(Unsupported, match="'pool'"):
        y.sum().backward()

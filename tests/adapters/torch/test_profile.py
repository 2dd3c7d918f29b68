"""Where torch's time goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deep_bench as db

torch = pytest.importorskip("torch")

FED = {"image": np.zeros((2, 1, 8, 8), np.float32), "label": np.array([3, 1])}


def scored() -> db.Network:
    return db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")


def prepared(mode: str = "inference", **options: Any) -> tuple[Any, dict[str, Any]]:
    adapter = db.frameworks["torch"](**options)
    return adapter.prepare(scored(), mode=mode), {name: adapter.from_numpy(array) for name, array in FED.items()}


def test_every_step_of_the_code_is_a_piece() -> None:
    executor, fed = prepared()
    found = executor.profile(fed, repeat=3)
    assert [time.nodes for time in found.times] == [(str(node.name),) for node in scored().nodes]
    assert found.allocated_bytes is None
    assert found.kernels == {}


def test_the_code_is_as_it_was_afterwards() -> None:
    executor, fed = prepared("train")
    scope = executor.module.forward.__globals__
    before = {name: value for name, value in scope.items() if name.startswith("f")}
    executor.profile(fed, repeat=1, loss="loss")
    assert {name: value for name, value in scope.items() if name.startswith("f")} == before


def test_what_autograd_does_counts_with_the_step_that_it_is_of() -> None:
    executor, fed = prepared("train")
    found = executor.profile(fed, repeat=3, loss="loss")
    back = {name for time in found.times if time.direction == "backward" for name in time.nodes}
    assert back == {str(node.name) for node in scored().nodes}
    assert [time.what for time in found.times if not time.nodes] == ["AccumulateGrad"]
    wholly = sum(time.ns for time in found.times)
    assert (wholly <= found.observed_ns).all()


def test_profiled_gradients_are_the_gradients() -> None:
    executor, fed = prepared("train")
    _, before = executor.gradients(fed, "loss")
    executor.profile(fed, repeat=1, loss="loss")
    _, after = executor.gradients(fed, "loss")
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_compiled_network_is_one_piece() -> None:
    executor, fed = prepared(compile="eager")
    found = executor.profile(fed, repeat=2)
    assert [time.whole for time in found.times] == [True]
    assert set(found.times[0].nodes) == {str(node.name) for node in scored().nodes}
    assert "compiled" in found.how


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_on_a_gpu_the_kernels_under_each_node_are_told() -> None:
    executor, fed = prepared(device="cuda")
    found = executor.profile(fed, repeat=3)
    assert found.allocated_bytes > 0
    assert {str(node.name) for node in scored().nodes if node.op_type in ("Conv", "Gemm")} <= set(found.kernels)
    assert all(ns > 0 for ns in found.kernels["head"].values())
    assert (sum(time.ns for time in found.times) <= found.observed_ns).all()

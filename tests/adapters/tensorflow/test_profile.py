"""Where TensorFlow's time goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deep_bench as db

tf = pytest.importorskip("tensorflow")

FED = {"image": np.zeros((2, 1, 8, 8), np.float32), "label": np.array([3, 1])}


def scored() -> db.Network:
    return db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")


def prepared(mode: str = "inference", **options: Any) -> tuple[Any, dict[str, Any]]:
    adapter = db.frameworks["tensorflow"](**options)
    return adapter.prepare(scored(), mode=mode), {name: adapter.from_numpy(array) for name, array in FED.items()}


def test_an_eager_walk_is_observed_and_said_to_be_one() -> None:
    executor, fed = prepared()
    found = executor.profile(fed, repeat=2)
    assert {name for time in found.times for name in time.nodes} == {str(node.name) for node in scored().nodes}
    assert "eager walk" in found.how
    assert len(found.walk_ns) == len(found.plain_ns) == 2
    assert not any(time.whole for time in found.times)


def test_the_way_back_is_one_piece_and_observing_it_leaves_nothing_behind() -> None:
    executor, fed = prepared("train")
    _, before = executor.gradients(fed, "loss", wrt=["stem.weight"])
    found = executor.profile(fed, repeat=2, loss="loss", wrt=["stem.weight"])
    (back,) = [time for time in found.times if time.direction == "backward"]
    assert back.whole
    assert set(back.nodes) == {str(node.name) for node in scored().nodes}
    assert (sum(time.ns for time in found.times) <= found.observed_ns).all()
    _, after = executor.gradients(fed, "loss", wrt=["stem.weight"])
    assert np.array_equal(before["stem.weight"].numpy(), after["stem.weight"].numpy())
    assert "_run" not in vars(executor._runner)


def test_what_xla_compiles_is_one_piece() -> None:
    executor, fed = prepared(jit="xla")
    found = executor.profile(fed, repeat=2)
    assert [time.whole for time in found.times] == [True]


@pytest.mark.gpu
@pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="TensorFlow sees no GPU here")
def test_on_a_gpu_the_allocator_tells() -> None:
    executor, fed = prepared(device="gpu")
    found = executor.profile(fed, repeat=2)
    assert found.allocated_bytes > 0
    assert (sum(time.ns for time in found.times) <= found.observed_ns).all()

"""Kernels in a network are judged by what their nodes say, forward and backward, wherever they run."""

from __future__ import annotations

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import UnsupportedOperator
from deep_bench.framework import THROUGH_NUMPY

from .placed_kernels import FRAMEWORKS, ForwardOnly, Gemm, Relu, Split, adapter, batch, digits, gradients, parse


@pytest.mark.long
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_gradients_are_the_kernels_own(name: str) -> None:
    on, network = adapter(name), digits()
    expected = gradients(on, network, batch())
    found = gradients(on, network.replace("Relu", Relu()), batch())
    assert found.keys() == expected.keys()
    assert all(np.allclose(found[n], g, rtol=1e-4, atol=1e-5) for n, g in expected.items())
    wrong = gradients(on, network.replace("strided_relu", Relu(factor=1.01)), batch())
    head = wrong["head.weight"]
    assert np.allclose(head, expected["head.weight"], rtol=1e-4, atol=1e-5)  # it lies after the kernel
    ratio = np.median(wrong["stem.weight"] / expected["stem.weight"])
    assert ratio == pytest.approx(1.01, rel=1e-3)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_no_gradient_goes_through_a_kernel_without_one(name: str) -> None:
    on, network = adapter(name), digits().replace("strided_relu", ForwardOnly())
    with pytest.raises(UnsupportedOperator, match="ForwardOnly has no backward"):
        gradients(on, network, batch())


@pytest.mark.long
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_slightly_wrong_kernel_is_found_and_a_right_one_is_not_blamed(name: str) -> None:
    on, network = adapter(name), db.load("digits-cnn")
    right = db.network.diverge(network.replace("Relu", Relu()), on, batch=2, progress=False)
    assert right.judged
    assert right.ok, right.table()
    wrong = db.network.diverge(network.replace("residual_relu", Relu(slope=1e-4)), on, batch=2, progress=False)
    assert [n.name for n in wrong.nodes if n.accused] == ["residual_relu"]
    assert wrong.first_carried is not None


@pytest.mark.long
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_wrong_gradient_is_found(name: str) -> None:
    on, network = adapter(name), digits()
    labels = {"image": batch()["image"][:2], "label": np.arange(2)}
    wrong = network.replace("residual_relu", Relu(factor=1.01))
    found = db.network.diverge(wrong, on, labels, gradients="loss", progress=False)
    assert [n.name for n in found.nodes if n.accused] == ["residual_relu"]


def test_compare_judges_kernels_by_what_the_nodes_say() -> None:
    pytest.importorskip("torch")
    network = db.load("digits-cnn")
    image = {"image": batch()["image"]}
    contestants = {"right": network.replace("Relu", Relu()), "wrong": network.replace("first_relu", Relu(slope=1e-4))}
    found = db.network.compare({n: ("torch", c) for n, c in contestants.items()}, image, network=network, budget=0)
    assert {s.label: s.word for s in found.systems} == {"right": "right", "wrong": "wrong"}


def test_kernels_reach_the_processes_of_a_run() -> None:
    network = db.load("digits-cnn")
    for slope, word in ((0.0, "right"), (1e-4, "wrong")):
        replaced = network.replace("first_relu", Relu(slope))
        result = db.run(replaced, on=["reference"], budget=0.2, twin=False, progress=False)
        (system,) = result.record.systems
        assert system.error is None
        assert system.verdict is not None
        assert system.verdict.verdict == word
        assert slope == 0 or system.verdict.reason.startswith("node 'first_relu' (Relu)")
        assert system.forms is not None
        assert dict(system.forms.fallback) == {"first_relu": THROUGH_NUMPY}
        assert "kernels in the place of nodes: Relu computes first_relu" in result.record.notes


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_kernels_read_parameters_that_training_changes(name: str) -> None:
    on, network = adapter(name), digits()
    replaced = network.replace("Gemm", Gemm())
    expected, found = gradients(on, network, batch()), gradients(on, replaced, batch())
    assert all(np.allclose(found[n], g, rtol=1e-4, atol=1e-5) for n, g in expected.items())
    executor = on.prepare(replaced, mode="train")
    before = executor(batch())["logits"]
    executor.parameters["head.weight"] = on.from_numpy(2 * on.to_numpy(executor.parameters["head.weight"]))
    bias = on.to_numpy(executor.parameters["head.bias"])
    assert np.allclose(executor(batch())["logits"] - bias, 2 * (before - bias), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_gradients_of_several_outputs_of_which_one_is_used(name: str) -> None:
    network = parse("""g (float[5] x) => (float loss, float[3] z) <float[5] w = {1, 2, 3, 4, 5}, int64[2] s = {2, 3}> {
        p = Mul(x, w)  y, z = Split(p, s)  q = Mul(y, y)  loss = ReduceSum<keepdims = 0>(q)
    }""")
    inputs = {"x": np.arange(5, dtype=np.float32)}
    on = adapter(name)
    expected = gradients(on, network, inputs)["w"]
    kernel = Split()
    assert np.allclose(gradients(on, network.replace("Split", kernel), inputs)["w"], expected)
    assert name == "tensorflow" or kernel.missing == [1]  # TensorFlow gives zeros instead
    assert expected.tolist() == [0, 4, 0, 0, 0]


@pytest.mark.long
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_training_step_runs_the_kernels_and_their_gradients(name: str) -> None:
    on, losses = adapter(name), []
    for network in (digits(), digits().replace("Relu", Relu()), digits().replace("Relu", Relu(factor=0.0))):
        step = db.network.training_step(network)
        run, state = on.prepare(step.network), step.initial
        for _ in range(2):
            outputs = run({**batch(), **state, "learning_rate": np.float32(0.1)})
            state = step.next(outputs)
        losses.append(float(outputs["loss"]))
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    assert losses[2] != pytest.approx(losses[0], rel=1e-3)


def test_the_cases_of_a_network_are_what_its_nodes_say() -> None:
    network = db.load("digits-cnn")
    assert list(db.operators.cases_of(network.replace("Relu", Relu()))) == list(db.operators.cases_of(network))

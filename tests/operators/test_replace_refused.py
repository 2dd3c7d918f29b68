"""What kernels in a network must not do is refused in the same words by all frameworks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import DeepBenchError, InvalidInput
from deep_bench.operators.checks import KernelFailure

from .placed_kernels import FRAMEWORKS, Relu, adapter, batch, digits, gradients, parse


def relu(forward: Any, backward: Any = None, device: str = "numpy") -> Any:
    return db.operators.wrap(forward, computes="Relu", device=device, backward=backward, name="mine")


def in_place(x: np.ndarray) -> np.ndarray:
    x[...] = np.maximum(x, 0)
    return x


def broken(x: np.ndarray) -> np.ndarray:
    raise ZeroDivisionError("by design")


FORWARD: list[tuple[Any, type[DeepBenchError], str]] = [
    (lambda x: np.maximum(x, 0)[:, :1], InvalidInput, r"mine.forward returned float32\[2, 1\]"),
    (lambda x: np.maximum(x, 0).reshape(-1), InvalidInput, r"float32\[6\]\nExpected: float32\[2, 3\], as the node gives"),
    (lambda x: np.maximum(x, 0).astype(np.float64), InvalidInput, r"returned float64\[2, 3\]\nExpected: float32\[2, 3\]"),
    (lambda x: [x], InvalidInput, "returned a list"),
    (in_place, KernelFailure, "read-only(.|\n)*arguments that stay as they are"),
    (broken, KernelFailure, r"mine.forward raised ZeroDivisionError: by design"),
]
BACKWARD: list[tuple[Any, type[DeepBenchError], str]] = [
    (lambda grads, inputs, outputs: (grads[0][:1],), InvalidInput, r"gradient of shape \[1, 3\] for input 0"),
    (lambda grads, inputs, outputs: (grads[0].astype(np.float64),), InvalidInput, "gradient of float64 for input 0"),
    (lambda grads, inputs, outputs: (1.0,), InvalidInput, "gradient that is a float"),
    (lambda grads, inputs, outputs: (in_place(grads[0]),), KernelFailure, "mine.backward raised(.|\n)*read-only"),
    (lambda grads, inputs, outputs: broken(grads[0]), KernelFailure, "mine.backward raised ZeroDivisionError"),
]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_refusals_are_alike(name: str) -> None:
    on, x = adapter(name), np.array([[-1, 2, 3], [4, -5, 6]], np.float32)
    before = x.copy()
    for forward, kind, words in FORWARD:
        network = parse("g (float[n, 3] x) => (float[n, 3] y) { r = Relu(x)  y = Add(r, x) }").replace("Relu", relu(forward))
        with pytest.raises(kind, match=f"^node '.*' \\(Relu\\): (.|\n)*{words}"):
            on.prepare(network)({"x": x})
    text = "g (float[2, 3] x) => (float loss) { a = Abs(x) r = Relu(a)  q = Mul(r, a)  loss = ReduceSum<keepdims = 0>(q) }"
    for backward, kind, words in BACKWARD:
        network = parse(text).replace("Relu", relu(lambda x: np.maximum(x, 0), backward))
        with pytest.raises(kind, match=f"^node '.*' \\(Relu\\): (.|\n)*{words}"):
            gradients(on, network, {"x": x})
    assert np.array_equal(x, before)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_shape_that_would_be_broadcast_is_refused(name: str) -> None:
    pooled = relu(lambda x: np.maximum(x, 0)[:, :, :1, :1])
    network = db.load("digits-cnn").replace("residual_relu", pooled)
    with pytest.raises(InvalidInput, match=r"^node 'residual_relu' \(Relu\): mine.forward returned float32\[3, 32, 1, 1\]"):
        adapter(name).prepare(network)({"image": batch()["image"]})


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_native_code_that_writes_to_its_inputs_is_refused(name: str) -> None:
    source = """extern "C" void f(float *x, float *y, long n) {
        for (long i = 0; i < n; ++i) y[i] = x[i] = x[i] < 0 ? 0 : x[i];
    }"""
    signature = "const float *x, float *y, long n = x.size"
    kernel = db.operators.native(source, function="f", computes="Relu", signature=signature)
    x = np.array([-1, 2], np.float32)
    network = parse("g (float[2] x) => (float[2] y) { r = Relu(x)  y = Add(r, x) }").replace("Relu", kernel)
    executor = adapter(name).prepare(network)
    for _ in range(2):
        with pytest.raises(KernelFailure, match=r"f\.forward changes input 0"):
            executor({"x": x})
    assert x.tolist() == [-1, 2]


def test_kernels_on_tensors_are_refused_too() -> None:
    torch, on, x = pytest.importorskip("torch"), adapter("torch"), np.array([-1, 2], np.float32)
    network = parse("g (float[2] x) => (float[2] y) { r = Relu(x)  y = Add(r, x) }")
    executor = on.prepare(network.replace("Relu", relu(lambda x: x.relu_(), device="torch")))
    native = {"x": on.from_numpy(x)}
    with pytest.raises(KernelFailure, match=r"mine\.forward changes input 0"):
        executor.forward(native)
    assert native["x"].tolist() == [-1, 2]
    executor = on.prepare(network.replace("Relu", relu(lambda x: torch.relu(x)[:1], device="torch")))
    with pytest.raises(InvalidInput, match=r"float32\[1\]\nExpected: float32\[2\], as the node gives for float32\[2\]"):
        executor.forward(native)
    tensorflow = pytest.importorskip("tensorflow")
    shorter = relu(lambda x: tensorflow.nn.relu(x)[..., :1], device="tensorflow")
    open_ = parse("g (float[n, 2] x) => (float[n, 2] y) { r = Relu(x)  y = Add(r, x) }")
    for wrong, words in ((network, r"float32\[1\]\nExpected: float32\[2\]"), (open_, r"1\]\nExpected: float32\[\?, 2\]")):
        with pytest.raises(InvalidInput, match=words):
            adapter("tensorflow").prepare(wrong.replace("Relu", shorter))


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_a_kernel_returns_of_its_inputs_is_the_callers_to_write_to(name: str) -> None:
    on, x = adapter(name), np.ones((2, 3), np.float32)
    network = parse("g (float[2, 3] x) => (float[3, 2] y) <int64[2] s = {3, -1}> { y = Reshape(x, s) }")
    kernel = db.operators.wrap(lambda x, s: x.reshape(s), computes="Reshape", device="numpy", name="viewed")
    executor = on.prepare(network.replace("Reshape", kernel))
    for _ in range(2):
        executor({"x": x})["y"][...] = 0
    assert x.min() == 1
    flat = db.operators.wrap(lambda x, s: x.reshape(-1), computes="Reshape", device="numpy", name="flat")
    with pytest.raises(InvalidInput, match=r"flat.forward returned float32\[6\]\nExpected: float32\[3, 2\]"):
        on.prepare(network.replace("Reshape", flat))({"x": x})


def test_shapes_are_inferred_once() -> None:
    from deep_bench.operators import case as case_network

    network, image = digits().without_kernels().replace("Relu", Relu()), batch()
    executor = adapter("reference").prepare(network)
    executor(image)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(case_network, "_inferred", lambda case: pytest.fail("inferred again"))
        executor(image)

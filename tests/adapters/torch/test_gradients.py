"""Gradients by autograd."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.graph import Network
from deep_bench.reference.network import ReferenceAdapter

torch = pytest.importorskip("torch")

from deep_bench.adapters.torch import TorchAdapter  # noqa: E402 (after the skip)

X = np.array([[0.25, -0.5, 0.75], [0.5, 0.25, -0.25]], np.float32)


def _network(text: str, **parameters: np.ndarray) -> Network:
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in parameters.items())
    return Network.from_proto(proto)


def _layers() -> Network:
    """Two layers and a loss, and two parameters that it does not depend on: one that is read, and one that is not."""
    return _network(
        """<ir_version: 10, opset_import: ["": 21]>
        layers (float[2, 3] x, float[2, 3] other) => (float[2, 2] y, float loss, float[2] aside) {
            h = MatMul(x, first)
            a = Tanh(h)
            y = MatMul(a, second)
            loss = ReduceSum<keepdims = 0>(y)
            aside = Exp(third)
        }""",
        first=np.array([[1, 2], [-1, 0.5], [0.25, 1]], np.float32),
        second=np.array([[1, -1], [3, 2]], np.float32),
        third=np.ones(2, np.float32),
        fourth=np.ones(5, np.float32),
    )


@pytest.fixture
def adapter() -> TorchAdapter:
    return TorchAdapter()


@pytest.fixture
def layers(adapter):
    """The executor of `_layers`, and what to feed it."""
    inputs = {"x": adapter.from_numpy(X), "other": adapter.from_numpy(X)}
    return adapter.prepare(_layers(), mode="train"), inputs


def _expected() -> dict[str, np.ndarray]:
    weights = _layers().parameters
    h = X @ weights["first"]
    dh = np.ones((2, 2)) @ weights["second"].T * (1 - np.tanh(h) ** 2)
    return {
        "first": X.T @ dh,
        "second": np.tanh(h).T @ np.ones((2, 2)),
        "third": np.zeros(2),
        "fourth": np.zeros(5),
        "x": dh @ weights["first"].T,
        "other": np.zeros((2, 3)),
    }


def test_parameters_and_inputs(layers) -> None:
    executor, inputs = layers
    names = ("x", "fourth", "second", "first", "third", "other")
    outputs, found = executor.gradients(inputs, "loss", wrt=names)
    assert tuple(found) == names
    for name, gradient in found.items():
        np.testing.assert_allclose(gradient.numpy(), _expected()[name], rtol=1e-5)
        assert not gradient.requires_grad
    plain = executor.forward(inputs)
    for name, value in outputs.items():
        assert torch.equal(value, plain[name])
        assert not value.requires_grad


def test_by_default_all_parameters(layers) -> None:
    executor, inputs = layers
    _, found = executor.gradients(inputs, "loss")
    assert tuple(found) == ("first", "second", "third", "fourth")
    for name, gradient in found.items():
        np.testing.assert_allclose(gradient.numpy(), _expected()[name], rtol=1e-5)


@pytest.mark.parametrize("wrt", [None, ("first",), ("x", "second", "third", "fourth")])
def test_on_ready_is_told_of_each_once(layers, wrt) -> None:
    executor, inputs = layers
    told: list[tuple[str, object]] = []
    _, found = executor.gradients(inputs, "loss", wrt=wrt, on_ready=lambda name, g: told.append((name, g)))
    assert sorted(name for name, _ in told) == sorted(found)
    assert all(gradient is found[name] for name, gradient in told)


def test_on_ready_comes_before_the_pass_is_over(layers) -> None:
    """The second layer's gradient is ready before the first one's; it may be changed at once, without harm to that."""
    executor, inputs = layers
    told = []

    def scale(name: str, gradient: object) -> None:
        told.append(name)
        gradient.mul_(0)

    _, found = executor.gradients(inputs, "loss", wrt=("first", "second"), on_ready=scale)
    assert told == ["second", "first"]
    assert not found["second"].any()
    told.clear()
    _, found = executor.gradients(inputs, "loss", wrt=("x", "second"), on_ready=lambda n, g: n == "second" and scale(n, g))
    np.testing.assert_allclose(found["x"].numpy(), _expected()["x"], rtol=1e-5)


def test_calls_leave_nothing_behind(layers) -> None:
    executor, inputs = layers
    held = executor.parameters["first"]
    held.grad = torch.full_like(held, 7)
    found = [executor.gradients(inputs, "loss", wrt=("x", "first", "second"))[1] for _ in range(2)]
    for name, gradient in found[0].items():
        assert torch.equal(gradient, found[1][name])
        assert gradient.data_ptr() != found[1][name].data_ptr()
    assert (held.grad == 7).all()
    assert executor.parameters["second"].grad is None
    assert not inputs["x"].requires_grad
    assert inputs["x"].grad is None


def test_a_failed_pass_leaves_nothing_behind(layers) -> None:
    executor, inputs = layers

    def fail(name: str, _: object) -> None:
        if name == "first":
            raise KeyError(name)

    with pytest.raises(KeyError, match="first"):
        executor.gradients(inputs, "loss", on_ready=fail)
    assert executor.parameters["first"].grad is None
    assert executor.parameters["second"].grad is None
    _, found = executor.gradients(inputs, "loss", wrt=("second",))
    np.testing.assert_allclose(found["second"].numpy(), _expected()["second"], rtol=1e-5)


def test_gradients_share_no_memory(adapter) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> sums (float[2] x) => (float loss) {
        s = Add(a, b)  t = Add(s, x)  loss = ReduceSum<keepdims = 0>(t) }"""
    executor = adapter.prepare(_network(text, a=np.ones(2, np.float32), b=np.ones(2, np.float32)), mode="train")
    _, found = executor.gradients({"x": torch.ones(2)}, "loss", wrt=("a", "b", "x"))
    for gradient in found.values():
        gradient += 1
        assert gradient.tolist() == [2, 2]


def test_inputs_are_variables_of_their_own(layers) -> None:
    """What an input was computed from is no business of the network's."""
    executor, inputs = layers
    first = executor.parameters["first"]
    computed = inputs["x"] + 0 * first.sum()
    _, found = executor.gradients({**inputs, "x": computed}, "loss", wrt=("first", "x"))
    np.testing.assert_allclose(found["first"].numpy(), _expected()["first"], rtol=1e-5)
    np.testing.assert_allclose(found["x"].numpy(), _expected()["x"], rtol=1e-5)


def test_one_tensor_as_two_parameters(adapter) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> product (float[2] x) => (float loss) {
        s = Mul(a, x)  t = Mul(s, b)  loss = ReduceSum<keepdims = 0>(t) }"""
    executor = adapter.prepare(_network(text, a=np.ones(2, np.float32), b=np.ones(2, np.float32)), mode="train")
    shared = torch.nn.Parameter(torch.full((2,), 3.0))
    executor.parameters["a"] = executor.parameters["b"] = shared
    _, found = executor.gradients({"x": torch.ones(2)}, "loss")
    assert found["a"].tolist() == found["b"].tolist() == [3, 3]  # not their sum
    assert executor.parameters["a"].data_ptr() == executor.parameters["b"].data_ptr() == shared.data_ptr()


def test_a_parameter_that_asks_for_no_gradient(layers) -> None:
    executor, inputs = layers
    executor.parameters["first"].requires_grad_(False)
    with pytest.raises(Unsupported, match="'first'"):
        executor.gradients(inputs, "loss")
    _, found = executor.gradients(inputs, "loss", wrt=("second",))
    np.testing.assert_allclose(found["second"].numpy(), _expected()["second"], rtol=1e-5)


def test_refusals(adapter, layers) -> None:
    executor, inputs = layers
    with pytest.raises(Unsupported, match="train"):
        adapter.prepare(_layers()).gradients(inputs, "loss")
    for loss, wrt, message in (
        ("nothing", None, "no output 'nothing'"),
        ("y", None, r"\[2, 2\]"),
        ("loss", ("h",), "'h'"),
        ("loss", ("x", "x"), "once"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            executor.gradients(inputs, loss, wrt=wrt)


def test_of_chosen_outputs(adapter) -> None:
    executor = adapter.prepare(_layers(), mode="train", outputs=["loss"])
    outputs, found = executor.gradients({"x": torch.from_numpy(X), "other": torch.from_numpy(X)}, "loss", wrt=["first"])
    assert list(outputs) == ["loss"]
    np.testing.assert_allclose(found["first"].numpy(), _expected()["first"], rtol=1e-5)
    with pytest.raises(InvalidArgument, match="'y'"):
        executor.gradients({"x": torch.from_numpy(X), "other": torch.from_numpy(X)}, "y")


def test_a_loss_that_depends_on_nothing(adapter) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> steps (float[2] x) => (float loss) {
        s = Shape(x)  f = Cast<to = 1>(s)  loss = ReduceSum<keepdims = 0>(f) }"""
    told = []
    _, found = adapter.prepare(_network(text), mode="train").gradients(
        {"x": torch.ones(2)}, "loss", wrt=("x",), on_ready=lambda name, _: told.append(name)
    )
    assert found["x"].tolist() == [0, 0]
    assert told == ["x"]


def test_a_loss_that_is_an_input(adapter) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> same (float x) => (float loss) { loss = Identity(x) }"""
    x = torch.tensor(3.0)
    outputs, found = adapter.prepare(_network(text), mode="train").gradients({"x": x}, "loss", wrt=("x",))
    assert found["x"].item() == 1
    assert outputs["loss"].item() == 3
    assert outputs["loss"].data_ptr() != x.data_ptr()


CONTROL = """<ir_version: 10, opset_import: ["": 21]>
control (float[3] x, int64 n, bool c) => (float loss) {
    halved = Mul(x, w)
    yes = Constant<value = bool {1}>()
    total, steps = Loop(n, yes, halved) <body = body (int64 i, bool go, float[3] s) => (bool on, float[3] t, float[3] each) {
        on = Identity(go)
        t = Mul(s, x)
        each = Sin(t)
    }>
    most = ReduceSum(steps)
    chosen = If(c) <
        then_branch = then_branch () => (float[3] a) { a = Mul(total, w) },
        else_branch = else_branch () => (float[3] b) { b = Add(total, most) }>
    loss = ReduceSum<keepdims = 0>(chosen)
}"""


@pytest.mark.parametrize("condition", [True, False])
def test_control_flow(adapter, condition) -> None:
    w = np.array([0.5, 2, -1], np.float32)
    x = torch.tensor([1.5, -0.5, 2])
    executor = adapter.prepare(_network(CONTROL, w=w), mode="train")
    _, found = executor.gradients({"x": x, "n": torch.tensor(3), "c": torch.tensor(condition)}, "loss", wrt=("x", "w"))
    a, b = x.clone().requires_grad_(), torch.from_numpy(w.copy()).requires_grad_()
    state, most = a * b, torch.zeros(())
    for _ in range(3):
        state = state * a
        most = most + torch.sin(state).sum()
    (state * b if condition else state + most).sum().backward()
    torch.testing.assert_close(found["x"], a.grad)
    torch.testing.assert_close(found["w"], b.grad)


def test_scan(adapter) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> scan (float[4, 2] x) => (float loss) {
        last, each = Scan<num_scan_inputs = 1,
            body = body (float[2] s, float[2] v) => (float[2] t, float[2] u) {
                m = Mul(s, v)  t = Add(m, w)  u = Identity(t) }
        >(w, x)
        y = Mul(last, each)
        loss = ReduceSum<keepdims = 0>(y) }"""
    w = np.array([0.5, 2], np.float32)
    x = torch.arange(8.0).reshape(4, 2) / 8
    _, found = adapter.prepare(_network(text, w=w), mode="train").gradients({"x": x}, "loss", wrt=("x", "w"))
    a, b = x.clone().requires_grad_(), torch.from_numpy(w.copy()).requires_grad_()
    state, each = b, []
    for row in a:
        state = state * row + b
        each.append(state)
    (state * torch.stack(each)).sum().backward()
    torch.testing.assert_close(found["x"], a.grad)
    torch.testing.assert_close(found["w"], b.grad)


def _digits() -> tuple[Network, dict[str, np.ndarray]]:
    network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
    rng = np.random.default_rng(0)
    image = rng.uniform(0, 1, (4, 1, 8, 8)).astype(np.float32)
    return network, {"image": image, "label": np.array([0, 3, 5, 9])}


def test_against_the_reference() -> None:
    network, inputs = _digits()
    reference, ours = (a.prepare(network, mode="train") for a in (ReferenceAdapter(), TorchAdapter()))
    wrt = ["image", *network.parameters]
    outputs, expected = reference.gradients(inputs, "loss", wrt=wrt)
    native = {name: torch.from_numpy(array) for name, array in inputs.items()}
    found_outputs, found = ours.gradients(native, "loss", wrt=wrt)
    np.testing.assert_allclose(found_outputs["loss"].item(), outputs["loss"], rtol=1e-5)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name].numpy(), array, rtol=1e-4, atol=1e-5 * np.abs(array).max())


@pytest.mark.parametrize(("dtype", "error"), [("float64", 1e-5), ("bfloat16", 0.2)])
def test_in_other_precisions(dtype, error) -> None:
    network, inputs = _digits()
    wrt = ["image", *network.parameters]
    native = {name: torch.from_numpy(array) for name, array in inputs.items()}
    _, expected = TorchAdapter().prepare(network, mode="train").gradients(native, "loss", wrt=wrt)
    _, found = TorchAdapter(dtype=dtype).prepare(network, mode="train").gradients(native, "loss", wrt=wrt)
    for name, gradient in found.items():
        assert gradient.dtype == getattr(torch, dtype)
        assert torch.linalg.norm(gradient.double() - expected[name]) <= error * torch.linalg.norm(expected[name].double())


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++, which is not installed here")
def test_compiled() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own compiler uses deprecated parts of Python
        executor = TorchAdapter(compile="inductor").prepare(_layers(), mode="train")
        told: list[str] = []
        inputs = {"x": torch.from_numpy(X), "other": torch.from_numpy(X)}
        _, found = executor.gradients(inputs, "loss", wrt=("x", "first", "third"), on_ready=lambda n, _: told.append(n))
    assert sorted(told) == ["first", "third", "x"]
    for name, gradient in found.items():
        np.testing.assert_allclose(gradient.numpy(), _expected()[name], rtol=1e-5)

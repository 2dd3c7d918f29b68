"""What gradients are asked for is checked alike everywhere: the same faults, the same words, in all adapters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidInput, Unsupported
from deep_bench.framework import Executor, check_native, describe_numpy
from deep_bench.tensor import STRING, TensorSpec
from deep_bench.variant import Variant

ADAPTERS = ("onnxruntime", "reference", "tensorflow", "torch")

TEXT = """<ir_version: 10, opset_import: ["": 21]>
layer (float[n, 3] x, float[n, 2] t, int64[n] label) => (float[n, 2] y, float loss, int64[n] same)
<float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {0, 1}> {
    product = MatMul(x, w)
    y = Add(product, b)
    difference = Sub(y, t)
    square = Mul(difference, difference)
    loss = ReduceMean<keepdims = 0>(square)
    same = Identity(label)
}"""

GIVEN = {"x": np.ones((4, 3), np.float32), "t": np.zeros((4, 2), np.float32), "label": np.arange(4)}


def network() -> db.Network:
    return db.Network.from_proto(onnx.parser.parse_model(TEXT))


@pytest.fixture(scope="module", params=ADAPTERS)
def executor(request: pytest.FixtureRequest) -> Executor[Any]:
    if request.param != "reference":
        pytest.importorskip(request.param)
    return db.frameworks[request.param]().prepare(network(), mode="train")


def native(executor: Executor[Any], given: dict[str, Any]) -> dict[str, Any]:
    return {name: executor.device.from_numpy(array) for name, array in given.items()}


def without(name: str) -> dict[str, Any]:
    return {key: array for key, array in GIVEN.items() if key != name}


ALL = "x: float32[n, 3]; t: float32[n, 2]; label: int64[n]"

INPUTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "missing": (without("t"), "input 't' is missing", ALL),
    "none": ({}, "input 'x' is missing", ALL),
    "unknown": ({**GIVEN, "z": GIVEN["x"]}, "unknown input 'z'", ALL),
    "renamed": ({**without("t"), "T": GIVEN["t"]}, "unknown input 'T'", ALL),
    "a fixed size": (
        {**GIVEN, "x": np.ones((4, 5), np.float32)},
        "input 'x' has float32[4, 5]",
        "x: float32[n, 3] with n=4",
    ),
    "the rank": ({**GIVEN, "x": np.ones(3, np.float32)}, "input 'x' has float32[3]", "x: float32[n, 3]"),
    "an open size": (
        {**GIVEN, "t": np.ones((1, 2), np.float32)},
        "input 't' has float32[1, 2]",
        "t: float32[n, 2] with n=4",
    ),
    "a size of an integer": ({**GIVEN, "label": np.arange(5)}, "input 'label' has int64[5]", "label: int64[n] with n=4"),
    "double": ({**GIVEN, "x": np.ones((4, 3))}, "input 'x' has float64[4, 3]", "x: float32[n, 3]"),
    "half": ({**GIVEN, "t": np.ones((4, 2), np.float16)}, "input 't' has float16[4, 2]", "t: float32[n, 2]"),
    "integers for reals": ({**GIVEN, "x": np.ones((4, 3), int)}, "input 'x' has int64[4, 3]", "x: float32[n, 3]"),
    "narrow integers": ({**GIVEN, "label": np.arange(4, dtype=np.int32)}, "input 'label' has int32[4]", "label: int64[n]"),
}


@pytest.mark.parametrize("fault", INPUTS)
@pytest.mark.parametrize("wrt", [None, ["x"]])
def test_inputs_that_do_not_fit_are_refused_in_the_same_words(executor: Any, fault: str, wrt: Any) -> None:
    given, came, expected = INPUTS[fault]
    with pytest.raises(InvalidInput) as refused:
        executor.gradients(native(executor, given), "loss", wrt=wrt)
    assert refused.value.came == came
    assert refused.value.expected == expected
    with pytest.raises(InvalidInput) as called:
        executor(given)
    assert called.value.came == came  # and in those of a call on NumPy arrays


def test_what_is_no_native_array_is_refused(executor: Any) -> None:
    given = native(executor, GIVEN)
    for value in (3.0, "text", None, [GIVEN["x"]], object()):
        with pytest.raises(InvalidInput, match=f"input 'x' is a {type(value).__name__}\n.*native array"):
            executor.gradients({**given, "x": value}, "loss")
    if not isinstance(given["x"], np.ndarray):
        with pytest.raises(InvalidInput, match="input 'x' is a ndarray"):
            executor.gradients({**given, "x": GIVEN["x"]}, "loss")
    with pytest.raises(InvalidInput, match="inputs of type list"):
        executor.gradients(list(given.values()), "loss")


NAMES: dict[str, tuple[Any, str]] = {
    "unknown": (["w", "v"], "layer has no parameter or floating-point input 'v'"),
    "an integer": (["label"], "the input label: int64[n] of layer is no floating-point tensor"),
    "a value inside": (["product"], "layer has no parameter or floating-point input 'product'"),
    "an output": (["y"], "layer has no parameter or floating-point input 'y'"),
    "twice": (["w", "b", "w", "w"], "'w' is in wrt 3 times"),
    "an input twice": (["x", "x"], "'x' is in wrt 2 times"),
    "a string": ("w", "wrt='w', a string"),
    "a longer string": ("loss", "wrt='loss', a string"),
}


@pytest.mark.parametrize("fault", NAMES)
def test_names_that_have_no_gradient_are_refused_in_the_same_words(executor: Any, fault: str) -> None:
    wrt, came = NAMES[fault]
    for _ in range(2):  # what was refused is no better the second time
        with pytest.raises(InvalidArgument) as refused:
            executor.gradients(native(executor, GIVEN), "loss", wrt=wrt)
        assert refused.value.came == came


def test_the_nearest_name_is_suggested(executor: Any) -> None:
    with pytest.raises(InvalidArgument, match="did you mean 'loss'"):
        executor.gradients(native(executor, GIVEN), "los")
    with pytest.raises(InvalidArgument, match=r"no output 'difference'\nExpected: one of y, loss, same"):
        executor.gradients(native(executor, GIVEN), "difference")


def test_no_names_give_no_gradients(executor: Any) -> None:
    told: list[str] = []
    for wrt in ([], ()):
        outputs, gradients = executor.gradients(
            native(executor, GIVEN), "loss", wrt=wrt, on_ready=lambda name, _: told.append(name)
        )
        assert gradients == {}
        assert told == []
        assert float(executor.device.to_numpy(outputs["loss"])) == pytest.approx(125)
        assert list(outputs) == ["y", "loss", "same"]


def test_what_fits_is_taken(executor: Any) -> None:
    for n in (1, 4, 7):
        given = {"x": np.ones((n, 3), np.float32), "t": np.zeros((n, 2), np.float32), "label": np.arange(n)}
        _, gradients = executor.gradients(native(executor, given), "loss", wrt=["b", "x", "w"])
        assert list(gradients) == ["b", "x", "w"]
        assert executor.device.to_numpy(gradients["x"]).shape == (n, 3)


@pytest.mark.parametrize("name", ADAPTERS)
def test_the_mode_comes_first(name: str) -> None:
    if name != "reference":
        pytest.importorskip(name)
    with pytest.raises(Unsupported, match="prepared for inference"):
        db.frameworks[name]().prepare(network()).gradients({}, "nothing", wrt=["nothing"])


def a_module() -> Executor[Any]:
    torch = pytest.importorskip("torch")
    from deep_bench.adapters.torch import wrap

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b = torch.nn.Parameter(torch.ones(3, 2)), torch.nn.Parameter(torch.zeros(2))

        def forward(self, x: Any, t: Any, label: Any) -> Any:
            y = x @ self.w + self.b
            return y, ((y - t) ** 2).mean(), label

    return wrap(Layer(), network().inputs, ["y", "loss", "same"], mode="train")


def a_model(eager: bool) -> Executor[Any]:
    pytest.importorskip("tensorflow")
    keras = pytest.importorskip("keras")
    from deep_bench.adapters.tensorflow import wrap

    class Layer(keras.Model):
        def build(self, _: Any) -> None:
            self.w = self.add_weight(shape=(3, 2), name="w")

        def call(self, x: Any, t: Any, label: Any) -> Any:
            y = x @ self.w
            return y, keras.ops.mean((y - t) ** 2), label

    return wrap(Layer(name="Layer"), network().inputs, ["y", "loss", "same"], mode="train", eager=eager)


@pytest.mark.parametrize("make", [a_module, lambda: a_model(False), lambda: a_model(True)], ids=["torch", "keras", "eager"])
def test_wrapped_code_is_asked_in_the_same_words(make: Callable[[], Executor[Any]]) -> None:
    executor = make()
    good = native(executor, GIVEN)
    for fault, (given, came, _) in INPUTS.items():
        with pytest.raises(InvalidInput) as refused:
            executor.gradients(native(executor, given), "loss")
        assert refused.value.came == came, fault
    weight = next(iter(executor.parameters))
    for wrt, came in (
        (["v"], "Layer has no parameter or floating-point input 'v'"),
        (["label"], "the input label: int64[n] of Layer is no floating-point tensor"),
        ([weight, weight], f"{weight!r} is in wrt 2 times"),
        (weight, f"wrt={weight!r}, a string"),
    ):
        with pytest.raises(InvalidArgument) as refused_name:
            executor.gradients(good, "loss", wrt=wrt)
        assert refused_name.value.came == came
    assert executor.gradients(good, "loss", wrt=[])[1] == {}
    assert list(executor.gradients(good, "loss", wrt=[weight, "x"])[1]) == [weight, "x"]


@pytest.mark.parametrize("name", ["torch:dtype=float64", "tensorflow:dtype=float64"])
def test_another_precision_takes_the_declared_types(name: str) -> None:
    """Torch, which converts what it is fed, also what it runs in; TensorFlow's graphs take the declared types only."""
    pytest.importorskip(name.partition(":")[0])
    executor = Variant.parse(name).create().prepare(network(), mode="train")
    double = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in GIVEN.items()}
    for given in (GIVEN, double) if name.startswith("torch") else (GIVEN,):
        _, found = executor.gradients(native(executor, given), "loss", wrt=["b"])
        np.testing.assert_allclose(executor.device.to_numpy(found["b"]), [9.0, 13.0])
    for kind in (np.float16,) if name.startswith("torch") else (np.float16, np.float64):
        with pytest.raises(InvalidInput, match=f"input 'x' has {kind.__name__}"):
            executor.gradients(native(executor, {**GIVEN, "x": GIVEN["x"].astype(kind)}), "loss")


def test_sequences_optionals_and_strings() -> None:
    f32 = np.dtype(np.float32)
    sequence, optional = TensorSpec("s", (), f32, ("sequence",)), TensorSpec("o", (), f32, ("optional",))
    both, text = TensorSpec("b", (), f32, ("optional", "sequence")), TensorSpec("t", ("n",), STRING)
    narrow = TensorSpec("q", (2,), np.dtype(ml_dtypes.int4))
    one = np.ones(3, np.float32)
    good = {"s": [one, one[:1]], "o": None, "b": None, "t": np.array(["a"]), "q": np.ones(2, ml_dtypes.int4)}
    specs = [sequence, optional, both, text, narrow]
    check_native(specs, good, describe_numpy)
    check_native(specs, {**good, "o": one, "b": [], "t": np.array([b"a", b"b"], object)}, describe_numpy)
    for name, value, came in (
        ("s", one, "input 's' is a ndarray"),
        ("s", None, "input 's' is None"),
        ("s", [one, one.astype(int)], "input 's[1]' has int64[3]"),
        ("o", [one], "input 'o' is a list"),
        ("b", [None], "input 'b[0]' is a NoneType"),
        ("t", one, "input 't' has float32[3]"),
        ("q", np.ones(2, np.int8), "input 'q' has int8[2]"),
    ):
        with pytest.raises(InvalidInput) as refused:
            check_native(specs, {**good, name: value}, describe_numpy)
        assert refused.value.came == came


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_without_parameters_the_real_inputs_are_differentiated(adapter: str) -> None:
    """As `differentiate` does; a single element is no parameter."""
    if adapter != "reference":
        pytest.importorskip(adapter)
    text = """<ir_version: 10, opset_import: ["": 21]>
    scaled (float[3] x, int64[1] n) => (float loss, int64[1] same) <float s = {3}> {
        y = Mul(x, s)
        loss = ReduceSum<keepdims = 0>(y)
        same = Identity(n)
    }"""
    scaled = db.Network.from_proto(onnx.parser.parse_model(text))
    executor = db.frameworks[adapter]().prepare(scaled, mode="train")
    given = native(executor, {"x": np.ones(3, np.float32), "n": np.arange(1)})
    _, gradients = executor.gradients(given, "loss")
    assert {name: executor.device.to_numpy(g).tolist() for name, g in gradients.items()} == {"x": [3, 3, 3]}
    derived = db.network.differentiate(scaled)
    assert [spec.name for spec in derived.outputs] == ["loss", "same", "d(loss)/d(x)"]

"""Kernels of the user's in the place of a network's nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidInput, Unsupported, UnsupportedOperator
from deep_bench.framework import Adapter
from deep_bench.graph import Network
from deep_bench.operators.placed import THROUGH_NUMPY

FRAMEWORKS = ("onnxruntime", "reference", "tensorflow", "torch")


class Relu(db.Operator):
    computes = "Relu"

    def __init__(self, slope: float = 0.0, factor: float = 1.0) -> None:
        self.slope, self.factor = slope, factor
        self.seen: list[str] = []

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.seen.append(type(x).__name__)
        return np.where(x > 0, x, x.dtype.type(self.slope) * x)

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        return (grads[0] * (inputs[0] > 0) * grads[0].dtype.type(self.factor),)


class ForwardOnly(db.Operator):
    computes = "Relu"

    def forward(self, x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0)


class Gemm(db.Operator):
    computes = "Gemm"

    def forward(self, a: Any, b: Any, c: Any = None, *, transB: int = 0) -> Any:
        y = a @ (b.T if transB else b)
        return y if c is None else y + c

    def backward(self, grads: Any, inputs: Any, outputs: Any, *, transB: int = 0) -> Any:
        a, b, *c = inputs
        (g,) = grads
        db_ = g.T @ a if transB else a.T @ g
        return (g @ (b if transB else b.T), db_, *(g.sum(0) for _ in c))


class Split(db.Operator):
    computes = "Split"

    def forward(self, x: Any, split: Any, *, axis: int = 0) -> Any:
        return tuple(np.ascontiguousarray(y) for y in np.split(x, np.cumsum(split)[:-1], axis))

    def backward(self, grads: Any, inputs: Any, outputs: Any, *, axis: int = 0) -> Any:
        full = [np.zeros_like(y) if g is None else g for g, y in zip(grads, outputs, strict=True)]
        return np.concatenate(full, axis), *(None for _ in inputs[1:])


def parse(text: str, opset: int = 21) -> Network:
    return Network.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {text}'))


def adapter(name: str) -> Adapter[Any]:
    if name != "reference":
        pytest.importorskip(name)
    return db.frameworks[name]()  # type: ignore[no-any-return]


def digits() -> Network:
    return db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")


def batch() -> dict[str, np.ndarray]:
    return {"image": np.random.default_rng(0).random((3, 1, 8, 8), np.float32), "label": np.arange(3)}


def gradients(
    on: Adapter[Any], network: Network, inputs: dict[str, np.ndarray], loss: str = "loss"
) -> dict[str, np.ndarray]:
    executor = on.prepare(network, mode="train")
    _, found = executor.gradients({n: on.from_numpy(a) for n, a in inputs.items()}, loss)
    return {name: on.to_numpy(g) for name, g in found.items()}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_right_kernel_changes_nothing(name: str) -> None:
    on, network, kernel = adapter(name), digits(), Relu()
    plain, replaced = on.prepare(network), on.prepare(network.replace("Relu", kernel))
    expected = plain(batch())["logits"]
    assert np.allclose(replaced(batch())["logits"], expected, rtol=1e-5, atol=1e-5)
    bound = replaced.bind({n: on.from_numpy(a) for n, a in batch().items()})
    for _ in range(2):
        assert np.allclose(on.to_numpy(bound()["logits"]), expected, rtol=1e-5, atol=1e-5)
    kernels = [str(node.name) for node in network.nodes if node.op_type == "Relu"]
    assert dict(replaced.forms.fallback) == dict.fromkeys(kernels, THROUGH_NUMPY)
    assert not set(kernels) & {*replaced.forms.native, *replaced.forms.decomposed}
    assert set(kernel.seen) == {"ndarray"}
    assert len(kernel.seen) >= 3 * len(kernels)


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


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_slightly_wrong_kernel_is_found_and_a_right_one_is_not_blamed(name: str) -> None:
    on, network = adapter(name), db.load("digits-cnn")
    right = db.network.diverge(network.replace("Relu", Relu()), on, batch=2, progress=False)
    assert right.judged
    assert right.ok, right.table()
    wrong = db.network.diverge(network.replace("residual_relu", Relu(slope=1e-4)), on, batch=2, progress=False)
    assert [n.name for n in wrong.nodes if n.accused] == ["residual_relu"]
    assert wrong.first_carried is not None


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
        assert system.forms is not None
        assert dict(system.forms.fallback) == {"first_relu": THROUGH_NUMPY}
        assert "kernels in the place of nodes: Relu computes first_relu" in result.record.notes


def test_nodes_are_matched_by_operator_name_pattern_or_function() -> None:
    network, kernel = db.load("digits-cnn"), Relu()

    def matched(match: Any) -> list[str]:
        return list(network.replace(match, kernel).kernels)

    assert len(matched("Relu")) == 6
    assert matched("first_relu") == ["first_relu"]
    assert matched("*st*_relu") == [n for n in matched("Relu") if "st" in n]
    assert matched(lambda node: node.name == "stem_relu") == ["stem_relu"]
    assert not network.kernels


BAD: list[tuple[str, Callable[[Network], Any], str]] = [
    ("nearest operator", lambda n: n.replace("Rely", Relu()), "did you mean 'Relu'"),
    ("nearest node", lambda n: n.replace("first_rlu", Relu()), "did you mean 'first_relu'"),
    ("function", lambda n: n.replace(lambda node: False, Relu()), "the function matches no node"),
    ("class", lambda n: n.replace("Relu", Relu), r"give Relu\(…\)"),
    ("function as a kernel", lambda n: n.replace("Relu", np.tanh), "wrap a function"),
    ("another operator", lambda n: n.replace("Conv", Relu()), "computes Relu, in the place of the node 'stem'"),
]


@pytest.mark.parametrize(("what", "call", "message"), BAD, ids=[b[0] for b in BAD])
def test_what_cannot_be_replaced(what: str, call: Callable[[Network], Any], message: str) -> None:
    del what
    with pytest.raises(InvalidArgument, match=message):
        call(db.load("digits-cnn"))


LOOP = """g (bool c, float[3] x) => (float[3] y) {
    y = If(c) <then_branch = t () => (float[3] p) { p = Relu(x) }, else_branch = e () => (float[3] q) { q = Neg(x) }>
}"""


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_nodes_with_graphs_stay_and_nodes_inside_them_go_where_possible(name: str) -> None:
    network, on, kernel = parse(LOOP), adapter(name), Relu(slope=0.5)
    with pytest.raises(InvalidArgument, match="holds graphs of its own"):
        network.replace("If", kernel)
    replaced = network.replace("Relu", kernel)
    if name == "onnxruntime":
        with pytest.raises(UnsupportedOperator, match="inside a subgraph"):
            on.prepare(replaced)
        return
    x = np.array([-1, 0, 2], np.float32)
    assert on.prepare(replaced)({"c": np.array(True), "x": x})["y"].tolist() == [-0.5, 0.0, 2.0]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_attributes_are_checked_when_it_is_prepared(name: str) -> None:
    class Gelu(db.Operator):
        computes = "Gelu"

        def forward(self, x: Any) -> Any:
            return x

    network = parse('g (float[3] x) => (float[3] y) { y = Gelu<approximate = "tanh">(x) }').replace("Gelu", Gelu())
    with pytest.raises(UnsupportedOperator, match="no keyword argument 'approximate'"):
        adapter(name).prepare(network)


def test_a_file_holds_no_kernels(tmp_path: Path) -> None:
    network = db.load("digits-cnn")
    replaced = network.replace("first_relu", Relu())
    for write in (replaced.to_proto, lambda: replaced.save(tmp_path / "x.onnx")):
        with pytest.raises(Unsupported, match=r"'first_relu' \(Relu\)(.|\n)*without_kernels"):
            write()
    assert not (tmp_path / "x.onnx").exists()
    plain = replaced.without_kernels()
    assert plain.without_kernels() is plain
    assert db.load(plain.save(tmp_path / "y.onnx")).sha256
    assert len(replaced.kernels) == 1
    assert replaced.sha256 == plain.sha256


def test_an_adapter_that_does_not_know_of_kernels_refuses_them() -> None:
    class Other(Adapter[np.ndarray]):
        name = "other"

        def __init__(self) -> None:
            self.inner = db.frameworks["reference"]()

        def prepare(self, network: Network, *, mode: Any = "inference", outputs: Any = None) -> Any:
            return self.inner.prepare(network, mode=mode, outputs=outputs)

        def describe(self) -> dict[str, str]:
            return {}

        def from_numpy(self, array: Any) -> Any:
            return array

        def to_numpy(self, array: Any) -> Any:
            return array

        def synchronize(self) -> None:
            pass

    network = db.load("digits-cnn")
    assert Other().prepare(network).output_names == ("logits",)
    with pytest.raises(Unsupported, match="other runs no kernels of others, and Relu computes the node 'first_relu'"):
        Other().prepare(network.replace("first_relu", Relu()))


@pytest.mark.parametrize("name", ["tensorflow", "torch"])
def test_kernels_of_the_same_framework_get_its_own_tensors(name: str) -> None:
    on, network = adapter(name), digits()
    seen: list[str] = []
    if name == "torch":
        import torch

        function: Any = torch.relu
    else:
        import tensorflow as tf

        function = tf.nn.relu

    def relu(x: Any) -> Any:
        seen.append(type(x).__module__.partition(".")[0])
        return function(x)

    kernel = db.operators.wrap(relu, computes="Relu", device=name)
    replaced = network.replace("Relu", kernel)
    executor = on.prepare(replaced)
    assert np.allclose(executor(batch())["logits"], on.prepare(network)(batch())["logits"], rtol=1e-5, atol=1e-5)
    assert set(seen) == {name}
    assert all("own tensors" in how for how in executor.forms.fallback.values())
    expected, found = gradients(on, network, batch()), gradients(on, replaced, batch())
    assert all(np.allclose(found[n], g, rtol=1e-4, atol=1e-5) for n, g in expected.items())


def test_xla_compiles_no_calls_of_python() -> None:
    pytest.importorskip("tensorflow")
    with pytest.raises(UnsupportedOperator, match="XLA compiles no calls of Python"):
        db.frameworks["tensorflow"](jit="xla").prepare(db.load("digits-cnn").replace("Relu", Relu()))


WRONG: list[tuple[str, Callable[[Any], Any], str]] = [
    ("a list", lambda x: [x], "a list"),
    ("nothing", lambda x: None, "a NoneType"),
    ("two", lambda x: (x, x), "a tuple of 2"),
    ("another type", lambda x: x.astype(np.float64), "float64"),
]


@pytest.mark.parametrize(("what", "forward", "message"), WRONG, ids=[w[0] for w in WRONG])
@pytest.mark.parametrize("name", ["onnxruntime", "reference", "torch"])
def test_what_a_kernel_must_not_return(name: str, what: str, forward: Callable[[Any], Any], message: str) -> None:
    del what
    kernel = db.operators.wrap(forward, computes="Relu", device="numpy", name="mine")
    executor = adapter(name).prepare(parse("g (float[3] x) => (float[3] y) { y = Relu(x) }").replace("Relu", kernel))
    with pytest.raises(InvalidInput, match=f"(?s)node.*Relu.*mine.forward returned {message}"):
        executor({"x": np.ones(3, np.float32)})


class Allocating(db.Operator):
    computes = "Relu"

    def setup(self, case: db.Case) -> None:
        (argument,) = case.arguments
        assert argument is not None
        self.buffer = np.empty(argument.shape, argument.dtype)

    def forward(self, x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0, out=self.buffer).copy()


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_each_node_has_a_kernel_set_up_for_its_own_sizes(name: str) -> None:
    network = db.load("digits-cnn")
    executor = adapter(name).prepare(network.replace("Relu", Allocating()).with_sizes({"batch": 3}))
    for seed in (0, 1):
        image = {"image": np.random.default_rng(seed).normal(size=(3, 1, 8, 8)).astype(np.float32)}
        expected = db.frameworks["reference"]().prepare(network)(image)["logits"]
        assert np.allclose(executor(image)["logits"], expected, rtol=1e-4, atol=1e-5)


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
def test_kernels_get_a_node_in_its_newest_form(name: str) -> None:
    network = parse("g (float[5, 2] x) => (float[2, 2] y, float[3, 2] z) { y, z = Split<axis = 0, split = [2, 3]>(x) }", 11)
    executor = adapter(name).prepare(network.replace("Split", Split()))
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    found = executor({"x": x})
    assert found["y"].tolist() == x[:2].tolist()
    assert found["z"].tolist() == x[2:].tolist()


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_gradients_of_several_outputs_of_which_one_is_used(name: str) -> None:
    network = parse("""g (float[5] x) => (float loss, float[3] z) <float[5] w = {1, 2, 3, 4, 5}, int64[2] s = {2, 3}> {
        p = Mul(x, w)  y, z = Split(p, s)  q = Mul(y, y)  loss = ReduceSum<keepdims = 0>(q)
    }""")
    inputs = {"x": np.arange(5, dtype=np.float32)}
    on = adapter(name)
    expected = gradients(on, network, inputs)["w"]
    assert np.allclose(gradients(on, network.replace("Split", Split()), inputs)["w"], expected)
    assert expected.tolist() == [0, 4, 0, 0, 0]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_node_of_constants_is_computed_by_its_kernel_all_the_same(name: str) -> None:
    network = parse("g (float[2] x) => (float[2] y) <float[2] c = {-1, 2}> { r = Relu(c)  y = Add(x, r) }")
    executor = adapter(name).prepare(network.replace("Relu", Relu(slope=10.0)))
    assert executor({"x": np.zeros(2, np.float32)})["y"].tolist() == [-10.0, 2.0]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_only_the_values_asked_for_are_computed(name: str) -> None:
    network = db.load("digits-cnn").replace("strided_relu", Relu())
    kernel = network.kernels["strided_relu"]
    executor = adapter(name).prepare(network, outputs=[str(network.nodes[2].outputs[0].name)])
    found = executor({"image": batch()["image"]})
    assert len(found) == 1
    assert isinstance(kernel, Relu)
    assert name == "reference" or not kernel.seen  # the reference computes every node

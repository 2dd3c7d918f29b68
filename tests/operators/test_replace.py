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
from deep_bench.framework import THROUGH_NUMPY, Adapter
from deep_bench.graph import Network
from deep_bench.operators.checks import KernelFailure

from .placed_kernels import FRAMEWORKS, Relu, Split, adapter, batch, digits, gradients, parse


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
def test_kernels_get_a_node_in_its_newest_form(name: str) -> None:
    network = parse("g (float[5, 2] x) => (float[2, 2] y, float[3, 2] z) { y, z = Split<axis = 0, split = [2, 3]>(x) }", 11)
    executor = adapter(name).prepare(network.replace("Split", Split()))
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    found = executor({"x": x})
    assert found["y"].tolist() == x[:2].tolist()
    assert found["z"].tolist() == x[2:].tolist()


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


def test_transformations_refuse_kernels() -> None:
    network = db.load("digits-cnn").replace("first_relu", Relu())
    with pytest.raises(Unsupported, match=r"the kernel Relu computes(.|\n)*without_kernels"):
        db.network.transform.fold(network)


def test_profiles_have_kernels_among_their_nodes() -> None:
    network = db.load("digits-cnn").replace("first_relu", Relu())
    on = ["reference", "onnxruntime"] if not db.frameworks.missing("onnxruntime") else ["reference"]
    for system in db.network.profile(network, on, repeat=2, progress=False).systems:
        assert not system.error
        assert ["first_relu"] in [list(piece.nodes) for piece in system.pieces]


class Reusing(db.Operator):
    computes = "Relu"
    reuses_outputs = True

    def __init__(self) -> None:
        self.buffers: dict[tuple[int, ...], np.ndarray] = {}

    def forward(self, x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0, out=self.buffers.setdefault(x.shape, np.empty_like(x)))


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_memory_that_a_kernel_uses_again_is_copied(name: str) -> None:
    network = parse("g (float[2] x) => (float[2] y) { a = Relu(x)  n = Neg(x)  b = Relu(n)  y = Sub(a, b) }")
    executor = adapter(name).prepare(network.replace("Relu", Reusing()))
    assert executor({"x": np.array([-2, 3], np.float32)})["y"].tolist() == [-2.0, 3.0]


@pytest.mark.parametrize("name", ["onnxruntime", "reference", "torch"])
def test_what_a_kernel_raises_names_its_node(name: str) -> None:
    def broken(x: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("by design")

    kernel = db.operators.wrap(broken, computes="Relu", device="numpy")
    executor = adapter(name).prepare(parse("g (float[2] x) => (float[2] y) { y = Relu(x) }").replace("Relu", kernel))
    with pytest.raises(
        KernelFailure, match=r"^node '.*' \(Relu\): broken.forward raised ZeroDivisionError: by design \("
    ) as caught:
        executor({"x": np.zeros(2, np.float32)})
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_node_that_does_nothing_is_computed_by_its_kernel(name: str) -> None:
    network = parse("g (float[2] x) => (float[2] y) { a = Identity(x)  y = Neg(a) }")
    doubled = db.operators.wrap(lambda x: 2 * x, computes="Identity", device="numpy")
    executor = adapter(name).prepare(network.replace("Identity", doubled))
    assert executor({"x": np.array([1, 2], np.float32)})["y"].tolist() == [-2.0, -4.0]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_functions_of_the_file_are_replaced_from_within(name: str) -> None:
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "own": 1]>
        g (float[2] x) => (float[2] y) { a = own.cut(x)  y = own.cut(a) }
        <domain: "own", opset_import: ["": 21]> cut (v) => (w) { n = Neg(v)  w = Relu(n) }""")
    replaced = Network.from_proto(proto).replace("Relu", Relu(slope=0.5))
    assert len(replaced.kernels) == 2
    x = np.array([-2, 3], np.float32)
    found = adapter(name).prepare(replaced)({"x": x})["y"]
    assert found.tolist() == [-1.0, 1.5]

"""Derivatives that torch has not of itself: they are made, or refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from deep_bench.errors import UnsupportedOperator
from deep_bench.graph import Network

torch = pytest.importorskip("torch")

from deep_bench.adapters.torch import TorchAdapter  # noqa: E402 (after the skip)


def _network(text: str, **parameters: np.ndarray) -> Network:
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in parameters.items())
    return Network.from_proto(proto)


@pytest.fixture
def adapter() -> TorchAdapter:
    return TorchAdapter()


REGIONS = """<ir_version: 10, opset_import: ["": 22]>
regions (float[1, 1, 2, 2] x) => (float loss) {
    rois = Constant<value = float[1, 5] {0, 0, 0, 1, 1}>()
    h = Mul(x, before)
    pooled = MaxRoiPool<pooled_shape = [1, 1]>(h, rois)
    y = Mul(pooled, after)
    loss = ReduceSum<keepdims = 0>(y)
}"""


def test_no_gradient_passes_through_the_reference_unnoticed(adapter) -> None:
    ones = np.ones((1, 1, 1, 2), np.float32)
    executor = adapter.prepare(_network(REGIONS, before=ones, after=ones), mode="train")
    assert executor.forms.fallback
    inputs = {"x": torch.arange(4.0).reshape(1, 1, 2, 2)}
    _, found = executor.gradients(inputs, "loss", wrt=("after",))  # what comes after it can be had
    assert found["after"].flatten().tolist() == [3, 3]
    for wrt in (("before",), ("x", "after"), None):
        with pytest.raises(UnsupportedOperator, match="MaxRoiPool"):
            executor.gradients(inputs, "loss", wrt=wrt)


def test_no_gradient_gets_lost_in_a_type_that_torch_lacks(adapter) -> None:
    """Such values are NumPy arrays between two nodes that the reference computes."""
    text = """<ir_version: 13, opset_import: ["": 23]> narrow (float[2] x) => (float loss) {
        f = Cast<to = 23>(x)  y = Cast<to = 1>(f)  loss = ReduceSum<keepdims = 0>(y) }"""
    executor = adapter.prepare(_network(text), mode="train")
    inputs = {"x": torch.ones(2)}
    assert executor.forward(inputs)["loss"].item() == 2
    with pytest.raises(UnsupportedOperator, match="Cast"):
        executor.gradients(inputs, "loss", wrt=("x",))


@pytest.mark.parametrize(
    ("types", "body", "lost"),
    [
        ("float[2] x, float s", "c = Constant<value = int64[1] {2}>() u = Unsqueeze(s, z) "
         "r = Resize<mode = \"linear\">(x, , u) y = Mul(r, r)", "s"),
        ("float[2] x, float s", "f = Cast<to = 17>(s) g = Cast<to = 1>(f) y = Mul(x, g)", "s"),
    ],
)  # fmt: skip
def test_a_number_that_code_reads_has_no_gradient(adapter, types, body, lost) -> None:
    text = f"""<ir_version: 11, opset_import: ["": 22]> reads ({types}) => (float loss) {{
        z = Constant<value = int64[1] {{0}}>() {body} loss = ReduceSum<keepdims = 0>(y) }}"""
    executor = adapter.prepare(_network(text), mode="train")
    inputs = {"x": torch.ones(2), "s": torch.tensor(2.0)}
    _, found = executor.gradients(inputs, "loss", wrt=("x",))
    assert found["x"].any()
    with pytest.raises(UnsupportedOperator):
        executor.gradients(inputs, "loss", wrt=("x", lost))


def _attention(mask: np.ndarray) -> dict[str, np.ndarray]:
    text = """<ir_version: 12, opset_import: ["": 24]>
    masked (float[1, 1, 2, 4] q, float[1, 1, 3, 4] k, float[1, 1, 3, 4] v, bool[2, 3] mask) => (float loss) {
        y = Attention(q, k, v, mask)
        z = Mul(y, y)
        loss = ReduceSum<keepdims = 0>(z)
    }"""
    rng = np.random.default_rng(0)
    inputs = {n: rng.standard_normal((1, 1, size, 4)).astype(np.float32) for n, size in (("q", 2), ("k", 3), ("v", 3))}
    executor = TorchAdapter().prepare(_network(text), mode="train")
    native = {name: torch.from_numpy(array) for name, array in {**inputs, "mask": mask}.items()}
    return {name: g.numpy() for name, g in executor.gradients(native, "loss", wrt=("q", "k", "v"))[1].items()}


def test_a_row_that_is_masked_as_a_whole_has_the_gradient_0() -> None:
    found = _attention(np.array([[True, False, True], [False, False, False]]))
    assert all(np.isfinite(g).all() for g in found.values())
    assert not found["q"][:, :, 1].any()
    alone = _attention(np.array([[True, False, True], [True, True, True]]))
    np.testing.assert_allclose(found["q"][:, :, 0], alone["q"][:, :, 0], rtol=1e-5)


@pytest.mark.parametrize(
    ("operator", "attributes", "inputs"),
    [
        ("BatchNormalization", {}, [np.linspace(-1, 1, 12).reshape(2, 3, 2), *np.linspace(0.5, 2, 12).reshape(4, 3)]),
        ("Mod", {"fmod": 1}, [np.array([5.5, -7.25, 1.5]), np.array([2.0, 3.0, -0.4])]),
        ("Mod", {"fmod": 0}, [np.array([5.5, -7.25, 1.5]), np.array([2.0, 3.0, -0.4])]),
        ("Pad", {}, [np.ones((2, 2)), np.array([1, 0, 0, 1]), np.array(3.0)]),
        ("Unique", {"axis": 0}, [np.array([[3.0, 1], [2, 2], [3, 0]])]),
        ("Unique", {"sorted": 0}, [np.array([3.0, 1, 2, 5])]),
        ("Det", {}, [np.array([[[1.0, 2], [2, 4]], [[3, 1], [0.5, 2]]])]),
        ("Det", {}, [np.arange(9.0).reshape(3, 3)]),
        ("Det", {}, [np.array([[2.0, 1], [1, 3]])]),
        ("Dropout", {}, [np.ones(3), np.array(0.0), np.array(True)]),
    ],
)
def test_operators_whose_torch_functions_lack_derivatives(adapter, one_node, operator, attributes, inputs) -> None:
    """Against differences of the node itself, in float64."""
    code = onnx.TensorProto.DOUBLE
    network, fed = one_node(operator, inputs, attributes, outputs=[code])
    executor = adapter.prepare(network.with_loss("Sum", output="y0"), mode="train")
    rng = np.random.default_rng(1)
    wrt = [name for name, array in fed.items() if array.dtype == np.float64]
    native = {name: adapter.from_numpy(np.asarray(array)) for name, array in fed.items()}
    _, found = executor.gradients(native, "loss", wrt=wrt)
    for name in wrt:
        direction = rng.uniform(0.5, 1, np.shape(fed[name]))
        ends = [
            executor.forward({**native, name: native[name] + sign * 1e-6 * torch.from_numpy(np.asarray(direction))})["loss"]
            for sign in (1, -1)
        ]
        slope = (ends[0] - ends[1]).item() / 2e-6
        np.testing.assert_allclose(np.sum(found[name].numpy() * direction), slope, rtol=1e-6, atol=1e-7)


def test_a_deformed_convolution_at_its_kinks(adapter, one_node) -> None:
    """At an offset of a whole number, the slope is one of those to both sides."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 1, 4, 4)), rng.standard_normal((1, 1, 2, 2))
    offset = np.zeros((1, 8, 3, 3))
    network, fed = one_node("DeformConv", [x, w, offset], {}, outputs=[onnx.TensorProto.DOUBLE])
    executor = adapter.prepare(network.with_loss("Sum", output="y0"), mode="train")
    native = {name: adapter.from_numpy(array) for name, array in fed.items()}
    outputs, found = executor.gradients(native, "loss", wrt=("x2",))
    for place in [(0, 0, 0, 0), (0, 3, 1, 1), (0, 6, 0, 2)]:
        slopes = []
        for step in (1e-6, -1e-6):
            moved = native["x2"].clone()
            moved[place] += step
            slopes.append((executor.forward({**native, "x2": moved})["loss"] - outputs["loss"]).item() / step)
        assert min(abs(found["x2"][place].item() - slope) for slope in slopes) < 1e-6


def test_a_fallback_in_a_sequence_is_followed(adapter) -> None:
    """What the reference computes from a sequence depends on each of its members."""
    from deep_bench.adapters.lowering import Site, Slot
    from deep_bench.adapters.torch.gradients import tie_result as tied

    site = Site("only", "Made", 1, {}, (Slot("s"),), (Slot("y"),))
    x = torch.ones(2, requires_grad=True)
    y = tied(site, "for no reason", [torch.ones(2), torch.ones(2, dtype=torch.int64)], [[torch.ones(1), x]])
    assert not y[1].requires_grad
    with pytest.raises(UnsupportedOperator, match="for no reason"):
        y[0].sum().backward()
    with torch.no_grad():
        assert not tied(site, "", torch.ones(2), [x]).requires_grad

"""Gradients by TensorFlow's own autograd."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, Unsupported, UnsupportedOperator

pytest.importorskip("tensorflow")

from deep_bench.adapters.tensorflow import TensorFlowAdapter

DENSE = """<ir_version: 10, opset_import: ["": 21]>
    dense (float[2,3] x) => (float[2,4] y, float loss)
    <float[3,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[4] b = {1, -1, 1, -1}>
    { h = MatMul(x, w)  y = Add(h, b)  s = Mul(y, y)  loss = ReduceSum<keepdims = 0>(s) }"""

X = np.array([[1, 2, 3], [-1, 0, 1]], np.float32)


def network(text: str) -> db.Network:
    return db.Network.from_proto(onnx.parser.parse_model(text))


def gradients(net: db.Network, wrt: list[str] | None = None, name: str = "tensorflow", *, options=None, **inputs):
    adapter = db.frameworks[name](**(options or {}))
    executor = adapter.prepare(net, mode="train")
    native = {k: adapter.from_numpy(v) for k, v in inputs.items()}
    outputs, found = executor.gradients(native, "loss", wrt=wrt)
    assert list(outputs) == [o.name for o in net.outputs]
    return {k: adapter.to_numpy(v) for k, v in found.items()}


def agree(net: db.Network, wrt: list[str] | None = None, *, options=None, rtol=2e-5, **inputs) -> dict[str, np.ndarray]:
    """Ours, after they were compared with the reference's."""
    found = gradients(net, wrt, options=options, **inputs)
    expected = gradients(net, wrt, "reference", **inputs)
    assert list(found) == list(expected)
    for name, want in expected.items():
        assert found[name].dtype == want.dtype
        assert found[name].shape == want.shape
        np.testing.assert_allclose(found[name].astype(float), want.astype(float), rtol=rtol, atol=rtol, err_msg=name)
    return found


@pytest.mark.parametrize("options", [{}, {"eager": True}, {"jit": "xla"}], ids=["graph", "eager", "xla"])
def test_parameters_and_inputs(options) -> None:
    agree(network(DENSE), ["w", "x", "b"], options=options, x=X)


@pytest.mark.parametrize("options", [{}, {"eager": True}], ids=["graph", "eager"])
def test_zeros_where_nothing_is_connected(options) -> None:
    text = DENSE.replace("float[4] b = {1, -1, 1, -1}>", "float[4] b = {1, -1, 1, -1}, float[2] v = {1, 2}>")
    found = gradients(
        network(text.replace("float[2,3] x)", "float[2,3] x, float[5] z)")),
        ["v", "z"],
        options=options,
        x=X,
        z=np.ones(5, np.float32),
    )
    np.testing.assert_array_equal(found["v"], np.zeros(2))
    np.testing.assert_array_equal(found["z"], np.zeros(5))


def test_all_parameters_by_default_each_ready_once() -> None:
    adapter = TensorFlowAdapter()
    executor = adapter.prepare(network(DENSE), mode="train")
    ready: list[str] = []
    _, found = executor.gradients({"x": adapter.from_numpy(X)}, "loss", on_ready=lambda name, _: ready.append(name))
    assert ready == list(found)
    assert set(ready) == set(network(DENSE).parameters)


def test_one_trace_serves_all_calls_and_sees_assignments() -> None:
    adapter = TensorFlowAdapter()
    executor = adapter.prepare(network(DENSE), mode="train")
    x = {"x": adapter.from_numpy(X)}
    first = executor.gradients(x, "loss", wrt=["x"])[1]["x"].numpy()
    second = executor.gradients(x, "loss", wrt=["x"])[1]["x"].numpy()
    np.testing.assert_array_equal(first, second)
    assert len(executor._gradients._traces) == 1
    executor.parameters["w"] = adapter.from_numpy(np.zeros((3, 4), np.float32))
    np.testing.assert_array_equal(executor.gradients(x, "loss", wrt=["x"])[1]["x"].numpy(), np.zeros((2, 3)))


def test_what_cannot_be_asked_for() -> None:
    adapter = TensorFlowAdapter()
    x = {"x": adapter.from_numpy(X)}
    with pytest.raises(Unsupported, match="prepared for inference"):
        adapter.prepare(network(DENSE)).gradients(x, "loss")
    executor = adapter.prepare(network(DENSE), mode="train")
    with pytest.raises(InvalidArgument, match="no output 'y2'"):
        executor.gradients(x, "y2")
    with pytest.raises(InvalidArgument, match=r"shape \[2, 4\]"):
        executor.gradients(x, "y")
    with pytest.raises(InvalidArgument, match="no parameter or floating-point input 'v'"):
        executor.gradients(x, "loss", wrt=["v"])
    with pytest.raises(InvalidArgument, match="no output 'loss'"):
        adapter.prepare(network(DENSE), mode="train", outputs=["y"]).gradients(x, "loss")


def test_a_loss_of_integers_has_no_gradient() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[3] x) => (int64 loss) { loss = ArgMax<keepdims = 0>(x) }"""
    with pytest.raises(InvalidArgument, match="floating-point"):
        gradients(network(text), ["x"], x=np.ones(3, np.float32))


@pytest.mark.parametrize("options", [{}, {"eager": True}], ids=["graph", "eager"])
def test_a_node_of_the_reference_on_the_path_is_refused(options) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[3] x, float[3] z) => (float loss)
        { y = Dropout<seed = 1>(x, r, t)  p = Mul(y, z)  loss = ReduceSum<keepdims = 0>(p) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.node[0].name = "drop"
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.array(v), n) for n, v in (("r", np.float32(0.5)), ("t", True))
    )
    net, ones = db.Network.from_proto(proto), np.ones(3, np.float32)
    with pytest.raises(UnsupportedOperator, match=r"'drop'.*computed by the reference"):
        gradients(net, ["x"], options=options, x=ones, z=ones)
    found = gradients(net, ["z"], options=options, x=ones, z=ones)["z"]  # nothing goes through it
    assert set(found.tolist()) <= {0.0, 2.0}


def test_dropped_elements_have_no_gradient_and_others_the_factor() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[64] x) => (float[64] y, float loss)
        { y = Dropout(x, r, t)  loss = ReduceSum<keepdims = 0>(y) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.array(v), n) for n, v in (("r", np.float32(0.75)), ("t", True))
    )
    executor = TensorFlowAdapter().prepare(db.Network.from_proto(proto), mode="train")
    outputs, found = executor.gradients({"x": executor.device.from_numpy(np.ones(64, np.float32))}, "loss", wrt=["x"])
    np.testing.assert_array_equal(found["x"].numpy(), outputs["y"].numpy())
    assert set(found["x"].numpy().tolist()) == {0.0, 4.0}


def test_narrow_floats_are_refused() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[3] x) => (float loss)
        { n = Cast<to = 17>(x)  y = Cast<to = 1>(n)  loss = ReduceSum<keepdims = 0>(y) }"""
    with pytest.raises(UnsupportedOperator, match="no gradient through float8_e4m3fn"):
        gradients(network(text), ["x"], x=np.ones(3, np.float32))


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_precisions(dtype) -> None:
    text = DENSE.replace("float", {"float64": "double"}.get(dtype, dtype))
    kind = np.dtype(dtype) if dtype == "float64" else np.dtype(ml_dtypes.bfloat16)
    agree(network(text), ["w", "x"], rtol=1e-12 if dtype == "float64" else 0.05, x=X.astype(kind))


def test_a_network_in_another_precision_has_its_gradients() -> None:
    found = gradients(network(DENSE), ["w", "x"], options={"dtype": "float64"}, x=X)
    assert {g.dtype for g in found.values()} == {np.dtype(np.float64)}


LOOP = """<ir_version: 10, opset_import: ["": 21]>
    g (float[3] x, int64 n, bool c) => (float loss) <float[3] w = {0.5, 2, 1}>
    {
        y = Loop(n, , x) <body = b (int64 i, bool go, float[3] h) => (bool on, float[3] next)
            { on = Identity(go)  p = Mul(h, w)  next = Tanh(p) }>
        z = If(c) <then_branch = t () => (float[3] a) { a = Mul(y, w) }, else_branch = e () => (float[3] q) { q = Neg(y) }>
        loss = ReduceSum<keepdims = 0>(z)
    }"""


@pytest.mark.parametrize("options", [{}, {"eager": True}], ids=["graph", "eager"])
@pytest.mark.parametrize("condition", [True, False])
def test_control_flow(options, condition) -> None:
    x = np.array([0.1, -0.2, 0.3], np.float32)
    found = gradients(network(LOOP), ["x", "w"], options=options, x=x, n=np.array(2), c=np.array(condition))
    w = np.array([0.5, 2, 1])
    first = np.tanh(x * w)
    second = np.tanh(first * w)
    outer = w if condition else -np.ones(3)
    inner = outer * (1 - second**2)
    before = inner * w * (1 - first**2)
    np.testing.assert_allclose(found["x"], before * w, rtol=1e-5)
    np.testing.assert_allclose(found["w"], (second if condition else 0) + inner * first + before * x, rtol=1e-5)


def test_a_sequence_on_the_path() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[2] x, float[2] z) => (float loss)
        { s = SequenceConstruct(x, z)  y = ConcatFromSequence<axis = 0>(s)
          q = Mul(y, y)  loss = ReduceSum<keepdims = 0>(q) }"""
    found = gradients(network(text), ["x", "z"], x=np.float32([1, 2]), z=np.float32([3, 4]))
    np.testing.assert_array_equal([found["x"], found["z"]], [[2, 4], [6, 8]])


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("dilation", [1, 2])
def test_convolutions_that_kernels_do_not_differentiate(group, dilation) -> None:
    channels = 4 // group
    text = f"""<ir_version: 10, opset_import: ["": 21]>
        g (float[1,4,7,7] x, float[4,{channels},3,3] w, float[4] b) => (float loss)
        {{ y = Conv<group = {group}, dilations = [{dilation}, {dilation}], pads = [1, 1, 1, 1]>(x, w, b)
           z = Mul(y, y)  loss = ReduceSum<keepdims = 0>(z) }}"""
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(s).astype(np.float32) for s in [(1, 4, 7, 7), (4, channels, 3, 3), (4,)])
    agree(network(text), ["x", "w", "b"], rtol=1e-4, x=x, w=w, b=b)


ZERO = np.zeros((1, 1, 4), np.float32)


@pytest.mark.parametrize(
    ("node", "x", "expected"),
    [
        ("ReduceL2<keepdims = 1>(x)", ZERO, ZERO),
        ("LpPool<kernel_shape = [2], p = 3>(x)", ZERO, ZERO),
        ("LpPool<kernel_shape = [2]>(x)", ZERO, ZERO),
        ("GlobalLpPool(x)", ZERO, ZERO),
        ("LpNormalization(x)", ZERO, ZERO),
        ("MeanVarianceNormalization<axes = [2]>(x)", ZERO + 1, ZERO),
        ("Elu(x)", ZERO + 100, ZERO + 1),
        ("Celu(x)", ZERO + 100, ZERO + 1),
        ("Selu(x)", ZERO + 100, ZERO + np.float32(1.0507)),
        ("Pow(x, x)", ZERO, ZERO),
    ],
)
def test_gradients_stay_finite(node, x, expected) -> None:
    text = f"""<ir_version: 10, opset_import: ["": 21]> g (float[1,1,4] x) => (float loss)
        {{ y = {node}  loss = ReduceSum<keepdims = 0>(y) }}"""
    np.testing.assert_allclose(gradients(network(text), ["x"], x=x)["x"], expected, rtol=1e-3)


def test_masked_rows_of_a_softmax_have_no_gradient() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[2,3] x, float[2,3] mask) => (float loss)
        { m = Add(x, mask)  s = Softmax(m)  bad = IsNaN(s)  zero = Sub(x, x)  k = Where(bad, zero, s)
          q = Mul(k, k)  loss = ReduceSum<keepdims = 0>(q) }"""
    mask = np.array([[0, 0, 0], [-np.inf] * 3], np.float32)
    found = gradients(network(text), ["x"], x=np.float32([[1, 2, 3], [1, 2, 3]]), mask=mask)["x"]
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[1], 0)
    assert (found[0] != 0).all()


def test_a_product_along_an_axis_with_zeros() -> None:
    text = """<ir_version: 10, opset_import: ["": 26]> g (float[4] x) => (float loss)
        { y = CumProd(x, axis)  loss = ReduceSum<keepdims = 0>(y) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0), "axis"))
    found = gradients(db.Network.from_proto(proto), ["x"], x=np.float32([2, 0, 3, 0]))["x"]
    np.testing.assert_array_equal(found, [1, 2 + 2 * 3, 0, 0])


def test_remainders_and_the_value_of_pads() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[2] x, float[2] d, float v) => (float loss)
        { m = Mod<fmod = 1>(x, d)  p = Pad(m, pads, v)  loss = ReduceSum<keepdims = 0>(p) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2, 1]), "pads"))
    found = gradients(
        db.Network.from_proto(proto), ["x", "d", "v"], x=np.float32([7, -7]), d=np.float32([2, 3]), v=np.float32(1)
    )
    np.testing.assert_array_equal(found["x"], [1, 1])
    np.testing.assert_array_equal(found["d"], [-3, 2])
    assert found["v"] == 3


def test_a_real_network_agrees_with_the_reference() -> None:
    proto = db.load("digits-cnn").to_proto()
    (logits,) = proto.graph.output
    proto.graph.input.append(onnx.helper.make_tensor_value_info("label", onnx.TensorProto.INT64, [2]))
    proto.graph.node.append(onnx.helper.make_node("SoftmaxCrossEntropyLoss", [logits.name, "label"], ["loss"]))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("loss", onnx.TensorProto.FLOAT, []))
    net = db.Network.from_proto(proto)
    (image,) = [spec for spec in net.inputs if spec.name != "label"]
    shape = tuple(d if isinstance(d, int) else 2 for d in image.shape)
    x = np.random.default_rng(0).uniform(0, 1, shape).astype(np.float32)
    inputs = {image.name: x, "label": np.array([3, 7])}
    found = agree(net, None, rtol=1e-4, **inputs)
    assert len(found) > 3
    assert any(np.abs(g).max() > 0 for g in found.values())

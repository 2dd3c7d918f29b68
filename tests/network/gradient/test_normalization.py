"""Gradients of normalizations."""

import math

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.network import differentiate
from tests.network.gradient.checks import check, outcomes

OPERATORS = (
    "BatchNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "GroupNormalization",
    "RMSNormalization",
    "LpNormalization",
    "MeanVarianceNormalization",
    "LRN",
    "Dropout",
)

EXPECTED = {"Dropout/0": "the ratio's gradient is 554, in a type whose largest number is 240"}


@pytest.mark.parametrize("operator", OPERATORS)
def test_cases(operator: str) -> None:
    found = [o for o in outcomes(operator) if o.case not in EXPECTED]
    assert found
    assert [o for o in found if o.word not in ("right", "kink")] == []


def written(operator: str, inputs: str, outputs: str, opset: int = 21) -> str:
    """A network of one node; every value is double."""
    fed = ", ".join(f"double{i}" for i in inputs.split())
    given_ = ", ".join(f"double{o}" for o in outputs.split())
    feeds = ", ".join(i.rpartition("]")[2] for i in inputs.split())
    results = ", ".join(o.rpartition("]")[2] for o in outputs.split())
    return f'<ir_version: 10, opset_import: ["" : {opset}]> g ({fed}) => ({given_}) {{ {results} = {operator}({feeds}) }}'


def drawn(*shapes: tuple[int, ...], seed: int = 0, positive: tuple[int, ...] = ()) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(rng.normal(size=shape)) for shape in shapes]
    return [np.abs(a) + 0.5 if i in positive else a for i, a in enumerate(arrays)]


def right(text: str, *arrays: np.ndarray) -> bool:
    proto = onnx.parser.parse_model(text)
    return check(text, **dict(zip((v.name for v in proto.graph.input), arrays, strict=True))) == "right"


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4), (2, 3, 2, 2)])
@pytest.mark.parametrize("first", ["n", None])
def test_batch_normalization(shape: tuple[int, ...], first: str | None) -> None:
    dims = ",".join(map(str, (first or shape[0], *shape[1:])))
    inputs = f"[{dims}]x [3]scale [3]b [3]mean [3]var"
    arrays = drawn(shape, (3,), (3,), (3,), (3,), positive=(4,))
    assert right(written("BatchNormalization<epsilon = 0.01>", inputs, f"[{dims}]y"), *arrays)
    training = "BatchNormalization<training_mode = 1, momentum = 0.7>"
    assert right(written(training, inputs, f"[{dims}]y [3]running [3]spread"), *arrays)
    assert right(written(training, inputs, f"[{dims}]y"), *arrays)


def test_batch_normalization_of_other_statistics() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
        g (float[4,3] x, float[3] scale, float[3] b, double[3] mean, double[3] var)
        => (float[4,3] y, double[3] m, double[3] v)
        { y, m, v = BatchNormalization<training_mode = 1>(x, scale, b, mean, var) }"""
    arrays = drawn((4, 3), (3,), (3,), (3,), (3,), positive=(4,))
    names = ("x", "scale", "b", "mean", "var")
    fed = {n: a.astype(np.float32 if i < 3 else np.float64) for i, (n, a) in enumerate(zip(names, arrays, strict=True))}
    assert check(text, precise=False, **fed) == "right"


@pytest.mark.parametrize("dims", ["2,4,3", "2,4,3,2", "n,4,h,w"])
def test_instance_and_group_normalization(dims: str) -> None:
    shape = (2, 4, 3) if dims.count(",") == 2 else (2, 4, 3, 2)
    inputs = f"[{dims}]x [4]scale [4]b"
    for operator in ("InstanceNormalization<epsilon = 0.1>", "GroupNormalization<num_groups = 2>"):
        assert right(written(operator, inputs, f"[{dims}]y"), *drawn(shape, (4,), (4,)))


@pytest.mark.parametrize(
    ("axis", "scale"), [(-1, "[4]"), (2, "[4]"), (1, "[3,4]"), (-3, "[2,3,4]"), (-1, "[1]"), (1, "[4]")]
)
def test_layer_normalization(axis: int, scale: str) -> None:
    shape = tuple(map(int, scale[1:-1].split(",")))
    operator = f"LayerNormalization<axis = {axis}, epsilon = 0.01>"
    assert right(written(operator, f"[2,3,4]x {scale}scale {scale}b", "[2,3,4]y"), *drawn((2, 3, 4), shape, shape))
    assert right(written(operator, f"[n,m,4]x {scale}scale", "[n,m,4]y"), *drawn((2, 3, 4), shape))
    rms = f"RMSNormalization<axis = {axis}, epsilon = 0.01>"
    assert right(written(rms, f"[n,m,4]x {scale}scale", "[n,m,4]y", 23), *drawn((2, 3, 4), shape))


def test_layer_normalization_of_one_axis() -> None:
    assert right(written("LayerNormalization", "[5]x [5]scale [5]b", "[5]y"), *drawn((5,), (5,), (5,)))
    assert right(written("RMSNormalization", "[5]x [5]scale", "[5]y", 23), *drawn((5,), (5,)))


@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_normalization_with_all_results(axis: int) -> None:
    shape = (3, 4)[axis % 3 - 1 :]
    scale, kept = ",".join(map(str, shape)), "2,3,1" if axis == -1 else "2,1,1"
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
        g (double[2,3,4] x, double[{scale}] scale, double[{scale}] b) => (double[2,3,4] y, float[{kept}] m, float[{kept}] i)
        {{ y, m, i = LayerNormalization<axis = {axis}>(x, scale, b) }}"""
    assert right(text, *drawn((2, 3, 4), shape, shape))


def test_far_from_zero_layer_normalization_stays_exact() -> None:
    x, scale = drawn((3, 8), (8,))
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]> g (float[3,8] x, float[8] scale) => (float loss)
        { y = LayerNormalization(x, scale) z = Mul(y, y) loss = ReduceSum<keepdims = 0>(z) }"""
    )
    run = db.frameworks["reference"]().prepare(differentiate(db.Network.from_proto(proto), wrt=["x"]))
    near = run({"x": x.astype(np.float32), "scale": scale.astype(np.float32)})["d(loss)/d(x)"]
    far = run({"x": (x + 64).astype(np.float32), "scale": scale.astype(np.float32)})["d(loss)/d(x)"]
    np.testing.assert_allclose(far, near, atol=1e-3)


@pytest.mark.parametrize(
    "operator", ["LpNormalization<p = 1>", "LpNormalization<p = 2, axis = 0>", "LpNormalization<axis = 1>"]
)
def test_lp_normalization(operator: str) -> None:
    assert right(written(operator, "[2,3,2]x", "[2,3,2]y", 22), *drawn((2, 3, 2)))
    assert right(written(operator, "[n,3,m]x", "[n,3,m]y", 22), *drawn((2, 3, 2)))


def gradient(text: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    network = differentiate(db.Network.from_proto(onnx.parser.parse_model(text)), wrt=["x"])
    return dict(db.frameworks["reference"]().prepare(network)(inputs))


@pytest.mark.parametrize("operator", ["LpNormalization<p = 1>", "LpNormalization", "MeanVarianceNormalization<axes = [1]>"])
def test_no_spread_gives_finite_gradients(operator: str) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 22]> g (double[2,3] x) => (double loss)
        {{ y = {operator}(x) loss = ReduceSum<keepdims = 0>(y) }}"""
    assert np.isfinite(gradient(text, x=np.zeros((2, 3)))["d(loss)/d(x)"]).all()


@pytest.mark.parametrize("dims", ["2,3,2,2", "n,3,h,w"])
def test_mean_variance_normalization(dims: str) -> None:
    for operator in ("MeanVarianceNormalization", "MeanVarianceNormalization<axes = [-1, 0]>"):
        assert right(written(operator, f"[{dims}]x", f"[{dims}]y"), *drawn((2, 3, 2, 2)))


@pytest.mark.parametrize("dims", ["1,5,2,2", "n,c,h,w", "1,5,2", "1,5"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_lrn(dims: str, size: int) -> None:
    shape = (1, 5, 2, 2)[: dims.count(",") + 1]
    operator = f"LRN<size = {size}, alpha = 0.7, beta = 0.6, bias = 1.5>"
    assert right(written(operator, f"[{dims}]x", f"[{dims}]y"), *drawn(shape))


DROPOUT = """<ir_version: 10, opset_import: ["" : 22]> g (double[4,5] x, double ratio, bool training) => (double[4,5] y)
    { y = Dropout<seed = 3>(x, ratio, training) }"""


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("ratio", [0.0, 0.4])
def test_dropout(training: bool, ratio: float) -> None:
    assert check(DROPOUT, x=drawn((4, 5))[0], ratio=np.array(ratio), training=np.array(training)) == "right"


def test_dropout_reads_the_mask_of_the_forward_node() -> None:
    text = """<ir_version: 10, opset_import: ["" : 22]> g (double[4,5] x) => (double loss, double[4,5] y)
        <double r = {0.5}, bool training = {1}>
        { y = Dropout(x, r, training) loss = ReduceSum<keepdims = 0>(y) }"""
    found = gradient(text, x=np.ones((4, 5)))  # without a seed: another mask in each run
    np.testing.assert_array_equal(found["d(loss)/d(x)"], found["y"])
    assert set(np.unique(found["y"])) == {0.0, 2.0}


def test_dropout_of_everything() -> None:
    text = """<ir_version: 10, opset_import: ["" : 22]> g (double[4] x, double r, bool training) => (double loss)
        { y = Dropout(x, r, training) loss = ReduceSum<keepdims = 0>(y) }"""
    found = gradient(text, x=np.ones(4), r=np.array(1.0), training=np.array(True))
    assert found["d(loss)/d(x)"].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("operator", "inputs"),
    [
        ("LayerNormalization", "[2,4]x [4]s"),
        ("LpNormalization", "[2,4]x"),
        ("InstanceNormalization", "[1,2,3]x [2]s [2]b"),
        ("LRN<size = 3, alpha = 0.7>", "[1,3,2]x"),
    ],
)
def test_second_derivatives(operator: str, inputs: str) -> None:
    first = onnx.parser.parse_model(written(operator, inputs, f"{inputs.split()[0][:-1]}y", 22))
    shapes = [tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in first.graph.input]
    arrays = dict(zip((v.name for v in first.graph.input), drawn(*shapes), strict=True))
    fed = ", ".join(f"double{list(shape)} {name}" for name, shape in zip(arrays, shapes, strict=True))
    text = f"""<ir_version: 10, opset_import: ["" : 22]> g ({fed}) => (double loss)
        {{ y = {operator}({", ".join(arrays)}) z = Mul(y, y) w = Mul(z, y) loss = ReduceSum<keepdims = 0>(w) }}"""
    once = differentiate(db.Network.from_proto(onnx.parser.parse_model(text)), wrt=["x"])
    name = "d(loss)/d(x)"
    assert twice_is_right(once, name, arrays)


def twice_is_right(network: db.Network, name: str, inputs: dict[str, np.ndarray]) -> bool:
    """Whether the gradient of the sum of squares of a gradient is what differences of it tell."""
    proto = network.to_proto()
    proto.graph.node.append(onnx.helper.make_node("ReduceSumSquare", [name], ["square"], keepdims=0))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("square", onnx.TensorProto.DOUBLE, []))
    squared = db.Network.from_proto(proto)
    run = db.frameworks["reference"]().prepare(differentiate(squared, "square", ["x"]))
    slope = run(inputs)["d(square)/d(x)"]
    rng = np.random.default_rng(5)
    direction, step = rng.normal(size=inputs["x"].shape), 1e-5
    ends = [run({**inputs, "x": inputs["x"] + sign * step * direction})["square"] for sign in (1, -1)]
    expected = float(ends[0] - ends[1]) / (2 * step)
    return math.isclose(float((slope * direction).sum()), expected, rel_tol=1e-5, abs_tol=1e-7)


@settings(max_examples=15, deadline=None)
@given(shape=st.lists(st.integers(0, 3), min_size=1, max_size=4), data=st.data())
def test_drawn_shapes(shape: list[int], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    start = axis % len(shape)
    normalized = [max(size, 1) for size in shape[start:]]  # the mean of nothing is no number
    shape = shape[:start] + normalized
    dims, own = ",".join(map(str, shape)), ",".join(map(str, normalized))
    named = ",".join(f"d{i}" for i in range(len(shape)))
    for x_dims in (dims, named):
        text = written(f"LayerNormalization<axis = {axis}, epsilon = 0.1>", f"[{x_dims}]x [{own}]s [{own}]b", f"[{x_dims}]y")
        assert right(text, *drawn(tuple(shape), tuple(normalized), tuple(normalized)))

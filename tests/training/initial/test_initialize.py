"""Fresh parameters: each by its role, the signal kept through depth, the same for the same seed."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

import deep_bench as db
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.graph import Network
from deep_bench.training.initial import SCHEMES, initialize, roles

FLOAT = onnx.TensorProto.FLOAT


def made(nodes, initializers, inputs, output="y", opset=21):
    """A network; arrays of 7s where only a shape is given."""
    tensors = [
        numpy_helper.from_array(np.full(a, 7, np.float32) if isinstance(a, tuple) else a, n) for n, a in initializers.items()
    ]
    fed = [helper.make_tensor_value_info(n, FLOAT, shape) for n, shape in inputs.items()]
    graph = helper.make_graph(nodes, "made", fed, [helper.make_tensor_value_info(output, FLOAT, None)], tensors)
    return Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10))


def node(operator, inputs, outputs="y", **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), name=operator, **attributes)


WEIGHTS = {
    "MatMul right": (node("MatMul", "x w"), (300, 200), {"x": ["n", 300]}, 300, 200),
    "MatMul left": (node("MatMul", "w x"), (200, 300), {"x": [300, "n"]}, 300, 200),
    "MatMul stacked": (node("MatMul", "x w"), (4, 150, 100), {"x": [4, "n", 150]}, 150, 100),
    "Gemm": (node("Gemm", "x w"), (300, 200), {"x": ["n", 300]}, 300, 200),
    "Gemm transB": (node("Gemm", "x w", transB=1), (200, 300), {"x": ["n", 300]}, 300, 200),
    "Gemm transA": (node("Gemm", "w x", transA=1), (300, 200), {"x": [300, "n"]}, 300, 200),
    "Conv": (node("Conv", "x w"), (64, 32, 5, 3), {"x": ["n", 32, 9, 9]}, 32 * 15, 64 * 15),
    "Conv in groups": (node("Conv", "x w", group=4), (64, 32, 3, 3), {"x": ["n", 128, 9, 9]}, 32 * 9, 16 * 9),
    "ConvTranspose": (
        node("ConvTranspose", "x w", strides=[2, 2]), (32, 64, 4, 4), {"x": ["n", 32, 9, 9]}, 32 * 4, 64 * 16,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_have_the_variance_of_their_scheme(name):
    operator, shape, inputs, fan_in, fan_out = WEIGHTS[name]
    network = made([operator], {"w": shape}, inputs)
    variances = {"he": 2 / fan_in, "glorot": 2 / (fan_in + fan_out), "lecun": 1 / fan_in}
    for scheme in SCHEMES:
        drawn = initialize(network, 3, scheme).parameters["w"].astype(np.float64)
        assert drawn.shape == shape
        assert abs(drawn.mean()) < 4 * drawn.std() / np.sqrt(drawn.size)
        if scheme == "orthogonal":
            continue
        family, _, kind = scheme.partition("-")
        kurtosis = (drawn**4).mean() / drawn.var() ** 2
        assert abs(drawn.var() / variances[family] - 1) < 4 * np.sqrt((kurtosis - 1) / drawn.size)
        assert abs(kurtosis - {"normal": 3.0, "uniform": 1.8}[kind]) < 0.2
        if kind == "uniform":
            assert np.abs(drawn).max() <= np.sqrt(3 * variances[family])


@pytest.mark.parametrize("name", WEIGHTS)
def test_orthogonal_weights_are(name):
    operator, shape, inputs, _, _ = WEIGHTS[name]
    network = made([operator], {"w": shape}, inputs)
    matrices = initialize(network, 3, "orthogonal").parameters["w"].reshape(-1)[roles(network)["w"].layout]
    for matrix in matrices:
        small = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
        np.testing.assert_allclose(small @ small.T, np.eye(len(small)), atol=1e-5)


def test_a_gain_multiplies_weights_only():
    network = db.load("digits-cnn")
    once, twice = initialize(network, 1).parameters, initialize(network, 1, gain=2).parameters
    for name in once:
        factor = 2 if roles(network)[name].kind == "weight" else 1
        np.testing.assert_allclose(twice[name], factor * once[name], rtol=1e-6)


def test_normalizations_biases_and_slopes():
    nodes = [
        node("BatchNormalization", "x scale bias mean variance", "a"),
        node("PRelu", "a slope", "b"),
        node("Conv", "b w c", "d"),
        node("LayerNormalization", "d ls lb", "y"),
    ]
    one = np.float32([7])  # of one element: no parameters for training, but their roles are plain
    arrays = dict.fromkeys(("scale", "bias", "mean", "variance"), (3,)) | {"slope": one, "w": (1, 3, 1), "c": one}
    found = initialize(made(nodes, {**arrays, "ls": (8,), "lb": (8,)}, {"x": ["n", 3, 8]})).initializers
    values = {"scale": 1, "bias": 0, "mean": 0, "variance": 1, "slope": 0.25, "c": 0, "ls": 1, "lb": 0}
    for name, value in values.items():
        assert np.all(found[name] == value), name


@pytest.mark.parametrize(("cell", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_are_uniform(cell, gates):
    hidden = 49
    layer = helper.make_node(cell, ["x", "w", "r", "b", "", "h"], ["", "y"], name="cell", hidden_size=hidden)
    shapes = {
        "w": (1, gates * hidden, 30),
        "r": (1, gates * hidden, hidden),
        "b": (1, 2 * gates * hidden),
        "h": (1, 1, hidden),
    }
    found = initialize(made([layer], shapes, {"x": ["t", 1, 30]})).parameters
    for name in "wrb":
        assert np.abs(found[name]).max() <= 1 / 7
        assert abs(found[name].std() * 7 * np.sqrt(3) - 1) < 0.15
    assert not found["h"].any()


def test_tables_are_normal_even_when_tied():
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["e"], name="gather"),
        node("Add", "e positions", "p"),
        node("Transpose", "table", "t"),
        node("MatMul", "p t"),
    ]
    network = made(nodes, {"table": (500, 40), "positions": (200, 40), "tokens": np.arange(200)}, {"x": ["n"]})
    found = initialize(network, embedding=0.1).parameters
    for name in ("table", "positions"):
        assert roles(network)[name].kind == "embedding"
        assert abs(found[name].std() / 0.1 - 1) < 0.05


CHAINS = {
    "Transpose": ([node("Transpose", "w", "v", perm=[1, 0])], (200, 300)),
    "Reshape": ([node("Reshape", "w sizes", "v")], (300, 4, 50)),
    "Reshape and Transpose": ([node("Reshape", "w sizes", "u"), node("Identity", "u", "v")], (30, 10, 200)),
    "Squeeze": ([node("Squeeze", "w zero", "v")], (1, 300, 200)),
    "Flatten": ([node("Flatten", "w", "v")], (300, 20, 10)),
    "Cast": (
        [node("Cast", "w", "u", to=onnx.TensorProto.FLOAT16), helper.make_node("Cast", ["u"], ["v"], to=FLOAT)],
        (300, 200),
    ),
    "quantized": (
        [node("QuantizeLinear", "w step", "q"), node("DequantizeLinear", "q step", "v")],
        (300, 200),
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_roles_are_found_through_what_only_moves_elements(name):
    chain, shape = CHAINS[name]
    constants = {"sizes": np.array([300, -1]), "zero": np.array([0]), "step": np.float32(0.1)}
    used = {n: a for n, a in constants.items() if any(n in step.input for step in chain)}
    network = made([*chain, node("MatMul", "x v")], {"w": shape, **used}, {"x": ["n", 300]})
    role = roles(network)["w"]
    assert (role.kind, role.fans.fan_in, role.fans.fan_out) == ("weight", 300, 200)
    assert sorted(role.layout.reshape(-1)) == list(range(60000))
    orthogonal = initialize(network, 0, "orthogonal").parameters["w"].reshape(-1)[role.layout[0]]
    np.testing.assert_allclose(orthogonal @ orthogonal.T, np.eye(200), atol=1e-5)


@pytest.mark.parametrize(
    ("scheme", "activation"), [("he-normal", "Relu"), ("he-uniform", "Relu"), ("lecun-normal", ""), ("orthogonal", "")]
)
def test_the_signal_keeps_its_size_through_depth(scheme, activation):
    width, depth, nodes, last = 256, 20, [], "x"
    for i in range(depth):
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"], name=f"m{i}"))
        last = f"m{i}"
        if activation and i < depth - 1:
            nodes.append(helper.make_node(activation, [last], [f"a{i}"], name=f"a{i}"))
            last = f"a{i}"
    network = made(nodes, {f"w{i}": (width, width) for i in range(depth)}, {"x": ["n", width]}, last)
    x = np.random.default_rng(0).normal(size=(64, width)).astype(np.float32)
    squares = []
    for seed in range(5):
        result = db.frameworks["reference"]().prepare(initialize(network, seed, scheme))({"x": x})[last]
        squares.append(float((result**2).mean()) / (2 if activation else 1))
    assert 0.5 < np.exp(np.mean(np.log(squares))) < 2


def test_each_parameter_depends_on_the_seed_and_its_name_only():
    network = db.load("digits-cnn")
    first = initialize(network, 5).parameters
    other = network.copy()
    kept = dict(other.graph.initializers)
    for name in kept:
        del other.graph.initializers[name]
    for name in reversed(kept):
        other.graph.register_initializer(kept[name])
    again = initialize(Network(other.model), 5).parameters
    assert list(again) == list(reversed(first))
    assert all(np.array_equal(first[n], again[n]) for n in first)
    different = initialize(network, 6).parameters
    weights = [n for n in first if n.endswith("weight") and first[n].ndim > 1]
    assert not any(np.array_equal(first[n], different[n]) for n in weights)
    assert np.any(network.parameters["stem.weight"] != first["stem.weight"])
    assert not np.array_equal(first["first.weight"], first["second.weight"])


def test_element_types_stay():
    network = made([node("MatMul", "x w")], {"w": np.ones((30, 20), np.float16)}, {"x": ["n", 30]})
    network.graph.inputs[0].type = ir.TensorType(ir.DataType.FLOAT16)
    assert initialize(network).parameters["w"].dtype == np.float16


def test_what_has_no_role_is_refused_by_name_or_kept():
    network = made([node("Sub", "x mean", "c"), node("MatMul", "c w")], {"mean": (3,), "w": (3, 2)}, {"x": ["n", 3]})
    with pytest.raises(Unsupported, match="mean") as error:
        initialize(network)
    assert "others='keep'" in str(error.value)
    kept = initialize(network, others="keep")
    assert np.all(kept.parameters["mean"] == 7)
    assert not np.any(kept.parameters["w"] == 7)
    assert np.all(network.parameters["w"] == 7)


def test_what_has_two_roles_is_refused():
    network = made([node("MatMul", "x w", "a"), node("PRelu", "a w")], {"w": (3, 3)}, {"x": ["n", 3]})
    with pytest.raises(InvalidArgument, match="'w' has several roles: weight in 'MatMul', slope in 'PRelu'"):
        initialize(network)


@pytest.mark.parametrize(
    "wrong", [{"scheme": "he_normal"}, {"seed": -1}, {"gain": 0}, {"embedding": float("nan")}, {"others": "drop"}]
)
def test_bad_arguments_are_refused(wrong):
    with pytest.raises(InvalidArgument):
        initialize(db.load("digits-cnn"), **wrong)

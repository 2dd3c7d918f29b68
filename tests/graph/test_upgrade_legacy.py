"""The rules for opset 1 to 6: the upgraded form in the reference gives what the old text says, written in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
import pytest
from onnx import helper

from deep_bench.errors import Unsupported
from deep_bench.graph import OPSET, Network, load
from deep_bench.graph.edit import Names
from deep_bench.graph.network import upgrade, upgrade_nodes
from deep_bench.graph.upgrade import LEGACY
from deep_bench.reference.network import ReferenceAdapter

RANDOM = np.random.default_rng(5)
F32, I64 = np.float32, np.int64


class Case(NamedTuple):
    operator: str
    opset: int
    inputs: Sequence[np.ndarray]
    expected: Any  # one result, or a tuple of the first ones
    attributes: Mapping[str, Any] = {}
    outputs: int = 1
    hidden: int = 0  # of how many inputs the number of dimensions cannot be inferred


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(F32)


X, Y, ROW, PLANE, CHANNEL, ONE = (normal(2, 3, 4, 5), normal(2, 3, 4, 5), normal(5), normal(3, 4), normal(3), normal(1, 1))
POSITIVE, BITS = np.abs(X) + F32(0.5), X > 0
STATISTICS = [normal(3), normal(3), normal(3), np.abs(normal(3)) + F32(0.5)]
GRU_WEIGHTS = [normal(4, 2, 3), normal(1, 15, 3), normal(1, 15, 5), normal(1, 30)]
LSTM_WEIGHTS = [normal(4, 2, 3), normal(1, 20, 3), normal(1, 20, 5), normal(1, 40)]
RNN_WEIGHTS = [normal(4, 2, 3), normal(1, 5, 3), normal(1, 5, 5), normal(1, 10)]


def column(a: np.ndarray, rank: int = 4) -> np.ndarray:
    return a.reshape(-1, *[1] * (rank - 2))


def normalised(x: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    scale, bias = STATISTICS[:2]
    return (x - column(mean)) / np.sqrt(column(variance) + 1e-5) * column(scale) + column(bias)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def run_rnn(x: np.ndarray, w: np.ndarray, r: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    h, all_h = np.zeros((2, 5)), []
    for step in x:
        h = np.tanh(step @ w[0].T + h @ r[0].T + b[0, :5] + b[0, 5:])
        all_h.append(h[None])
    return np.stack(all_h), h[None]


def run_gru(x: np.ndarray, w: np.ndarray, r: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    h, all_h = np.zeros((2, 5)), []
    (wz, wr, wh), (rz, rr, rh), (bz, br, bh, cz, cr, ch) = np.split(w[0], 3), np.split(r[0], 3), np.split(b[0], 6)
    for step in x:
        update, reset = sigmoid(step @ wz.T + h @ rz.T + bz + cz), sigmoid(step @ wr.T + h @ rr.T + br + cr)
        h = (1 - update) * np.tanh(step @ wh.T + (reset * h) @ rh.T + bh + ch) + update * h
        all_h.append(h[None])
    return np.stack(all_h), h[None]


def run_lstm(x: np.ndarray, w: np.ndarray, r: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    h, c, all_h = np.zeros((2, 5)), np.zeros((2, 5)), []
    for step in x:
        i, o, f, g = np.split(step @ w[0].T + h @ r[0].T + b[0, :20] + b[0, 20:], 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        all_h.append(h[None])
    return np.stack(all_h), h[None], c[None]


BINARY: dict[str, tuple[Callable[..., np.ndarray], np.ndarray, np.ndarray]] = {
    "Add": (np.add, X, PLANE),
    "And": (np.logical_and, BITS, PLANE > 0),
    "Div": (np.divide, X, np.abs(PLANE) + F32(1)),
    "Equal": (np.equal, (X * 2).astype(np.int32), (PLANE * 2).astype(np.int32)),
    "Greater": (np.greater, X, PLANE),
    "Less": (np.less, X, PLANE),
    "Mul": (np.multiply, X, PLANE),
    "Or": (np.logical_or, BITS, PLANE > 0),
    "Pow": (np.power, POSITIVE, PLANE),
    "Sub": (np.subtract, X, PLANE),
    "Xor": (np.logical_xor, BITS, PLANE > 0),
}

UNARY: dict[str, tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]] = {
    "Abs": (np.abs, X),
    "Ceil": (np.ceil, X),
    "Elu": (lambda x: np.where(x > 0, x, np.expm1(x)), X),
    "Exp": (np.exp, X),
    "Floor": (np.floor, X),
    "HardSigmoid": (lambda x: np.clip(0.2 * x + 0.5, 0, 1), X),
    "LeakyRelu": (lambda x: np.where(x > 0, x, 0.01 * x), X),
    "Log": (np.log, POSITIVE),
    "Neg": (np.negative, X),
    "Reciprocal": (np.reciprocal, X),
    "Relu": (lambda x: np.maximum(x, 0), X),
    "Sigmoid": (sigmoid, X),
    "Sqrt": (np.sqrt, POSITIVE),
    "Tanh": (np.tanh, X),
}

VARIADIC = {"Max": np.maximum(X, Y), "Mean": (X + Y) / 2, "Min": np.minimum(X, Y), "Sum": X + Y}


def selu(x: np.ndarray, alpha: float, gamma: float) -> np.ndarray:
    return gamma * np.where(x > 0, x, alpha * np.expm1(x))


CASES = {
    **{
        f"{name}_from_axis_1{'_unknown' if hidden else ''}": Case(
            name, 6, [a, b], f(a, b[..., None]), {"broadcast": 1, "axis": 1}, hidden=hidden
        )
        for name, (f, a, b) in BINARY.items()
        for hidden in (0, 2)
    },
    **{f"{name}_1": Case(name, 1, [data], f(data), {"consumed_inputs": [0]}) for name, (f, data) in UNARY.items()},
    **{f"{name}_1": Case(name, 1, [X, Y], expected, {"consumed_inputs": [0, 0]}) for name, expected in VARIADIC.items()},
    "add_1": Case("Add", 1, [X, Y], X + Y, {"consumed_inputs": [0, 0]}),
    "add_suffix": Case("Add", 6, [X, ROW], X + ROW, {"broadcast": 1}),
    "add_one_element": Case("Add", 6, [X, ONE], X + ONE, {"broadcast": 1}),
    "add_scalar_from_axis_1": Case("Add", 6, [X, ONE[0, 0]], X + ONE, {"broadcast": 1, "axis": 1}),
    "add_scalar_from_axis_1_unknown": Case("Add", 6, [X, ONE[0, 0]], X + ONE, {"broadcast": 1, "axis": 1}, hidden=2),
    "add_from_axis_0": Case("Add", 1, [X, normal(2) * 0 + 1], X + 1, {"broadcast": 1, "axis": 0}),
    "add_from_the_axis_of_the_suffix": Case("Add", 6, [X, ROW], X + ROW, {"broadcast": 1, "axis": 3}),
    "add_axis_without_broadcast": Case("Add", 6, [X, Y], X + Y, {"axis": 0}),
    "batch_normalization_6_test": Case(
        "BatchNormalization", 6, [X, *STATISTICS], normalised(X, *STATISTICS[2:]), {"is_test": 1}
    ),
    "batch_normalization_1_test": Case(
        "BatchNormalization",
        1,
        [X, *STATISTICS],
        normalised(X, *STATISTICS[2:]),
        {"is_test": 1, "consumed_inputs": [0, 0, 0, 1, 1], "spatial": 1},
        5,
    ),
    "batch_normalization_6_training": Case(
        "BatchNormalization", 6, [X, *STATISTICS], normalised(X, X.mean((0, 2, 3)), X.var((0, 2, 3))), {}, 5
    ),
    "cast_1": Case("Cast", 1, [X * 9], (X * 9).astype(np.int32), {"to": "INT32"}),
    "clip_1": Case("Clip", 1, [X], np.clip(X, -0.5, 0.25), {"min": -0.5, "max": 0.25, "consumed_inputs": [0]}),
    "clip_6": Case("Clip", 6, [X], np.maximum(X, -0.5), {"min": -0.5}),
    "concat_1": Case("Concat", 1, [X, Y], np.concatenate([X, Y], axis=1)),
    "concat_1_axis": Case("Concat", 3, [X, Y], np.concatenate([X, Y], axis=2), {"axis": 2}),
    "dropout_1": Case("Dropout", 1, [X], X, {"is_test": 1, "ratio": 0.3, "consumed_inputs": [0]}),
    "dropout_6": Case("Dropout", 6, [X], X, {"is_test": 1}),
    "gemm_1": Case(
        "Gemm", 1, [PLANE, normal(4, 2) * 0 + 1, normal(2) * 0 + 3], PLANE.sum(1)[:, None] + [3, 3], {"broadcast": 1}
    ),
    "gemm_6": Case("Gemm", 6, [PLANE, normal(4, 2) * 0 + 1, normal(3, 2) * 0 + 3], PLANE.sum(1)[:, None] + [3, 3]),
    "global_lp_pool_1": Case("GlobalLpPool", 1, [X], (np.abs(X) ** 3).sum((2, 3), keepdims=True) ** (1 / 3), {"p": 3.0}),
    "global_lp_pool_1_default": Case("GlobalLpPool", 1, [X], np.sqrt((X**2).sum((2, 3), keepdims=True))),
    "gru_1": Case("GRU", 1, GRU_WEIGHTS, run_gru(*GRU_WEIGHTS), {"hidden_size": 5, "output_sequence": 1}, 2),
    "gru_1_direction": Case("GRU", 1, GRU_WEIGHTS, run_gru(*GRU_WEIGHTS), {"hidden_size": 5, "direction": "foward"}, 2),
    "gru_3": Case("GRU", 3, GRU_WEIGHTS, run_gru(*GRU_WEIGHTS), {"hidden_size": 5, "direction": "forward"}, 2),
    "instance_normalization_1": Case(
        "InstanceNormalization",
        1,
        [X[:1], *STATISTICS[:2]],
        normalised(X[:1], X[0].mean((1, 2)), X[0].var((1, 2))),
        {"consumed_inputs": [0, 0, 0]},
    ),
    "lp_pool_1": Case(
        "LpPool", 1, [X], np.abs(X).reshape(2, 3, 2, 2, 5).sum(3), {"p": 1.0, "kernel_shape": [2, 1], "strides": [2, 1]}
    ),
    "lstm_1": Case("LSTM", 1, LSTM_WEIGHTS, run_lstm(*LSTM_WEIGHTS), {"hidden_size": 5, "output_sequence": 1}, 3),
    "p_relu_1_channels": Case(
        "PRelu", 1, [X, CHANNEL], np.where(X < 0, column(CHANNEL) * X, X), {"consumed_inputs": [0, 0]}
    ),
    "p_relu_6_channels_unknown": Case("PRelu", 6, [X, CHANNEL], np.where(X < 0, column(CHANNEL) * X, X), hidden=1),
    "p_relu_6_of_two_dimensions": Case("PRelu", 6, [X[0, 0], ROW], np.where(X[0, 0] < 0, ROW * X[0, 0], X[0, 0])),
    "p_relu_6_of_two_dimensions_unknown": Case(
        "PRelu", 6, [X[0, 0], ROW], np.where(X[0, 0] < 0, ROW * X[0, 0], X[0, 0]), hidden=1
    ),
    "p_relu_6_one": Case("PRelu", 6, [X, ONE[0]], np.where(X < 0, ONE * X, X)),
    "p_relu_6_same_shape": Case("PRelu", 6, [X, Y], np.where(X < 0, Y * X, X)),
    "pad_1": Case("Pad", 1, [PLANE], np.pad(PLANE, 1, constant_values=2.5), {"paddings": [1, 1, 1, 1], "value": 2.5}),
    "reshape_1": Case("Reshape", 1, [X], X.reshape(2, 12, 5), {"shape": [0, -1, 5], "consumed_inputs": [0]}),
    "rnn_1": Case("RNN", 1, RNN_WEIGHTS, run_rnn(*RNN_WEIGHTS), {"hidden_size": 5, "output_sequence": 1}, 2),
    "selu_1": Case("Selu", 1, [X], selu(X, 1.6732, 1.0507)),
    "selu_1_stated": Case("Selu", 1, [X], selu(X, 2.0, 1.5), {"alpha": 2.0, "gamma": 1.5, "consumed_inputs": [0]}),
    "selu_6": Case("Selu", 6, [X], selu(X, 1.67326319217681884765625, 1.05070102214813232421875)),
    "split_1": Case("Split", 1, [X], (X[:, :, :1], X[:, :, 1:]), {"axis": 2, "split": [1, 3]}, 2),
    "split_1_input": Case("Split", 1, [X, np.array([1, 3], F32)], (X[:, :, :1], X[:, :, 1:]), {"axis": 2}, 2),
    "split_1_equal": Case("Split", 1, [X], (X[:, :, :2], X[:, :, 2:]), {"axis": 2}, 2),
    "tile_1": Case("Tile", 1, [X, np.array([3], F32), np.array([2], F32)], np.tile(X, [1, 1, 3, 1])),
    "tile_1_scalars": Case("Tile", 5, [X, np.array(2, F32), np.array(0, F32)], np.tile(X, [2, 1, 1, 1]), hidden=1),
    "upsample_1": Case("Upsample", 1, [X], X.repeat(2, 2).repeat(3, 3), {"height_scale": 2.0, "width_scale": 3.0}),
}


def model(case: Case) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    feeds = {f"x{i}": a for i, a in enumerate(case.inputs)}
    hidden = list(feeds)[: case.hidden]
    names = [f"{name}_hidden" if name in hidden else name for name in feeds]
    node = helper.make_node(case.operator, names, [f"y{i}" for i in range(case.outputs)], name="old", **case.attributes)
    inputs = [value(n, a.dtype, a.shape) for n, a in feeds.items()]
    inputs += [value(f"{n}_shape", I64, [f"{n}_rank"]) for n in hidden]
    hiding = [helper.make_node("Reshape", [n, f"{n}_shape"], [f"{n}_hidden"]) for n in hidden]
    feeds |= {f"{n}_shape": np.array(feeds[n].shape, I64) for n in hidden}
    outputs = [value(f"y{i}", a.dtype, a.shape) for i, a in enumerate(expected(case))]
    return network_of(case.opset, [*hiding, node], inputs, outputs), feeds


def network_of(opset: int, nodes: Any, inputs: Any, outputs: Any, initializers: Any = ()) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)


def value(name: str, dtype: Any, shape: Sequence[int | str] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def expected(case: Case) -> list[np.ndarray]:
    results = case.expected if isinstance(case.expected, tuple) else (case.expected,)
    return [np.asarray(a, F32 if a.dtype == np.float64 else None) for a in results]


def in_reference(network: Network, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    assert network.opset == OPSET
    onnx.checker.check_model(network.to_proto(), full_check=True)
    return list(ReferenceAdapter().prepare(network)(feeds).values())


@pytest.mark.parametrize("name", CASES)
def test_the_new_form_gives_what_the_old_text_says(name: str) -> None:
    proto, feeds = model(CASES[name])
    onnx.checker.check_model(proto)
    newest = upgrade(Network.from_proto(proto))
    for new, want in zip(in_reference(newest, feeds), expected(CASES[name]), strict=True):
        assert new.dtype == want.dtype
        np.testing.assert_allclose(new, want, rtol=1e-5, atol=1e-5)
    assert [o.name for o in newest.outputs] == [o.name for o in proto.graph.output]
    assert "old" in {n.name for n in newest.nodes}


def test_every_rule_has_a_case() -> None:
    assert set(LEGACY) == {case.operator for case in CASES.values()}


CONVERTED = [
    *(f"{name}_1" for name in [*UNARY, *VARIADIC]),
    *("add_1", "add_suffix", "add_one_element", "add_from_the_axis_of_the_suffix", "add_axis_without_broadcast"),
    *("batch_normalization_6_test", "batch_normalization_6_training", "clip_1", "clip_6", "concat_1", "concat_1_axis"),
    *("dropout_1", "dropout_6", "gemm_1", "gemm_6", "instance_normalization_1", "p_relu_6_of_two_dimensions"),
    *("p_relu_6_one", "p_relu_6_same_shape", "reshape_1", "selu_1_stated", "selu_6", "upsample_1"),
]
"""ONNX's own converter knows the changes of these, and ONNX Runtime the result."""


@pytest.mark.parametrize("name", CONVERTED)
def test_onnx_converter_and_onnxruntime_agree_with_the_old_text(name: str) -> None:
    proto, feeds = model(CASES[name])
    converted = onnx.version_converter.convert_version(proto, 8)
    for found, want in zip(in_onnxruntime(converted, feeds), expected(CASES[name]), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["clip_6", "reshape_1", "selu_6"])
def test_onnxruntime_runs_some_old_forms(name: str) -> None:
    for found, want in zip(in_onnxruntime(*model(CASES[name])), expected(CASES[name]), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def in_onnxruntime(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


# How it is written


def test_an_operand_of_known_rank_needs_one_node() -> None:
    """In opset 1, where the schemas infer nothing, and behind another node."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], consumed_inputs=[0]),
        helper.make_node("Add", ["r", "b"], ["y"], broadcast=1, axis=1),
    ]
    inputs = [value("x", F32, X.shape), value("b", F32, CHANNEL.shape)]
    newest = upgrade(Network.from_proto(network_of(1, nodes, inputs, [value("y", F32, X.shape)])))
    assert [n.op_type for n in newest.nodes] == ["Relu", "Unsqueeze", "Add"]
    (y,) = in_reference(newest, {"x": X, "b": CHANNEL})
    np.testing.assert_array_equal(y, np.maximum(X, 0) + column(CHANNEL))


def test_operands_that_match_anyway_need_none() -> None:
    newest = upgrade(Network.from_proto(model(CASES["add_from_the_axis_of_the_suffix"])[0]))
    assert [n.op_type for n in newest.nodes] == ["Add"]


def test_graphs_of_which_nothing_is_known() -> None:
    case = CASES["Add_from_axis_1"]
    proto, feeds = model(case)
    network = Network.from_proto(proto).copy()
    upgrade_nodes(network.graph, 6, Names(network))
    network.graph.opset_imports[""] = OPSET
    (y,) = ReferenceAdapter().prepare(network)(feeds).values()
    np.testing.assert_array_equal(y, case.expected)


def test_initializers_that_are_inputs_are_constants(tmp_path: Path) -> None:
    """As every initializer was listed among the inputs before IR version 4."""
    node = helper.make_node("PRelu", ["x", "slope"], ["y"])
    inputs = [value("x", F32, X.shape), value("slope", F32, (1,))]
    slope = onnx.numpy_helper.from_array(np.array([0.5], F32), "slope")
    onnx.save(network_of(6, [node], inputs, [value("y", F32, X.shape)], [slope]), tmp_path / "old.onnx")
    network = load(tmp_path / "old.onnx")
    assert [i.name for i in network.inputs] == ["x"]
    newest = network.upgraded()
    assert [v.name for v in newest.graph.inputs] == ["x"]
    assert [n.op_type for n in newest.nodes] == ["PRelu"]
    np.testing.assert_array_equal(in_reference(newest, {"x": X})[0], np.where(X < 0, X / 2, X))
    assert [v.name for v in network.graph.inputs] == ["x", "slope"]


def test_dropout_in_training_drops_and_scales() -> None:
    case = Case("Dropout", 6, [np.ones(10000, F32)], np.ones(10000, F32), {"ratio": 0.25})
    newest = upgrade(Network.from_proto(model(case)[0]))
    (y,) = in_reference(newest, {"x0": case.inputs[0]})
    np.testing.assert_allclose(np.unique(y), [0, 4 / 3], rtol=1e-6)
    assert 0.2 < (y == 0).mean() < 0.3


def test_networks_without_the_default_operator_set() -> None:
    node = helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=0.5)
    made = network_of(1, [node], [value("x", F32, [2])], [value("y", F32, [2])])
    made.opset_import[0].domain = "ai.onnx.ml"
    network = Network.from_proto(made)
    assert upgrade(network) is network


# Refusals

IMAGE = [normal(1, 1, 2, 2)]
REFUSED = {
    "axis": (Case("Add", 6, [X, ROW], X, {"broadcast": 1, "axis": -1}), "negative axis"),
    "room": (Case("Add", 6, [X, PLANE], X, {"broadcast": 1, "axis": 3}), "does not fit"),
    "slope": (Case("PRelu", 6, [X, normal(3, 1, 1)], X), "a slope of 3 dimensions"),
    "slope_unknown": (Case("PRelu", 6, [X, CHANNEL], X, hidden=2), "an unknown number of dimensions"),
    "mode": (Case("BatchNormalization", 6, [X, *STATISTICS], X), "is_test"),
    "statistics": (
        Case("BatchNormalization", 6, [X, *STATISTICS], (X, CHANNEL, CHANNEL), {"is_test": 1}, 3),
        "statistics",
    ),
    "mask": (Case("Dropout", 6, [X], (X, X), {"is_test": 1}, 2), "mask"),
    "to": (Case("Cast", 1, [X], X, {"to": "float"}), "'float' is not the name of an element type"),
    "undefined": (Case("Cast", 1, [X], X, {"to": "UNDEFINED"}), "'UNDEFINED'"),
    "paddings": (Case("Pad", 1, [PLANE], X, {"paddings": [0, 0, 2, 0]}), "disagree on the order"),
    "shape": (Case("Reshape", 1, [X], X), "no shape"),
    "split_axis": (Case("Split", 1, [X], X, {"split": [4]}), "along which axis"),
    "split_twice": (Case("Split", 1, [X, ROW], X, {"split": [4], "axis": 2}), "given twice"),
    "p": (Case("LpPool", 1, [X], X, {"p": 1.5, "kernel_shape": [2, 2]}), "not 1.5"),
    "kernel": (Case("LpPool", 1, [X], X), "without a kernel_shape"),
    "scale": (Case("Upsample", 1, IMAGE, X, {"width_scale": 2.0}), "height_scale"),
    **{
        name: (Case(name, 1, [X], X), "no such operator in opset 1")
        for name in ("Affine", "ATen", "ConstantFill", "Crop", "GivenTensorFill", "GRUUnit", "ImageScaler")
    },
    **{
        name: (Case(name, 6, [X], X), "no such operator in opset 6")
        for name in ("MeanVarianceNormalization", "ParametricSoftplus", "Scale", "ScaledTanh", "ThresholdedRelu")
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_old_text_leaves_open_is_refused(name: str) -> None:
    case, reason = REFUSED[name]
    with pytest.raises(Unsupported) as caught:
        upgrade(Network.from_proto(model(case)[0]))
    assert f"'old' ({case.operator}, opset {case.opset})" in str(caught.value)
    assert reason in str(caught.value)

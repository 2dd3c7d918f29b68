"""Each rule: the old form in ONNX Runtime, unoptimised, and the new form in the reference give the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.graph import OPSET, Network
from deep_bench.graph.edit import Names
from deep_bench.graph.network import upgrade, upgrade_nodes
from deep_bench.graph.upgrade import RULES
from deep_bench.reference.network import ReferenceAdapter

RANDOM = np.random.default_rng(3)


class Case(NamedTuple):
    operator: str
    opset: int
    inputs: Sequence[np.ndarray]
    attributes: Mapping[str, Any] = {}
    constants: int = 0  # how many of the last inputs are initializers
    outputs: int = 1
    fixed: bool = True  # whether the file states the sizes


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


X = normal(2, 3, 4, 5)
IMAGE = normal(1, 2, 5, 6)
CHANNEL = [normal(3), normal(3), normal(3), np.abs(normal(3)) + 0.5]
F32 = np.float32


def scales(*values: float) -> np.ndarray:
    return np.array(values, F32)


CASES = {
    "batch_normalization_7": Case("BatchNormalization", 7, [X, *CHANNEL], {"epsilon": 0.01}),
    "batch_normalization_9": Case("BatchNormalization", 9, [X, *CHANNEL], {}, 4),
    "clip_6": Case("Clip", 7, [X], {"min": -0.5, "max": 0.25}),
    "clip_6_one_side": Case("Clip", 7, [X], {"max": 0.25}),
    "dft_17": Case("DFT", 17, [normal(1, 8, 2)], {"axis": 1}),
    "dft_17_default": Case("DFT", 17, [normal(1, 8, 3, 1)], {}),
    "dropout_7": Case("Dropout", 7, [X], {"ratio": 0.3}),
    "dropout_10": Case("Dropout", 10, [X], {"ratio": 0.3}),
    "grid_sample_16": Case("GridSample", 16, [IMAGE, np.tanh(normal(1, 3, 3, 2))], {"mode": "bicubic"}),
    "grid_sample_16_default": Case("GridSample", 16, [IMAGE, np.tanh(normal(1, 3, 3, 2))]),
    "group_normalization_18": Case("GroupNormalization", 18, [normal(2, 6, 4), normal(3), normal(3)], {"num_groups": 3}),
    "hardmax_11": Case("Hardmax", 11, [X], {"axis": 2}),
    "log_softmax_11": Case("LogSoftmax", 11, [X]),
    "one_hot_9": Case(
        "OneHot", 9, [np.array([0, 2, 5], np.int64), np.array(4, np.int64), np.array([0, 1], F32)], {"axis": 0}, 3
    ),
    "pad_2": Case("Pad", 7, [X], {"pads": [0, 1, 0, 2, 0, 0, 3, 0], "value": 1.5}),
    "pad_2_reflect": Case("Pad", 7, [X], {"pads": [0, 0, 2, 0, 0, 0, 1, 3], "mode": "reflect"}),
    "pad_2_crop": Case("Pad", 7, [X], {"pads": [0, 0, -1, 0, 0, 0, 0, -2]}),
    "resize_10_up": Case("Resize", 10, [IMAGE, scales(1, 1, 2, 1.6)], {"mode": "nearest"}, 1),
    "resize_10_down": Case("Resize", 10, [IMAGE, scales(1, 1, 0.6, 0.7)], {"mode": "nearest"}, 1),
    "resize_10_both": Case("Resize", 10, [IMAGE, scales(1, 1, 0.6, 1.7)], {"mode": "nearest"}, 1),
    "resize_10_linear": Case("Resize", 10, [IMAGE, scales(1, 1, 0.6, 1.7)], {"mode": "linear"}, 1),
    "resize_11_empty": Case(
        "Resize", 11, [IMAGE, scales(), scales(), np.array([1, 2, 7, 4], np.int64)], {"mode": "linear"}, 3
    ),
    "resize_11_for_nn": Case(
        "Resize",
        11,
        [IMAGE, scales(), scales(1, 1, 2, 0.5)],
        {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"},
        2,
    ),
    "roi_align_10": Case(
        "RoiAlign",
        10,
        [IMAGE, np.array([[0, 0, 4, 3], [1, 1, 3, 4]], F32), np.zeros(2, np.int64)],
        {"output_height": 2, "output_width": 3, "sampling_ratio": 2},
    ),
    "scatter_9": Case("Scatter", 9, [normal(3, 3), np.array([[1, 0, 2], [0, 2, 1]], np.int64), normal(2, 3)], {"axis": 0}),
    "slice_1": Case("Slice", 7, [X], {"starts": [1, -3], "ends": [100, -1], "axes": [0, 2]}),
    "slice_1_without_axes": Case("Slice", 7, [X], {"starts": [0, 1], "ends": [1, 3]}),
    "softmax_1": Case("Softmax", 7, [X]),
    "softmax_1_last": Case("Softmax", 7, [X], {"axis": 3}),
    "softmax_11_negative": Case("Softmax", 11, [X], {"axis": -2}),
    "softmax_11_open_sizes": Case("Softmax", 11, [X], {"axis": 2}, fixed=False),
    "split_2": Case("Split", 7, [X], {"split": [1, 3], "axis": 2}, outputs=2),
    "split_2_equal": Case("Split", 7, [X], {"axis": 2}, outputs=2),
    "split_13_equal": Case("Split", 13, [X], {"axis": 2}, outputs=2),
    "squeeze_1": Case("Squeeze", 7, [normal(1, 3, 1)], {"axes": [2]}),
    "squeeze_1_all": Case("Squeeze", 7, [normal(1, 3, 1)]),
    "top_k_1": Case("TopK", 7, [X], {"k": 2, "axis": 3}, outputs=2),
    "unsqueeze_1": Case("Unsqueeze", 7, [X], {"axes": [0, 4]}),
    "upsample_7": Case("Upsample", 7, [IMAGE], {"scales": [1.0, 1.0, 2.0, 1.5]}),
    "upsample_9": Case("Upsample", 9, [IMAGE, scales(1, 1, 2, 3)], {"mode": "linear"}, 1),
    **{
        f"{name}_{opset}": Case(name, opset, [np.abs(X)], attributes)
        for name, opset, attributes in [
            ("ReduceL1", 7, {"axes": [1, 2]}),
            ("ReduceL2", 13, {"axes": [-1]}),
            ("ReduceLogSum", 7, {"axes": [1], "keepdims": 0}),
            ("ReduceLogSumExp", 11, {"axes": [1]}),
            ("ReduceMax", 7, {}),
            ("ReduceMean", 7, {"axes": [0, 3], "keepdims": 0}),
            ("ReduceMin", 13, {"axes": [2]}),
            ("ReduceProd", 11, {"axes": [1]}),
            ("ReduceSum", 11, {"axes": [3]}),
            ("ReduceSumSquare", 7, {"axes": [1]}),
        ]
    },
}


def model(case: Case) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    names = [f"x{i}" for i in range(len(case.inputs))]
    fed = len(names) - case.constants
    node = helper.make_node(case.operator, names, [f"y{i}" for i in range(case.outputs)], name="old", **case.attributes)
    declared = [
        helper.make_tensor_value_info(
            n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape if case.fixed else [None] * a.ndim
        )
        for n, a in zip(names[:fed], case.inputs, strict=False)
    ]
    constants = [onnx.numpy_helper.from_array(a, n) for n, a in zip(names[fed:], case.inputs[fed:], strict=True)]
    kinds = [np.int64 if case.operator == "TopK" and i else F32 for i in range(case.outputs)]
    outputs = [
        helper.make_tensor_value_info(f"y{i}", helper.np_dtype_to_tensor_dtype(np.dtype(k)), None)
        for i, k in enumerate(kinds)
    ]
    graph = helper.make_graph([node], "graph", declared, outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=6)
    return made, dict(zip(names[:fed], case.inputs, strict=False))


def in_onnxruntime(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


def in_reference(network: Network, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    assert network.opset == OPSET
    results = ReferenceAdapter().prepare(network)(feeds)
    proto = network.to_proto()
    for output in proto.graph.output:  # the checker insists on stated shapes
        output.type.CopyFrom(helper.make_tensor_type_proto(output.type.tensor_type.elem_type, results[output.name].shape))
    onnx.checker.check_model(proto, full_check=True)
    return list(results.values())


def agree(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> Network:
    newest = upgrade(Network.from_proto(proto))
    for old, new in zip(in_onnxruntime(proto, feeds), in_reference(newest, feeds), strict=True):
        assert old.dtype == new.dtype
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-5)
    return newest


@pytest.mark.parametrize("name", CASES)
def test_old_and_new_form_agree(name: str) -> None:
    case = CASES[name]
    proto, feeds = model(case)
    newest = agree(proto, feeds)
    assert [o.name for o in newest.outputs] == [o.name for o in proto.graph.output]
    assert "old" in {n.name for n in newest.all_nodes()}


def test_every_rule_has_a_case() -> None:
    recent = {name for name, rules in RULES.items() if any(version > 7 for version, _ in rules)}
    assert recent == {case.operator for case in CASES.values()} | {"Scan"}  # which has tests of its own


def test_the_original_stays_as_it_is() -> None:
    proto, _ = model(CASES["clip_6"])
    network = Network.from_proto(proto)
    before = network.to_proto().SerializeToString(deterministic=True)
    upgrade(network)
    assert network.to_proto().SerializeToString(deterministic=True) == before
    assert network.opset == 7


def test_the_newest_version_is_left_alone() -> None:
    proto, _ = model(Case("Relu", OPSET, [X]))
    network = Network.from_proto(proto)
    assert upgrade(network) is network


def test_softmax_of_a_known_last_axis_needs_no_helper() -> None:
    newest = upgrade(Network.from_proto(model(CASES["softmax_1_last"])[0]))
    assert [n.op_type for n in newest.nodes] == ["Softmax"]


def test_negative_indices_were_out_of_range_before_opset_11() -> None:
    indices = np.array([-1, 0, 3, 4, -4], np.int64)
    proto, feeds = model(Case("OneHot", 9, [indices, np.array([4], np.int64), np.array([2, 7], F32)]))
    (new,) = in_reference(upgrade(Network.from_proto(proto)), feeds)
    expected = np.full((5, 4), 2, F32)
    expected[1, 0] = expected[2, 3] = 7
    np.testing.assert_array_equal(new, expected)


def test_resize_10_with_unknown_scales() -> None:
    case = CASES["resize_10_both"]
    agree(*model(case._replace(constants=0)))


def test_batch_normalization_per_activation() -> None:
    activation = [normal(3, 4, 5), normal(3, 4, 5), normal(3, 4, 5), np.abs(normal(3, 4, 5)) + 0.5]
    proto, feeds = model(Case("BatchNormalization", 7, [X, *activation], {"spatial": 0}))
    (new,) = in_reference(upgrade(Network.from_proto(proto)), feeds)
    scale, bias, mean, variance = activation
    np.testing.assert_allclose(new, (X - mean) / np.sqrt(variance + 1e-5) * scale + bias, rtol=1e-5, atol=1e-5)


def test_limits_of_a_value_of_unknown_type_take_its_type() -> None:
    network = Network.from_proto(model(Case("Clip", 7, [X.astype(np.float64)], {"min": -0.5}))[0]).copy()
    upgrade_nodes(network.graph, 7, Names(network))
    assert [n.op_type for n in network.nodes] == ["CastLike", "Clip"]
    network.graph.opset_imports[""] = OPSET
    (new,) = ReferenceAdapter().prepare(network)({"x0": X.astype(np.float64)}).values()
    assert new.dtype == np.float64
    np.testing.assert_array_equal(new, np.maximum(X.astype(np.float64), -0.5))


def test_functions_written_in_another_opset_are_inlined() -> None:
    """The function is in opset 13, where Softmax works on one axis; the network in opset 11, where it flattens."""
    inner = helper.make_node("Softmax", ["a"], ["b"], axis=1)
    body = helper.make_function("own", "Norm", ["a"], ["b"], [inner], [helper.make_opsetid("", 13)])
    nodes = [helper.make_node("Norm", ["x"], ["p"], domain="own"), helper.make_node("Softmax", ["x"], ["q"], axis=1)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4])
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "pq"]
    opsets = [helper.make_opsetid("", 11), helper.make_opsetid("own", 1)]
    made = helper.make_model(
        helper.make_graph(nodes, "g", [x], outputs), opset_imports=opsets, functions=[body], ir_version=8
    )
    data = normal(2, 3, 4)
    p, q = in_reference(upgrade(Network.from_proto(made)), {"x": data})
    power = np.exp(data)
    np.testing.assert_allclose(p, power / power.sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(q, power / power.sum(axis=(1, 2), keepdims=True), rtol=1e-5)


def test_subgraphs_are_upgraded() -> None:
    branches = {}
    for name, axis in (("then_branch", 1), ("else_branch", 2)):
        node = helper.make_node("Softmax", ["x"], [f"{name}_y"], axis=axis)
        branches[name] = helper.make_graph(
            [node], name, [], [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)]
        )
    choice = helper.make_node("If", ["c"], ["y"], **branches)
    inputs = [
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4]),
    ]
    graph = helper.make_graph([choice], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    for condition in (True, False):
        agree(made, {"c": np.array(condition), "x": normal(2, 3, 4)})


def scan_8(**attributes: Any) -> onnx.ModelProto:
    """A running sum over each sample of a batch."""
    total = helper.make_node("Add", ["s", "e"], ["s_next"])
    copy = helper.make_node("Identity", ["s_next"], ["o"])
    values = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("s", "e", "s_next", "o")}
    body = helper.make_graph([total, copy], "body", [values["s"], values["e"]], [values["s_next"], values["o"]])
    node = helper.make_node("Scan", ["", "first", "x"], ["last", "sums"], body=body, num_scan_inputs=1, **attributes)
    inputs = [
        helper.make_tensor_value_info("first", TensorProto.FLOAT, [3, 2]),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 5, 2]),
    ]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("last", "sums")]
    graph = helper.make_graph([node], "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=6)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_over_a_batch(reverse: bool) -> None:
    first, x = normal(3, 2), normal(3, 5, 2)
    proto, feeds = scan_8(**({"directions": [1]} if reverse else {})), {"first": first, "x": x}
    last, sums = in_reference(agree(proto, feeds), feeds)
    expected = first[:, None] + np.cumsum(x[:, ::-1] if reverse else x, axis=1)
    np.testing.assert_allclose(sums, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last, expected[:, -1], rtol=1e-5, atol=1e-6)


def refusal(proto: onnx.ModelProto) -> str:
    with pytest.raises(Unsupported) as caught:
        upgrade(Network.from_proto(proto))
    return str(caught.value)


def test_refusals_name_the_node_and_the_reason() -> None:
    proto, _ = model(Case("Dropout", 7, [X], outputs=2))
    message = refusal(proto)
    assert "'old'" in message
    assert "Dropout, opset 7" in message
    assert "mask" in message


def test_statistics_of_training_before_opset_14_are_refused() -> None:
    proto, _ = model(Case("BatchNormalization", 9, [X, *CHANNEL], outputs=5))
    assert "statistics" in refusal(proto)


def test_scan_over_sequences_of_different_lengths_is_refused() -> None:
    proto = scan_8()
    proto.graph.node[0].input[0] = "lengths"
    proto.graph.input.append(helper.make_tensor_value_info("lengths", TensorProto.INT64, [3]))
    assert "sequence_lens" in refusal(proto)


def test_unknown_opsets_are_refused() -> None:
    for opset in (0, OPSET + 1):
        proto, _ = model(Case("Relu", opset, [X]))
        assert f"opset {opset}" in refusal(proto)


def test_operators_that_the_opset_does_not_know_are_refused() -> None:
    assert "no such operator in opset 11" in refusal(model(Case("Gelu", 11, [X]))[0])


def test_training_per_activation_is_refused() -> None:
    proto, _ = model(Case("BatchNormalization", 7, [X, *CHANNEL], {"spatial": 0}, outputs=3))
    del proto.graph.output[1:]
    assert "spatial" in refusal(proto)


def chain(opset: int, *nodes: onnx.NodeProto, functions: Sequence[onnx.FunctionProto] = ()) -> onnx.ModelProto:
    """Nodes from ``x`` of 1 x 1 x 3 x 4 to ``y``."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 3, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    axes = onnx.numpy_helper.from_array(np.array([0], np.int64), "axes")
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    graph = helper.make_graph(nodes, "g", [x], [y], [axes])
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)


def test_ranks_are_those_before_the_first_rule() -> None:
    """Squeeze is rewritten before the rule of Softmax asks how many dimensions there are."""
    squeeze = helper.make_node("Squeeze", ["x"], ["s"], axes=[0])
    agree(chain(11, squeeze, helper.make_node("Softmax", ["s"], ["y"], axis=1)), {"x": normal(1, 1, 3, 4)})


def test_ranks_after_a_function_of_another_opset() -> None:
    """Read as opset 11, the function's Squeeze would take away both dimensions of one element."""
    inner = helper.make_node("Squeeze", ["a", "b"], ["c"])
    body = helper.make_function("own", "Drop", ["a", "b"], ["c"], [inner], [helper.make_opsetid("", 13)])
    drop = helper.make_node("Drop", ["x", "axes"], ["s"], domain="own")
    proto = chain(11, drop, helper.make_node("Softmax", ["s"], ["y"], axis=1), functions=[body])
    data = normal(1, 1, 3, 4)
    (y,) = in_reference(upgrade(Network.from_proto(proto)), {"x": data})
    np.testing.assert_allclose(y, np.exp(data[0]) / np.exp(data).sum(), rtol=1e-5)


def test_the_oldest_target() -> None:
    network = Network.from_proto(
        onnx.parser.parse_model('<ir_version: 4, opset_import: ["" : 9]> g (float[2] x) => (float[2] y) { y = Relu(x) }')
    )
    assert network.upgraded(21).opset == 21
    with pytest.raises(InvalidArgument, match="opset 21 to 28"):
        network.upgraded(13)

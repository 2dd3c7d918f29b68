"""Which nodes of ai.onnx.ml and com.microsoft are said to meet a fault of ONNX Runtime: all that do, and few that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from deep_bench.fault import exposures
from deep_bench.graph import Network

pytest.importorskip("onnxruntime")

from deep_bench.adapters.onnxruntime.faults import FAULTS

TREE = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}


def forest(kind: str, votes: list[tuple[int, int, float]], **others: Any) -> dict[str, Any]:
    leaves, ids, weights = (list(part) for part in zip(*votes, strict=True))
    names = (f"{kind}_treeids", f"{kind}_nodeids", f"{kind}_ids", f"{kind}_weights")
    return TREE | dict(zip(names, ([0] * len(votes), leaves, ids, weights), strict=True)) | others


FIRST = [(1, 0, 1.0), (2, 0, 2.0)]
BOTH = [*FIRST, (1, 1, 1.0), (2, 1, 2.0)]
HALF = [(1, 0, -1.0), (2, 1, -1.0)]
SVM = {"vectors_per_class": [1, 1], "support_vectors": [1.0, 2.0], "coefficients": [1.0, -1.0], "classlabels_ints": [4, 5]}
LINEAR = {"coefficients": [1.0], "classlabels_ints": [4, 5]}

NODES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("Imputer", {"imputed_value_floats": [1.0, 2.0]}, ["ml_imputer_lengths"]),
    ("Imputer", {"imputed_value_floats": [1.0, 2.0, 3.0]}, []),
    ("Imputer", {"imputed_value_floats": [1.0]}, []),
    ("LabelEncoder", {"keys_floats": [np.nan], "values_floats": [1.0]}, ["ml_label_encoder_nan"]),
    ("LabelEncoder", {"keys_floats": [1.0], "values_floats": [1.0]}, []),
    ("Normalizer", {"norm": "MAX"}, ["ml_normalizer_max_infinite"]),
    ("Normalizer", {"norm": "L2"}, []),
    ("LinearRegressor", {"coefficients": [1.0], "post_transform": "LOGISTIC"}, ["ml_post_transform_one_score"]),
    ("LinearRegressor", {"coefficients": [1.0], "post_transform": "PROBIT"}, ["ml_probit_digits"]),
    ("LinearRegressor", {"coefficients": [1.0, 2.0], "targets": 2, "post_transform": "LOGISTIC"}, []),
    ("SVMRegressor", {"post_transform": "PROBIT"}, ["ml_post_transform_one_score", "ml_probit_digits"]),
    ("SVMRegressor", {}, []),
    ("LinearClassifier", {**LINEAR, "intercepts": [0.0], "post_transform": "SOFTMAX"}, ["ml_post_transform_two_classes"]),
    (
        "LinearClassifier",
        {**LINEAR, "intercepts": [0.0], "post_transform": "PROBIT"},
        ["ml_probit_digits", "ml_probit_two_classes"],
    ),
    ("LinearClassifier", {**LINEAR, "intercepts": [0.0, 0.0], "post_transform": "SOFTMAX"}, []),
    ("SVMClassifier", {**SVM, "post_transform": "SOFTMAX"}, ["ml_post_transform_two_classes"]),
    ("SVMClassifier", {**SVM, "post_transform": "SOFTMAX", "prob_a": [1.0], "prob_b": [1.0]}, []),
    ("SVMClassifier", {"coefficients": [0.5, -0.25], "classlabels_ints": [4, 5]}, ["ml_svm_linear_labels"]),
    ("TreeEnsembleRegressor", forest("target", FIRST, n_targets=2, base_values=[1.0, 2.0]), ["ml_tree_base_dropped"]),
    ("TreeEnsembleRegressor", forest("target", BOTH, n_targets=2, base_values=[1.0, 2.0]), []),
    ("TreeEnsembleRegressor", forest("target", HALF, n_targets=2, base_values=[1.0, 0.0]), ["ml_tree_base_dropped"]),
    ("TreeEnsembleRegressor", forest("target", HALF, n_targets=2), []),
    ("TreeEnsembleClassifier", forest("class", HALF, classlabels_int64s=[1, 2, 3]), ["ml_tree_class_without_votes"]),
    ("TreeEnsembleClassifier", forest("class", BOTH, classlabels_int64s=[1, 2, 3]), []),
    ("TreeEnsembleClassifier", forest("class", FIRST, classlabels_int64s=[1]), ["ml_tree_one_label"]),
    ("TreeEnsembleClassifier", forest("class", FIRST, classlabels_strings=["a"]), ["ml_tree_one_string"]),
    ("TreeEnsembleClassifier", forest("class", BOTH, classlabels_int64s=[1, 2]), ["ml_tree_two_labels"]),
    ("TreeEnsembleClassifier", forest("class", FIRST, classlabels_int64s=[1, 2]), []),
    (
        "TreeEnsembleClassifier",
        forest("class", FIRST, classlabels_int64s=[1, 2], base_values=[1.0, 2.0]),
        ["ml_tree_two_bases"],
    ),
    (
        "TreeEnsembleClassifier",
        forest("class", FIRST, classlabels_int64s=[1, 2], post_transform="SOFTMAX"),
        ["ml_post_transform_two_classes"],
    ),
]


def names(model: onnx.ModelProto) -> list[str]:
    return [found.name for found in exposures(Network.from_proto(model), FAULTS)]


@pytest.mark.parametrize(("operator", "attributes", "expected"), NODES)
def test_models(operator: str, attributes: dict[str, Any], expected: list[str]) -> None:
    assert names(of_one(operator, 3, attributes)) == expected


def of_one(operator: str, version: int, attributes: dict[str, Any], kind: int = onnx.TensorProto.FLOAT) -> onnx.ModelProto:
    node = helper.make_node(operator, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    x = helper.make_tensor_value_info("x", kind, [2, 3])
    graph = helper.make_graph([node], "network", [x], [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def test_nan_is_a_key_since_version_4() -> None:
    assert names(of_one("LabelEncoder", 4, {"keys_floats": [np.nan], "values_floats": [1.0]})) == []


def test_normalizers_of_other_types() -> None:
    assert names(of_one("Normalizer", 1, {"norm": "L2"}, onnx.TensorProto.DOUBLE)) == ["ml_normalizer_double"]
    assert names(of_one("Normalizer", 1, {"norm": "L2"}, onnx.TensorProto.INT32)) == ["ml_normalizer_integer_squares"]
    assert names(of_one("Normalizer", 1, {"norm": "MAX"}, onnx.TensorProto.INT32)) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"post_transform": 1, "n_targets": 2}, ["ml_tree_post_transform_codes"]),
        ({"post_transform": 3, "n_targets": 2}, []),
        ({"post_transform": 2, "n_targets": 1}, ["ml_post_transform_one_score"]),
        ({"membership_values": onnx.numpy_helper.from_array(np.float32([7, 31, np.nan]))}, ["ml_tree_member_fraction"]),
        ({"membership_values": onnx.numpy_helper.from_array(np.float32([7, 30, np.nan]))}, []),
    ],
)
def test_the_forest_of_version_5(changes: dict[str, Any], expected: list[str]) -> None:
    assert names(of_one("TreeEnsemble", 5, changes)) == expected


ADD = "(uint8[2] x, float s, uint8 z) => (uint8[2] y) {{ y = com.microsoft.QLinearAdd (x, s, {}, x, s, {}, s) }}"
SIGMOID = "(uint8[2] x, float s, uint8 z) => (uint8[2] y) {{ y = com.microsoft.QLinearSigmoid (x, s, z, s{}) }}"
WEIGHTS = "float[1,16] a, uint8[1,1,n] b, float[1,1] s, {}[1,1] z, int32[16] g"
BITS = f"({WEIGHTS}) => (float[1,1] y) " + (
    "{{ y = com.microsoft.MatMulNBits <K = 16, N = 1, bits = {}> (a, b, s, {}, {}) }}"
)
ROTATED = (
    "(float[1,1,2] x, int64[1] p, float[2,1] c) => (float[a,b,d] y) {{ y = com.microsoft.RotaryEmbedding {} (x, p, c, c) }}"
)
ATTENTION = (
    "(float[1,{},4] q, float[1,3,4] k) => (float[a,b,c] y) "
    "{{ y = com.microsoft.MultiHeadAttention <num_heads = 1, unidirectional = {}> (q, k, k) }}"
)
DYNAMIC = "(float[1,n] x, uint8[{},2] w, float s) => (float[1,2] y) {{ y = com.microsoft.DynamicQuantizeMatMul (x, w, s) }}"

CONTRIBUTED = {
    ADD.format("z", "z"): [],
    ADD.format("", "z"): ["contrib_absent_zero_point"],
    ADD.format("z", ""): ["contrib_absent_zero_point"],
    SIGMOID.format(""): ["contrib_trailing_zero_point"],
    SIGMOID.format(", z"): [],
    BITS.format("uint8", 2, "", "g"): ["contrib_n_bits_groups"],
    BITS.format("uint8", 2, "z", ""): [],
    BITS.format("uint8", 4, "z", "g"): ["contrib_n_bits_zero_points"],
    BITS.format("float", 4, "z", "g"): [],
    ROTATED.format("<scale = 5.0>"): ["contrib_rotary_scale"],
    ROTATED.format(""): [],
    ATTENTION.format(2, 1): ["contrib_causal_last_query"],
    ATTENTION.format(3, 1): [],
    ATTENTION.format(2, 0): [],
    DYNAMIC.format(0): ["contrib_empty_product"],
    DYNAMIC.format(4): [],
}


@pytest.mark.parametrize(("text", "expected"), CONTRIBUTED.items())
def test_contributed(text: str, expected: list[str]) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> network {text}')
    assert names(model) == expected

"""What must hold of every operator: it has a case here, adapters are told the right types, the checker can disturb it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from deep_bench import frameworks
from deep_bench.adapters.lowering.infer import bound, infer_contrib
from deep_bench.adapters.lowering.plan import Fact
from deep_bench.check import InProcessSubject, establish, judge
from deep_bench.graph import Network
from deep_bench.reference.operators import OPERATORS

RNG = np.random.default_rng(13)
DOMAIN = "com.microsoft"


def real(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def whole(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def int32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


SCALE, ZERO = np.array(0.05, np.float32), np.array(128, np.uint8)
PAIR = [SCALE, ZERO]
HEADS = {"num_heads": 2}
CASES: dict[str, tuple[list[Any], dict[str, Any], int]] = {
    "Attention": ([real(2, 3, 8), real(8, 24), real(24), int32(2, 3)], HEADS, 2),
    "BiasAdd": ([real(2, 3, 4), real(4), real(2, 3, 4)], {}, 1),
    "BiasGelu": ([real(2, 4), real(4)], {}, 1),
    "BiasSoftmax": ([real(2, 4), real(1, 4)], {"is_inner_broadcast": 0}, 1),
    "BiasSplitGelu": ([real(2, 3, 4), real(4)], {}, 1),
    "CDist": ([real(2, 4), real(3, 4)], {}, 1),
    "ConvTransposeWithDynamicPads": ([real(1, 2, 4, 4), real(2, 3, 3, 3), np.array([1, 1, 0, 1])], {}, 1),
    "CropAndResize": ([real(1, 2, 5, 5), real(2, 4), int32(0, 0), int32(3, 3)], {}, 1),
    "DequantizeLinear": ([whole(2, 3), *PAIR], {}, 1),
    "DynamicQuantizeLSTM": (
        [
            real(3, 2, 4),
            whole(1, 4, 20),
            whole(1, 5, 20),
            *[None] * 5,
            *[np.array([0.01], np.float32), np.array([128], np.uint8)] * 2,
        ],
        {"hidden_size": 5},
        3,
    ),
    "DynamicQuantizeMatMul": ([real(2, 3, 4), whole(4, 5), *PAIR], {}, 1),
    "EmbedLayerNormalization": (
        [np.array([[0, 1]], np.int32), None, real(3, 4), real(5, 4), None, real(4), real(4), np.array([[1, 0]], np.int32)],
        {},
        3,
    ),
    "ExpandDims": ([real(2, 3), np.array(1, np.int32)], {}, 1),
    "FastGelu": ([real(2, 4), real(4)], {}, 1),
    "FusedConv": ([real(1, 2, 4, 4), real(3, 2, 3, 3), real(3)], {"activation": "Relu"}, 1),
    "FusedGemm": ([real(2, 3), real(3, 4), real(4)], {"activation": "Tanh"}, 1),
    "FusedMatMul": ([real(2, 3), real(3, 4)], {"alpha": 0.5}, 1),
    "GatherBlockQuantized": ([whole(4, 16), np.array([3, 0]), real(4, 2)], {"block_size": 16}, 1),
    "GatherND": ([real(3, 4), np.array([[0], [2]])], {}, 1),
    "Gelu": ([real(2, 4)], {}, 1),
    "GridSample": ([real(1, 2, 4, 4), real(1, 3, 3, 2)], {}, 1),
    "GroupNorm": ([real(1, 3, 3, 4), real(4), real(4)], {"activation": 1, "groups": 2}, 1),
    "GroupQueryAttention": (
        [real(2, 3, 16), real(2, 3, 8), real(2, 3, 8), None, None, int32(2, 2), int32(3)],
        {"num_heads": 4, "kv_num_heads": 2},
        3,
    ),
    "Inverse": ([real(2, 3, 3) + 3 * np.eye(3, dtype=np.float32)], {}, 1),
    "MatMulInteger16": ([whole(2, 3, dtype=np.int16), whole(3, 4, dtype=np.int16)], {}, 1),
    "MatMulIntegerToFloat": ([whole(2, 3), whole(3, 4), SCALE, SCALE, ZERO], {}, 1),
    "MatMulNBits": ([real(2, 3, 32), whole(5, 2, 8), real(5, 2)], {"K": 32, "N": 5, "block_size": 16}, 1),
    "MultiHeadAttention": ([real(2, 3, 8), real(2, 4, 8), real(2, 4, 8)], HEADS, 3),
    "NhwcMaxPool": ([whole(1, 4, 4, 2)], {"kernel_shape": (2, 2)}, 1),
    "Pad": ([real(2, 3), np.array([0, 1, 1, 0])], {}, 1),
    "QAttention": ([whole(2, 3, 8), whole(8, 24), real(24), SCALE, SCALE, None, ZERO, ZERO], HEADS, 2),
    "QEmbedLayerNormalization": (
        [
            np.array([[0, 1]], np.int32),
            None,
            whole(3, 4),
            whole(5, 4),
            None,
            whole(4),
            whole(4),
            None,
            *(SCALE, SCALE, None, SCALE, SCALE),
            *(ZERO, ZERO, None, ZERO, ZERO),
        ],
        {},
        2,
    ),
    "QGemm": ([whole(2, 3), *PAIR, whole(3, 4), *PAIR, None, *PAIR], {}, 1),
    "QLinearAdd": ([whole(2, 3), *PAIR, whole(3), *PAIR, *PAIR], {}, 1),
    "QLinearAveragePool": ([whole(1, 2, 4, 4), *PAIR, *PAIR], {"kernel_shape": (2, 2)}, 1),
    "QLinearConcat": ([*PAIR, whole(2, 3), *PAIR, whole(2, 1), *PAIR], {"axis": 1}, 1),
    "QLinearConv": ([whole(1, 2, 4, 4), *PAIR, whole(3, 2, 3, 3), *PAIR, *PAIR], {}, 1),
    "QLinearGlobalAveragePool": ([whole(1, 2, 4, 4), *PAIR, *PAIR], {}, 1),
    "QLinearLeakyRelu": ([whole(2, 3), *PAIR, *PAIR], {}, 1),
    "QLinearMul": ([whole(2, 3), *PAIR, whole(3), *PAIR, *PAIR], {}, 1),
    "QLinearSigmoid": ([whole(2, 3), *PAIR, *PAIR], {}, 1),
    "QLinearSoftmax": ([whole(2, 3), *PAIR, *PAIR], {"opset": 13}, 1),
    "QLinearWhere": ([np.array([[True], [False]]), whole(2, 3), *PAIR, whole(3), *PAIR, *PAIR], {}, 1),
    "QuantizeLinear": ([real(2, 3), *PAIR], {}, 1),
    "QuickGelu": ([real(2, 4)], {}, 1),
    "Range": ([*np.array([[1], [7], [2]], np.float32)], {}, 1),
    "RotaryEmbedding": ([real(2, 3, 8), np.array([1]), real(8, 2), real(8, 2)], {}, 1),
    "ScaledSiLU": ([real(2, 4)], {"alpha": 2.0}, 1),
    "SkipLayerNormalization": ([real(2, 3, 4), real(2, 3, 4), real(4), real(4)], {}, 4),
    "SkipSimplifiedLayerNormalization": ([real(2, 3, 4), real(2, 3, 4), real(4)], {}, 4),
    "TransposeMatMul": ([real(3, 2), real(3, 4)], {"transA": 1}, 1),
    "Trilu": ([real(3, 3)], {}, 1),
    "Unique": ([np.array([2, 1, 2], np.float32)], {}, 3),
}


def test_every_operator_has_a_case() -> None:
    assert set(CASES) == {name for domain, name in OPERATORS if domain == DOMAIN}


def test_the_page_lists_every_operator() -> None:
    page = (Path(__file__).parents[4] / "docs" / "contrib.md").read_text()
    rows = [line.split("|")[2] for line in page.splitlines() if line.startswith("| ")][1:]
    listed = [name.strip() for row in rows for name in row.split(",")]
    assert sorted(listed) == sorted(CASES)
    assert f"a reference for {len(CASES)} of them" in page


def evaluated(name: str) -> tuple[Any, ...]:
    inputs, attributes, n_outputs = CASES[name]
    result = bound(OPERATORS[DOMAIN, name], attributes, n_outputs)(*inputs)
    return result if isinstance(result, tuple) else (result,)


def one_node(name: str) -> tuple[Network, dict[str, np.ndarray]]:
    inputs, attributes, _ = CASES[name]
    feeds = {f"i{i}": x for i, x in enumerate(inputs) if x is not None}
    results = {f"o{i}": y for i, y in enumerate(evaluated(name))}
    names = [f"i{i}" if x is not None else "" for i, x in enumerate(inputs)]

    def value(n: str, x: np.ndarray) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)

    node = helper.make_node(name, names, list(results), name=name, domain=DOMAIN, **attributes)
    graph = helper.make_graph([node], name, [value(*f) for f in feeds.items()], [value(*r) for r in results.items()])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    return Network.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=10)), feeds


@pytest.mark.parametrize("name", CASES)
def test_adapters_are_told_types_and_shapes_that_are_right(name: str) -> None:
    inputs = CASES[name][0]
    network, _ = one_node(name)
    facts = [None if x is None else Fact(f"i{i}", 0, x.dtype, x.shape) for i, x in enumerate(inputs)]
    known = infer_contrib(next(iter(network.nodes)), facts)
    results = evaluated(name)
    assert len(known) == len(results)
    for (dtype, shape, _), y in zip(known, results, strict=True):
        assert dtype == y.dtype or (dtype is None and name == "MatMulInteger16")
        if shape is not None:
            assert len(shape) == y.ndim
            assert all(stated in (None, size) for stated, size in zip(shape, y.shape, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_the_checker_can_disturb_it(name: str) -> None:
    network, feeds = one_node(name)
    verdict = judge(establish(network, feeds), InProcessSubject(frameworks["reference"](), network, feeds))
    assert str(verdict.word) in ("right", "no information")


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
@pytest.mark.parametrize("name", CASES)
def test_frameworks_run_it_by_its_reference(name: str, framework: str) -> None:
    pytest.importorskip(framework)
    network, feeds = one_node(name)
    adapter = frameworks[framework]()
    outputs = adapter.prepare(network).forward({n: adapter.from_numpy(x) for n, x in feeds.items()})
    for found, expected in zip(outputs.values(), evaluated(name), strict=True):
        np.testing.assert_array_equal(adapter.to_numpy(found), expected)


FLOATING = [
    "Attention", "BiasAdd", "BiasGelu", "BiasSoftmax", "BiasSplitGelu", "ConvTransposeWithDynamicPads", "CropAndResize",
    "EmbedLayerNormalization", "FastGelu", "FusedConv", "FusedGemm", "FusedMatMul", "GatherBlockQuantized", "Gelu",
    "GridSample", "GroupNorm", "GroupQueryAttention", "Inverse", "MatMulIntegerToFloat", "MatMulNBits",
    "MultiHeadAttention", "Pad", "QAttention", "QuickGelu", "RotaryEmbedding", "ScaledSiLU", "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization", "TransposeMatMul",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("name", FLOATING)
def test_results_have_the_format_of_the_input(name: str, dtype: type) -> None:
    inputs, attributes, n_outputs = CASES[name]
    function = bound(OPERATORS[DOMAIN, name], attributes, n_outputs)

    def converted(kind: type) -> Any:
        arrays = (x if x is None or x.dtype != np.float32 else x.astype(dtype).astype(kind) for x in inputs)
        result = function(*arrays)
        return result[0] if isinstance(result, tuple) else result

    found, expected = converted(dtype), converted(np.float64)
    assert found.dtype == dtype
    unit = float(ml_dtypes.finfo(dtype).eps)
    scale = float(np.max(np.abs(expected)))
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=0, atol=8 * unit * scale + 1e-5 * scale)

"""Gradients of ONNX Runtime's own operators."""

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import UnsupportedOperator
from deep_bench.network import differentiate
from tests.network.gradient.checks import check


def arrays(seed: int = 0, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def network(call: str, output: str, **shapes: tuple[int, ...]) -> str:
    fed = ", ".join(f"double{list(shape)} {name}" for name, shape in shapes.items())
    given = f"com.microsoft.{call}({', '.join(shapes)})"
    return (
        f'<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> g ({fed}) => (double{output} y) {{ y = {given} }}'
    )


@pytest.mark.parametrize("call", ["Gelu", "FastGelu", "QuickGelu", "QuickGelu<alpha = 0.7>"])
def test_gelu(call: str) -> None:
    assert check(network(call, "[2,3]", x=(2, 3)), **arrays(x=(2, 3))) == "right"


@pytest.mark.parametrize("call", ["BiasGelu", "FastGelu"])
def test_gelu_of_a_sum(call: str) -> None:
    shapes = {"x": (2, 3), "b": (3,)}
    assert check(network(call, "[2,3]", **shapes), **arrays(**shapes)) == "right"


@pytest.mark.parametrize(("turn_a", "turn_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_fused_matmul(turn_a: int, turn_b: int) -> None:
    shapes = {"a": (2, 4, 3) if turn_a else (2, 3, 4), "b": (2, 5, 4) if turn_b else (2, 4, 5)}
    text = network(f"FusedMatMul<alpha = 0.5, transA = {turn_a}, transB = {turn_b}>", "[2,3,5]", **shapes)
    assert check(text, **arrays(**shapes)) == "right"


def test_fused_matmul_that_moves_its_batch_is_refused() -> None:
    text = network("FusedMatMul<transBatchA = 1>", "[2,3,5]", a=(3, 2, 4), b=(2, 4, 5))
    proto = onnx.parser.parse_model(text)
    proto.graph.node.append(onnx.helper.make_node("ReduceSum", ["y"], ["loss"], keepdims=0))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("loss", onnx.TensorProto.DOUBLE, []))
    with pytest.raises(UnsupportedOperator, match="transBatchA"):
        differentiate(db.Network.from_proto(proto))


@pytest.mark.parametrize("count", [3, 4, 5])
def test_skip_layer_normalization(count: int) -> None:
    shapes = dict(list({"x": (2, 2, 3), "skip": (2, 2, 3), "gamma": (3,), "beta": (3,), "bias": (3,)}.items())[:count])
    assert check(network("SkipLayerNormalization<epsilon = 0.01>", "[2,2,3]", **shapes), **arrays(**shapes)) == "right"
    if count < 5:
        text = network("SkipSimplifiedLayerNormalization<epsilon = 0.01>", "[2,2,3]", **shapes)
        assert check(text, **arrays(**shapes)) == "right"


def test_the_sum_of_skip_layer_normalization() -> None:
    for operator in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        text = f"""<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
            g (double[2,2,3] x, double[2,2,3] skip, double[3] gamma) => (double[2,2,3] y, double[2,2,3] s)
            {{ y, "", "", s = com.microsoft.{operator}<epsilon = 0.01>(x, skip, gamma) }}"""
        assert check(text, **arrays(x=(2, 2, 3), skip=(2, 2, 3), gamma=(3,))) == "right"

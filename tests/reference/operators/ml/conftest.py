"""ONNX Runtime as the judge of the operators of classical machine learning, which it implements on its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from deep_bench.graph.node import attributes
from deep_bench.reference.operators import find

onnxruntime = pytest.importorskip("onnxruntime")

DOMAIN = "ai.onnx.ml"
Judge = Callable[..., None]


def model(op_type: str, inputs: list[Any], n_outputs: int, stated: dict[str, Any], version: int) -> onnx.ModelProto:
    """One node, in a network that imports no default domain."""
    names, outputs = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(n_outputs)]
    values = [helper.make_value_info(n, _type(x)) for n, x in zip(names, inputs, strict=True)]
    node = helper.make_node(op_type, names, outputs, domain=DOMAIN, **stated)
    graph = helper.make_graph([node], "one node", values, [onnx.ValueInfoProto(name=n) for n in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(DOMAIN, version)], ir_version=10)


def _type(x: Any) -> onnx.TypeProto:
    if isinstance(x, dict):
        (key, value), *_ = x.items()
        codes = {str: onnx.TensorProto.STRING, int: onnx.TensorProto.INT64, float: onnx.TensorProto.FLOAT}
        return helper.make_map_type_proto(codes[type(key)], helper.make_tensor_type_proto(codes[type(value)], None))
    code = onnx.TensorProto.STRING if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype)
    return helper.make_tensor_type_proto(code, x.shape)


def run(proto: onnx.ModelProto, inputs: list[Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {f"x{i}": x for i, x in enumerate(inputs)})


def same(ours: Any, theirs: Any, rtol: float, atol: float) -> None:
    if isinstance(theirs, list):
        assert ours == theirs
        return
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    if theirs.dtype == object:
        assert ours.tolist() == theirs.tolist()
    else:
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)


@pytest.fixture
def judge() -> Judge:
    """Compares the reference of one node with ONNX Runtime: ``judge("Scaler", [x], scale=[2.0])``."""

    def compare(
        op_type: str,
        inputs: list[Any],
        *,
        n_outputs: int = 1,
        version: int = 1,
        rtol: float = 1e-5,
        atol: float = 1e-6,
        **stated: Any,
    ) -> None:
        proto = model(op_type, inputs, n_outputs, stated, version)
        expected = run(proto, inputs)
        node = ir.from_proto(proto.graph.node[0])
        with np.errstate(all="ignore"):
            result = find(DOMAIN, op_type)(*inputs, **attributes(node))
        results = result if isinstance(result, tuple) else (result,)
        assert len(results) == n_outputs
        for ours, theirs in zip(results, expected, strict=True):
            same(ours, theirs, rtol, atol)

    return compare

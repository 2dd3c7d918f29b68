"""Arrays of every element type on their way to ONNX Runtime and back."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from deep_bench.graph import Network
from deep_bench.tensor import is_float

pytest.importorskip("onnxruntime")

from deep_bench.adapters.onnxruntime import OnnxRuntimeAdapter
from deep_bench.adapters.onnxruntime.executor import to_array, to_value

CODES = [code for name, code in onnx.TensorProto.DataType.items() if name not in ("UNDEFINED", "STRING")]
TYPES = [
    dtype
    for dtype in map(onnx.helper.tensor_dtype_to_np_dtype, CODES)
    if dtype.kind != "c" and not dtype.name.startswith("float6")  # ONNX Runtime has neither
]


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (3, 5)])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_type_comes_back(dtype, shape) -> None:
    array = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(np.float32).astype(dtype)
    back = to_array(to_value(array, "cpu"))
    assert back.dtype == dtype
    assert back.shape == shape
    assert back.tobytes() == array.tobytes()


def casting(source: int, target: int) -> Network:
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=target)],
        "cast",
        [helper.make_tensor_value_info("x", source, [5])],
        [helper.make_tensor_value_info("y", target, [5])],
    )
    return Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=12))


@pytest.mark.parametrize("name", ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT4", "INT2", "UINT2"])
def test_narrow_types_go_in_and_out(name: str) -> None:
    narrow, single = getattr(onnx.TensorProto, name), onnx.TensorProto.FLOAT
    x = np.array([0, 1, 1, 0, 1], np.float32)
    adapter = OnnxRuntimeAdapter()
    there = adapter.prepare(casting(single, narrow))({"x": x})["y"]
    assert there.dtype == onnx.helper.tensor_dtype_to_np_dtype(narrow)
    assert there.astype(np.float32).tolist() == x.tolist()
    executor = adapter.prepare(casting(narrow, single))
    assert executor({"x": there})["y"].tolist() == x.tolist()
    assert adapter.to_numpy(executor.bind({"x": adapter.from_numpy(there)})()["y"]).tolist() == x.tolist()


def test_negative_integers_of_4_bits_keep_their_sign() -> None:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.INT4)
    assert not is_float(dtype)
    x = np.array([-8, -1, 7, 0, 3]).astype(dtype)
    executor = OnnxRuntimeAdapter().prepare(casting(onnx.TensorProto.INT4, onnx.TensorProto.FLOAT))
    assert executor({"x": x})["y"].tolist() == [-8, -1, 7, 0, 3]

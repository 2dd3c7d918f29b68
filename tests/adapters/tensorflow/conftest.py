"""Networks of one node, run by TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from deep_bench.graph import Network

pytest.importorskip("tensorflow")

from deep_bench.adapters.tensorflow import TensorFlowAdapter


def one_node(operator: str, inputs: list[Any], outputs: int, fixed: int, opset: int, attributes: dict[str, Any]) -> Network:
    """A network of one node; all inputs from ``fixed`` on are initializers."""
    helper = onnx.helper
    names = ["" if array is None else f"i{k}" for k, array in enumerate(inputs)]
    results = [f"o{k}" for k in range(outputs)]
    made = helper.make_node(operator, names, results, name=operator, **attributes)
    given = [(n, np.asarray(a)) for n, a in zip(names, inputs, strict=True) if n]
    feeds = [(n, a) for n, a in given if int(n[1:]) < fixed]
    weights = [onnx.numpy_helper.from_array(a, n) for n, a in given if int(n[1:]) >= fixed]
    graph = helper.make_graph(
        [made],
        "one",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds],
        [helper.make_empty_tensor_value_info(r) for r in results],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return Network.from_proto(onnx.shape_inference.infer_shapes(model))


@pytest.fixture(scope="session")
def adapter() -> TensorFlowAdapter:
    """The adapter without options."""
    return TensorFlowAdapter()


@pytest.fixture(scope="session")
def run(adapter):
    """A function that runs one node, natively, and returns its results."""

    def call(operator: str, inputs: list[Any], *, outputs: int = 1, fixed: int = 99, opset: int = 24, **attributes: Any):
        executor = adapter.prepare(one_node(operator, inputs, outputs, fixed, opset, attributes))
        assert not executor.forms.fallback, executor.forms
        fed = {f"i{k}": np.asarray(a) for k, a in enumerate(inputs) if a is not None and k < fixed}
        found = list(executor(fed).values())
        return found[0] if outputs == 1 else found

    return call

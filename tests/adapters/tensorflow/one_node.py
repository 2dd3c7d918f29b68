"""Networks of one node, run by TensorFlow."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx

from deep_bench.adapters.tensorflow import TensorFlowAdapter
from deep_bench.graph import Network


@cache
def adapter(**options: Any) -> TensorFlowAdapter:
    """One adapter for each set of options."""
    return TensorFlowAdapter(**options)


def node(operator: str, inputs: list[Any], *, outputs: int = 1, fixed: int = 1, opset: int = 24, **attributes: Any) -> Network:
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


def run(operator: str, inputs: list[Any], *, outputs: int = 1, fixed: int = 99, **attributes: Any) -> list[np.ndarray]:
    """The results of one node; all inputs are fed unless ``fixed`` says how many are."""
    network = node(operator, inputs, outputs=outputs, fixed=fixed, **attributes)
    executor = adapter().prepare(network)
    assert not executor.forms.fallback, executor.forms
    found = executor({f"i{k}": np.asarray(a) for k, a in enumerate(inputs) if a is not None and k < fixed})
    return list(found.values())

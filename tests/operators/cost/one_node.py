"""Networks of one node, to count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

import deep_bench as db


def one_node(operator: str, inputs: Sequence[Any], outputs: int = 1, **attributes: Any) -> db.Network:
    """A network of one node; an input is a shape (float32), ``None`` where it is omitted, or an array: a constant."""
    helper = onnx.helper
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    fed = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, x)
        for name, x in zip(names, inputs, strict=True)
        if isinstance(x, tuple)
    ]
    constants = [
        onnx.numpy_helper.from_array(x, name) for name, x in zip(names, inputs, strict=True) if isinstance(x, np.ndarray)
    ]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, names, results, name="node", **attributes)
    graph = helper.make_graph([node], "one", fed, [onnx.ValueInfoProto(name=n) for n in results], constants)
    opsets = [helper.make_opsetid("", 28)]
    model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=13))
    for result in model.graph.output:
        if not result.type.tensor_type.elem_type:
            result.type.CopyFrom(helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None))
    return db.Network.from_proto(model)


def feeds(network: db.Network, seed: int = 0) -> dict[str, np.ndarray]:
    """Numbers between 0.1 and 0.9 for its inputs."""
    random = np.random.default_rng(seed)
    return {spec.name: random.uniform(0.1, 0.9, spec.shape).astype(np.float32) for spec in network.inputs}

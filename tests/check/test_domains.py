"""An operator of another domain is not taken for its namesake in the default one."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

import deep_bench as db
from deep_bench.check import InProcessSubject, establish, judge
from deep_bench.graph import Network


def network(op_type: str, domain: str) -> Network:
    """``y = operator(x) + 1``."""
    nodes = [helper.make_node(op_type, ["x"], ["h"], domain=domain), helper.make_node("Add", ["h", "one"], ["y"])]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 5]) for name in ("x", "y")]
    one = onnx.numpy_helper.from_array(np.ones((), np.float32), "one")
    graph = helper.make_graph(nodes, "contrib", value[:1], value[1:], [one])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return Network.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def test_a_contrib_operator_is_judged() -> None:
    gelu, x = network("Gelu", "com.microsoft"), np.random.default_rng(0).standard_normal((3, 5), np.float32)
    for name in ("reference", "onnxruntime", "torch"):
        subject = InProcessSubject(db.frameworks[name](), gelu, {"x": x})
        assert judge(establish(gelu, {"x": x}), subject).word == "right"


def test_a_wrong_one_is_caught() -> None:
    gelu, quick = network("Gelu", "com.microsoft"), network("QuickGelu", "com.microsoft")
    x = np.random.default_rng(0).standard_normal((3, 5), np.float32)

    class Wrong(InProcessSubject):
        def __init__(self) -> None:
            super().__init__(db.frameworks["onnxruntime"](), quick, {"x": x})

    assert judge(establish(gelu, {"x": x}), Wrong()).word == "wrong"

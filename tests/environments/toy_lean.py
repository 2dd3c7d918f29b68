"""A lean framework for the tests, which runs one network: y = x + x."""

from pathlib import Path

import onnx

from deep_bench.environments import Lean
from deep_bench.errors import UnsupportedOperator
from deep_bench.graph import Network


def rewrite(network: Network) -> bytes:
    for node in network.nodes:
        if node.op_type != "Add":
            raise UnsupportedOperator(str(node.name), node.op_type, network.opset, "it can only add")
    return network.to_proto().SerializeToString()


def rewrite_wrongly(network: Network) -> bytes:
    proto = onnx.load_from_string(rewrite(network))
    proto.graph.node[0].op_type = "Mul"
    return proto.SerializeToString()


_PROGRAM = Path(__file__).with_name("lean_adapter.py")
DOUBLING = Lean("doubling", _PROGRAM, "Doubling", rewrite, ("factor",))
MISTAKEN = Lean("mistaken", _PROGRAM, "Doubling", rewrite_wrongly)

"""The case that a network of one node poses."""

from __future__ import annotations

from deep_bench.graph import Network, attributes
from deep_bench.graph.attached import function_of
from deep_bench.graph.network import tensor_spec
from deep_bench.graph.node import as_array
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case
from deep_bench.operators.case_schema import spelled


def case_of_node(network: Network) -> Case:
    """The case of a network's only node; what is constant in the network is constant in the case."""
    (node,) = network.nodes
    operator = function_of(node) or spelled(node)
    arguments = tuple(None if v is None else Argument(tensor_spec(v), as_array(v)) for v in node.inputs)
    return Case(operator, arguments, attributes(node), label=network.name, outputs=len(node.outputs))

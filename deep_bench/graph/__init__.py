"""Networks: ONNX graphs, read, described, changed and written back."""

from deep_bench.graph.load import NetworkLike, as_network, load
from deep_bench.graph.network import OPSET, Network
from deep_bench.graph.node import attributes, operator_name

__all__ = ["OPSET", "Network", "NetworkLike", "as_network", "attributes", "load", "operator_name"]

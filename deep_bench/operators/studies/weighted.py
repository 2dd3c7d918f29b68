"""A network of one operator with a loss whose gradient with respect to the operator's outputs is whatever is wanted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from deep_bench.errors import Unsupported
from deep_bench.graph import Network
from deep_bench.tensor import TensorSpec, is_float

LOSS = "weighted sum"
"""The name of the loss."""

_WEIGHT = "gradient of "


@dataclass(frozen=True)
class Weighted:
    r"""A network with the loss :math:`\sum_k \langle y_k, g_k \rangle` of its outputs :math:`y_k`.

    Args:
        network: The network with the loss as a further output, and the :math:`g_k` as further inputs.
        weights: Output to the name of its :math:`g_k`.
        wrt: The inputs to differentiate with respect to.
    """

    network: Network
    weights: dict[str, TensorSpec]
    wrt: tuple[str, ...]

    def arrays(self, seed: int) -> dict[str, np.ndarray]:
        """Contents for the :math:`g_k`, from a normal distribution."""
        found = {}
        for place, spec in enumerate(self.weights.values()):
            rng = np.random.default_rng([seed, 0x9E3779B9, place])
            found[spec.name] = rng.standard_normal(tuple(map(int, spec.shape)), np.float32).astype(spec.dtype)
        return found


def weighted(network: Network) -> Weighted:
    """A network with its loss.

    Raises:
        Unsupported: It has no output or no input of a floating-point type, or an output whose size only a run shows.
    """
    outputs = [spec for spec in network.outputs if spec.is_tensor and is_float(spec.dtype)]
    wrt = tuple(spec.name for spec in network.inputs if spec.is_tensor and is_float(spec.dtype))
    if not outputs or not wrt:
        raise Unsupported(f"{network.name} has no {'output' if wrt else 'input'} of a floating-point type to differentiate")
    if any(spec.open_dimensions for spec in outputs):
        raise Unsupported(f"the size of the outputs of {network.name} is only known after a run", "sizes that are known")
    changed = network.copy()
    graph = changed.graph
    values = {str(v.name): v for v in graph.outputs}
    weights, terms = {}, []
    for spec in outputs:
        y = values[spec.name]
        weight = ir.Value(name=f"{_WEIGHT}{spec.name}", type=y.type, shape=y.shape)
        graph.inputs.append(weight)
        weights[spec.name] = TensorSpec(str(weight.name), spec.shape, spec.dtype)
        product = _node(graph, "Mul", [y, weight], f"{spec.name} weighted")
        terms.append(_node(graph, "ReduceSum", [product], f"{spec.name} summed", keepdims=0))
    total = terms[0]
    for place, term in enumerate(terms[1:]):
        total = _node(graph, "Add", [total, term], f"sum {place}")
    loss = _node(graph, "Identity", [total], LOSS)
    loss.type, loss.shape = values[outputs[0].name].type, ir.Shape([])
    graph.outputs.append(loss)
    return Weighted(Network(changed.model, name=network.name), weights, wrt)


def _node(graph: ir.Graph, op_type: str, inputs: list[ir.Value], name: str, **attributes: int) -> ir.Value:
    made = ir.Value(name=name)
    stated = ir.convenience.convert_attributes(attributes)
    graph.append(ir.Node("", op_type, inputs, stated, outputs=[made], name=f"node of {name}"))
    return made

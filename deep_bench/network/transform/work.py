"""What each node of a network costs, as far as shapes tell: floating-point operations, and bytes of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench import frameworks
from deep_bench.errors import InvalidNetwork
from deep_bench.graph import Network
from deep_bench.graph.node import is_standard
from deep_bench.network.transform.draft import Draft, runs


class Shapes:
    """Shapes and sizes of the values of a network's outermost graph.

    Args:
        draft: The network.
        inputs: Arrays to run the reference on, where shapes follow from a run only; else they are inferred.

    Raises:
        InvalidInput: The inputs do not fit.
    """

    def __init__(self, draft: Draft, inputs: Mapping[str, np.ndarray] | None = None) -> None:
        self._draft = draft
        self._known: dict[str, tuple[tuple[int, ...], int]] = {}
        if inputs is not None:
            self._run(draft.network, inputs)

    def _run(self, network: Network, inputs: Mapping[str, np.ndarray]) -> None:
        def note(step: Any, arrays: Sequence[Any], results: Sequence[Any]) -> None:
            for name, x in zip((*step.inputs, *step.outputs), (*arrays, *results), strict=False):
                if name and isinstance(x, np.ndarray | np.generic):
                    self._known.setdefault(name, (np.shape(x), x.nbytes))

        with runs(network):
            frameworks["reference"]().prepare(network).evaluate(inputs, observe=note)

    def shape(self, value: ir.Value) -> tuple[int, ...]:
        """The shape of a value.

        Raises:
            InvalidNetwork: It is not fixed.
        """
        if str(value.name) in self._known:
            return self._known[str(value.name)][0]
        dims = self._draft.knowledge.dims(value)
        if dims is None or not all(isinstance(d, int) for d in dims):
            raise InvalidNetwork(
                f"the shape of {value.name!r} in {self._draft.source.name} is {'unknown' if dims is None else list(dims)}",
                "fixed shapes",
                "fix the sizes (network.with_sizes(…)), or give inputs to find the shapes in a run",
            )
        return tuple(int(d) for d in dims if isinstance(d, int))

    def stated(self, value: ir.Value) -> ir.Shape | None:
        """The shape that a run found, else what the file declares."""
        return ir.Shape(self._known[str(value.name)][0]) if str(value.name) in self._known else value.shape

    def nbytes(self, value: ir.Value) -> int:
        """The size of a value in bytes."""
        if str(value.name) in self._known:
            return self._known[str(value.name)][1]
        dtype = self._draft.knowledge.dtype(value)
        return int(np.prod(self.shape(value), dtype=np.int64)) * (dtype.itemsize if dtype is not None else 8)


def flops(node: ir.Node, shapes: Shapes) -> int:
    """The floating-point operations of a node: two for each product that is added up, one for each element otherwise."""
    out = int(np.prod(shapes.shape(node.outputs[0]), dtype=np.int64))
    if not is_standard(node) or len(node.inputs) < 2 or node.inputs[0] is None or node.inputs[1] is None:
        return out
    if node.op_type == "Conv":
        return 2 * out * int(np.prod(shapes.shape(node.inputs[1])[1:], dtype=np.int64))
    if node.op_type == "ConvTranspose":
        given = int(np.prod(shapes.shape(node.inputs[0]), dtype=np.int64))
        return 2 * given * int(np.prod(shapes.shape(node.inputs[1])[1:], dtype=np.int64))
    if node.op_type == "MatMul":
        return 2 * out * shapes.shape(node.inputs[0])[-1]
    if node.op_type == "Gemm":
        transposed = "transA" in node.attributes and node.attributes["transA"].as_int() != 0
        return 2 * out * shapes.shape(node.inputs[0])[0 if transposed else 1]
    return out

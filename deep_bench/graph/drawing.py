"""Contents for the inputs of a network, by a seeded generator that looks at what each input feeds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.errors import InvalidInput
from deep_bench.graph.network import Network
from deep_bench.graph.node import as_array, is_standard, subgraphs
from deep_bench.graph.upgrade.edit import inferred
from deep_bench.tensor import TensorSpec, is_float, is_integer

Shape: TypeAlias = tuple[int | None, ...]


def draw_inputs(network: Network, seed: int) -> dict[str, np.ndarray]:
    """Draw an array for every input of a network whose dimensions are all fixed.

    Floats are standard normal. Integers lie within what they index, labels of a loss among the classes that it has scores
    of, where these sizes are known; others are among the constants they are compared with. Inputs named as masks,
    positions, token types or lengths are made as such. The same network and seed give the same
    arrays.

    Args:
        network: No open dimensions.
        seed: Seed of ``numpy.random.default_rng``.
    """
    generator = np.random.default_rng(seed)
    values = {v.name: v for v in network.graph.inputs}
    try:
        return {spec.name: _draw(spec, values[spec.name], network, generator) for spec in network.inputs}
    except (MemoryError, ValueError, OverflowError) as error:  # NumPy says in any of these that an array is too large
        raise InvalidInput(
            f"inputs of these sizes cannot be made: {error}", "; ".join(map(str, network.inputs)), "choose smaller sizes"
        ) from error


def _draw(spec: TensorSpec, value: ir.Value, network: Network, generator: np.random.Generator) -> np.ndarray:
    shape = tuple(int(d) for d in spec.shape)
    if spec.dtype == object:
        letters = generator.integers(97, 123, size=(*shape, 8), dtype=np.uint8)
        return np.array([bytes(w).decode() for w in letters.reshape(-1, 8)], dtype=object).reshape(shape)
    if spec.dtype == bool:
        return generator.random(shape) < 0.5
    if is_integer(spec.dtype):
        return _integers(spec.name, shape, value, network, generator).astype(spec.dtype)
    if is_float(spec.dtype):
        return generator.standard_normal(shape).astype(spec.dtype)
    return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(spec.dtype)


def _integers(
    name: str, shape: tuple[int, ...], value: ir.Value, network: Network, generator: np.random.Generator
) -> np.ndarray:
    if re.search(r"mask", name, re.IGNORECASE):
        return np.ones(shape, np.int64)
    if re.search(r"position", name, re.IGNORECASE) and shape:
        return np.broadcast_to(np.arange(shape[-1]), shape)
    if re.search(r"token_type|segment", name, re.IGNORECASE):
        return np.zeros(shape, np.int64)
    if re.search(r"len", name, re.IGNORECASE):
        longest = max((d for s in network.inputs for d in s.shape[1:] if isinstance(d, int)), default=1)
        return np.full(shape, longest)
    limits = list(_meanings(value, set(), _Shapes(network)))
    compared = [m.value for m in limits if isinstance(m, _Compared)]
    if compared:
        return generator.choice(compared, size=shape)
    highest = min((m.size for m in limits if isinstance(m, _Index)), default=0) or _default_bound(value)
    return generator.integers(0, highest, size=shape)


def _default_bound(value: ir.Value) -> int:
    return 256 if value.dtype in (ir.DataType.UINT8, ir.DataType.INT32) else 10


@dataclass(frozen=True)
class _Index:
    """The value indexes a dimension of this size."""

    size: int


@dataclass(frozen=True)
class _Compared:
    """The value is tested for equality with this number."""

    value: int


_PASSING = {"Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Flatten", "Concat", "Expand"}


def _meanings(value: ir.Value, visited: set[str], shapes: _Shapes) -> Iterator[_Index | _Compared]:
    """What a value is used for, followed through nodes that only move it."""
    for use in value.uses():
        node = use.node
        if is_standard(node) and use.idx == _INDICES.get(node.op_type):
            yield from _indexed(node, shapes)
        elif node.op_type == "Equal":
            operand = node.inputs[1 - use.idx]
            constant = as_array(operand) if operand is not None else None
            if constant is not None and constant.size == 1 and float(constant.item()).is_integer():
                yield _Compared(int(constant.item()))
        elif node.op_type in _PASSING and node.name not in visited and not subgraphs(node):
            visited.add(str(node.name))
            yield from _meanings(node.outputs[0], visited, shapes)


_INDICES = {
    "Gather": 1,
    "GatherElements": 1,
    "GatherND": 1,
    "NegativeLogLikelihoodLoss": 1,
    "OneHot": 0,
    "Scatter": 1,
    "ScatterElements": 1,
    "ScatterND": 1,
    "SoftmaxCrossEntropyLoss": 1,
}
"""Operator to which of its inputs indexes: labels of a loss index the scores of the classes."""


def _indexed(node: ir.Node, shapes: _Shapes) -> Iterator[_Index]:
    """The sizes that the indices of a node must stay below, as far as they are known."""
    if node.op_type == "OneHot":
        depth = as_array(node.inputs[1]) if node.inputs[1] is not None else None
        sizes: Sequence[int | None] = [int(depth.item())] if depth is not None and depth.size == 1 else []
    else:
        data = shapes.of(node.inputs[0]) or ()
        sizes = data[_dimensions(node, data, shapes.of(node.inputs[1]) or ())]
    yield from (_Index(size) for size in sizes if size is not None)


def _dimensions(node: ir.Node, data: Shape, indices: Shape) -> slice:
    """Which dimensions of the data the indices are of."""
    if node.op_type in ("GatherND", "ScatterND"):
        first = node.attributes["batch_dims"].as_int() if "batch_dims" in node.attributes else 0
        count = (indices[-1] if indices else None) or 1
        return slice(first, first + count)
    if node.op_type.endswith("Loss"):
        return slice(1, 2)
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
    axis = axis + len(data) if axis < 0 else axis
    return slice(axis, axis + 1)


class _Shapes:
    """The shapes of a network's values, inferred when the first is asked for that no constant and no input has."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def of(self, value: ir.Value | None) -> Shape | None:
        """A shape, as far as it is known; ``None`` if not even its rank is."""
        if value is None:
            return None
        constant = None if value.is_graph_input() else as_array(value)
        if constant is not None:
            return constant.shape
        if value.is_graph_input() and value.shape is not None:
            return tuple(d if isinstance(d, int) else None for d in value.shape)
        inferred_type = self._inferred.get(str(value.name))
        if inferred_type is None or not inferred_type.HasField("shape"):
            return None
        return tuple(d.dim_value if d.HasField("dim_value") else None for d in inferred_type.shape.dim)

    @cached_property
    def _inferred(self) -> Mapping[str, onnx.TypeProto.Tensor]:
        return inferred(self._network)

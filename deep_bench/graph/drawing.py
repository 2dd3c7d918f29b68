"""What the inputs of a network are given: sizes for the dimensions that it leaves open, and drawn contents.

A seeded generator looks at what each input feeds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.errors import InvalidArgument, InvalidInput
from deep_bench.graph.network import Network
from deep_bench.graph.node import as_array, operator_facts, subgraphs
from deep_bench.graph.shapes import inferred
from deep_bench.tensor import TensorSpec, is_float, is_integer

__all__ = ["Sizes", "choose_sizes"]

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
    compared = [m.value for m in limits if isinstance(m, _EqualityTest)]
    if compared:
        return generator.choice(compared, size=shape)
    highest = min((m.size for m in limits if isinstance(m, _Indexing)), default=0) or _default_bound(value)
    return generator.integers(0, highest, size=shape)


def _default_bound(value: ir.Value) -> int:
    return 256 if value.dtype in (ir.DataType.UINT8, ir.DataType.INT32) else 10


@dataclass(frozen=True)
class _Indexing:
    """The value indexes a dimension of this size."""

    size: int


@dataclass(frozen=True)
class _EqualityTest:
    """The value is tested for equality with this number."""

    value: int


def _meanings(value: ir.Value, visited: set[str], shapes: _Shapes) -> Iterator[_Indexing | _EqualityTest]:
    """What a value is used for, followed through nodes that only move it."""
    for use in value.uses():
        node = use.node
        if use.idx == operator_facts(node).index_input:
            yield from _indexed(node, shapes)
        elif node.op_type == "Equal":
            operand = node.inputs[1 - use.idx]
            constant = as_array(operand) if operand is not None else None
            if constant is not None and constant.size == 1 and float(constant.item()).is_integer():
                yield _EqualityTest(int(constant.item()))
        elif operator_facts(node).passes and node.name not in visited and not subgraphs(node):
            visited.add(str(node.name))
            yield from _meanings(node.outputs[0], visited, shapes)


def _indexed(node: ir.Node, shapes: _Shapes) -> Iterator[_Indexing]:
    """The sizes that the indices of a node must stay below, as far as they are known."""
    if node.op_type == "OneHot":
        depth = as_array(node.inputs[1]) if node.inputs[1] is not None else None
        sizes: Sequence[int | None] = [int(depth.item())] if depth is not None and depth.size == 1 else []
    else:
        data = shapes.of(node.inputs[0]) or ()
        sizes = data[_dimensions(node, data, shapes.of(node.inputs[1]) or ())]
    yield from (_Indexing(size) for size in sizes if size is not None)


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


@dataclass(frozen=True)
class Sizes:
    """What each open dimension was fixed to.

    Args:
        given: Sizes that the caller stated, or that the given inputs have.
        chosen: Sizes that nobody stated; a report says them.
    """

    given: Mapping[str, int]
    chosen: Mapping[str, int]

    @property
    def all(self) -> dict[str, int]:
        """Given and chosen ones."""
        return {**self.given, **self.chosen}


def choose_sizes(
    network: Network, stated: Mapping[str, int], *, batch: int | None = None, inputs: Mapping[str, np.ndarray] | None = None
) -> Sizes:
    """Decide the size of every open dimension.

    In this order: what ``stated`` says; ``batch`` for the open first dimensions; what given inputs have; and otherwise a
    choice by name and place: 1 for a batch, 128 for a sequence, 16,000 for audio samples, 224 for an image's side.

    Raises:
        InvalidArgument: A name that no input has, or a size below zero.
        InvalidInput: A given input of another rank than declared.
    """
    unknown = sorted(set(stated) - set(network.open_dimensions))
    if unknown:
        network.with_sizes(stated)  # raises, with the names that exist
    sizes = dict(stated)
    if batch is not None:
        names = [s.shape[0] for s in network.inputs if s.shape and isinstance(s.shape[0], str)]
        names += [d for d in network.open_dimensions if re.search(r"batch", d, re.IGNORECASE)]
        if not names:
            raise InvalidArgument(
                f"a batch size for {network.name}, whose first dimensions are all fixed",
                "a network with an open first dimension",
                f"leave --batch out; open dimensions: {', '.join(network.open_dimensions) or 'none'}",
            )
        for name in [str(n) for n in names]:
            if sizes.setdefault(name, batch) != batch:
                raise InvalidArgument(
                    f"a batch of {batch}, and {sizes[name]} for {name!r}, which is a batch dimension",
                    "one size",
                    "leave one of them out",
                )
    for spec in network.inputs if inputs is not None else ():
        if inputs is not None and spec.name in inputs:
            _take_from(spec, np.shape(inputs[spec.name]), sizes)
    chosen = {
        name: _guess(name, spec, axis)
        for spec in network.inputs
        for axis, name in enumerate(spec.shape)
        if isinstance(name, str) and name not in sizes
    }
    return Sizes(sizes, chosen)


def _take_from(spec: TensorSpec, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    if len(shape) != spec.rank:
        raise InvalidInput(f"input {spec.name!r} has shape {list(shape)}", str(spec), "change the array's shape")
    for name, size in zip(spec.shape, shape, strict=True):
        if isinstance(name, str):
            sizes.setdefault(name, size)


_BY_NAME = ((r"batch|^n$", 1), (r"sample|audio|wave", 16_000), (r"seq|len|time|frame|token", 128), (r"height|width", 224))


def _guess(name: str, spec: TensorSpec, axis: int) -> int:
    for pattern, size in _BY_NAME:
        if re.search(pattern, name, re.IGNORECASE):
            return size
    if axis == 0:
        return 1
    if spec.rank == 4 and axis >= 2:
        return 224
    return 128 if axis == spec.rank - 1 else 1

"""Contents for the inputs of a network, by a seeded generator that looks at what each input feeds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidInput
from deep_bench.graph.network import Network
from deep_bench.graph.node import as_array, subgraphs
from deep_bench.tensor import TensorSpec, is_float, is_integer


def draw_inputs(network: Network, seed: int) -> dict[str, np.ndarray]:
    """Draw an array for every input of a network whose dimensions are all fixed.

    Floats are standard normal. Integers lie within what they index, or are among the constants they are compared with;
    inputs named as masks, positions, token types or lengths are made as such. The same network and seed give the same
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
    limits = list(_meanings(value, set()))
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


def _meanings(value: ir.Value, seen: set[str]) -> Iterator[_Index | _Compared]:
    """What a value is used for, followed through nodes that only move it."""
    for use in value.uses():
        node = use.node
        if node.op_type in ("Gather", "GatherElements") and use.idx == 1:
            yield from _indexed(node)
        elif node.op_type == "Equal":
            other = node.inputs[1 - use.idx]
            constant = as_array(other) if other is not None else None
            if constant is not None and constant.size == 1 and float(constant.item()).is_integer():
                yield _Compared(int(constant.item()))
        elif node.op_type in _PASSING and node.name not in seen and not subgraphs(node):
            seen.add(str(node.name))
            yield from _meanings(node.outputs[0], seen)


def _indexed(node: ir.Node) -> Iterator[_Index]:
    data = node.inputs[0]
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
    array = as_array(data) if data is not None else None
    if array is not None and array.ndim > axis:
        yield _Index(array.shape[axis])

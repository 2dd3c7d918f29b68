"""Inputs for a network: read from a file, or drawn by a seeded generator that looks at what each input feeds."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidInput
from deep_bench.framework import check_inputs
from deep_bench.graph import Network
from deep_bench.graph.node import as_array, subgraphs
from deep_bench.tensor import TensorSpec, is_float, is_integer


@dataclass(frozen=True)
class Inputs:
    """The arrays that a network is fed.

    Args:
        arrays: Name to array.
        origin: Where they come from: ``"file inputs.npz"``, ``"generator, seed 7"``, ``"caller"``.
        seed: The generator's seed, if they were drawn.
    """

    arrays: Mapping[str, np.ndarray]
    origin: str
    seed: int | None = None

    @property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of each array's type, shape and contents."""
        return {name: _digest(array) for name, array in self.arrays.items()}


def _digest(array: np.ndarray) -> str:
    content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    return hashlib.sha256(f"{array.dtype.name} {array.shape} ".encode() + content).hexdigest()


def read_inputs(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file; pickled objects in it are refused.

    Raises:
        InvalidInput: The file is missing, no ``.npz``, truncated, or holds pickled objects.
    """
    path = Path(path)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InvalidInput(f"the inputs' file {str(path)!r} {what}", "an .npz file with one array per input")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError, TypeError, MemoryError) as error:
        raise InvalidInput(
            f"{path} cannot be read as an .npz file, or holds pickled objects, which are never read",
            "a file written by numpy.savez from plain arrays",
            "write it again: numpy.savez(path, name=array)",
        ) from error


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


def prepare_inputs(network: Network, given: Mapping[str, np.ndarray] | None, origin: str, seed: int) -> Inputs:
    """Given arrays, checked against the network; or drawn ones.

    Raises:
        InvalidInput: A given array does not fit.
    """
    if given is not None:
        return Inputs(check_inputs(network.inputs, given), origin)
    return Inputs(draw_inputs(network, seed), f"generator, seed {seed}", seed)


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

"""What is counted of a node: its arithmetic, the bytes that it must move, and the sizes that both follow from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from deep_bench import frameworks
from deep_bench.facts.row import Shape
from deep_bench.graph import Network
from deep_bench.graph.node import as_array
from deep_bench.graph.shapes import Knowledge


@dataclass(frozen=True, slots=True)
class Cost:
    """The arithmetic and the compulsory traffic of an operator or of several.

    Args:
        flops: See `Work`.
        read_bytes: What must be read: each input once.
        written_bytes: What must be written: each output once.
        special: See `Work`.
        comparisons: See `Work`.

    Example:
        >>> product = Cost(flops=2 * 64**3, read_bytes=2 * 4 * 64**2, written_bytes=4 * 64**2)
        >>> product.bytes, round(product.intensity, 2)
        (49152, 10.67)
    """

    flops: int
    read_bytes: int
    written_bytes: int
    special: int = 0
    comparisons: int = 0

    @property
    def bytes(self) -> int:
        """All bytes that must be moved."""
        return self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float | None:
        """The arithmetic intensity: FLOPs for each byte; ``None`` where nothing is moved."""
        return self.flops / self.bytes if self.bytes else None

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
            self.special + other.special,
            self.comparisons + other.comparisons,
        )


class Sizes(Protocol):
    """What a count needs to know of values.

    It may also have a method ``content(value)``, the array of a value that is known.
    """

    def __call__(self, value: ir.Value) -> Shape | None:
        """The dimensions, or ``None`` if not all of them are known."""

    def nbytes(self, value: ir.Value) -> int | None:
        """The size in memory, or ``None`` if it is unknown."""


class KnownSizes:
    """Sizes by shape inference, or as a run of the reference shows them.

    Args:
        network: The network; dimensions of inputs that are open are unknown.
        inputs: What it is fed. If inference leaves the shape of a value of the outermost graph open, the reference is run
            once on these.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").with_sizes({"batch": 1})
        >>> sizes = KnownSizes(network)
        >>> sizes(network.graph.outputs[0]), sizes.nbytes(network.graph.outputs[0])
        ((1, 10), 40)
    """

    def __init__(self, network: Network, inputs: Mapping[str, Any] | None = None) -> None:
        self._knowledge = Knowledge(network)
        self._contents: Mapping[str, Any] = {} if inputs is None else inputs
        self._seen: dict[str, tuple[Shape, np.dtype]] = {}
        if inputs is not None and any(v.name and self(v) is None for node in network.nodes for v in node.outputs):
            self._run(network, inputs)

    def __call__(self, value: ir.Value) -> Shape | None:
        """The dimensions of a value, or ``None`` if not all of them are known."""
        if value.const_value is not None:
            return tuple(value.const_value.shape.numpy())
        if str(value.name) in self._seen:
            return self._seen[str(value.name)][0]
        dims = self._knowledge.dims(value)
        if dims is not None and all(isinstance(d, int) for d in dims):
            return tuple(d for d in dims if isinstance(d, int))
        declared = value.shape if value.is_graph_output() else None
        return tuple(declared.numpy()) if declared is not None and declared.is_static() else None

    def nbytes(self, value: ir.Value) -> int | None:
        """The size of a value in memory, or ``None`` if it is unknown."""
        if value.const_value is not None:
            return value.const_value.nbytes
        observation = self._seen.get(str(value.name))
        shape, dtype = self(value), self._knowledge.dtype(value) if observation is None else observation[1]
        # strings have no one size
        return None if shape is None or dtype is None or dtype.kind == "O" else prod(shape) * dtype.itemsize

    def content(self, value: ir.Value) -> np.ndarray | None:
        """The elements of a value that is a constant or an input."""
        array = self._contents.get(str(value.name))
        return as_array(value) if array is None else np.asarray(array)

    def _run(self, network: Network, inputs: Mapping[str, Any]) -> None:
        def note(step: Any, arrays: Sequence[Any], results: Sequence[Any]) -> None:
            for name, x in zip((*step.inputs, *step.outputs), (*arrays, *results), strict=False):
                if name and isinstance(x, np.ndarray | np.generic):
                    self._seen[name] = (np.shape(x), x.dtype)

        with np.errstate(all="ignore"):
            frameworks["reference"]().prepare(network).evaluate(inputs, observe=note)

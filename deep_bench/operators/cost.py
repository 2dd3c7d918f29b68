"""What an operator must compute and move, counted from its definition: FLOPs and bytes.

The rule of each operator is applied to a node, a case or a network; how much data each must move follows from the sizes of
its values.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import onnx_ir as ir

from deep_bench import frameworks
from deep_bench.facts import OPERATORS
from deep_bench.facts.row import Shape, Unknown, Work
from deep_bench.graph import Network, attributes
from deep_bench.graph.node import as_array, operator_facts, outer_values, subgraphs
from deep_bench.graph.shapes import Knowledge
from deep_bench.operators.case_schema import row_of

if TYPE_CHECKING:
    from deep_bench.operators.case import Case

__all__ = ["RULES", "Cost", "KnownSizes", "Sizes", "Work", "cost", "cost_of", "cost_of_case", "costs_of", "traffic"]


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


def traffic(node: ir.Node, nbytes: Callable[[ir.Value], int | None]) -> tuple[int, int] | None:
    """The compulsory traffic of a node: the bytes that it must read and write, ``None`` if a size is unknown.

    Each input is read once, however often it is listed, and each output that is asked for is written once. Views count
    nothing, and an operator that picks elements reads those only.

    Args:
        node: The node.
        nbytes: The size of a value.

    Source:
        Williams, Waterman and Patterson, Roofline, Comm. ACM 52 (2009), on compulsory memory traffic.
    """
    moved = operator_facts(node).traffic
    if moved == "none":
        return 0, 0
    captured = [v for graph in subgraphs(node).values() for v in outer_values(graph)]
    read = list(dict.fromkeys(v for v in (*node.inputs, *captured) if v is not None))
    written = [v for v in node.outputs if v.name]
    if moved == "picked" and read:
        read = [*written, *read[1:]]
    inward, outward = [nbytes(v) for v in read], [nbytes(v) for v in written]
    if None in inward or None in outward:
        return None
    return sum(n or 0 for n in inward), sum(n or 0 for n in outward)


RULES: Mapping[str, Callable[..., Work]] = MappingProxyType(
    {name: row.cost for name, row in OPERATORS.items() if row.cost is not None}
)
"""Operator to its rule; see `deep_bench.facts.OperatorFacts`."""


def cost(node: ir.Node, sizes: Sizes) -> Cost | None:
    """What a node must compute and move, by the definition of its operator.

    Args:
        node: The node.
        sizes: What is known of its values.

    Returns:
        The cost; ``None`` (unknown, and not zero) for an operator without a rule, for one whose work depends on contents
        that are not known, and where the size of a value is unknown.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").with_sizes({"batch": 1})
        >>> found = cost(network.nodes[-1], KnownSizes(network))  # 64 features, 10 classes
        >>> found.flops == 2 * 64 * 10 + 10, found.read_bytes == 4 * (64 + 64 * 10 + 10), found.written_bytes
        (True, True, 40)
    """
    rule = operator_facts(node).cost
    moved = traffic(node, sizes.nbytes)
    if rule is None or moved is None:
        return None
    shapes = [None if value is None else sizes(value) for value in node.inputs]
    result = sizes(node.outputs[0]) if node.outputs and node.outputs[0].name else None
    if result is None or any(shape is None and value is not None for shape, value in zip(shapes, node.inputs, strict=True)):
        return None
    content = getattr(sizes, "content", as_array)
    try:
        work = _apply(rule, node, shapes, result, content)
    except Unknown:
        return None
    return Cost(work.flops, *moved, special=work.special, comparisons=work.comparisons)


def _apply(
    rule: Callable[..., Work],
    node: ir.Node,
    shapes: list[Any],
    y: tuple[int, ...],
    content: Callable[[ir.Value], np.ndarray | None],
) -> Work:
    if rule is Work:
        return Work()
    positions, keywords = _reads(rule)
    arguments: dict[str, Any] = {name: value for name, value in attributes(node).items() if name in keywords}
    if "y" in keywords:
        arguments["y"] = y
    if "values" in keywords:
        contents = [None if value is None else content(value) for value in node.inputs]
        arguments["values"] = contents + [None] * (positions - len(contents))
    return rule(*shapes[:positions], **arguments)


@functools.cache
def _reads(rule: Callable[..., Work]) -> tuple[int, frozenset[str]]:
    """How many inputs a rule reads, and the names of its keywords."""
    parameters = inspect.signature(rule).parameters.values()
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    count = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    return 10**6 if variadic else count, frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def cost_of_case(case: Case, arrays: Mapping[str, Any] | None = None) -> Cost | None:
    """What a case must compute and move; see `cost`.

    Args:
        case: A problem for a kernel. One that a NumPy function defines has no cost: nobody counted it.
        arrays: Contents of its inputs. By default they are drawn if the cost depends on them.

    Example:
        >>> from deep_bench.operators.case import Case
        >>> cost_of_case(Case.of("Gemm", (2, 3), (3, 4)))
        Cost(flops=48, read_bytes=72, written_bytes=32, special=0, comparisons=0)
    """
    if row_of(case.operator).cost is None:
        return None
    network = case.network()
    estimate = cost(network.nodes[0], KnownSizes(network, arrays))
    if estimate is not None or arrays is not None:
        return estimate
    return cost(network.nodes[0], KnownSizes(network, case.arrays()))


def costs_of(
    network: Network, sizes: Sizes | None = None, *, inputs: Mapping[str, Any] | None = None
) -> dict[str, Cost | None]:
    """What each node of a network's outermost graph costs; see `cost`.

    Args:
        network: The network; that of `deep_bench.network.differentiate` gives the cost of gradients too.
        sizes: What is known of its values; by default shapes are inferred …
        inputs: … or found by running the reference on these.

    Returns:
        The name of each node, to its cost.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").with_sizes({"batch": 1})
        >>> costs_of(network)["stem"].flops == 2 * 9 * 16 * 8 * 8  # 16 maps of 8 x 8 by kernels of 3 x 3
        True
    """
    value_sizes = KnownSizes(network, inputs) if sizes is None else sizes
    return {str(node.name): cost(node, value_sizes) for node in network.nodes}


def cost_of(network: Network, sizes: Sizes | None = None, *, inputs: Mapping[str, Any] | None = None) -> Cost | None:
    """What all nodes of a network cost together, each moving its own inputs and outputs; ``None`` if one is unknown.

    Args:
        network: As for `costs_of`.
        sizes: As for `costs_of`.
        inputs: As for `costs_of`.

    Example:
        >>> import deep_bench as db
        >>> cost_of(db.load("digits-cnn").with_sizes({"batch": 1})).flops
        854154
    """
    total = Cost(0, 0, 0)
    for node_cost in costs_of(network, sizes, inputs=inputs).values():
        if node_cost is None:
            return None
        total += node_cost
    return total

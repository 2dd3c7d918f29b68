"""Counting: the rule of each operator, applied to a node and to a network; and how much data each operator must move."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from deep_bench.facts import OPERATORS
from deep_bench.facts.row import Unknown, Work
from deep_bench.graph import Network, attributes
from deep_bench.graph.node import as_array, operator_facts, outer_values, subgraphs
from deep_bench.operators.case_schema import row_of
from deep_bench.operators.cost.model import Cost, KnownSizes, Sizes

if TYPE_CHECKING:
    from deep_bench.operators.case import Case


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

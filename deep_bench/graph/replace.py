"""Kernels of the user's in the place of nodes."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from fnmatch import fnmatchcase

import onnx_ir as ir

from deep_bench.errors import InvalidArgument
from deep_bench.graph.attached import Kernel, attach_kernel, detach_kernel
from deep_bench.graph.network import Network
from deep_bench.graph.node import is_standard, operator_name, subgraphs


def replace(network: Network, match: str | Callable[[ir.Node], bool], operator: Kernel) -> Network:
    """The network with the kernel attached to nodes; see `Network.replace`."""
    from deep_bench.graph.upgrade import inline_functions

    if not isinstance(operator, Kernel) or isinstance(operator, type):
        came = f"the class {operator.__name__}" if isinstance(operator, type) else f"a {type(operator).__name__}"
        raise InvalidArgument(f"{came} as a kernel", "an object of a subclass of deep_bench.Operator", _advice(operator))
    changed = inline_functions(network)  # a copy; calls of functions are gone when it runs
    nodes = [node for node in changed.all_nodes() if node.op_type != "Constant" and _matches(node, match)]
    if not nodes:
        raise _nothing(changed, match)
    for node in nodes:
        _check(node, operator)
        attach_kernel(node, operator)
    return Network(changed.model, name=network.name)


def without_kernels(network: Network) -> Network:
    """The network without any kernel; see `Network.without_kernels`."""
    if not network.kernels:
        return network
    changed = network.copy()
    for node in changed.all_nodes():
        detach_kernel(node)
    return changed


def _advice(operator: object) -> str:
    if isinstance(operator, type):
        return f"give {operator.__name__}(…)"
    return "wrap a function: db.operators.wrap(function, computes=…)" if callable(operator) else ""


def _matches(node: ir.Node, match: str | Callable[[ir.Node], bool]) -> bool:
    if not isinstance(match, str):
        return bool(match(node))
    return match in (operator_name(node), _plain_name(node)) or fnmatchcase(str(node.name), match) or match == node.name


def _plain_name(node: ir.Node) -> str:
    """The operator as `deep_bench.Operator.computes` writes it: ``com.microsoft::BiasGelu``."""
    return node.op_type if is_standard(node) else f"{node.domain}::{node.op_type}"


def _nothing(network: Network, match: str | Callable[[ir.Node], bool]) -> InvalidArgument:
    operators = sorted({operator_name(node) for node in network.all_nodes()})
    names = [str(node.name) for node in network.all_nodes()]
    expected = f"an operator ({', '.join(operators)}), the name of a node, a pattern of names, or a function of a node"
    if not isinstance(match, str):
        return InvalidArgument(f"the function matches no node of {network.name}", expected)
    near = difflib.get_close_matches(match, [*operators, *names], n=1, cutoff=0.5)
    advice = f"did you mean {near[0]!r}?" if near else ""
    return InvalidArgument(f"{match!r} matches no node of {network.name}", expected, advice)


def _check(node: ir.Node, operator: Kernel) -> None:
    where = f"the node {node.name!r} ({operator_name(node)})"
    if subgraphs(node):
        raise InvalidArgument(f"{operator.name} in the place of {where}, which holds graphs of its own", "another node")
    claimed = getattr(operator, "target", None)
    if isinstance(claimed, str) and claimed.removeprefix("ai.onnx::") != _plain_name(node):
        raise InvalidArgument(
            f"{operator.name}, which computes {claimed}, in the place of {where}",
            f"a kernel that computes {_plain_name(node)}, or a NumPy function",
            "match other nodes, or say what it computes",
        )

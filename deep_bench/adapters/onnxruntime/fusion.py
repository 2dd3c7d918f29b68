"""Which nodes of a network each node of ONNX Runtime's optimised graph computes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from deep_bench.graph import Network
from deep_bench.graph.node import outer_values, subgraphs

_SUFFIX = re.compile(r"(_nchwc|_nhwc)$")
_LAYOUT = ("ReorderInput", "ReorderOutput")


@dataclass(frozen=True)
class Piece:
    """A node of the optimised graph.

    Args:
        nodes: Names of the network's nodes that it computes, in their order; none for ONNX Runtime's own work.
        operator: Its operator.
    """

    nodes: tuple[str, ...]
    operator: str


def pieces(network: Network, optimised: onnx.GraphProto) -> list[Piece]:
    """What each node of the optimised graph computes.

    A value that both graphs have, or a node whose name tells which value of the network it gives, ties the two together:
    such a node computes the node that gives this value, and what is behind it as far as the next such value. A node
    without such a tie (of an operator's body, say) helps to compute what it leads to. What is behind constants was folded
    when the session was made.

    Args:
        network: What the session was given.
        optimised: What ONNX Runtime made of it.

    Returns:
        One for each node, in the graph's order.
    """
    producers = {str(v.name): str(node.name) for node in network.nodes for v in node.outputs if v.name}
    sources = {str(node.name): _sources(node) for node in network.nodes}
    folded = _constant(network, producers, sources)
    targets = [_targets(node, producers, sources) for node in optimised.node]
    at_hand = {target for group in targets for target in group}
    at_hand |= {producers[name] for node in optimised.node for name in node.input if name in producers}
    order = {name: position for position, name in enumerate(sources)}
    owned: list[set[str]] = []
    claimed: set[str] = set()
    for ends in targets:
        owned.append(_behind(ends, at_hand | folded, producers, sources) - claimed)
        claimed |= owned[-1]
    _move_fused_sums(optimised.node, owned, sources, producers)
    led_to = [members or _led_to(i, optimised.node, owned) for i, members in enumerate(owned)]
    return [
        Piece(tuple(sorted(names, key=order.__getitem__)), _operator(node))
        for node, names in zip(optimised.node, led_to, strict=True)
    ]


def _constant(network: Network, producers: Mapping[str, str], sources: Mapping[str, Sequence[str]]) -> set[str]:
    """The nodes that depend on constants only, and are folded wherever that is allowed."""
    constants: set[str] = set()
    for node in network.nodes:
        name = str(node.name)
        checks = (producers.get(v) in constants or (v not in producers and v in network.initializers) for v in sources[name])
        if all(checks) and not node.op_type.startswith("Random"):
            constants.add(name)
    return constants


def _sources(node: ir.Node) -> list[str]:
    captured = [v for graph in subgraphs(node).values() for v in outer_values(graph)]
    return [str(v.name) for v in (*node.inputs, *captured) if v is not None]


def _targets(node: onnx.NodeProto, producers: Mapping[str, str], sources: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of the network's nodes whose results a node of the optimised graph gives."""
    if node.op_type in _LAYOUT:
        return []
    by_output = [producers[name] for name in node.output if name in producers]
    if by_output:
        return by_output
    stem = _SUFFIX.sub("", node.name)
    if stem in producers:
        return [producers[stem]]
    return [stem] if stem in sources else []


def _move_fused_sums(
    nodes: Sequence[onnx.NodeProto],
    owned: list[set[str]],
    sources: Mapping[str, Sequence[str]],
    producers: Mapping[str, str],
) -> None:
    """Give a sum to the convolution that adds it up, where the name of its result is lost.

    Such a node is known by a value that it no longer gives. What reads its result then seems to compute the sum, from a
    value that it is not fed; but the convolution is fed that value.
    """
    owner = {name: index for index, members in enumerate(owned) for name in members}
    fed = [_feeders(node, nodes, owned) for node in nodes]
    for index, members in enumerate(owned):
        behind = {name: {producers[v] for v in sources[name] if v in producers} for name in members}
        for name in [n for n in sources if n in members]:  # in the network's order
            outside = {owner[s] for s in behind[name] - members if s in owner}
            adders = [i for i in fed[index] if outside > {i} and outside - {i} <= fed[i] and not outside <= fed[index]]
            if adders:
                moved = {name} | _activation(nodes[adders[0]], name, members, behind)
                members -= moved
                owned[adders[0]] |= moved
                break


def _activation(node: onnx.NodeProto, name: str, members: set[str], behind: Mapping[str, set[str]]) -> set[str]:
    """What reads a sum alone, where the node that adds it up applies an activation too."""
    applies = any(a.name == "activation" and a.s for a in node.attribute)
    readers = [n for n in members if name in behind[n]]
    return set(readers) if applies and len(readers) == 1 and behind[readers[0]] == {name} else set()


def _feeders(node: onnx.NodeProto, nodes: Sequence[onnx.NodeProto], owned: Sequence[set[str]]) -> set[int]:
    """The nodes with something of the network that feed a node, directly or through those that have nothing of it."""
    producers = {name: index for index, peer in enumerate(nodes) for name in peer.output if name}
    waiting, feeders = [producers[name] for name in node.input if name in producers], set[int]()
    while waiting:
        index = waiting.pop()
        if owned[index]:
            feeders.add(index)
        else:
            waiting += [producers[name] for name in nodes[index].input if name in producers]
    return feeders


def _led_to(index: int, nodes: Sequence[onnx.NodeProto], owned: Sequence[set[str]]) -> set[str]:
    """What the first node computes that is fed by this one, and computes something of the network."""
    if nodes[index].op_type in _LAYOUT:
        return set()
    fed = set(nodes[index].output)
    for node, members in zip(nodes[index + 1 :], owned[index + 1 :], strict=True):
        if fed & set(node.input):
            if members:
                return members
            if node.op_type not in _LAYOUT:
                fed |= set(node.output)
    return set()


def _behind(
    ends: Sequence[str], available: set[str], producers: Mapping[str, str], sources: Mapping[str, Sequence[str]]
) -> set[str]:
    """The nodes that lead to ``ends``, up to those whose results are at hand."""
    ancestors: set[str] = set()
    waiting = list(ends)
    while waiting:
        name = waiting.pop()
        if name in ancestors or (name in available and name not in ends):
            continue
        ancestors.add(name)
        waiting += [producers[value] for value in sources[name] if value in producers]
    return ancestors


def _operator(node: onnx.NodeProto) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}:{node.op_type}"

"""Where ONNX Runtime's time goes: its own profiler, read for each node.

Each node of its optimised graph computes some nodes of the network.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort

from deep_bench.events import Direction, NodeProfile, NodeTime, Stopwatch, in_turn
from deep_bench.graph import Network
from deep_bench.graph.node import outer_values, subgraphs
from deep_bench.network.gradient.derived import origin

if TYPE_CHECKING:
    from deep_bench.adapters.onnxruntime.executor import OnnxRuntimeExecutor

_SUFFIX = re.compile(r"(_nchwc|_nhwc)$")
_LAYOUT = ("ReorderInput", "ReorderOutput")


@dataclass(frozen=True)
class FusedNode:
    """A node of the optimised graph.

    Args:
        nodes: Names of the network's nodes that it computes, in their order; none for ONNX Runtime's own work.
        operator: Its operator.
    """

    nodes: tuple[str, ...]
    operator: str


def fused_nodes(network: Network, optimised: onnx.GraphProto) -> list[FusedNode]:
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
    # the nodes that depend on constants only, and are folded wherever that is allowed
    folded: set[str] = set()
    for node in network.nodes:
        name = str(node.name)
        checks = (producers.get(v) in folded or (v not in producers and v in network.initializers) for v in sources[name])
        if all(checks) and not node.op_type.startswith("Random"):
            folded.add(name)
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
        FusedNode(tuple(sorted(names, key=order.__getitem__)), _operator(node))
        for node, names in zip(optimised.node, led_to, strict=True)
    ]


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


Key = tuple[tuple[str, ...], Direction, str]
"""Nodes of the network, the way, and what is run for them."""


Event = Mapping[str, Any]
"""What the profiler wrote of one piece of work: ``name``, ``ts`` and ``dur`` in microseconds, ``args``."""


_KERNEL = "_kernel_time"
_ABSENT = "folded into a constant or removed when the session was made"


def profile(
    executor: OnnxRuntimeExecutor,
    network: Network,
    names: set[str],
    feeds: Mapping[str, Any],
    plain: Callable[[], Any],
    repeat: int,
) -> NodeProfile:
    """See `Executor.profile`.

    Args:
        executor: What runs: the network, or the one derived from it for gradients.
        network: What it runs.
        names: The nodes of the network that was asked about, outermost graph.
        feeds: All that the session takes.
        plain: The call that nobody observes.
        repeat: Calls of each kind.
    """
    with tempfile.TemporaryDirectory(prefix="deep_bench_") as folder:
        options = ort.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        options.optimized_model_filepath = str(Path(folder) / "optimised.onnx")
        watched = executor.observable(options)
        observed = watched.call(feeds)
        timings = in_turn({"plain": plain, "observed": observed}, executor.device.synchronize, repeat)
        events = json.loads(Path(watched.session.end_profiling()).read_text(encoding="utf-8"))
        optimised = onnx.load(options.optimized_model_filepath, load_external_data=False).graph
    runs = list(_runs(events))
    by_index = _by_index(runs[-1][1], optimised, fused_nodes(network, optimised))
    watch: Stopwatch[Key] = Stopwatch()
    for _, kernels in runs:
        watch.begin()
        for event in kernels:
            watch.add(_key(event, by_index, names), event["dur"] * 1000)
    times = tuple(
        NodeTime(nodes, ns, operator, direction) for (nodes, direction, operator), ns in watch.samples(repeat).items()
    )
    covered = {name for time in times for name in time.nodes}
    ordered = [str(node.name) for node in network.nodes if str(node.name) in names]
    return NodeProfile(
        "ONNX Runtime's own profiler, in microseconds, in a second session with the same options",
        times,
        timings["observed"],
        timings["plain"],
        inside_ns=np.array([run["dur"] * 1000 for run, _ in runs[-repeat:]], np.int64),
        absent={name: _ABSENT for name in ordered if name not in covered},
        allocated_bytes=max((int(event["args"].get("mem_in_use_peak", 0)) for event in runs[-1][1]), default=0) or None,
    )


def _by_index(kernels: Sequence[Event], optimised: onnx.GraphProto, pieces: Sequence[FusedNode]) -> Mapping[str, FusedNode]:
    """ONNX Runtime's number of a node to what it computes.

    Unnamed nodes are told apart by their place: nodes run in the graph's order. Should they not, only names that are there
    once are gone by; the rest is then time of no node.
    """
    operators = [node.op_type for node in optimised.node]
    if [event["args"]["op_name"] for event in kernels] == operators:
        return {event["args"]["node_index"]: piece for event, piece in zip(kernels, pieces, strict=True)}
    names = [node.name for node in optimised.node]
    by_name = {name: piece for name, piece in zip(names, pieces, strict=True) if name and names.count(name) == 1}
    matches = {event["args"]["node_index"]: by_name.get(event["name"].removesuffix(_KERNEL)) for event in kernels}
    return {index: piece for index, piece in matches.items() if piece is not None}


def _key(event: Event, by_index: Mapping[str, FusedNode], names: set[str]) -> Key:
    """Nodes of a derived network count with the node whose gradient they help to compute."""
    piece = by_index.get(event["args"]["node_index"], FusedNode((), str(event["args"]["op_name"])))
    origins = [origin(name, names) for name in piece.nodes]
    backward = any(direction == "backward" for _, direction in origins)
    nodes = tuple(dict.fromkeys(name for name, direction in origins if name and (direction == "backward") == backward))
    return nodes, "backward" if backward else "forward", piece.operator


def _runs(events: Iterable[Event]) -> Iterator[tuple[Event, list[Event]]]:
    """Each run of the session with the kernels of the outermost graph in it.

    The kernels of a subgraph lie within the one of the node that holds it, and are counted with that.
    """
    kernels = sorted(
        (e for e in events if e.get("cat") == "Node" and e["name"].endswith(_KERNEL)), key=lambda e: (e["ts"], -e["dur"])
    )
    runs = sorted((e for e in events if e.get("name") == "model_run"), key=lambda e: e["ts"])
    position = 0
    for run in runs:
        end, run_kernels, until = run["ts"] + run["dur"], list[Event](), -1
        while position < len(kernels) and kernels[position]["ts"] < end:
            kernel = kernels[position]
            position += 1
            if kernel["ts"] >= until:
                run_kernels.append(kernel)
                until = kernel["ts"] + kernel["dur"]
        yield run, run_kernels

"""Where ONNX Runtime's time goes: its own profiler, read for each node."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime as ort

from deep_bench.adapters.onnxruntime.fusion import Piece, pieces
from deep_bench.graph import Network
from deep_bench.measure.observed import Stopwatch, in_turn
from deep_bench.network.gradient.derived import origin
from deep_bench.node_profile import Direction, NodeProfile, NodeTime

if TYPE_CHECKING:
    from deep_bench.adapters.onnxruntime.executor import OnnxRuntimeExecutor

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
    by_index = _by_index(runs[-1][1], optimised, pieces(network, optimised))
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


def _by_index(kernels: Sequence[Event], optimised: onnx.GraphProto, pieces: Sequence[Piece]) -> Mapping[str, Piece]:
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


def _key(event: Event, by_index: Mapping[str, Piece], names: set[str]) -> Key:
    """Nodes of a derived network count with the node whose gradient they help to compute."""
    piece = by_index.get(event["args"]["node_index"], Piece((), str(event["args"]["op_name"])))
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

"""Where TensorFlow's time goes: the plan's steps walked one by one, each between two stamps.

A traced graph tells of its own operations only, several to a node and some to none; so what is observed is an eager walk of
the steps that the graph was traced from. It is slower than the graph, by as much as ``walk_ns`` says beside ``plain_ns``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from deep_bench.adapters.lowering import Step
from deep_bench.adapters.tensorflow.gradients import Gradients
from deep_bench.adapters.tensorflow.graph import GraphRunner
from deep_bench.measure.observed import Stopwatch, in_turn
from deep_bench.node_profile import Direction, NodeProfile, NodeTime

Key = tuple[tuple[str, ...], Direction, str]
"""Nodes of the network, the way, and what is run for them."""

_ABSENT = "known beforehand, unused, or another name of a value"


def whole(names: Sequence[str], plain: Callable[[], Any], synchronize: Callable[[], Any], repeat: int) -> NodeProfile:
    """The profile of a network that XLA compiled: one piece.

    Args:
        names: The nodes of the network's outermost graph.
        plain: The call.
        synchronize: Waits for the device.
        repeat: Calls.
    """
    ns = in_turn({"plain": plain}, synchronize, repeat)["plain"]
    piece = NodeTime(tuple(names), ns, "XLA", whole=True)
    return NodeProfile("the compiled whole, which is not looked into", (piece,), ns, ns)


def profile(
    runner: GraphRunner,
    gradients: Gradients,
    names: Sequence[str],
    calls: Mapping[str, Callable[[], Any]],
    synchronize: Callable[[], Any],
    repeat: int,
    place: str,
) -> NodeProfile:
    """See `Executor.profile`.

    Args:
        runner: Walks the steps.
        gradients: Differentiates what it walked.
        names: The nodes of the network's outermost graph.
        calls: ``"plain"``, the call that nobody observes, and ``"walk"``, the walk; observed, it is the very same.
        synchronize: Waits for the device.
        repeat: Calls of each kind.
        place: TensorFlow's name of the device.
    """
    watch: Stopwatch[Key] = Stopwatch()

    def observed() -> None:
        watch.begin()
        with _stamped(runner, gradients, watch, synchronize):
            calls["walk"]()

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Converting sparse IndexedSlices")
        timings = in_turn({**calls, "observed": observed}, synchronize, repeat)
    times = tuple(
        NodeTime(nodes, ns, operator, direction, whole=direction == "backward")
        for (nodes, direction, operator), ns in watch.samples(repeat).items()
    )
    covered = {name for time in times if time.direction == "forward" for name in time.nodes}
    return NodeProfile(
        "an eager walk of the steps that the graph was traced from, each between two stamps; the way back as a whole",
        times,
        timings["observed"],
        timings["plain"],
        walk_ns=timings["walk"],
        absent={name: _ABSENT for name in names if name not in covered},
        allocated_bytes=_allocated_bytes(calls["plain"], place),
    )


def _allocated_bytes(plain: Callable[[], Any], place: str) -> int | None:
    """The most that TensorFlow's allocator had handed out in a call, on a GPU; the CPU's keeps no account."""
    if "GPU" not in place:
        return None
    tf.config.experimental.reset_memory_stats(place)
    plain()
    return int(tf.config.experimental.get_memory_info(place)["peak"])


@contextmanager
def _stamped(
    runner: GraphRunner, gradients: Gradients, watch: Stopwatch[Key], synchronize: Callable[[], Any]
) -> Iterator[None]:
    """Meanwhile each step of the runner, and the tape's way back, are timed."""
    run, differentiated = runner._run, gradients._differentiated
    walked: dict[str, None] = {}

    def timed_step(step: Step, by_name: dict[str, Any]) -> None:
        walked.setdefault(step.site.origin)

        def settled() -> None:
            run(step, by_name)
            synchronize()

        watch.timed(((step.site.origin,) if step.site.origin else (), "forward", step.site.operator), settled)

    def timed_gradient(*arguments: Any) -> Any:
        nodes = tuple(name for name in walked if name)
        return watch.timed((nodes, "backward", "GradientTape"), differentiated, *arguments)

    runner.__dict__["_run"] = timed_step
    gradients.__dict__["_differentiated"] = timed_gradient
    try:
        yield
    finally:
        del runner.__dict__["_run"], gradients.__dict__["_differentiated"]

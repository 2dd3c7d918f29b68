"""Where the reference's time goes: every node between two stamps, by the executor's own arithmetic hook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deep_bench.graph import Network, operator_name
from deep_bench.graph.upgrade.edit import ORIGIN
from deep_bench.measure.observed import Stopwatch, in_turn
from deep_bench.network.gradient.derived import origin
from deep_bench.node_profile import Direction, NodeProfile, NodeTime

if TYPE_CHECKING:
    from deep_bench.reference.network.executor import ReferenceExecutor, Step

Key = tuple[str, Direction, str]
"""A node of the network, the way, and what is run for it."""


def profile(
    executor: ReferenceExecutor,
    network: Network,
    inputs: Mapping[str, Any],
    repeat: int,
    plain: Callable[[], Any],
    names: Sequence[str],
) -> NodeProfile:
    """See `Executor.profile`.

    Args:
        executor: What runs: the network, or the one derived from it for gradients.
        network: The network, whose nodes are asked for.
        inputs: What it is fed.
        repeat: Calls of each kind.
        plain: The call that nobody observes.
        names: The nodes as the network's file names them.
    """
    watch: Stopwatch[Key] = Stopwatch()
    origins = {str(node.name): str(node.meta.get(ORIGIN, node.name)) for node in network.all_nodes()}
    observer = _Observer(watch, origins)

    def observed() -> None:
        watch.begin()
        executor.evaluate(inputs, arithmetic=observer)

    timings = in_turn({"plain": plain, "observed": observed}, lambda: None, repeat)
    times = tuple(
        NodeTime((name,) if name else (), ns, label, direction)
        for (name, direction, label), ns in watch.samples(repeat).items()
    )
    covered = {name for time in times for name in time.nodes}
    return NodeProfile(
        "each node's NumPy function between two stamps, subgraphs counted with the node that holds them",
        times,
        timings["observed"],
        timings["plain"],
        absent={name: "a constant, or in a branch that was not taken" for name in names if name not in covered},
    )


class _Observer:
    """An arithmetic that is the network's own, with stamps around the nodes of the outermost graph."""

    def __init__(self, watch: Stopwatch[Key], origins: Mapping[str, str]) -> None:
        self._watch, self._origins, self._inside = watch, origins, False

    def __call__(self, step: Step, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        if self._inside:
            return function(*inputs)
        name, direction = origin(str(step.node.meta.get(ORIGIN, step.node.name)), self._origins)
        name = self._origins.get(name, name)
        self._inside = True
        try:
            return self._watch.timed((name, direction, operator_name(step.node)), function, *inputs)
        finally:
            self._inside = False

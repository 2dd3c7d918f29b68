"""What can be observed while something runs: moments and the callbacks told of them, and where the time of a call goes.

Frameworks tell of it node by node, as far as they can. Calls that are timed in turn, one observed from within and one not,
show what looking costs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from time import perf_counter_ns
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument


class Moment(Enum):
    """A point in a run that an executor or trainer can report.

    The values are stable names, used in records.
    """

    BEFORE_CALL = "before call"
    AFTER_CALL = "after call"
    BEFORE_NODE = "before node"
    AFTER_NODE = "after node"
    BEFORE_RUN = "before run"
    BEFORE_EPOCH = "before epoch"
    BEFORE_STEP = "before step"
    AFTER_GRADIENTS = "after gradients"
    AFTER_STEP = "after step"
    AFTER_EVALUATION = "after evaluation"
    AFTER_EPOCH = "after epoch"
    AFTER_RUN = "after run"


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """The node that a moment concerns.

    Args:
        node: Its name.
        operator: Its operator, with the domain unless that is the default one.
        outputs: What it gave, native; ``None`` before it ran.
    """

    node: str
    operator: str
    outputs: tuple[Any, ...] | None = None


class Callback(Protocol):
    """Told of each moment it was registered for.

    Args:
        moment: Which moment.
        index: The running number of the call, of the node within its call, of the training step or of the epoch.
        time_ns: A ``perf_counter_ns`` stamp taken at the moment.
        data: What the moment concerns: a `NodeEvent`, the progress of a training run, or ``None`` for a call.

    Returns:
        ``True`` to ask the run to stop; anything else to go on.
    """

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> bool | None: ...


Direction = Literal["forward", "backward"]


@dataclass(frozen=True, eq=False)
class NodeTime:
    """How long one piece of a framework's work took, in each of several observed calls.

    Args:
        nodes: Names of the network's nodes that it computes: several where the framework runs them as one; none for work of
            the framework's own (a change of layout, say).
        ns: Nanoseconds in each call; int64.
        what: What the framework calls it.
        direction: Whether it belongs to the way forward or back.
        whole: Whether it is all that can be told of its direction, and no piece to compare with a node elsewhere.
    """

    nodes: tuple[str, ...]
    ns: NDArray[np.int64]
    what: str
    direction: Direction = "forward"
    whole: bool = False


@dataclass(frozen=True, eq=False)
class NodeProfile:
    """Where the time of a call went, as `Executor.profile` found it.

    Observed calls are slower than others. They are taken in turn with calls that nobody observes, so that what looking costs
    can be told; the times of the one kind are never to be mixed with those of the other.

    Args:
        how: How it was observed.
        times: The pieces; within each call they do not overlap.
        observed_ns: The whole of each observed call, in nanoseconds; int64, as long as each piece's ``ns``.
        plain_ns: The calls that nobody observed.
        walk_ns: Where observed calls go another way than others (node by node instead of a graph): that way without the
            stamps. ``None`` where it is the same.
        inside_ns: What the runtime itself says that each observed call took, without Python around it; ``None`` where it
            does not tell.
        absent: Name of each node that none of ``times`` covers to the reason.
        allocated_bytes: The most that the framework's own allocator had handed out, where it tells.
        kernels: Name of a node to the device's kernels under it with their nanoseconds a call, where a profiler tells.
    """

    how: str
    times: tuple[NodeTime, ...]
    observed_ns: NDArray[np.int64]
    plain_ns: NDArray[np.int64]
    walk_ns: NDArray[np.int64] | None = None
    inside_ns: NDArray[np.int64] | None = None
    absent: Mapping[str, str] = field(default_factory=dict)
    allocated_bytes: int | None = None
    kernels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


K = TypeVar("K", bound=Hashable)
Nanoseconds = NDArray[np.int64]


class Stopwatch(Generic[K]):
    """Durations by key, summed within each call.

    Example:
        >>> watch = Stopwatch()
        >>> for _ in range(2):
        ...     watch.begin()
        ...     watch.add("MatMul", 5)
        ...     watch.add("MatMul", 7)
        >>> watch.samples(2)["MatMul"].tolist()
        [12, 12]
    """

    def __init__(self) -> None:
        self._calls: list[dict[K, int]] = []

    def begin(self) -> None:
        """A call begins."""
        self._calls.append({})

    def add(self, key: K, ns: int) -> None:
        """Something took so many nanoseconds of the call at hand."""
        call = self._calls[-1]
        call[key] = call.get(key, 0) + ns

    def timed(self, key: K, function: Callable[..., Any], *arguments: Any) -> Any:
        """The function's result; how long it took is added under the key."""
        begin = perf_counter_ns()
        result = function(*arguments)
        self.add(key, perf_counter_ns() - begin)
        return result

    def samples(self, calls: int) -> dict[K, Nanoseconds]:
        """Key to duration in each of the last calls, 0 where it did not occur; in the order of first appearance."""
        chosen = self._calls[-calls:]
        keys = dict.fromkeys(key for call in chosen for key in call)
        return {key: np.array([call.get(key, 0) for call in chosen], np.int64) for key in keys}


def in_turn(
    calls: Mapping[str, Callable[[], Any]], synchronize: Callable[[], Any], repeat: int, *, warm_up: int = 3
) -> dict[str, Nanoseconds]:
    """Time several calls round after round, so that drift hits all alike.

    The order is reversed from round to round, so that none always follows the same other one. The first rounds are not
    kept: caches, allocators and lazy compilation settle in them.

    Args:
        calls: Name to call.
        synchronize: Waits for the device; inside the stamps.
        repeat: The number of samples of each.
        warm_up: The number of rounds that are not kept.

    Returns:
        Name to ``repeat`` durations in nanoseconds.

    Raises:
        InvalidArgument: ``repeat`` is below one.

    Example:
        >>> found = in_turn({"a": lambda: sum(range(100)), "b": lambda: None}, lambda: None, 5)
        >>> {name: len(ns) for name, ns in found.items()}
        {'a': 5, 'b': 5}
    """
    if repeat < 1:
        raise InvalidArgument(f"repeat={repeat}", "at least 1 call")
    durations: dict[str, list[int]] = {name: [] for name in calls}
    for number in range(warm_up + repeat):
        order = list(calls.items())
        for name, call in order if number % 2 == 0 else reversed(order):
            begin = perf_counter_ns()
            call()
            synchronize()
            durations[name].append(perf_counter_ns() - begin)
    return {name: np.array(ns[warm_up:], np.int64) for name, ns in durations.items()}

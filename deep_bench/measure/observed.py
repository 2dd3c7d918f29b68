"""Calls timed in turn, one observed from within and one not: what looking costs, and where the time goes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from time import perf_counter_ns
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument

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

"""Whether a kernel is only fast on inputs that it has seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter_ns, process_time_ns, sleep
from typing import Any

from deep_bench.check.truth import Effort
from deep_bench.operators.case import Case
from deep_bench.operators.checks.finding import Finding
from deep_bench.operators.checks.native import assign
from deep_bench.operators.checks.prepared import Prepared, found
from deep_bench.operators.checks.problem import Problem, posed
from deep_bench.operators.checks.threads import python_threads
from deep_bench.operators.operator import Operator

_ROUNDS = 9
_FASTER = 2.0
"""How many times faster a call on known inputs must be to count as remembered …"""

_LEAST_NS = 30_000
"""… and by how much at least, since short calls scatter."""

_SHORTEST_NS = _LEAST_NS * _FASTER / (_FASTER - 1)
"""Shorter calls could be remembered without one being so much faster."""

_SETTLED_NS = 100_000_000
"""How long threads that a call has started are waited for."""

_FRESH = 100
"""The first number of the inputs that only this check uses."""


def remembering_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a kernel takes longer for inputs that it has not seen than for inputs that it has: it remembers answers.

    Known and new contents are written into the same memory in turn, so that both find the caches alike. Where calls start
    threads, what decides is the CPU time of them all.

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.

    Returns:
        A finding whose figures ``seen_ns`` and ``unseen_ns`` are the medians of nine calls; *cannot tell* where these are
        too short for a difference to show.
    """
    problem = posed(case, seed, effort)

    def find() -> Finding:
        clock = Stopwatch()
        seen_ns, unseen = _times(operator, problem, _FRESH, clock.elapsed)
        if _remembers(seen_ns, unseen):  # what was a coincidence does not come twice
            again = clock.worked if clock.threads else clock.elapsed
            seen_ns, unseen = _times(operator, problem, _FRESH + _ROUNDS, again)
        figures = {"seen_ns": seen_ns, "unseen_ns": unseen}
        if not _remembers(seen_ns, unseen) and unseen < _SHORTEST_NS:
            short = (
                f"a call takes {unseen / 1e3:.3g} us, and answers that are remembered show from {_SHORTEST_NS / 1e3:g} us"
            )
            return Finding("remembering", problem.name, "cannot tell", f"{short} on: try a larger case", figures=figures)
        if not _remembers(seen_ns, unseen):
            return Finding("remembering", problem.name, "right", figures=figures)
        reason = (
            f"it remembers answers: {seen_ns / 1e3:.3g} us for inputs that it has seen, {unseen / 1e3:.3g} us for others"
        )
        return Finding("remembering", problem.name, "wrong", reason, figures=figures)

    return found("remembering", problem, find)


def _remembers(seen_ns: float, unseen: float) -> bool:
    return unseen > _FASTER * seen_ns and unseen - seen_ns > _LEAST_NS


class Stopwatch:
    """Times calls, and notices threads that they start in Python.

    Attributes:
        threads: Whether there were any after a call: then the time of the call tells little of its work.
    """

    def __init__(self) -> None:
        self._before = set(python_threads())
        self.threads = False

    def elapsed(self, call: Callable[[], object]) -> int:
        """The time until it returns, in nanoseconds."""
        begin = perf_counter_ns()
        call()
        duration = perf_counter_ns() - begin
        self.threads |= bool(self._started())
        return duration

    def worked(self, call: Callable[[], object]) -> int:
        """The CPU time of all threads for it, in nanoseconds, what they do after it included."""
        begin, end = process_time_ns(), perf_counter_ns() + _SETTLED_NS
        call()
        while self._started() and perf_counter_ns() < end:
            sleep(_SETTLED_NS / 20e9)
        return process_time_ns() - begin

    def _started(self) -> set[int]:
        return set(python_threads()) - self._before


def _times(
    operator: Operator[Any], problem: Problem, start: int, timed: Callable[[Callable[[], object]], int]
) -> tuple[float, float]:
    prepared = Prepared(operator, problem.network)
    seen_inputs = problem.inputs()
    native_inputs = prepared.native(seen_inputs)
    for _ in range(2):
        prepared.call(native_inputs)
    seen_times: list[int] = []
    unseen: list[int] = []
    for number in range(start, start + _ROUNDS):
        for arrays, times in ((problem.inputs("normal", number), unseen), (seen_inputs, seen_times)):
            if not all([assign(prepared.device, native_inputs[n], a) for n, a in arrays.items()]):  # noqa: C419 (all are written)
                native_inputs = prepared.native(arrays)
            times.append(timed(partial(prepared.call, native_inputs)))
    return median(seen_times), median(unseen)

"""Whether a kernel's work is done when its call is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.check.truth import Effort
from deep_bench.operators.case import Case
from deep_bench.operators.checks.answers import Honest
from deep_bench.operators.checks.finding import Finding
from deep_bench.operators.checks.native import overlap, poison, same_bits
from deep_bench.operators.checks.prepared import Prepared, found
from deep_bench.operators.checks.problem import Problem, posed
from deep_bench.operators.checks.threads import busiest, child_times, python_threads, rates, running_children, thread_times
from deep_bench.operators.operator import Operator

_SHARE = 0.2
"""The share of a call's time that another thread may work after it and not be noticed."""

_LEAST_NS = 1_000_000
_CHILD_NS = 20_000_000
_WAITS_S = (0.02, 0.5)
_THREADS_S, _CHILDREN_S = 0.1, 0.4
"""How long threads and children are watched: the time of the latter is told in hundredths of a second."""


def unfinished_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a kernel has done its work when `forward` and the device's ``synchronize`` have returned.

    Results are read at once and again later, before and after the inputs were overwritten; and the CPU time of other threads
    and child processes is watched. It catches early returns, lazy evaluation, work in threads and on streams that nobody
    waits for. Native threads that merely spin are not blamed: only what a Python thread or a child process computes is,
    and whatever changes a result.

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.

    Returns:
        A finding whose figure ``after_ns`` is the CPU time of the busiest other thread after the call.

    Example:
        >>> import threading, time
        >>> class Later(Operator):
        ...     computes = "Exp"
        ...     def forward(self, x):
        ...         y = np.zeros_like(x)
        ...         threading.Timer(0.005, lambda: np.exp(x, out=y)).start()
        ...         return y
        >>> print(unfinished_check(Later(), Case.of("Exp", (4, 5))).reason)
        output output still changes after the call has returned
    """
    problem = posed(case, seed, effort)

    def find() -> Finding:
        idle = _idle()
        prepared = Prepared(operator, problem.network)
        truth = problem.truth()
        settled = _settled(prepared, truth.inputs)
        honest = Honest(truth, settled)
        observation = _observed(prepared, problem.truth(number=1).inputs, idle)
        figures = {"after_ns": float(observation.after_ns)}
        reason = observation.reason or _on_other_streams(prepared, problem.truth(number=1).inputs)
        if not reason and honest.judgeable and not operator.returns_views:
            reason = _overwritten(prepared, problem, honest)
        word = "wrong" if reason else "right"
        return Finding("unfinished", problem.name, word, reason, figures=figures)  # type: ignore[arg-type]

    return found("unfinished", problem, find)


@dataclass(frozen=True)
class _Seen:
    reason: str
    after_ns: int


def _settled(prepared: Prepared, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the kernel gives if one waits; it also warms up what it starts on first use."""
    outputs = prepared.call(prepared.native(inputs))
    time.sleep(2 * _WAITS_S[0])
    return prepared.read(outputs)


def _idle() -> dict[int, float]:
    """The share of the time that other threads and child processes are busy while nothing is called."""
    start, before = time.perf_counter_ns(), thread_times()
    time.sleep(_WAITS_S[0])
    shares = rates(before, thread_times(), time.perf_counter_ns() - start)
    return shares | dict.fromkeys(running_children(), 1.0)  # the time of children is told too coarsely for a share


def _observed(prepared: Prepared, inputs: Mapping[str, np.ndarray], idle: Mapping[int, float]) -> _Seen:
    """One call, looked at when it has returned and some time later.

    Args:
        prepared: The kernel.
        inputs: What it is called with.
        idle: The share of the time that others were busy before the kernel was set up.
    """
    native = prepared.native(inputs)
    start = time.perf_counter_ns()
    outputs = prepared.call(native)
    took = time.perf_counter_ns() - start
    at_once = prepared.read(outputs)  # before all else: what is late may not be late by much
    threads, children = thread_times(), child_times()
    returned = time.perf_counter_ns()
    least = _CHILDREN_S if children else _THREADS_S if len(python_threads()) > 1 else _WAITS_S[0]
    time.sleep(min(max(least, 3e-9 * took), _WAITS_S[1]))
    later_threads, later_children = thread_times(), child_times()
    watched = time.perf_counter_ns() - returned
    prepared.device.synchronize()
    later = prepared.read(outputs)
    thread, worked = busiest(threads, later_threads, idle, watched)
    if not same_bits(at_once, later):
        changed = next(name for name in at_once if not same_bits({name: at_once[name]}, later))
        return _Seen(f"output {changed} still changes after the call has returned", worked)
    names = python_threads()
    room = max(_LEAST_NS, int(_SHARE * took))
    if thread in names and worked > room:
        message = (
            f"thread {names[thread]!r} works on for {worked / 1e6:.3g} ms after the call, which took {took / 1e6:.3g} ms"
        )
        return _Seen(message, worked)
    child, spent = busiest(children, later_children, idle, watched)
    if spent > max(_CHILD_NS, room):
        return _Seen(f"child process {child} works on for {spent / 1e6:.3g} ms after the call has returned", spent)
    return _Seen("", worked)


def _on_other_streams(prepared: Prepared, inputs: Mapping[str, np.ndarray]) -> str:
    """What is wrong with results on a GPU that are read as soon as their own stream is done, as events time it."""
    native = prepared.native(inputs)
    prepared.device.synchronize()
    outputs = prepared.call(native, wait=False)
    if not any(getattr(output, "is_cuda", False) for output in outputs.values()):
        return ""
    early = prepared.read(outputs)
    prepared.device.synchronize()
    late = prepared.read(outputs)
    changed = next((name for name in early if not same_bits({name: early[name]}, late)), None)
    return f"output {changed} changes when its own stream is done: another one is not waited for" if changed else ""


def _overwritten(prepared: Prepared, problem: Problem, honest: Honest) -> str:
    """What is wrong with results that are read after the inputs were overwritten."""
    truth = problem.truth(number=2)
    native = prepared.native(truth.inputs)
    outputs = prepared.call(native)
    if any(overlap(output, array) for output in outputs.values() for array in native.values()):
        return ""  # a view changes with its input: another check says so
    if not all([poison(prepared.device, array) for array in native.values()]):  # noqa: C419 (all are overwritten)
        return ""
    if honest.admits(truth, prepared.read(outputs)):
        return ""
    return "the results are computed from what the inputs hold when they are read, not when the call is made"

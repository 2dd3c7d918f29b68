"""Whether a kernel computes each answer anew, from the inputs that it is given, all of it, before its call ends.

It must not be fast only on inputs that it has seen, nor leave work to threads, children or streams that go on after the
call.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter_ns, process_time_ns, sleep
from typing import Any

import numpy as np
import psutil

from deep_bench.arrays import equal_arrays
from deep_bench.check.oracle import Effort, Truth
from deep_bench.operators.case import Case
from deep_bench.operators.checks.arrays import assign, overlap, poison, poison_of, same_bits
from deep_bench.operators.checks.finding import Finding, combined
from deep_bench.operators.checks.problem import Honest, Prepared, Problem, finding_of, kernel_result, posed, tells_apart
from deep_bench.operators.operator import Operator
from deep_bench.tensor import is_float


def thread_times() -> dict[int, int]:
    """Number of each other thread of this process to the CPU time that it has had, in nanoseconds; empty where not Linux."""
    if sys.platform != "linux":
        return {}
    current_thread = threading.get_native_id()
    times = {}
    for entry in os.listdir("/proc/self/task"):
        number = int(entry)
        if number == current_thread:
            continue
        try:
            times[number] = time.clock_gettime_ns((~number << 3) | 6)  # the CPU clock of one thread, as the kernel names it
        except OSError:
            continue  # it has ended meanwhile
    return times


def child_times() -> dict[int, int]:
    """Number of each child process to the CPU time that it has had, in nanoseconds."""
    times = {}
    for child in psutil.Process().children(recursive=True):
        try:
            spent = child.cpu_times()
        except psutil.Error:
            continue  # it has ended meanwhile
        times[child.pid] = int((spent.user + spent.system) * 1e9)
    return times


def running_children() -> set[int]:
    """The numbers of the child processes that are computing at this moment."""
    pids = set()
    for child in psutil.Process().children(recursive=True):
        try:
            if child.status() == psutil.STATUS_RUNNING:
                pids.add(child.pid)
        except psutil.Error:
            continue  # it has ended meanwhile
    return pids


def python_threads() -> dict[int, str]:
    """Number of each thread that Python code has started to its name."""
    return {t.native_id: t.name for t in threading.enumerate() if t.native_id is not None}


def rates(before: Mapping[int, int], after: Mapping[int, int], elapsed_ns: int) -> dict[int, float]:
    """The share of the time between two looks that each was busy.

    Example:
        >>> rates({1: 50}, {1: 75, 2: 100}, 100)
        {1: 0.25, 2: 1.0}
    """
    return {number: (ns - before.get(number, 0)) / elapsed_ns for number, ns in after.items()}


def busiest(
    before: Mapping[int, int], after: Mapping[int, int], idle: Mapping[int, float], elapsed_ns: int
) -> tuple[int, int]:
    """Which had the most CPU time between two looks, and how much in nanoseconds; ``(0, 0)`` if none had any.

    Args:
        before, after: The two looks.
        idle: The share of the time that each is busy anyway, of which twice as much is taken off.
        elapsed_ns: The time between the looks.

    Example:
        >>> busiest({1: 5, 2: 5}, {1: 9, 2: 5, 3: 1}, {}, 10), busiest({1: 5}, {1: 9}, {1: 0.4}, 10)
        ((1, 4), (0, 0))
    """
    spent = {n: int(ns - before.get(n, 0) - 2 * idle.get(n, 0.0) * elapsed_ns) for n, ns in after.items()}
    number = max(spent, key=lambda n: spent[n], default=0)
    return (number, spent[number]) if spent and spent[number] > 0 else (0, 0)


_CALLS = 200
_LONGEST_NS = 300_000_000
_TRIED = 4
"""How many elements are tried before it is given up that one of them matters."""


def fresh_check(
    operator: Operator[Any],
    case: Case | Problem,
    *,
    seed: int = 0,
    effort: Effort = "quick",
    timed: tuple[Prepared, Mapping[str, Any]] | None = None,
) -> Finding:
    """Whether the results are still right after many calls as timing makes them, on inputs that the kernel has not seen.

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.
        timed: The kernel as it was just timed, and the native inputs it was timed on: those of
            ``Problem.inputs("normal")``. Without it, it is called up to 200 times first.

    Example:
        >>> class Tired(Operator):
        ...     computes = "Exp"
        ...     calls = 0
        ...     def forward(self, x):
        ...         self.calls += 1
        ...         return np.exp(x) if self.calls < 10 else np.zeros_like(x)
        >>> print(fresh_check(Tired(), Case.of("Exp", (4, 5))).reason)
        the answer to the inputs it was timed on is wrong after the calls, and was right before
    """
    problem = posed(case, seed, effort)

    def find() -> Finding:
        first = problem.truth()
        prepared, native = timed or (Prepared(operator, problem.network), None)
        native_inputs = prepared.native(first.inputs) if native is None else native
        saved_outputs = prepared.read(prepared.call(native_inputs))
        honest = Honest(first, saved_outputs)
        if not honest.judgeable and timed is None:
            return _unjudgeable("fresh", problem)
        if timed is None:
            _call_often(prepared, native_inputs)
        faults = list(_after_timing(prepared, problem, honest, native_inputs, saved_outputs))
        return Finding("fresh", problem.name, "wrong" if faults else "right", "; ".join(faults[:1]))

    return finding_of("fresh", problem, find)


def _unjudgeable(name: str, problem: Problem) -> Finding:
    reason = "its first answer is wrong already, so that a later one tells nothing"
    return Finding(name, problem.name, "not applicable", reason)


def _call_often(prepared: Prepared, native_inputs: Mapping[str, Any]) -> None:
    def run() -> None:
        with np.errstate(all="ignore"):
            bound = prepared.executor.bind(native_inputs)
            until = perf_counter_ns() + _LONGEST_NS
            for _ in range(_CALLS):
                bound()
                if perf_counter_ns() > until:
                    break
        prepared.device.synchronize()

    kernel_result(f"{prepared.operator.name}.forward", run)


def _after_timing(
    prepared: Prepared,
    problem: Problem,
    honest: Honest,
    native_inputs: dict[str, Any] | Mapping[str, Any],
    saved_outputs: Any,
) -> Iterator[str]:
    outputs = prepared.call(native_inputs)
    again = prepared.read(outputs)
    if not honest.admits(problem.truth(), again):
        yield "the answer to the inputs it was timed on is wrong after the calls, and was right before"
    truth = problem.truth(number=1)
    answer = prepared.answer(truth.inputs)
    if not honest.admits(truth, answer):
        yield f"after the calls, {_stale(answer, (saved_outputs, again))} for inputs it has not seen"
    truth = problem.truth(number=2)
    if all(assign(prepared.device, native_inputs[name], array) for name, array in truth.inputs.items()):
        answer = prepared.read(prepared.call(native_inputs))
        if not honest.admits(truth, answer):
            yield f"after the calls, {_stale(answer, (saved_outputs, again))} for new inputs in the same memory"


def _stale(answer: Mapping[str, np.ndarray], earlier: tuple[Mapping[str, np.ndarray], ...]) -> str:
    if any(same_bits(e, answer) for e in earlier):
        return "it gives its earlier answer again"
    return "its answer is wrong"


def reuse_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a kernel notices that inputs have changed: all of them, their order, or a single element, in the same memory.

    It catches kernels that give a kept answer again when address, shape, a sum or a sample of their inputs is as before.

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.

    Example:
        >>> class Remembering(Operator):
        ...     computes = "Exp"
        ...     def __init__(self):
        ...         self.known = {}
        ...     def forward(self, x):
        ...         return self.known.setdefault(id(x), np.exp(x))
        >>> print(reuse_check(Remembering(), Case.of("Exp", (4, 5))))
        reuse, Exp 4x5: wrong: it gives its earlier answer again (all inputs changed in the same memory)
    """
    problem = posed(case, seed, effort)

    def find() -> Finding:
        prepared = Prepared(operator, problem.network)
        first = problem.truth()
        native_inputs = prepared.native(first.inputs)
        honest = Honest(first, prepared.read(prepared.call(native_inputs)))
        if not honest.judgeable:
            return _unjudgeable("reuse", problem)
        parts = [_noticed(prepared, problem, honest, native_inputs, *change) for change in _changes(problem, first)]
        nothing = "it has no inputs whose change would show in the results"
        return combined("reuse", problem.name, parts, nothing)

    return finding_of("reuse", problem, find)


def _changes(problem: Problem, first: Truth) -> Iterator[tuple[str, Truth]]:
    """What changes, and the right answer then; only changes that show in the results."""
    changed_truth = problem.truth(number=1)
    if tells_apart(first, changed_truth):
        yield "all inputs changed", changed_truth
    floats = {name: a for name, a in first.inputs.items() if is_float(a.dtype) and a.size > 1}
    plain = {
        a.spec.name: a.draw for a in problem.case.arguments if a is not None and a.value is None and a.spec.name in floats
    }
    turned = {name: floats[name].reshape(-1)[::-1].reshape(floats[name].shape) for name in plain if plain[name] == "normal"}
    if turned:
        reordered = problem.truth_of({**first.inputs, **turned})
        if tells_apart(first, reordered):
            yield "elements in another order", reordered
    rng = np.random.default_rng([problem.seed, 4])
    for name, array in floats.items():
        for place in rng.permutation(array.size)[:_TRIED]:
            changed = array.copy()
            changed.reshape(-1)[place] = 2 * np.abs(changed.reshape(-1)[place]) + 1
            single = problem.truth_of({**first.inputs, name: changed})
            if tells_apart(first, single):
                index = [int(i) for i in np.unravel_index(place, array.shape)]
                yield f"only {name}{index} changed", single
                break


def _noticed(
    prepared: Prepared, problem: Problem, honest: Honest, native_inputs: dict[str, Any], change: str, truth: Truth
) -> Finding:
    before = problem.truth().inputs
    for name, array in before.items():
        if not assign(prepared.device, native_inputs[name], array):
            native_inputs = prepared.native(before)
            break
    earlier = prepared.read(prepared.call(native_inputs))
    in_place = all(assign(prepared.device, native_inputs[name], array) for name, array in truth.inputs.items())
    native_inputs = native_inputs if in_place else prepared.native(truth.inputs)
    answer = prepared.read(prepared.call(native_inputs))
    place = f"{change} in the same memory" if in_place else f"{change}, in memory of their own"
    if honest.admits(truth, answer):
        return Finding("reuse", problem.name, "right", place=place)
    return Finding("reuse", problem.name, "wrong", _stale(answer, (earlier,)), place=place)


def unwritten_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a kernel writes all of its result at each call.

    What an earlier call returned is filled with NaN (whole numbers: with a pattern), kept or given back to the allocator,
    and the kernel is called again on the same inputs: whatever it does not write, or takes for known, shows.

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.

    Example:
        >>> class Early(Operator):
        ...     computes = "Exp"
        ...     known = None
        ...     def forward(self, x):
        ...         if self.known is None:
        ...             self.known = np.exp(x)
        ...         return self.known
        >>> print(unwritten_check(Early(), Case.of("Exp", (4, 5))).reason)
        it does not write 20 of 20 elements of output, which hold what was put into memory that it had returned before
    """
    problem = posed(case, seed, effort)

    def find() -> Finding:
        prepared = Prepared(operator, problem.network)
        truth = problem.truth()
        outputs = prepared.call(prepared.native(truth.inputs))
        first = prepared.read(outputs)
        honest = Honest(truth, first)
        if not honest.judgeable:
            return _unjudgeable("unwritten", problem)
        if not all([poison(prepared.device, array) for array in outputs.values()]):  # noqa: C419 (all are poisoned)
            return Finding("unwritten", problem.name, "not applicable", "arrays of its device cannot be written to")
        answers = [prepared.answer(truth.inputs)]
        del outputs
        for _ in range(3):
            freed = prepared.call(prepared.native(truth.inputs))
            for array in freed.values():
                poison(prepared.device, array)
            del freed
            answers.append(prepared.answer(truth.inputs))
        for answer in answers:
            if not honest.admits(truth, answer):
                return Finding("unwritten", problem.name, "wrong", _missing(first, answer))
        return Finding("unwritten", problem.name, "right")

    return finding_of("unwritten", problem, find)


def _missing(first: Mapping[str, np.ndarray], answer: Mapping[str, np.ndarray]) -> str:
    for name, array in answer.items():
        poisoned = poison_of(first[name])
        if array.shape != poisoned.shape or array.dtype != poisoned.dtype:
            continue
        count = int(np.sum(_holds(array, poisoned) & ~_holds(first[name], poisoned)))
        if count:
            of = f"{count} of {array.size} elements of {name}"
            return f"it does not write {of}, which hold what was put into memory that it had returned before"
    different = next(
        (f"output {name}" for name, array in answer.items() if not equal_arrays(array, first[name])), "its outputs"
    )
    return f"{different} is another one after memory that it had returned before was overwritten"


def _holds(array: np.ndarray, poisoned: np.ndarray) -> np.ndarray:
    """Where an array has the elements of another one, NaN included."""
    return np.asarray((array == poisoned) | ((array != array) & (poisoned != poisoned)))


_ROUNDS = 9
_FASTER = 2.0
"""How many times faster a call on known inputs must be to count as remembered …"""


_LEAST_SAVED_NS = 30_000
"""… and by how much at least, since short calls scatter."""


_SHORTEST_NS = _LEAST_SAVED_NS * _FASTER / (_FASTER - 1)
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
        clock = CallStopwatch()
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

    return finding_of("remembering", problem, find)


def _remembers(seen_ns: float, unseen: float) -> bool:
    return unseen > _FASTER * seen_ns and unseen - seen_ns > _LEAST_SAVED_NS


class CallStopwatch:
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


_SHARE = 0.2
"""The share of a call's time that another thread may work after it and not be noticed."""


_LEAST_WORK_NS = 1_000_000
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
        # the share of the time that other threads and child processes are busy while nothing is called
        start, before = time.perf_counter_ns(), thread_times()
        time.sleep(_WAITS_S[0])
        shares = rates(before, thread_times(), time.perf_counter_ns() - start)
        idle = shares | dict.fromkeys(running_children(), 1.0)  # the time of children is told too coarsely for a share
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

    return finding_of("unfinished", problem, find)


@dataclass(frozen=True)
class _LateWork:
    reason: str
    after_ns: int


def _settled(prepared: Prepared, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the kernel gives if one waits; it also warms up what it starts on first use."""
    outputs = prepared.call(prepared.native(inputs))
    time.sleep(2 * _WAITS_S[0])
    return prepared.read(outputs)


def _observed(prepared: Prepared, inputs: Mapping[str, np.ndarray], idle: Mapping[int, float]) -> _LateWork:
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
        return _LateWork(f"output {changed} still changes after the call has returned", worked)
    names = python_threads()
    room = max(_LEAST_WORK_NS, int(_SHARE * took))
    if thread in names and worked > room:
        message = (
            f"thread {names[thread]!r} works on for {worked / 1e6:.3g} ms after the call, which took {took / 1e6:.3g} ms"
        )
        return _LateWork(message, worked)
    child, spent = busiest(children, later_children, idle, watched)
    if spent > max(_CHILD_NS, room):
        return _LateWork(f"child process {child} works on for {spent / 1e6:.3g} ms after the call has returned", spent)
    return _LateWork("", worked)


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

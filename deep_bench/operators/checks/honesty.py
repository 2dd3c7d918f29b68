"""Whether a kernel computes each answer anew, from the inputs that it is given, all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Any

import numpy as np

from deep_bench.check.truth import Effort, Truth
from deep_bench.operators.case import Case
from deep_bench.operators.checks.answers import Honest, tells_apart
from deep_bench.operators.checks.finding import Finding, combined
from deep_bench.operators.checks.native import assign, equal, poison, poison_of, same_bits
from deep_bench.operators.checks.prepared import Prepared, found, told
from deep_bench.operators.checks.problem import Problem, posed
from deep_bench.operators.operator import Operator
from deep_bench.tensor import is_float

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

    return found("fresh", problem, find)


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

    told(f"{prepared.operator.name}.forward", run)


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

    return found("reuse", problem, find)


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

    return found("unwritten", problem, find)


def _missing(first: Mapping[str, np.ndarray], answer: Mapping[str, np.ndarray]) -> str:
    for name, array in answer.items():
        poisoned = poison_of(first[name])
        if array.shape != poisoned.shape or array.dtype != poisoned.dtype:
            continue
        count = int(np.sum(_holds(array, poisoned) & ~_holds(first[name], poisoned)))
        if count:
            of = f"{count} of {array.size} elements of {name}"
            return f"it does not write {of}, which hold what was put into memory that it had returned before"
    different = next((f"output {name}" for name, array in answer.items() if not equal(array, first[name])), "its outputs")
    return f"{different} is another one after memory that it had returned before was overwritten"


def _holds(array: np.ndarray, poisoned: np.ndarray) -> np.ndarray:
    """Where an array has the elements of another one, NaN included."""
    return np.asarray((array == poisoned) | ((array != array) & (poisoned != poisoned)))

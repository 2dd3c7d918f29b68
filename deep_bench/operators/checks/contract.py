"""Whether a kernel keeps to what callers rely on, apart from its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from deep_bench.check.truth import Effort
from deep_bench.operators.case import Case
from deep_bench.operators.checks.finding import Finding
from deep_bench.operators.checks.native import equal, is_native, overlap
from deep_bench.operators.checks.prepared import Prepared, found
from deep_bench.operators.checks.problem import Problem, posed
from deep_bench.operators.operator import Operator


def contract_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a kernel leaves its inputs alone, and returns arrays of its device, of the right shape and type, of their own.

    An output may share memory with an input, or with what an earlier call returned, only if the kernel declares it
    (``returns_views``, ``reuses_outputs``).

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.

    Example:
        >>> class Negated(Operator):
        ...     computes = "Neg"
        ...     def forward(self, x):
        ...         return np.negative(x, out=x)
        >>> print(contract_check(Negated(), Case.of("Neg", (2, 3))).reason)
        changes its input X; output Y shares memory with input X, which is to be declared: returns_views = True
    """
    problem = posed(case, seed, effort)

    def find() -> Finding:
        prepared = Prepared(operator, problem.network)
        faults = list(dict.fromkeys(_faults(prepared, problem)))
        return Finding("contract", problem.name, "wrong" if faults else "right", "; ".join(faults))

    return found("contract", problem, find)


def _faults(prepared: Prepared, problem: Problem) -> Iterator[str]:
    first, second = problem.truth(), problem.inputs(number=1)
    native_inputs = prepared.native(first.inputs)
    outputs = prepared.call(native_inputs)
    yield from _wrong_kinds(prepared, native_inputs, outputs)
    saved_outputs = prepared.read(outputs)
    yield from _wrong_forms(saved_outputs, first)
    yield from _changed(prepared, native_inputs, first.inputs)
    if not prepared.operator.returns_views:
        yield from _shared_with_inputs(native_inputs | dict(prepared.executor.parameters), outputs)
    again = prepared.native(second)
    later = prepared.call(again)
    yield from _changed(prepared, again, second)
    yield from _changed(prepared, prepared.executor.parameters, problem.network.initializers)
    if not prepared.operator.reuses_outputs:
        yield from _shared_with_earlier(outputs, later)
        current_outputs = prepared.read(outputs)
        for name, before in saved_outputs.items():
            if not equal(before, current_outputs[name]):
                yield f"a later call changes output {name} of an earlier one, which is to be declared: reuses_outputs = True"


def _wrong_kinds(prepared: Prepared, native_inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Iterator[str]:
    like = next(iter(native_inputs.values()), None)
    like = prepared.device.from_numpy(np.zeros(1, np.float32)) if like is None else like
    for name, output in outputs.items():
        if not is_native(prepared.device, output, like):
            came, expected = _kind(output), _kind(like)
            yield f"returns {name} as {came}, while arrays of its device are {expected}: convert it in forward"


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _wrong_forms(outputs: Mapping[str, np.ndarray], truth: Any) -> Iterator[str]:
    for name, array in outputs.items():
        form = truth.formats.get(name, array.dtype)
        yield from wrong_form(name, (array.shape, array.dtype), (np.shape(truth.outputs[name]), form))


def wrong_form(name: str, came: tuple[Sequence[Any], np.dtype], wanted: tuple[Sequence[Any], np.dtype]) -> Iterator[str]:
    """What is said of an output of another shape or element type than it is to have.

    Example:
        >>> list(wrong_form("Y", ((32,), np.dtype("float32")), ((4, 8), np.dtype("float32"))))
        ['returns Y as float32[32] instead of float32[4, 8]']
    """
    if tuple(came[0]) != tuple(wanted[0]) or (came[1] != wanted[1] and came[1].kind not in "OSU"):
        yield f"returns {name} as {came[1]}{list(came[0])} instead of {wanted[1]}{list(wanted[0])}"


def _changed(prepared: Prepared, native_arrays: Mapping[str, Any], before: Mapping[str, np.ndarray]) -> Iterator[str]:
    for name, array in before.items():
        if name in native_arrays and not equal(np.asarray(prepared.device.to_numpy(native_arrays[name])), np.asarray(array)):
            yield f"changes its input {name}"


def _shared_with_inputs(native_arrays: Mapping[str, Any], outputs: Mapping[str, Any]) -> Iterator[str]:
    for name, output in outputs.items():
        for source, array in native_arrays.items():
            if output is array or overlap(output, array):
                yield f"output {name} shares memory with input {source}, which is to be declared: returns_views = True"


def _shared_with_earlier(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> Iterator[str]:
    for name, output in later.items():
        for source, array in earlier.items():
            if output is array or overlap(output, array):
                suffix = "" if source == name else f" {source}"
                yield (
                    f"output {name} shares memory with output{suffix} of an earlier call, which is to be declared: "
                    "reuses_outputs = True"
                )

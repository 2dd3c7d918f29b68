"""Whether a kernel keeps to what callers rely on, apart from its numbers.

A native kernel keeps to its buffers, and none changes what it is timed and checked with.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deep_bench.arrays import equal_arrays
from deep_bench.check.oracle import Effort
from deep_bench.errors import DeepBenchError, InvalidArgument, Unsupported
from deep_bench.operators.case import Case
from deep_bench.operators.checks.arrays import is_native, overlap
from deep_bench.operators.checks.finding import Finding, combined
from deep_bench.operators.checks.problem import Prepared, Problem, finding_of, kernel_result, posed
from deep_bench.operators.operator import Operator

if TYPE_CHECKING:
    from deep_bench.operators.native_code.operator import NativeOperator


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

    return finding_of("contract", problem, find)


def _faults(prepared: Prepared, problem: Problem) -> Iterator[str]:
    first, second = problem.truth(), problem.inputs(number=1)
    native_inputs = prepared.native(first.inputs)
    outputs = prepared.call(native_inputs)
    like = next(iter(native_inputs.values()), None)
    like = prepared.device.from_numpy(np.zeros(1, np.float32)) if like is None else like
    for name, output in outputs.items():
        if not is_native(prepared.device, output, like):
            came, expected = (f"{type(array).__module__}.{type(array).__qualname__}" for array in (output, like))
            yield f"returns {name} as {came}, while arrays of its device are {expected}: convert it in forward"
    saved_outputs = prepared.read(outputs)
    for name, array in saved_outputs.items():
        form = first.formats.get(name, array.dtype)
        yield from wrong_form(name, (array.shape, array.dtype), (np.shape(first.outputs[name]), form))
    yield from _changed(prepared, native_inputs, first.inputs)
    if not prepared.operator.returns_views:
        for name, source in _shared(outputs, native_inputs | dict(prepared.executor.parameters)):
            yield f"output {name} shares memory with input {source}, which is to be declared: returns_views = True"
    again = prepared.native(second)
    later = prepared.call(again)
    yield from _changed(prepared, again, second)
    yield from _changed(prepared, prepared.executor.parameters, problem.network.initializers)
    if not prepared.operator.reuses_outputs:
        declared = "which is to be declared: reuses_outputs = True"
        for name, source in _shared(later, outputs):
            suffix = "" if source == name else f" {source}"
            yield f"output {name} shares memory with output{suffix} of an earlier call, {declared}"
        current_outputs = prepared.read(outputs)
        for name, before in saved_outputs.items():
            if not equal_arrays(before, current_outputs[name]):
                yield f"a later call changes output {name} of an earlier one, {declared}"


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
        if name in native_arrays and not equal_arrays(
            np.asarray(prepared.device.to_numpy(native_arrays[name])), np.asarray(array)
        ):
            yield f"changes its input {name}"


def _shared(outputs: Mapping[str, Any], sources: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Outputs with the arrays that they share memory with, by name."""
    for name, output in outputs.items():
        yield from ((name, source) for source, array in sources.items() if output is array or overlap(output, array))


_SHOWN = 2


def memory_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a native kernel reads and writes its buffers only, writes all of its outputs, and leaves its inputs alone.

    Every buffer is put between margins of a known pattern, see `deep_bench.operators.native_code.guard.trespasses`; the
    finding says how wide these are. What is written beyond them, and what is read there and changes no result, stays unseen.
    With ``effort="full"`` a function that is made from source is therefore compiled with AddressSanitizer as well, and
    called in a process of its own, where there is gcc: that takes seconds. A function whose gradients are native too is
    called for these as well.

    Args:
        operator: The kernel; of others than those of `deep_bench.operators.native` on the CPU nothing can be said.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.

    Example:
        >>> from deep_bench.operators import native
        >>> source = 'extern "C" void f(const float *x, float *y, long n) { for (long i = 0; i <= n; ++i) y[i] = x[i]; }'
        >>> copy = native(source, function="f", computes="Identity", signature="const float *x, float *y, long n = x.size")
        >>> memory_check(copy, Case.of("Identity", (3,))).reason.partition("; input")[0]
        'output y (y: float32[3]): bytes behind it were overwritten: 4 bytes, the first at byte 12, element 3'
    """
    from deep_bench.operators.native_code.operator import NativeOperator

    problem = posed(case, seed, effort)
    if not isinstance(operator, NativeOperator):
        return Finding("memory", problem.name, "not applicable", "it is no native kernel, whose buffers could be watched")
    methods = ["forward", "backward"] if operator.differentiates else ["forward"]
    watched = None
    if problem.effort == "full":
        with suppress(InvalidArgument):  # a library that is built already
            watched = operator.sanitized()
    return combined("memory", problem.name, [_of(operator, watched, problem, method) for method in methods])


def _of(operator: NativeOperator, watched: NativeOperator | None, problem: Problem, method: str) -> Finding:
    guarded = finding_of("memory", problem, lambda: _guarded(operator, problem, method), method)
    if guarded.word != "right" or watched is None:
        return guarded
    finding = finding_of(
        "memory", problem, lambda: _under_sanitizer(watched, problem, method), f"{method}, AddressSanitizer"
    )
    if finding.word != "not applicable":
        return finding
    return replace(guarded, reason=f"{guarded.reason}; without AddressSanitizer: {finding.reason}")


def _guarded(operator: NativeOperator, problem: Problem, method: str) -> Finding:
    from deep_bench.operators.native_code.guard import MARGIN, trespasses

    prepared = Prepared(operator, problem.network)
    inputs, attributes = prepared.executor.arguments(prepared.native(problem.inputs())), prepared.executor.attributes
    options: dict[str, Any] = {}
    if method == "backward":
        answer, grads = prepared.answer(problem.inputs()), _grads(problem)
        results = prepared.executor.results
        options = {"grads": [grads.get(name) for name in results], "outputs": [answer[name] for name in results]}
    violations = kernel_result(f"{operator.name}.{method}", lambda: trespasses(operator, inputs, attributes, **options))
    if violations:
        remainder = f"; and {len(violations) - _SHOWN} more" if len(violations) > _SHOWN else ""
        return Finding("memory", problem.name, "wrong", "; ".join(map(str, violations[:_SHOWN])) + remainder, place=method)
    unseen = f"accesses further than {MARGIN >> 10} KiB from a tensor, and reads that change no result"
    how = "" if problem.effort == "full" or isinstance(operator.recipe.source, Path) else ', which effort="full" looks for'
    reason = f"not seen are {unseen}{how}"
    return Finding("memory", problem.name, "right", reason, place=method)


def _under_sanitizer(watched: NativeOperator, problem: Problem, method: str) -> Finding:
    from deep_bench.operators.native_code.library import MemoryViolation

    try:
        prepared = Prepared(watched, problem.network)
        native_inputs = prepared.native(problem.inputs())
        if method == "forward":
            prepared.call(native_inputs)
        else:
            prepared.pull_back(native_inputs, _grads(problem))
    except MemoryViolation as violation:
        return Finding("memory", problem.name, "wrong", _summary(violation.report), place=f"{method}, AddressSanitizer")
    return Finding("memory", problem.name, "right", place=f"{method}, AddressSanitizer")


def _grads(problem: Problem) -> dict[str, np.ndarray]:
    drawn = problem.output_gradients(problem.truth())
    if not drawn:
        raise Unsupported("it has no floating-point outputs")
    return drawn


def _summary(report: str) -> str:
    """What the sanitizer says in a line: the error, the access, and where the address lies."""
    lines = [line.strip() for line in report.splitlines()]
    error = next((line.partition("AddressSanitizer: ")[2].partition(" on ")[0] for line in lines if "ERROR:" in line), "")
    access = next((line.partition(" at ")[0] for line in lines if line.startswith(("READ of", "WRITE of"))), "")
    where = next((line.partition(" is ")[2] for line in lines if " is located " in line), "")
    return ", ".join(filter(None, ("memory outside of its tensors is touched", error, access, where)))


_PLAIN = ("time", "numpy", "numpy.linalg", "torch", "torch.nn.functional", "torch.linalg", "torch.cuda", "tensorflow")
"""Modules whose functions are watched …"""


_WHOLE = ("deep_bench.check", "deep_bench.measure", "deep_bench.operators", "deep_bench.reference", "deep_bench.framework")
"""… and packages all of whose modules are, methods included."""


_CLOCKS = (
    *("clock_gettime", "clock_gettime_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"),
    *("process_time_ns", "sleep", "thread_time", "thread_time_ns", "time", "time_ns"),
)

Key = tuple[str, str, str]
"""The module, the class or ``""``, and the name."""


@dataclass(frozen=True, eq=False)
class Originals:
    """The functions that results and times rest on, as they were.

    Example:
        >>> import time
        >>> originals = Originals.taken()
        >>> before, time.perf_counter_ns = time.perf_counter_ns, lambda: 0
        >>> originals.changed(), originals.restore(), time.perf_counter_ns is before
        (['time.perf_counter_ns'], None, True)
    """

    functions: Mapping[Key, Any] = field(repr=False)
    codes: Mapping[Key, Any] = field(repr=False)

    @classmethod
    def taken(cls) -> Originals:
        """Those of now."""
        functions = dict(_functions())
        return cls(functions, {key: code for key, f in functions.items() if (code := _code(f)) is not None})

    def extended(self) -> Originals:
        """These, and those of modules that were loaded since."""
        current = Originals.taken()
        return Originals({**current.functions, **self.functions}, {**current.codes, **self.codes})

    def changed(self) -> list[str]:
        """The names of those that are others now."""
        return [_name(key) for key in self._changes()]

    def restore(self) -> None:
        """Put them back."""
        for key in self._changes():
            module = sys.modules[key[0]]
            owner, original = (getattr(module, key[1]) if key[1] else module), self.functions[key]
            setattr(owner, key[2], original)
            function = _unwrapped(original)
            if key in self.codes and function is not None:
                function.__code__, function.__defaults__ = self.codes[key]

    def _changes(self) -> list[Key]:
        current = dict(_functions())
        return [
            key
            for key, original in self.functions.items()
            if current.get(key) is not original
            or (key in self.codes and not _same_code(_code(current[key]), self.codes[key]))
        ]


def foreign_clocks() -> list[str]:
    """Clocks of the module ``time`` that Python did not build in: they were replaced before anything could be noted.

    Example:
        >>> foreign_clocks()
        []
    """
    import time

    return [f"time.{n}" for n in _CLOCKS if hasattr(time, n) and not inspect.isbuiltin(getattr(time, n))]


def patches_check(
    operator: Operator[Any],
    case: Case | Problem,
    *,
    seed: int = 0,
    effort: Effort = "quick",
    originals: Originals | None = None,
) -> Finding:
    """Whether a kernel leaves alone what it is timed and checked with: clocks, NumPy, torch, the reference, deep_bench.

    Everything that it has replaced is put back.

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.
        originals: From before the kernel was imported; else only what it replaces in ``setup``, ``forward`` and
            ``backward`` is noticed, and clocks that were replaced before.

    Example:
        >>> import time
        >>> class Fast(Operator):
        ...     computes = "Exp"
        ...     def forward(self, x):
        ...         time.perf_counter_ns = lambda: 0
        ...         return np.exp(x)
        >>> import numpy as np
        >>> patches_check(Fast(), Case.of("Exp", (4, 5))).reason
        'it replaces time.perf_counter_ns'
    """
    problem = posed(case, seed, effort)
    truth = problem.truth()
    before = originals.extended() if originals else Originals.taken()
    try:
        finding = finding_of("patches", problem, lambda: _run(operator, problem, truth))
    finally:
        names = list(dict.fromkeys([*before.changed(), *foreign_clocks()]))
        before.restore()
    if not names:
        return finding
    remainder = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return Finding("patches", problem.name, "wrong", f"it replaces {', '.join(names[:3])}{remainder}")


def _run(operator: Operator[Any], problem: Problem, truth: Any) -> Finding:
    prepared = Prepared(operator, problem.network)
    for _ in range(3):
        prepared.answer(truth.inputs)
    if operator.differentiates:
        grads = prepared.native(problem.output_gradients(truth))
        with suppress(DeepBenchError):  # other checks say what is wrong with it
            prepared.pull_back(prepared.native(truth.inputs), grads)
    return Finding("patches", problem.name, "right")


def _functions() -> Iterator[tuple[Key, Any]]:
    for name in sorted(sys.modules):
        module = sys.modules[name]
        whole = name.startswith(_WHOLE)
        if not isinstance(module, types.ModuleType) or not (whole or name in _PLAIN):
            continue
        for attribute, value in list(vars(module).items()):
            if callable(value):
                yield (name, "", attribute), value
            if whole and inspect.isclass(value) and value.__module__ == name:
                yield from _methods(name, attribute, value)
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "Tensor"):
        yield from _methods("torch", "Tensor", torch.Tensor)


def _methods(module: str, name: str, owner: type) -> Iterator[tuple[Key, Any]]:
    for attribute, value in list(vars(owner).items()):
        if callable(value) or isinstance(value, classmethod | staticmethod | property):
            yield (module, name, attribute), value


def _unwrapped(value: Any) -> types.FunctionType | None:
    function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    return function if isinstance(function, types.FunctionType) else None


def _code(value: Any) -> tuple[Any, Any] | None:
    function = _unwrapped(value)
    return None if function is None else (function.__code__, function.__defaults__)


def _same_code(a: tuple[Any, Any] | None, b: tuple[Any, Any]) -> bool:
    return a is not None and a[0] is b[0] and a[1] is b[1]


def _name(key: Key) -> str:
    return ".".join(part for part in key if part)

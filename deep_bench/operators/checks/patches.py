"""Whether a kernel changes what it is timed and checked with."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from deep_bench.check.truth import Effort
from deep_bench.errors import DeepBenchError
from deep_bench.operators.case import Case
from deep_bench.operators.checks.finding import Finding
from deep_bench.operators.checks.prepared import Prepared, found
from deep_bench.operators.checks.problem import Problem, posed
from deep_bench.operators.operator import Operator

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
            owner, original = _owner(key), self.functions[key]
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
        finding = found("patches", problem, lambda: _run(operator, problem, truth))
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
        _pull_back(prepared, problem, truth)
    return Finding("patches", problem.name, "right")


def _pull_back(prepared: Prepared, problem: Problem, truth: Any) -> None:
    grads = prepared.native(problem.output_gradients(truth))
    try:
        prepared.pull_back(prepared.native(truth.inputs), [grads.get(name) for name in prepared.executor.results])
    except DeepBenchError:
        return  # other checks say what is wrong with it


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


def _owner(key: Key) -> Any:
    module = sys.modules[key[0]]
    return getattr(module, key[1]) if key[1] else module


def _name(key: Key) -> str:
    return ".".join(part for part in key if part)

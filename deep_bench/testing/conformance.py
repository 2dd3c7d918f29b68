"""The standard's cases on anyone's adapter, and their gradients, each so that a crash costs that case only.

An adapter has a process of its own. Gradients are compared with differences of the reference.
"""

from __future__ import annotations

import difflib
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, TypeVar, get_args

import numpy as np
import onnx

from deep_bench.errors import DeepBenchError, InvalidArgument
from deep_bench.fault import exposures
from deep_bench.graph import Network
from deep_bench.testing.case import KINDS, Case, freeze, standard_cases
from deep_bench.testing.generated import generated_cases
from deep_bench.testing.gradients import GradientOutcome, GradientWord, gradient_outcome
from deep_bench.testing.standard import FORMS, Outcome, Word, run_case
from deep_bench.variant import Variant
from deep_bench.workers.process import Worker

Answer = TypeVar("Answer")
Progress = Callable[[int, int, str], None]
_START_S = 120.0
_KEEP_EVERY_S = 5.0


def error_with_traceback(failure: DeepBenchError) -> str:
    """What an error of a worker says, with the traceback in the worker."""
    return f"{failure.came}\n{getattr(failure, 'details', '')}".strip()


def check_cases(cases: Sequence[Case], operators: Sequence[str], names: Sequence[str]) -> None:
    """Refuse operators that no case contains, and names that no case has.

    Raises:
        InvalidArgument: One of them, with the nearest that there is.
    """
    available = {"operator": {o for case in cases for o in case.operators}, "case": {case.name for case in cases}}
    for kind, requested in (("operator", operators), ("case", names)):
        for name in requested:
            if name not in available[kind]:
                near = difflib.get_close_matches(name, available[kind], n=1)
                advice = f"did you mean {near[0]!r}?" if near else "docs/coverage.md lists the operators"
                raise InvalidArgument(f"no case of these kinds has the {kind} {name!r}", f"one of their {kind}s", advice)


def run_cases(
    subject: str,
    system: str,
    cases: Sequence[Case],
    run: Callable[[Worker, Case, Mapping[str, str]], Answer],
    *,
    limit_s: float,
    progress: Progress | None = None,
    keep: Callable[[dict[str, str], list[Answer]], None] | None = None,
) -> tuple[dict[str, str], list[Answer], bool]:
    """Run cases one after the other, and keep what is done when interrupted.

    Args:
        subject: Import path of the class that holds the adapter; its ``describe`` gives ``facts`` and ``known`` failures.
        system: The adapter with its options, as written on the command line.
        cases: In the order to run them.
        run: Runs one, given the adapter's known failures.
        limit_s: The most seconds a call may take.
        progress: Told how many cases are done, of how many, and the next one's name.
        keep: Given every few seconds what the adapter says of itself and the results until then, to be written down.

    Returns:
        What the adapter says of itself, the results, and whether it was interrupted.
    """
    folder = Path(tempfile.mkdtemp(prefix="deep-bench-"))
    process = Worker(
        subject,
        {"system": system},
        label=system,
        log=folder / "log",
        limit_s=limit_s,
        start_limit_s=max(limit_s, _START_S),
        lasting=True,
    )
    results: list[Answer] = []
    interrupted, kept_at = False, monotonic()
    try:
        description = process.call("describe")  # if the adapter cannot be made, the folder stays: its log is there
        for number, case in enumerate(cases):
            if progress is not None:
                progress(number, len(cases), case.name)
            results.append(run(process, case, description["known"]))
            if keep is not None and monotonic() - kept_at > _KEEP_EVERY_S:
                keep(description["facts"], results)
                kept_at = monotonic()
    except KeyboardInterrupt:
        interrupted = True
        if not results:
            shutil.rmtree(folder)
            raise
    finally:
        process.close()
    shutil.rmtree(folder)
    return description["facts"], results, interrupted


WORDS: tuple[Word, ...] = get_args(Word)
GENERATED = "generated"
BAD: frozenset[Word] = frozenset({"wrong", "failed", "undecided"})
"""The words that are no surprise only where the adapter lists the case."""


_LONGEST_S = 86_400
SUBJECT = "deep_bench.testing.conformance:AdapterUnderTest"
"""The import path of what holds an adapter in a process of its own."""


class OfOperators(Protocol):
    """The result of a case that contains some operators."""

    @property
    def operators(self) -> tuple[str, ...]:
        """The distinct operators in the case's outermost graph."""
        ...


R = TypeVar("R", bound=OfOperators)


@dataclass(frozen=True)
class ConformanceResult:
    """What came of one case.

    Args:
        name: The case.
        kind: Its kind.
        operators: The distinct operators in its outermost graph.
        outcome: How the adapter did.
        known: The reason, if the adapter lists this case among its known failures; for a generated case, the known faults
            that its network may meet.
    """

    name: str
    kind: str
    operators: tuple[str, ...]
    outcome: Outcome
    known: str = ""

    @property
    def word(self) -> Word:
        """How it ended."""
        return self.outcome.word

    @property
    def is_surprise(self) -> bool:
        """Whether it is wrong or failed without being a known failure, or is one of the standard's cases and passed."""
        bad = self.word in BAD
        return bad != bool(self.known) and (bad or self.kind != GENERATED)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        form = self.outcome.form if self.word == "passed" else None
        return {
            "case": self.name,
            "kind": self.kind,
            "operators": list(self.operators),
            "word": self.word,
            "form": form,
            "forms": dict(self.outcome.forms),
            "detail": self.outcome.detail,
            "known": self.known,
        }


@dataclass(frozen=True)
class Conformance:
    """How an adapter did on the standard's cases.

    Args:
        system: The adapter with its options, as written on the command line.
        facts: What the adapter says of itself.
        frozen: Whether every input but the first was an initializer.
        results: One per case.
        interrupted: Whether it was ended before all cases were run.
    """

    system: str
    facts: Mapping[str, str]
    frozen: bool
    results: Sequence[ConformanceResult]
    interrupted: bool = False

    @property
    def words(self) -> Counter[str]:
        """How many cases ended in each way."""
        return Counter(r.word for r in self.results)

    @property
    def passed_by_form(self) -> Counter[str]:
        """How many of the passed cases were run in each form."""
        return Counter(r.outcome.form for r in self.results if r.word == "passed")

    @property
    def surprises(self) -> list[ConformanceResult]:
        """Cases wrong or failed that are no known failures, and known failures that passed."""
        return [r for r in self.results if r.is_surprise]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong or failed that the adapter does not list, and nothing listed passes."""
        return not self.surprises

    def by_operator(self) -> dict[str, list[ConformanceResult]]:
        """Operator to the cases whose outermost graph contains it."""
        return by_operator(self.results)

    def as_json(self) -> dict[str, Any]:
        """Plain data, with every case."""
        return {
            "system": self.system,
            "facts": dict(self.facts),
            "onnx": onnx.__version__,
            "frozen": self.frozen,
            "interrupted": self.interrupted,
            "words": {word: self.words[word] for word in WORDS},
            "passed": {form: self.passed_by_form[form] for form in FORMS},
            "cases": [r.as_json() for r in self.results],
        }


def by_operator(results: Iterable[R]) -> dict[str, list[R]]:
    """Operator to the results of the cases whose outermost graph contains it, in alphabetical order."""
    groups: dict[str, list[R]] = {}
    for result in results:
        for operator in result.operators:
            groups.setdefault(operator, []).append(result)
    return dict(sorted(groups.items()))


class AdapterUnderTest:
    """An adapter in a process of its own.

    Args:
        system: The adapter with its options, as written on the command line.
    """

    def __init__(self, system: str) -> None:
        self._adapter = Variant.parse(system).create()

    def describe(self) -> dict[str, Any]:
        """What the adapter says of itself, and its known failures."""
        facts = {str(name): str(fact) for name, fact in self._adapter.describe().items()}
        return {"facts": facts, "known": dict(self._adapter.known_failures)}

    def exposed(self, case: Case) -> str:
        """The adapter's known faults that a case's network may meet."""
        matches = exposures(Network.from_proto(case.proto, name=case.name), self._adapter.known_faults)
        return "; ".join(exposure.reason for exposure in matches)

    def run(self, case: Case) -> Outcome:
        """Run one case."""
        return run_case(self._adapter, case)

    def gradients(self, case: Case) -> GradientOutcome | None:
        """The gradients of one case; ``None`` if it has none."""
        return gradient_outcome(self._adapter, case)


def _exposed(process: Worker, case: Case) -> str:
    """The known faults that a case may meet; none where the adapter cannot be made again after a crash."""
    try:
        return str(process.call("exposed", case))
    except DeepBenchError:
        return ""


def _conformance_outcome(process: Worker, case: Case) -> Outcome:
    try:
        outcome: Outcome = process.call("run", case)
    except DeepBenchError as failure:  # whatever an adapter does, it costs this case only
        return Outcome(case.name, "failed", error_with_traceback(failure))
    return outcome


def run_conformance(
    system: str,
    *,
    kinds: Iterable[str] = KINDS,
    frozen: bool = False,
    only: Callable[[Case], bool] | None = None,
    limit_s: float = 60,
    progress: Callable[[int, int, str], None] | None = None,
    keep: Callable[[Conformance], None] | None = None,
) -> Conformance:
    """Run the standard's cases on an adapter, in a process of its own that is started anew after a crash.

    Args:
        system: The adapter with its options: ``"torch"``, ``"onnxruntime:optimize=off"``, or an import path,
            ``"my_package.adapter:MyAdapter"``.
        kinds: Some of `KINDS`, and ``"generated"`` for deep_bench's own.
        frozen: Turn every input but the first into an initializer, as real networks have them.
        only: Which cases to run.
        limit_s: The most seconds a case may take.
        progress: Told how many cases are done, of how many, and the next one's name.
        keep: Given every few seconds what was found until then, marked as interrupted.

    Raises:
        InvalidArgument: An unknown kind, no case at all, or a limit out of range.
        UnknownName: No such framework.
        FrameworkMissing: It is not installed.

    Example:
        >>> found = run_conformance("reference", kinds=["simple"], only=lambda case: "Sign" in case.operators)
        >>> dict(found.words), dict(found.passed_by_form), found.ok
        ({'passed': 1}, {'native': 1}, True)
    """
    chosen = chosen_cases(system, tuple(kinds), only, limit_s)

    def run(process: Worker, case: Case, known_faults: Mapping[str, str]) -> ConformanceResult:
        return _conformance_result(process, freeze(case) if frozen else case, known_faults)

    def outcome(facts: Mapping[str, str], results: Sequence[ConformanceResult], interrupted: bool = True) -> Conformance:
        return Conformance(system, facts, frozen, list(results), interrupted)

    keeper = None if keep is None else lambda facts, results: keep(outcome(facts, results))
    return outcome(*run_cases(SUBJECT, system, chosen, run, limit_s=limit_s, progress=progress, keep=keeper))


def _conformance_result(process: Worker, case: Case, listed: Mapping[str, str]) -> ConformanceResult:
    outcome = _conformance_outcome(process, case)
    fault = listed.get(case.name, "")
    if case.kind == GENERATED and outcome.word in BAD:
        fault = _exposed(process, case)
    return ConformanceResult(case.name, case.kind, case.operators, outcome, fault)


def chosen_cases(system: str, kinds: Sequence[str], only: Callable[[Case], bool] | None, limit_s: float) -> list[Case]:
    """The cases to run, after all that was asked for was checked."""
    if not isinstance(system, str):
        raise InvalidArgument(f"a system of type {type(system).__name__}", "its name, such as 'torch:threads=1'")
    Variant.parse(system)
    if not 0 < limit_s <= _LONGEST_S:
        raise InvalidArgument(f"a limit of {limit_s} s", f"more than 0 and at most {_LONGEST_S:,} s")
    unknown = sorted(set(kinds) - {*KINDS, GENERATED})
    if unknown:
        raise InvalidArgument(f"kind {unknown[0]!r}", f"some of {', '.join((*KINDS, GENERATED))}")
    chosen = [case for kind in dict.fromkeys(kinds) for case in _cases(kind) if only is None or only(case)]
    if not chosen:
        raise InvalidArgument("no case is left to run", "at least one kind, and cases in it that were asked for")
    return chosen


def _cases(kind: str) -> Sequence[Case]:
    return generated_cases() if kind == GENERATED else standard_cases(kind)


GRADIENT_WORDS: tuple[GradientWord, ...] = get_args(GradientWord)
GRADIENT_BAD: frozenset[GradientWord] = frozenset({"wrong", "failed"})
_WIDE = (np.float32, np.float64)


@dataclass(frozen=True)
class GradientResult:
    """What came of the gradients of one case.

    Args:
        kind: The case's kind.
        operators: The distinct operators in its outermost graph.
        outcome: How the adapter did.
        known: The reason, if the adapter lists this case among its known failures.
    """

    kind: str
    operators: tuple[str, ...]
    outcome: GradientOutcome
    known: str = ""

    @property
    def name(self) -> str:
        """The case."""
        return self.outcome.case

    @property
    def word(self) -> GradientWord:
        """How it ended."""
        return self.outcome.word

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": self.kind, "operators": list(self.operators), **asdict(self.outcome), "known": self.known}


@dataclass(frozen=True)
class GradientConformance:
    """How the gradients of an adapter came out.

    Args:
        system: The adapter with its options, as written on the command line.
        facts: What the adapter says of itself.
        results: One for each case.
        interrupted: Whether it was ended before all cases were run.
    """

    system: str
    facts: Mapping[str, str]
    results: Sequence[GradientResult]
    interrupted: bool = False

    @property
    def words(self) -> Counter[str]:
        """How many cases ended in each way."""
        return Counter(r.word for r in self.results)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong or failed but what the adapter lists."""
        return all(r.known for r in self.results if r.word in GRADIENT_BAD)

    def by_operator(self) -> dict[str, list[GradientResult]]:
        """Operator to the cases whose outermost graph contains it."""
        return by_operator(self.results)

    def as_json(self) -> dict[str, Any]:
        """Plain data, with every case."""
        return {
            "system": self.system,
            "facts": dict(self.facts),
            "onnx": onnx.__version__,
            "gradients": True,
            "interrupted": self.interrupted,
            "words": {word: self.words[word] for word in GRADIENT_WORDS},
            "cases": [r.as_json() for r in self.results],
        }


def has_gradient(case: Case) -> bool:
    """Whether a case counts: with an input and an output in float32 or float64, and not written out in other operators.

    The standard has most composite operators twice, the second time by the body that defines them.
    """
    plain = "_expanded" not in case.name
    return plain and all(any(getattr(a, "dtype", None) in _WIDE for a in arrays) for arrays in (case.inputs, case.outputs))


def run_gradients(
    system: str,
    *,
    kinds: Iterable[str] = ("node",),
    only: Callable[[Case], bool] | None = None,
    limit_s: float = 60,
    progress: Callable[[int, int, str], None] | None = None,
    keep: Callable[[GradientConformance], None] | None = None,
) -> GradientConformance:
    """Ask an adapter for the gradients of the standard's cases, in a process of its own that is started anew after a crash.

    Args:
        system: The adapter with its options: ``"torch"``, or an import path, ``"my_package.adapter:MyAdapter"``.
        kinds: Some of `KINDS`, and ``"generated"`` for deep_bench's own.
        only: Which cases to run, of those that count (`has_gradient`).
        limit_s: The most seconds a case may take.
        progress: Told how many cases are done, of how many, and the next one's name.
        keep: Given every few seconds what was found until then, marked as interrupted.

    Raises:
        InvalidArgument: An unknown kind, no case at all, or a limit out of range.
        UnknownName: No such framework.
        FrameworkMissing: It is not installed.

    Example:
        >>> found = run_gradients("reference", only=lambda case: "Tanh" in case.operators)
        >>> dict(found.words), found.ok
        ({'right': 2}, True)
    """

    def is_selected(case: Case) -> bool:
        return (case.kind == GENERATED or has_gradient(case)) and (only is None or only(case))

    chosen = chosen_cases(system, tuple(kinds), is_selected, limit_s)

    def outcome(
        facts: Mapping[str, str], results: Sequence[GradientResult | None], interrupted: bool = True
    ) -> GradientConformance:
        return GradientConformance(system, facts, [r for r in results if r is not None], interrupted)

    keeper = None if keep is None else lambda facts, results: keep(outcome(facts, results))
    return outcome(*run_cases(SUBJECT, system, chosen, _gradient_result, limit_s=limit_s, progress=progress, keep=keeper))


def _gradient_result(process: Worker, case: Case, known_faults: Mapping[str, str]) -> GradientResult | None:
    outcome = _gradient_outcome(process, case)
    return None if outcome is None else GradientResult(case.kind, case.operators, outcome, known_faults.get(case.name, ""))


def _gradient_outcome(process: Worker, case: Case) -> GradientOutcome | None:
    try:
        outcome: GradientOutcome | None = process.call("gradients", case)
    except DeepBenchError as failure:  # whatever an adapter does, it costs this case only
        return GradientOutcome(case.name, "failed", error_with_traceback(failure))
    return outcome

"""The standard's cases on anyone's adapter, each so that a crash costs that case only; and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, get_args

import onnx

from deep_bench.errors import DeepBenchError, InvalidArgument
from deep_bench.fault import exposures
from deep_bench.graph import Network
from deep_bench.testing.case import KINDS, Case, freeze, standard_cases
from deep_bench.testing.generated import generated_cases
from deep_bench.testing.gradients import GradientOutcome, gradient_outcome
from deep_bench.testing.process import CaseProcess, run_cases, said_by
from deep_bench.testing.standard import FORMS, Outcome, Word, run_case
from deep_bench.variant import Variant

WORDS: tuple[Word, ...] = get_args(Word)
GENERATED = "generated"
BAD: frozenset[Word] = frozenset({"wrong", "failed", "undecided"})
"""The words that are no surprise only where the adapter lists the case."""

_LONGEST_S = 86_400
SUBJECT = f"{__name__}:Subject"
"""The import path of what holds an adapter in a process of its own."""


class OfOperators(Protocol):
    """The result of a case that contains some operators."""

    @property
    def operators(self) -> tuple[str, ...]:
        """The distinct operators in the case's outermost graph."""
        ...


R = TypeVar("R", bound=OfOperators)


@dataclass(frozen=True)
class CaseResult:
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
    results: Sequence[CaseResult]
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
    def surprises(self) -> list[CaseResult]:
        """Cases wrong or failed that are no known failures, and known failures that passed."""
        return [r for r in self.results if r.is_surprise]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong or failed that the adapter does not list, and nothing listed passes."""
        return not self.surprises

    def by_operator(self) -> dict[str, list[CaseResult]]:
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


class Subject:
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


def _exposed(process: CaseProcess, case: Case) -> str:
    """The known faults that a case may meet; none where the adapter cannot be made again after a crash."""
    try:
        return str(process.call("exposed", case))
    except DeepBenchError:
        return ""


def _outcome(process: CaseProcess, case: Case) -> Outcome:
    try:
        outcome: Outcome = process.call("run", case)
    except DeepBenchError as failure:  # whatever an adapter does, it costs this case only
        return Outcome(case.name, "failed", said_by(failure))
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

    def run(process: CaseProcess, case: Case, known_faults: Mapping[str, str]) -> CaseResult:
        return _result(process, freeze(case) if frozen else case, known_faults)

    def outcome(facts: Mapping[str, str], results: Sequence[CaseResult], interrupted: bool = True) -> Conformance:
        return Conformance(system, facts, frozen, list(results), interrupted)

    keeper = None if keep is None else lambda facts, results: keep(outcome(facts, results))
    return outcome(*run_cases(SUBJECT, system, chosen, run, limit_s=limit_s, progress=progress, keep=keeper))


def _result(process: CaseProcess, case: Case, listed: Mapping[str, str]) -> CaseResult:
    outcome = _outcome(process, case)
    fault = listed.get(case.name, "")
    if case.kind == GENERATED and outcome.word in BAD:
        fault = _exposed(process, case)
    return CaseResult(case.name, case.kind, case.operators, outcome, fault)


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

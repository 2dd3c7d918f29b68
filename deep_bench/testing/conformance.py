"""The standard's cases on anyone's adapter, each so that a crash costs that case only; and what came of it."""

from __future__ import annotations

import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import onnx

from deep_bench.errors import InvalidArgument, WorkerDied
from deep_bench.fault import exposures
from deep_bench.graph import Network
from deep_bench.measure.workers import Worker
from deep_bench.testing.case import KINDS, Case, freeze, standard_cases
from deep_bench.testing.generated import generated_cases
from deep_bench.testing.standard import FORMS, Outcome, Word, run_case
from deep_bench.variant import Variant

WORDS: tuple[Word, ...] = get_args(Word)
GENERATED = "generated"
_SYSTEM = f"{__name__}:Subject"


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
        bad = self.word in ("wrong", "failed")
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
    """

    system: str
    facts: Mapping[str, str]
    frozen: bool
    results: Sequence[CaseResult]

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
        found: dict[str, list[CaseResult]] = {}
        for result in self.results:
            for operator in result.operators:
                found.setdefault(operator, []).append(result)
        return dict(sorted(found.items()))

    def as_json(self) -> dict[str, Any]:
        """Plain data, with every case."""
        return {
            "system": self.system,
            "facts": dict(self.facts),
            "onnx": onnx.__version__,
            "frozen": self.frozen,
            "words": {word: self.words[word] for word in WORDS},
            "passed": {form: self.passed_by_form[form] for form in FORMS},
            "cases": [r.as_json() for r in self.results],
        }


class Subject:
    """An adapter in a process of its own.

    Args:
        system: The adapter with its options, as written on the command line.
        limit_s: The most seconds a case may take; then the process ends.
    """

    def __init__(self, system: str, limit_s: int) -> None:
        self._adapter = Variant.parse(system).create()
        self._limit_s = limit_s
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process even inside a framework's native code

    def describe(self) -> dict[str, Any]:
        """What the adapter says of itself, and its known failures."""
        return {"facts": dict(self._adapter.describe()), "known": dict(self._adapter.known_failures)}

    def exposed(self, case: Case) -> str:
        """The adapter's known faults that a case's network may meet."""
        found = exposures(Network.from_proto(case.proto, name=case.name), self._adapter.known_faults)
        return "; ".join(exposure.reason for exposure in found)

    def run(self, case: Case) -> Outcome:
        """Run one case."""
        signal.alarm(self._limit_s)
        try:
            return run_case(self._adapter, case)
        finally:
            signal.alarm(0)


class _Process:
    """A worker with the adapter, started anew after a crash."""

    def __init__(self, system: str, limit_s: int, log: Path) -> None:
        self._system, self._limit_s, self._log = system, limit_s, log
        self._worker: Worker | None = None

    @property
    def worker(self) -> Worker:
        if self._worker is None:
            settings = {"system": self._system, "limit_s": self._limit_s}
            self._worker = Worker(_SYSTEM, settings, label=self._system, log=self._log)
        return self._worker

    def run(self, case: Case) -> Outcome:
        worker = self.worker
        try:
            outcome: Outcome = worker.call("run", case)
        except WorkerDied as death:
            self.close()
            return Outcome(case.name, "failed", self._reason(death))
        return outcome

    def _reason(self, death: WorkerDied) -> str:
        late = signal.Signals.SIGALRM.name in death.came
        return f"took more than {self._limit_s} s" if late else death.came

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def run_conformance(
    system: str,
    *,
    kinds: Iterable[str] = KINDS,
    frozen: bool = False,
    only: Callable[[Case], bool] | None = None,
    limit_s: int = 60,
    progress: Callable[[int, int, str], None] | None = None,
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

    Raises:
        InvalidArgument: An unknown kind.
        UnknownName: No such framework.
        FrameworkMissing: It is not installed.

    Example:
        >>> found = run_conformance("reference", kinds=["simple"], only=lambda case: "Sign" in case.operators)
        >>> dict(found.words), dict(found.passed_by_form), found.ok
        ({'passed': 1}, {'native': 1}, True)
    """
    unknown = sorted(set(kinds) - {*KINDS, GENERATED})
    if unknown:
        raise InvalidArgument(f"kind {unknown[0]!r}", f"some of {', '.join((*KINDS, GENERATED))}")
    Variant.parse(system)
    chosen = [case for kind in dict.fromkeys(kinds) for case in _cases(kind) if only is None or only(case)]
    with tempfile.TemporaryDirectory() as folder:
        process = _Process(system, limit_s, Path(folder) / "log")
        try:
            said = process.worker.call("describe")
            results = []
            for number, case in enumerate(chosen):
                if progress is not None:
                    progress(number, len(chosen), case.name)
                outcome = process.run(freeze(case) if frozen else case)
                known = said["known"].get(case.name, "")
                if case.kind == GENERATED and outcome.word in ("wrong", "failed"):
                    known = process.worker.call("exposed", case)
                results.append(CaseResult(case.name, case.kind, case.operators, outcome, known))
        finally:
            process.close()
    return Conformance(system, said["facts"], frozen, results)


def _cases(kind: str) -> Sequence[Case]:
    return generated_cases() if kind == GENERATED else standard_cases(kind)

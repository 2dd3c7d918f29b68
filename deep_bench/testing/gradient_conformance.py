"""The gradients of the standard's cases on anyone's adapter, compared with differences of the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np
import onnx

from deep_bench.errors import DeepBenchError
from deep_bench.testing.case import Case
from deep_bench.testing.conformance import GENERATED, SUBJECT, by_operator, chosen_cases
from deep_bench.testing.gradients import GradientOutcome, GradientWord
from deep_bench.testing.process import CaseProcess, run_cases, said_by

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
    return outcome(*run_cases(SUBJECT, system, chosen, _result, limit_s=limit_s, progress=progress, keep=keeper))


def _result(process: CaseProcess, case: Case, known_faults: Mapping[str, str]) -> GradientResult | None:
    outcome = _outcome(process, case)
    return None if outcome is None else GradientResult(case.kind, case.operators, outcome, known_faults.get(case.name, ""))


def _outcome(process: CaseProcess, case: Case) -> GradientOutcome | None:
    try:
        outcome: GradientOutcome | None = process.call("gradients", case)
    except DeepBenchError as failure:  # whatever an adapter does, it costs this case only
        return GradientOutcome(case.name, "failed", said_by(failure))
    return outcome

"""The verdict: how many results are right, and which are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from deep_bench.results.report.model import Block, Lines, Sign, Text, clean
from deep_bench.results.report.naming import system_of
from deep_bench.results.report.signs import MARKS
from deep_bench.results.result import Result
from deep_bench.results.table import problem

_LISTED = 30
_WORTH = ("failed", "wrong", "reduced precision", "cannot tell", "no information")
"""Outcomes that need a reason, the worst first."""

_MEANINGS = {
    "right": "nothing but rounding tells the result from that of the reference",
    "reduced precision": "computed less precisely than the data type allows",
    "wrong": "no rounding explains the difference: the times of these mean nothing",
    "cannot tell": "neither right nor wrong could be shown",
    "no information": "the rounding error reaches the result itself, so nothing can be checked",
    "failed": "ended with an error",
    "unchecked": "nothing was checked, so the times stand without a verdict",
}


def counts(results: Sequence[Result]) -> dict[str, int]:
    """Outcome to how many results have it, those that are known first and in their order."""
    by_outcome = Counter(result.outcome for result in results)
    return {
        word: by_outcome[word] for word in (*MARKS, *(word for word in by_outcome if word not in MARKS)) if by_outcome[word]
    }


def sentence(results: Sequence[Result]) -> str:
    """The verdict in one sentence.

    Example:
        >>> sentence([])
        'No results.'
    """
    by_outcome = counts(results)
    if not by_outcome:
        return "No results."
    total = len(results)
    bad = by_outcome.get("wrong", 0) + by_outcome.get("failed", 0)
    if set(by_outcome) == {"right"}:
        return (
            ("", "The result is right.", "Both results are right.")[total]
            if total < 3
            else f"All {total} results are right."
        )
    if bad:
        return f"{bad} of {total} result{'s' * (total != 1)} {'is' if bad == 1 else 'are'} wrong or failed."
    if set(by_outcome) == {"unchecked"}:
        if all(result.kind == "scaling" for result in results):
            return "These are predictions from traces of few ranks and measured steps of one."
        return "Nothing was checked: these are times and scores without a verdict on the numbers that were computed."
    right = by_outcome.get("right", 0)
    return f"Nothing was found wrong; {right} of {total} results {'is' if right == 1 else 'are'} right."


def blocks(results: Sequence[Result]) -> tuple[Block, ...]:
    """The counts with their signs, how many runs reached their target, and the results that are not right and why."""
    lines = tuple((Sign(word), f"{count}; {_MEANINGS.get(word, 'a word that this version does not know')}")
                  for word, count in counts(results).items())  # fmt: skip
    parts: list[Block] = [Lines(lines)]
    if reached := [line for result in results if (line := _reached(result))]:
        parts.append(Lines(tuple(reached[:_LISTED])))
    if unfinished := sum(not result.complete for result in results):
        parts.append(Text(f"{unfinished} of the results are of runs that did not come to their end."))
    doubtful = sorted((r for r in results if r.outcome in _WORTH), key=lambda r: _WORTH.index(r.outcome))
    if doubtful:
        extra = len(doubtful) - _LISTED
        shown: list[str | tuple[Sign, str]] = [_line(result) for result in doubtful[:_LISTED]]
        if extra > 0:
            shown.append(f"and {extra} more, which the tables have")
        parts.append(Lines(tuple(shown)))
    return tuple(parts)


def _reached(result: Result) -> str:
    """How many runs reached what they were to reach; empty where there was no such thing."""
    figure = result.figures.get("time to target")
    if figure is None or not figure.launches:
        return ""
    late, total = sum(figure.censored), len(figure.launches)
    goal = clean(result.labels.get("target", "the target"), 120)
    return f"{clean(system_of(result))} on {clean(problem(result))}: {total - late} of {total} runs reached {goal}"


def _line(result: Result) -> tuple[Sign, str]:
    return Sign(result.outcome), f"{clean(system_of(result))} on {clean(problem(result))}: {reason(result)}"


def reason(result: Result) -> str:
    """Why the outcome is what it is."""
    if result.errors:
        first = result.errors[0]
        suffix = f" (and {len(result.errors) - 1} more errors)" if len(result.errors) > 1 else ""
        return f"{clean(first.kind)}: {clean(first.message, 300)}{suffix}"
    return clean(result.verdict.reason, 400) if result.verdict is not None else "nothing was checked"

"""When a comparison should fail: conditions as a command line has them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from deep_bench.errors import Incomparable, InvalidArgument
from deep_bench.results.comparing.comparison import Comparison
from deep_bench.results.comparing.comparisons import Comparisons
from deep_bench.results.comparing.facts import OWNED
from deep_bench.results.comparing.names import some
from deep_bench.results.comparing.notes import same_record
from deep_bench.results.comparing.pairing import RECORD
from deep_bench.results.comparing.starts import ONCE, is_speed

_FORM = re.compile(r"(slower|worse)(?::(\d+\.?\d*|\.\d+)\s*%)?|wrong|cannot-tell|unpaired")
_EXPECTED = "slower, slower:5%, worse, worse:5%, wrong, cannot-tell or unpaired"

MEANT = frozenset({RECORD, "commit", "version", "deep-bench", *OWNED})
"""Factors that a gate takes although nobody named them: when it was measured, and versions of what is measured."""


@dataclass(frozen=True)
class Condition:
    """What should not be.

    Args:
        word: ``"slower"`` (times and rates), ``"worse"`` (these and all else), ``"wrong"``, ``"cannot-tell"``, or
            ``"unpaired"`` (a result of the first side has no counterpart).
        share: For the first two, by how much at least: the better end of the interval is beyond it.

    Example:
        >>> Condition.parse("slower:5%")
        Condition(word='slower', share=0.05)
    """

    word: str
    share: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read one.

        Raises:
            InvalidArgument: It is none.
        """
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise InvalidArgument(f"the condition {text!r}", _EXPECTED)
        return cls(match[1] or text.strip(), float(match[2]) / 100 if match[2] else 0.0)

    def __str__(self) -> str:
        return f"{self.word}:{100 * self.share:g}%" if self.share else self.word


def failures(found: Comparisons, conditions: Sequence[Condition]) -> list[str]:
    """Why the comparison fails; empty if it does not.

    *Slower by 5 %* holds where the word is *slower*, all comparisons considered, and even the better end of the interval is
    beyond 5 %. What is not sure never fails, unless ``cannot-tell`` asks for it.

    Conditions that these sides are too few to judge are told by `unjudged`.

    Raises:
        Incomparable: The sides differ in something else than `MEANT`, such as the machine, that was not named as the factor.
        InvalidArgument: A share below the margin: such a change is called *no difference*.
    """
    if conditions:
        _refuse_unasked(found)
    lines = []
    for condition in conditions:
        if 0 < condition.share < found.margin:
            raise InvalidArgument(
                f"{condition} with a margin of {100 * found.margin:g} %, below which nothing is called {condition.word}",
                advice=f"give a margin of at most {condition.share:g}",
            )
        lines += [f"{condition}: {line}" for line in _met(found, condition)]
    return lines


def unjudged(found: Comparisons, conditions: Sequence[Condition]) -> list[str]:
    """The conditions that could not have been met, whatever changed, with what to do; empty where all were judged.

    So it is where nothing that a condition is about was tested, or not all but what a start has one value of; where both
    sides are the same record; and between single launches measured apart, where nothing under `BETWEEN_STARTS` is called
    slower.
    """
    lines = []
    for condition in conditions:
        lines += [f"cannot judge {condition}: {reason}" for reason in _untested(found, condition)]
        if same_record(found):
            continue
        unresolved = [
            comparison
            for comparison in found
            if _concerns(condition, comparison) and comparison.leaves_open(condition.share)
        ]
        if unresolved:
            least = replace(condition, share=max(comparison.estimate.starts for comparison in unresolved))
            lines.append(
                f"cannot judge {condition}: {some([comparison.row for comparison in unresolved])}: a side "
                "has one launch, and two starts of a "
                f"program may differ by {100 * least.share:g} %; measure each side in 4 launches or more (launches: 4 in a "
                f"recipe, --launches 4, or so many records), or ask for {least}"
            )
    return lines


def _untested(comparisons: Comparisons, condition: Condition) -> Iterator[str]:
    """Why some or all that a condition is about was not tested."""
    if condition.word not in ("slower", "worse", "cannot-tell"):
        return
    about = [comparison for comparison in comparisons if condition.word == "cannot-tell" or _concerns(condition, comparison)]
    if not about:
        yield f"both sides have no {'time or rate' if condition.word == 'slower' else 'figure'} in common"
    elif same_record(comparisons):
        yield "both sides are the same record; name two measurements"
    elif not any(comparison.tested for comparison in about):
        whys = dict.fromkeys(comparison.why for comparison in about)
        yield f"nothing was tested: {some([comparison.row for comparison in about])}: {some(list(whys))}"
    elif skipped := [comparison for comparison in about if comparison.untested and comparison.metric not in ONCE]:
        whys = dict.fromkeys(comparison.estimate.why for comparison in skipped)
        yield (
            f"not tested: {some([comparison.row for comparison in skipped])}: {some(list(whys))}; or "
            "leave them out (--metric)"
        )


def _concerns(condition: Condition, comparison: Comparison) -> bool:
    return condition.word == "worse" or (condition.word == "slower" and is_speed(comparison.unit))


def _refuse_unasked(comparisons: Comparisons) -> None:
    """See that the factor is one that a gate can mean."""
    pairing = comparisons.pairings[0]
    if not pairing.asked and pairing.factor not in MEANT:
        raise Incomparable(
            f"a condition to fail on, and sides that differ in {pairing.factor!r}, which is not named as the factor",
            {pairing.factor: pairing.values},
            f"measure again with it alike; or, if that is what is compared: --factor {shlex.quote(pairing.factor)}",
        )


def _met(comparisons: Comparisons, condition: Condition) -> list[str]:
    if condition.word == "wrong":
        return [f"{change.name} {change.before} → {change.after}".strip() for change in comparisons.changes if change.worse]
    if condition.word == "unpaired":
        return [result.name or result.file.name for result in comparisons.left[0]]
    if condition.word == "cannot-tell":
        return [comparison.row for comparison in comparisons if comparison.tested and comparison.word == "cannot tell"]
    words = ("slower",) if condition.word == "slower" else ("slower", "worse")
    return [
        comparison.row
        for comparison in comparisons
        if comparison.word in words and (not condition.share or comparison.beyond(condition.share))
    ]

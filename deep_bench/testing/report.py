"""How an adapter did on the standard's cases, and how its gradients came out, to be read in a terminal."""

from __future__ import annotations

import io
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import onnx
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.testing.case import AMENDMENTS
from deep_bench.testing.conformance import (
    BAD,
    GENERATED,
    GRADIENT_BAD,
    GRADIENT_WORDS,
    WORDS,
    Conformance,
    ConformanceResult,
    GradientConformance,
    GradientResult,
)
from deep_bench.testing.standard import FORMS

_WIDTH = 160
_NARROW = 130
_COLUMNS = ("cases", "passed", *FORMS, *(word for word in WORDS if word != "passed"))
_LONGEST = 300


def as_text(found: Conformance, *, every_operator: bool = False, width: int | None = None) -> str:
    """The counts by kind and by operator, and every case that was not passed.

    Args:
        found: The result.
        every_operator: List also the operators whose cases were all passed natively.
        width: In characters; by default the terminal's.
    """
    out = io.StringIO()
    console = console_for(out, width)
    console.print(Text(_title(found)))
    kinds = {kind: [r for r in found.results if r.kind == kind] for kind in dict.fromkeys(r.kind for r in found.results)}
    print_table = partial(_print_table, console)
    print_table("kind", [*kinds.items(), ("all", found.results)])
    operators = found.by_operator()
    shown = {name: rows for name, rows in operators.items() if every_operator or not _is_plain(rows)}
    if shown:
        print_table("operator, in cases that contain it", list(shown.items()))
    if len(shown) < len(operators):
        console.print(Text(f"{more_operators(len(operators) - len(shown))}: every case passed natively"))
    for line in _lines(found):
        console.print(Text(line))
    return out.getvalue().rstrip("\n")


def console_for(out: io.StringIO, width: int | None) -> Console:
    """Writes as for the terminal, or 160 characters wide if there is none."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    columns = width or (os.get_terminal_size().columns if terminal else _WIDTH)
    return Console(file=out, width=columns, force_terminal=terminal, highlight=False)


def _title(conformance: Conformance) -> str:
    kinds = {result.kind == GENERATED for result in conformance.results}
    sources = [
        text
        for generated, text in ((False, f"the standard's cases of onnx {onnx.__version__}"), (True, "generated cases"))
        if generated in kinds
    ]
    form = "every input but the first an initializer" if conformance.frozen else "as they are"
    ended = "; interrupted" if conformance.interrupted else ""
    return f"{conformance.system} {conformance.facts.get('version', '')}: {' and '.join(sources)}, {form}{ended}"


def _print_table(console: Console, label: str, groups: Sequence[tuple[str, Sequence[ConformanceResult]]]) -> None:
    if console.width >= _NARROW:
        console.print(_table(label, groups))
        return
    for name, results in groups:
        counts = counts_of(results)
        listed = ", ".join(f"{counts[column]:,} {column}" for column in _COLUMNS if counts[column])
        console.print(Text(f"{name}: {listed}"))


def _table(label: str, groups: Sequence[tuple[str, Sequence[ConformanceResult]]]) -> Table:
    table = Table(label, pad_edge=False)
    for column in _COLUMNS:
        table.add_column("silently wrong" if column == "wrong" else column, justify="right")
    for name, results in groups:
        counts = counts_of(results)
        cells = [Text(f"{counts[column]:,}" if counts[column] else "–") for column in _COLUMNS]
        if counts["wrong"]:
            cells[_COLUMNS.index("wrong")].stylize("bold red")
        table.add_row(name, *cells)
    return table


def counts_of(results: Iterable[ConformanceResult]) -> Counter[str]:
    """How many there are, how many ended in each way, and how many of the passed were run in each form."""
    results = list(results)
    words = Counter(r.word for r in results)
    return words + Counter(r.outcome.form for r in results if r.word == "passed") + Counter({"cases": len(results)})


def more_operators(count: int) -> str:
    """How many operators are not listed."""
    return f"{count} more operator{'' if count == 1 else 's'}"


def _is_plain(results: Iterable[ConformanceResult]) -> bool:
    return all(r.word == "passed" and r.outcome.form in ("native", "folded") for r in results)


def _lines(conformance: Conformance) -> Iterator[str]:
    """What was not passed, the worst last, where it is seen."""
    yield from reasons("refused", conformance.results, plain_refusal)
    yield from reasons("skipped", conformance.results, lambda detail: detail)
    for result in conformance.results:
        if result.word == "passed" and result.outcome.detail:
            yield f"passed by the standard's text: {result.name}: {AMENDMENTS[result.name].reason}"
    for result in sorted(conformance.results, key=lambda r: r.is_surprise):
        if result.word in BAD:
            word = "silently wrong" if result.word == "wrong" else result.word
            suffix = f"; known: {result.known}" if result.known else ""
            yield f"{word}: {result.name}: {one_line(result.outcome.detail)}{suffix}"
        elif result.is_surprise:
            yield f"passed, though listed as a known failure: {result.name}: {result.known}"
    if conformance.ok:
        bad = any(result.word in BAD for result in conformance.results)
        yield "every case that is wrong or failed is a known failure" if bad else "no case is silently wrong"


def reasons(
    word: str, results: Iterable[ConformanceResult | GradientResult], reason_of: Callable[[str], str]
) -> Iterator[str]:
    """One line for each reason why cases ended in some way, the most frequent first."""
    by_reason: dict[str, list[str]] = {}
    for result in results:
        if result.word == word:
            by_reason.setdefault(reason_of(one_line(result.outcome.detail)), []).append(result.name)
    for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        yield f"{word}, {len(names)}: {reason} ({names[0]}{', …' if len(names) > 1 else ''})"


def plain_refusal(detail: str) -> str:
    """A refusal without the node's name, so that those of one reason are one."""
    plain = re.sub(r"^node '[^']*' \((.*?), opset \S+\) cannot run here: ", r"\1: ", detail)
    return re.sub(r"network '[^']*'", "network", plain)


def one_line(detail: str) -> str:
    """A detail in one line that is not too long."""
    line = " ".join(detail.encode("utf-8", "backslashreplace").decode().split())
    if len(line) <= _LONGEST:
        return line
    last = next((text.strip() for text in reversed(detail.splitlines()) if text.strip()), "")  # a traceback ends with why
    if "\n" in detail.strip() and last and len(last) <= _LONGEST // 2:
        return f"{line[: _LONGEST - len(last)]} … {one_line(last)}"
    return f"{line[:_LONGEST]} …"


def gradients_as_text(found: GradientConformance, *, every_operator: bool = False, width: int | None = None) -> str:
    """The counts by kind and by operator, and every case that is not right.

    Args:
        found: The result.
        every_operator: List also the operators of which all cases are right.
        width: In characters; by default the terminal's.
    """
    out = io.StringIO()
    console = console_for(out, width)
    console.print(Text(_gradient_title(found)))
    kinds = {kind: [r for r in found.results if r.kind == kind] for kind in dict.fromkeys(r.kind for r in found.results)}
    console.print(_gradient_table("kind", [*kinds.items(), ("all", found.results)]))
    operators = found.by_operator()
    shown = {name: rows for name, rows in operators.items() if every_operator or any(r.word != "right" for r in rows)}
    if shown:
        console.print(_gradient_table("operator, in cases that contain it", list(shown.items())))
    if len(shown) < len(operators):
        console.print(Text(f"{more_operators(len(operators) - len(shown))}: every case right"))
    for line in _gradient_lines(found):
        console.print(Text(line))
    return out.getvalue().rstrip("\n")


def _gradient_title(conformance: GradientConformance) -> str:
    ended = "; interrupted" if conformance.interrupted else ""
    against = "against differences of the reference in float64"
    system = f"{conformance.system} {conformance.facts.get('version', '')}"
    return f"{system}: gradients of the cases of onnx {onnx.__version__}, {against}{ended}"


def _gradient_table(label: str, groups: Sequence[tuple[str, Sequence[GradientResult]]]) -> Table:
    table = Table(label, pad_edge=False)
    for column in ("cases", *GRADIENT_WORDS):
        table.add_column(column, justify="right")
    for name, results in groups:
        counts = [len(results), *(sum(r.word == word for r in results) for word in GRADIENT_WORDS)]
        table.add_row(name, *(f"{count:,}" if count else "–" for count in counts))
    return table


def _gradient_lines(conformance: GradientConformance) -> Iterator[str]:
    """What is not right, the worst last, where it is seen."""
    yield from reasons("refused", conformance.results, plain_refusal)
    for result in conformance.results:
        if result.word in GRADIENT_BAD:
            suffix = f"; known: {result.known}" if result.known else ""
            yield f"{result.word}: {result.name}: {one_line(result.outcome.detail)}{suffix}"
    if conformance.ok:
        bad = any(result.word in GRADIENT_BAD for result in conformance.results)
        yield "every case that is wrong or failed is a known failure" if bad else "no gradient is wrong"

"""How the gradients of an adapter came out, to be read in a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import onnx
from rich.table import Table
from rich.text import Text

from deep_bench.testing.gradient_conformance import GRADIENT_BAD, GRADIENT_WORDS, GradientConformance, GradientResult
from deep_bench.testing.report import console_for, more_operators, one_line, plain_refusal, reasons


def gradients_as_text(found: GradientConformance, *, every_operator: bool = False, width: int | None = None) -> str:
    """The counts by kind and by operator, and every case that is not right.

    Args:
        found: The result.
        every_operator: List also the operators of which all cases are right.
        width: In characters; by default the terminal's.
    """
    out = io.StringIO()
    console = console_for(out, width)
    console.print(Text(_title(found)))
    kinds = {kind: [r for r in found.results if r.kind == kind] for kind in dict.fromkeys(r.kind for r in found.results)}
    console.print(_table("kind", [*kinds.items(), ("all", found.results)]))
    operators = found.by_operator()
    shown = {name: rows for name, rows in operators.items() if every_operator or any(r.word != "right" for r in rows)}
    if shown:
        console.print(_table("operator, in cases that contain it", list(shown.items())))
    if len(shown) < len(operators):
        console.print(Text(f"{more_operators(len(operators) - len(shown))}: every case right"))
    for line in _lines(found):
        console.print(Text(line))
    return out.getvalue().rstrip("\n")


def _title(conformance: GradientConformance) -> str:
    ended = "; interrupted" if conformance.interrupted else ""
    against = "against differences of the reference in float64"
    system = f"{conformance.system} {conformance.facts.get('version', '')}"
    return f"{system}: gradients of the cases of onnx {onnx.__version__}, {against}{ended}"


def _table(label: str, groups: Sequence[tuple[str, Sequence[GradientResult]]]) -> Table:
    table = Table(label, pad_edge=False)
    for column in ("cases", *GRADIENT_WORDS):
        table.add_column(column, justify="right")
    for name, results in groups:
        counts = [len(results), *(sum(r.word == word for r in results) for word in GRADIENT_WORDS)]
        table.add_row(name, *(f"{count:,}" if count else "–" for count in counts))
    return table


def _lines(conformance: GradientConformance) -> Iterator[str]:
    """What is not right, the worst last, where it is seen."""
    yield from reasons("refused", conformance.results, plain_refusal)
    for result in conformance.results:
        if result.word in GRADIENT_BAD:
            suffix = f"; known: {result.known}" if result.known else ""
            yield f"{result.word}: {result.name}: {one_line(result.outcome.detail)}{suffix}"
    if conformance.ok:
        bad = any(result.word in GRADIENT_BAD for result in conformance.results)
        yield "every case that is wrong or failed is a known failure" if bad else "no gradient is wrong"

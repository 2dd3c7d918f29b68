"""A repetition as text: the verdict, why, and what differs."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator

from rich.console import Console

from deep_bench.errors import printable, shortened
from deep_bench.measure.tables import columns, print_note
from deep_bench.repeating.manifest import told
from deep_bench.repeating.repetition import Repetition

_LISTED = 10


def as_text(found: Repetition, width: int | None = None) -> str:
    """All of it."""
    out = io.StringIO()
    console = Console(file=out, width=width or columns(), highlight=False, color_system=None)
    for line in _lines(found):
        print_note(console, line)
    if found.comparisons is not None:
        print_note(console, "figures then and now; two machines, or two days, may differ in them:")
        out.write(found.comparisons.table(width) + "\n")
    return printable(out.getvalue().rstrip("\n"))


def _lines(repetition: Repetition) -> Iterator[str]:
    yield f"verdict: {repetition.verdict}"
    yield from (f"- {_short(reason)}" for reason in repetition.reasons)
    yield from _listed("not the same to the last bit", repetition.bits.differ)
    where = "a clean environment from its lock" if repetition.clean else "the environment that is here"
    yield f"run in {where}: {_short(shlex.join(repetition.command))}; exit status {repetition.status}"
    yield f"what it said: {repetition.log}"
    if repetition.status != 0 and not repetition.verdict.startswith("repeated"):
        yield from (f"| {shortened(line.rstrip(), 200)}" for line in repetition.last_lines())
    if repetition.differences:
        yield "other than then:"
        yield from (f"- {name}: {_short(a)} → {_short(b)}" for name, (a, b) in repetition.differences.items())
    else:
        yield "the environment is the same in all that is compared"
    yield from _listed("variables of the run that were not set", repetition.not_set)
    yield from _listed("variables of this machine that the clean environment was not given", repetition.dropped)
    yield from (f"not in the bundle: {_short(told(omission))}" for omission in repetition.manifest.left)
    if repetition.why:
        yield f"figures were not compared: {_short(repetition.why)}"


def _listed(heading: str, names: tuple[str, ...]) -> Iterator[str]:
    if names:
        suffix = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        yield f"{heading}: {'; '.join(_short(name) for name in names[:_LISTED])}{suffix}"


def _short(text: str) -> str:
    return shortened(" ".join(text.split()), 200)

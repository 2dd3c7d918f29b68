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


def _lines(found: Repetition) -> Iterator[str]:
    yield f"verdict: {found.verdict}"
    yield from (f"- {_short(reason)}" for reason in found.reasons)
    yield from _listed("not the same to the last bit", found.bits.differ)
    where = "a clean environment from its lock" if found.clean else "the environment that is here"
    yield f"run in {where}: {_short(shlex.join(found.command))}; exit status {found.status}"
    yield f"what it said: {found.log}"
    if found.status != 0 and not found.verdict.startswith("repeated"):
        yield from (f"| {shortened(line.rstrip(), 200)}" for line in found.last_lines())
    if found.differences:
        yield "other than then:"
        yield from (f"- {name}: {_short(a)} → {_short(b)}" for name, (a, b) in found.differences.items())
    else:
        yield "the environment is the same in all that is compared"
    yield from _listed("variables of the run that were not set", found.not_set)
    yield from _listed("variables of this machine that the clean environment was not given", found.dropped)
    yield from (f"not in the bundle: {_short(told(one))}" for one in found.manifest.left)
    if found.why:
        yield f"figures were not compared: {_short(found.why)}"


def _listed(what: str, names: tuple[str, ...]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        yield f"{what}: {'; '.join(_short(name) for name in names[:_LISTED])}{more}"


def _short(text: str) -> str:
    return shortened(" ".join(text.split()), 200)

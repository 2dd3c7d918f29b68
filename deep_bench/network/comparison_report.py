"""A comparison of systems as text and as JSON."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.measure.units import duration, duration_range, significant

if TYPE_CHECKING:
    from deep_bench.network.comparison import ComparedSystem, NetworkComparison
    from deep_bench.network.differences import Difference

_SYSTEMS = ("system", "what it is", "verdict", "by its", "bits", "median (95 % interval)")
_PAIRS = (
    "output",
    "system",
    "base",
    "differs by",
    "bits",
    "L1",
    "L2",
    "max",
    "L1 rel",
    "L2 rel",
    "max rel",
    "max ulp",
    "mismatches",
    "not finite",
)
_OBJECTIONS = 5
"""How many are shown."""


def as_text(found: NetworkComparison, width: int) -> str:
    """Both tables, and the lines below them."""
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    console.print(_table(_SYSTEMS, (_system(system) for system in found.systems)))
    pairs = [*found.against_oracle, *found.pairs]
    if pairs:
        console.print(_table(_PAIRS, (_pair(pair) for pair in pairs)))
    for line in lines_below(found):
        console.print(Text(line))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).rstrip("\n")


def lines_below(found: NetworkComparison) -> list[str]:
    """Reasons and notes."""
    lines = [f"{s.label}: {s.word}: {s.reason}" for s in found.systems if s.reason and s.word != "right"]
    lines += [f"{s.label}: {finding}" for s in found.systems if s.verdict is not None for finding in s.verdict.findings]
    against = found.objections
    shown = [f"not ok: {reason}" for reason in against[:_OBJECTIONS]]
    if len(against) > _OBJECTIONS:
        shown.append(f"not ok: for {len(against) - _OBJECTIONS} more reasons, see objections")
    return [*lines, *_unlike(found.pairs), *found.notes, *shown]


def _unlike(pairs: Iterable[Difference]) -> list[str]:
    """The outputs of other shapes or element types, and all that they are unlike."""
    bases: dict[tuple[str, str, str], list[str]] = {}
    for pair in pairs:
        if not pair.alike:
            bases.setdefault((pair.label, pair.output, pair.reason), []).append(pair.base)
    return [f"{label}: output {output!r} {reason}, unlike {', '.join(b)}" for (label, output, reason), b in bases.items()]


def as_json(found: NetworkComparison) -> dict[str, Any]:
    """The figures in plain JSON types; times in seconds, and figures that are not finite as ``None``."""
    return {
        "ok": found.ok,
        "objections": list(found.objections),
        "systems": {system.label: _system_json(system) for system in found.systems},
        "against_oracle": [_plain(asdict(pair)) for pair in found.against_oracle],
        "pairs": [_plain(asdict(pair)) for pair in found.pairs],
        "timed_in_process": any(system.blocks for system in found.systems),
        "notes": lines_below(found),
    }


def _table(columns: Iterable[str], rows: Iterable[list[str]]) -> Table:
    table = Table(pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _system(system: ComparedSystem) -> list[str]:
    return [system.label, system.kind, system.word, system.judged or "–", _bits(system.bits), _time(system)]


def _time(system: ComparedSystem) -> str:
    summary = system.summary
    if summary is None:
        return "–"
    bounds = summary.interval
    interval = "too few samples" if bounds is None else duration_range(bounds.low / 1e9, bounds.high / 1e9)
    return f"{duration(summary.median / 1e9)} ({interval})"


def _pair(pair: Difference) -> list[str]:
    head = [pair.output, pair.label, pair.base, pair.word, _bits(pair.bits)]
    if pair.norms is None:
        return [*head, *["–"] * 9]
    n = pair.norms
    figures = (n.l1, n.l2, n.linf, n.l1_rel, n.l2_rel, n.linf_rel)
    shown = ["–" if math.isnan(figure) else f"{figure:.1e}" for figure in figures]
    ulp = "–" if math.isnan(n.max_ulp) else significant(n.max_ulp)
    return [*head, *shown, ulp, str(n.mismatches), f"{n.not_finite} of {n.size}" if n.not_finite else "0"]


def _bits(bits: float | None) -> str:
    return "–" if bits is None else "all" if math.isinf(bits) else f"{bits:.1f}"


def _system_json(system: ComparedSystem) -> dict[str, Any]:
    summary = system.summary
    interval = None if summary is None else summary.interval
    return {
        "kind": system.kind,
        "verdict": system.word,
        "reason": system.reason,
        "judged_by": system.judged or None,
        "significant_bits": _plain(system.bits),
        "median": system.median,
        "interval": None if interval is None else [interval.low / 1e9, interval.high / 1e9],
        "samples": None if summary is None else summary.n,
    }


def _plain(x: Any) -> Any:
    if isinstance(x, dict):
        return {key: _plain(value) for key, value in x.items()}
    return None if isinstance(x, float) and not math.isfinite(x) else x

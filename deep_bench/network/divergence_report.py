"""A divergence as text, and in plain types for JSON."""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.check.thresholds import EXACT_BITS
from deep_bench.records.table import columns, print_line, print_table

if TYPE_CHECKING:
    from deep_bench.network.divergence import Divergence, NodePrecision

_AROUND = 2
_WORST = 8
_MOST = 40
_PLAIN = ("right", "fused", "not compared", "not replayed")


def as_text(found: Divergence, *, every: bool = False) -> str:
    """The table, under it the first divergences and what else is worth knowing."""
    out = io.StringIO()
    console = Console(file=out, width=columns(), highlight=False, color_system=None)
    shown = list(range(len(found.nodes))) if every else _listed_nodes(found)
    table = Table(title=Text(_title(found)), title_justify="left", pad_edge=False)
    for name in ("#", "node", "operator", "alone", "bits", "carried", "bits", "why"):
        table.add_column(name, justify="right" if name in ("#", "bits") else "left")
    before = -1
    for number in shown:
        if number > before + 1:
            table.add_row("…", Text(f"{number - before - 1} more"))
        table.add_row(*(Text(cell) for cell in _cells(number, found.nodes[number])))
        before = number
    if before + 1 < len(found.nodes):
        table.add_row("…", Text(f"{len(found.nodes) - before - 1} more"))
    if found.nodes:
        print_table(console, table)
    for line in lines_below(found):
        print_line(console, line)
    return out.getvalue().rstrip("\n")


def lines_below(found: Divergence) -> list[str]:
    """The first divergences in a sentence each, how many values could not be compared, and the findings."""
    partial = []
    if found.interrupted:
        replayed = sum(node.word != "not replayed" for node in found.nodes)
        compared = sum(node.carried.word not in ("fused", "not compared") for node in found.nodes)
        done = f"{replayed} of {len(found.nodes)} nodes were replayed, and {compared} compared end to end"
        partial = [f"partial: interrupted; {done}; this is about those only"]
    if not found.judged:
        return [*partial, f"nothing to judge: {_why_nothing(found)}", *(f"note: {finding}" for finding in found.findings)]
    first, carried = found.first, found.first_carried
    alone = "its gradient alone" if found.backward else "alone, on the oracle's inputs"
    # how many nodes tell nothing, alone
    reasons = [n.reason for n in found.nodes if n.word == "no information"]
    kinds = [f"{reasons.count(reason)}: {reason}" for reason in dict.fromkeys(reasons)]
    uninformed = [f"{len(reasons)} of {len(found.nodes)} nodes tell nothing; {'; '.join(kinds)}"] if reasons else []
    among = "each node that tells something" if uninformed else "every replayed node"
    lines = [
        *partial,
        f"first divergence: node {first.name!r} ({first.operator}), {alone}: {first.word}: {first.reason}"
        if first
        else f"first divergence: none; rounding explains what {among} gives {'for ' if found.backward else ''}{alone}",
        *uninformed,
    ]
    if carried:
        lines.append(
            f"first divergence end to end: node {carried.name!r} ({carried.operator}): {carried.carried.word}: "
            f"{carried.carried.reason}"
        )
    else:
        lines.append("first divergence end to end: none among the values that could be compared")
    lines += _left_out(found.nodes)
    return [*lines, *(f"note: {finding}" for finding in found.findings)]


def _why_nothing(divergence: Divergence) -> str:
    """Why no node could be judged, each reason with how many nodes it holds for."""
    if not divergence.nodes:
        return f"{divergence.network} has no nodes"
    reasons = [n.reason or n.carried.reason for n in divergence.nodes]
    counted = {reason: reasons.count(reason) for reason in reasons}
    return "; ".join(f"{count} node{'' if count == 1 else 's'}: {reason}" for reason, count in counted.items())


def _left_out(nodes: Sequence[NodePrecision]) -> list[str]:
    lines = []
    for word in ("fused", "not compared"):
        reasons = [n.carried.reason for n in nodes if n.carried.word == word]
        kinds = [f"{reasons.count(reason)}: {reason}" for reason in dict.fromkeys(reasons)]
        remainder = f"; and {len(kinds) - 2} more reasons" if len(kinds) > 2 else ""
        lines += [f"end to end, {len(reasons)} nodes are {word}; {'; '.join(kinds[:2])}{remainder}"] if reasons else []
    return lines


def as_json(found: Divergence) -> dict[str, Any]:
    """All of it in plain types."""
    names = {"first": found.first, "first_carried": found.first_carried}
    return {
        "network": found.network,
        "system": found.system,
        "backward": found.backward,
        "interrupted": found.interrupted,
        "judged": found.judged,
        "seconds": found.seconds,
        **{key: None if node is None else node.name for key, node in names.items()},
        "findings": list(found.findings),
        "nodes": [_plain(dataclasses.asdict(node)) for node in found.nodes],
    }


def _plain(x: Any) -> Any:
    if isinstance(x, dict):
        return {k: _plain(v) for k, v in x.items()}
    return None if isinstance(x, float) and not math.isfinite(x) else x


def _title(divergence: Divergence) -> str:
    prefix = "the gradients of " if divergence.backward else ""
    partial = ", partial" if divergence.interrupted else ""
    return f"{prefix}{divergence.network} on {divergence.system}: precision of {len(divergence.nodes)} nodes{partial}"


def _listed_nodes(divergence: Divergence) -> list[int]:
    """The nodes around the first divergences, those that something is said of, and those with the fewest bits."""
    nodes = divergence.nodes
    chosen: set[int] = set()
    for first in (divergence.first, divergence.first_carried):
        if first is not None:
            at = nodes.index(first)
            chosen.update(range(max(at - _AROUND, 0), min(at + _AROUND + 1, len(nodes))))
    indices = [i for i, n in enumerate(nodes) if n.word not in _PLAIN or n.carried.word not in _PLAIN]
    chosen.update(indices[:_MOST])
    if not chosen:
        compared = [i for i, n in enumerate(nodes) if n.format and n.bits < EXACT_BITS]
        chosen.update(sorted(compared, key=lambda i: nodes[i].bits)[:_WORST])
    chosen.update(i for i in range(len(nodes)) if i - 1 in chosen and (i + 1 in chosen or i + 1 == len(nodes)))
    return sorted(chosen)


def _cells(number: int, node: NodePrecision) -> tuple[str, ...]:
    reason = node.reason or node.carried.reason
    return (
        str(number),
        node.name,
        node.operator,
        node.word,
        _bits(node.bits),
        node.carried.word,
        _bits(node.carried.bits),
        reason,
    )


def _bits(bits: float) -> str:
    if math.isnan(bits):
        return "–"
    return "exact" if bits >= EXACT_BITS else f"{bits:.1f}"

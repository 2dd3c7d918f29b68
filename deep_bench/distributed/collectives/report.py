"""A communication benchmark as a table, and how its figures were taken."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.measure.risks import risks
from deep_bench.measure.tables import columns, print_line, print_table
from deep_bench.measure.units import amount, duration, duration_range, in_bytes, share, significant

if TYPE_CHECKING:
    from deep_bench.distributed.collectives.result import Result, Row


def as_text(result: Result, width: int | None = None) -> str:
    """A table for each operation, and below them what they do not say.

    Args:
        result: What was found.
        width: Characters in a line; those of the terminal by default.
    """
    out = io.StringIO()
    console = Console(file=out, width=width or columns(), highlight=False, color_system=None)
    for kind in dict.fromkeys(row.kind.name for row in result.rows):
        print_table(console, _table(result, [row for row in result.rows if row.kind.name == kind]), keys=3)
    for line in lines_below(result):
        print_line(console, line)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _table(result: Result, rows: list[Row]) -> Table:
    """One operation: only the columns that mean something for it."""
    kind, hosts = rows[0].kind, result.hosts
    where = f"host {hosts[0]}" if len(set(hosts)) == 1 else f"{len(set(hosts))} hosts"
    of = f" of {result.record.recipe.options['dtype']}" if kind.sized else ""
    table = Table(title=f"{kind.name}{of} among {len(hosts)} ranks on {where}")
    cells = [_cells(row) for row in rows]
    for name in cells[0]:
        table.add_column(name, justify="left" if name in ("over", "result", "by") else "right")
    for row in cells:
        table.add_row(*map(Text, row.values()))
    return table


def _cells(row: Row) -> dict[str, str]:
    """Column to what is in it."""
    s, predicted, means = row.summary, row.predicted, row.rank_means
    interval = "–" if s is None else "too few samples"
    if s is not None and s.interval is not None:
        interval = duration_range(s.interval.low / 1e9, s.interval.high / 1e9)
    ranks = [None] * 3 if means is None else [float(v) for v in (means.mean(), means.min(), means.max())]
    return {
        **({"bytes": in_bytes(row.size, digits=None)} if row.kind.sized else {}),
        "over": row.system,
        "result": row.verdict,
        "time": duration(row.seconds),
        "95 % interval": interval,
        "predicted": duration(None if predicted is None else predicted.seconds),
        "by": "–" if predicted is None else predicted.algorithm,
        **({} if row.pair else dict(zip(("average", "least", "most"), map(duration, ranks), strict=True))),
        **_bandwidths(row),
    }


def _bandwidths(row: Row) -> dict[str, str]:
    """One for pairs, where both are the same, and none where nothing is moved."""
    if not row.kind.sized:
        return {}
    rate = _rate(row.algorithm_bandwidth)
    return {"bandwidth": rate} if row.pair else {"algorithm": rate, "bus": _rate(row.bus_bandwidth)}


def _named(row: Row) -> str:
    return f"{row.kind.name}{f' {in_bytes(row.size, digits=None)}' if row.kind.sized else ''} over {row.system}"


def _rate(value: float | None) -> str:
    return "–" if value is None else amount(value, "B/s", digits=3)


def lines_below(result: Result) -> list[str]:
    """How the figures were taken, what is wrong or missing, and where the record is."""
    rows, record = result.rows, result.record
    lines = []
    if any(row.pair is None for row in rows):
        lines.append(
            "time: a barrier, then the operation, on every rank; the maximum over the ranks of each repetition, and the "
            "median of these; average, least, most: of each rank's mean time, as OSU reports them"
        )
    pair = next((row.pair for row in rows if row.pair), None)
    if pair:
        lines.append(
            f"latency: half of a round trip between ranks {pair[0]} and {pair[1]}, by the clock of rank {pair[0]}; "
            "bandwidth: a window of 64 messages until its answer is there"
        )
    if any(row.bus_bandwidth and not row.pair for row in rows):
        lines.append("algorithm and bus: bandwidths as nccl-tests defines them")
    if any(row.predicted for row in rows):
        lines.append(
            "predicted: the cheapest known algorithm under LogGP, fitted to single messages; the library may take another"
        )
        lines += _machine(result)
    lines += _clocks(result)
    lines += [f"{_named(row)}: {row.verdict}: {row.reason}".replace("\n", "; ") for row in rows if row.verdict != "right"]
    lines += _unsteady(rows) + list(record.notes)
    lines += _crowded(result)
    lines += [str(risk) for risk in risks(record.environment, record.steal) if risk.name in ("load", "steal")]
    if result.path is not None:
        lines.append(f"record: {result.path}")
    return lines


def _machine(result: Result) -> list[str]:
    links = {row.system: row.link for row in result.rows if row.link is not None}
    lines = []
    for system, link in links.items():
        parts: list[str] = []
        for segment in link.segments:
            p = segment.parameters
            to = f"up to {in_bytes(segment.up_to)}" if segment.up_to is not None else "larger" if parts else "all sizes"
            rate = f", G {_rate(1 / p.G)}" if p.G else ""
            parts.append(f"{to}: L {duration(p.L)}, o {duration(p.o)}, g {duration(p.g)}{rate}")
        lines.append(
            f"messages over {system} on {link.between}: {'; '.join(parts)} (fit within {share(link.residual)} on average, "
            f"{share(link.worst)} at most)"
        )
        lines += [f"messages over {system}: {note}" for note in link.notes]
    return lines


def _clocks(result: Result) -> list[str]:
    clocks = result.clocks[1:]
    if not clocks:
        return []
    spreads = [row.spread for row in result.rows if row.spread is not None]
    begun = f"; ranks began within {duration(max(spreads))} of each other (the largest median)" if spreads else ""
    return [
        f"clocks: compared by the shortest of 50 round trips, several times; they drift by at most "
        f"{significant(max(abs(c.drift) for c in clocks) * 1e6)} µs a second, and a skew of at most "
        f"{duration(max(c.skew for c in clocks) / 1e9)} remains{begun}"
    ]


def _crowded(result: Result) -> list[str]:
    """Ranks that take turns on a CPU: then no formula holds."""
    hosts, cpus = result.hosts, len(result.record.environment.cpus_allowed or ())
    ranks = hosts.count(hosts[0])
    if not cpus or ranks <= cpus:
        return []
    return [f"{ranks} ranks share {cpus} CPUs of {hosts[0]}: they wait for each other, which no prediction knows of"]


def _unsteady(rows: list[Row]) -> list[str]:
    """Times that one median does not tell well."""
    lines = []
    few = [row for row in rows if row.summary is not None and row.summary.interval is None]
    split = [row for row in rows if row.summary is not None and len(row.summary.modes) > 1]
    preempted = [row for row in rows if row.summary is not None and row.summary.preempted >= 0.01]
    for symptom, affected in (("too few samples for an interval", few), ("several modes", split),
                        ("the kernel took a CPU away in 1 % of the samples or more", preempted)):  # fmt: skip
        if affected:
            names = [_named(row) for row in affected[:4]]
            suffix = f" and {len(affected) - 4} more" if len(affected) > 4 else ""
            lines.append(f"{symptom}: {', '.join(names)}{suffix}")
    return lines

"""The roofs of a machine as a table."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.measure.roofline.model import Rate, Roofline
from deep_bench.measure.tables import print_table
from deep_bench.measure.units import in_bytes, significant

_NAMES = {"gemm": "product of matrices", "copy": "a = b", "triad": "a = b + 3 c", "add": "a = b + c"}


def as_text(found: Roofline, width: int = 125) -> str:
    """All that was measured, the roofs that follow from it, and what disturbed it.

    Example:
        >>> rate = Rate(kind="copy", by="numpy", dtype="float64", threads=1, value=2e10, low=1.9e10, high=2.1e10, size=2**27)
        >>> print(as_text(Roofline(rates=[rate])).splitlines()[-1].strip())
        a = b   float64         1   numpy   20.0 GB/s    19.0 to 21.0   128 MiB
    """
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for name, justify in (("what", "left"), ("in", "left"), ("threads", "right"), ("by", "left"), ("median", "right"),
                          ("95 % interval", "right"), ("size", "right")):  # fmt: skip
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for rate in found.rates:
        table.add_row(*map(Text, _row(rate)))
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    print_table(console, table, keys=4)
    for line in lines_below(found):
        console.print(Text(line))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def lines_below(found: Roofline) -> list[str]:
    """What the table does not say: where the roofs meet, what is missing, what disturbed it."""
    lines = []
    bandwidth = found.bandwidth()
    for dtype in dict.fromkeys(rate.dtype for rate in found.rates if rate.kind == "gemm"):
        peak = found.peak(dtype)
        if peak is not None and peak.value and bandwidth is not None and bandwidth.value:
            ridge = peak.value / bandwidth.value
            lines.append(f"{dtype}: below {ridge:.3g} FLOP a byte the memory limits, above it the processor")
    lines += [f"not available: {quantity}: {reason}" for quantity, reason in found.failures.items()]
    return lines + list(found.notes)


def _row(rate: Rate) -> tuple[str, ...]:
    threads = "–" if rate.threads is None else str(rate.threads)
    size = "–" if rate.size is None else f"{rate.size} x {rate.size}" if rate.kind == "gemm" else in_bytes(rate.size)
    if rate.value is None:
        return _NAMES[rate.kind], rate.dtype, threads, rate.by, "not available", "–", size
    value, low, high = ("" if v is None else significant(v / 1e9) for v in (rate.value, rate.low, rate.high))
    interval = f"{low} to {high}" if low and high else "too few"
    return _NAMES[rate.kind], rate.dtype, threads, rate.by, f"{value} G{rate.unit}", interval, size

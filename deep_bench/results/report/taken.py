"""How numbers were taken, in a line for each kind of record."""

from __future__ import annotations

from collections.abc import Sequence

from deep_bench.results.report.model import Block, Lines
from deep_bench.results.report.naming import of_kinds, title_of
from deep_bench.results.report.sources import Source
from deep_bench.results.result import Result

_LINES = {
    "network": (
        "wall time of a call that ends when the device has finished, warmed up until steady; systems took turns in random "
        "order, in blocks of at least 50 ms and ten calls, each in a process of its own that stood still while others were "
        "timed; converting from and to NumPy is not in the time. Correctness: each node alone against a reference in higher "
        "precision, judged by whether rounding could explain the difference."
    ),
    "operators": (
        "wall time of a call on the system's own arrays, ended by synchronising; contestants took turns in random order, "
        "each in a process of its own. Correctness: against a reference in higher precision, judged by whether rounding "
        "could explain the difference."
    ),
    "communication": (
        "a barrier, then the operation, on each rank; the largest time over the ranks of each repetition; the median of "
        "these. Latency is half of a round trip. Correctness: all elements on all ranks, before and after the timing."
    ),
    "training": (
        "the clock starts when the data are first touched; evaluations count, preparing does not; each run is one sample, "
        "and one that misses the target counts as having gone on for so long without reaching it."
    ),
    "scaling": (
        "predicted, not measured: the messages of few ranks, generalised, cost what closed LogGP formulas say; what a rank "
        "computes was measured on one."
    ),
    "mlperf": "by MLPerf's own load generator or logs, under its rules; its own figures are in the records beside ours.",
}
_SHARED = (
    "Medians, with 95 % intervals by order statistics: over launches of fresh processes or runs where there are several, "
    "else over blocks where samples are correlated, else over samples; the last two see nothing of what differs between "
    "launches. No sample was dropped without a word: where those that were preempted do not count, the remark of the "
    "figure and a line below the table say so, and the plot has them as strokes. Calls of the warm-up are no samples."
)
_IN_PROCESS = "Some systems were measured in one process, where they could disturb each other."


def blocks(results: Sequence[Result], sources: Sequence[Source]) -> list[Block]:
    """The lines, and what all figures share."""
    lines = [f"{title_of(kind)}: {_LINES[kind]}" for kind in of_kinds(results) if kind in _LINES]
    lines.append(_SHARED)
    if any(source.value("in_process") for source in sources):
        lines.append(_IN_PROCESS)
    return [Lines(tuple(lines))]

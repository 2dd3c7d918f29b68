"""What a report says of a run that several ranks made together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from deep_bench.measure.units import duration, in_bytes, share, significant
from deep_bench.training.record import RankRecord, RanksRecord, RunRecord

Times = NDArray[np.int64]

_DRIFT = "drift"


@dataclass(frozen=True)
class Split:
    """Where the time of each step went on each rank; arrays of shape (ranks, steps), in nanoseconds.

    Args:
        computing: From the moment when ranks had agreed on the step to the end of this rank's gradients.
        waiting: Of the time in messages after that, what passed until the slowest rank had its gradients.
        exposed: The rest of the time in messages after that.
        overlapped: The time in messages while gradients were computed.
        agreeing: Before the step, which waits for the slowest as well.
    """

    computing: Times
    waiting: Times
    exposed: Times
    overlapped: Times
    agreeing: Times

    @property
    def imbalance(self) -> float:
        """By how much the slowest rank computes longer than the mean of all, as a share of it, on average over steps."""
        mean = self.computing.mean(axis=0)
        return float(np.mean((self.computing.max(axis=0) - mean) / np.maximum(mean, 1)))

    @property
    def slowest(self) -> Times:
        """The rank that computed longest in each step."""
        return np.asarray(self.computing.argmax(axis=0))


def split(ranks: list[RankRecord]) -> Split | None:
    """Where the time went, as far as all ranks took the same steps; ``None`` where they did not, or took none.

    Ranks leave the agreement together: the moment from which each counts is the same.

    Example:
        >>> one = RankRecord(rank=0, computing=np.array([10]), exposed=np.array([7]), communicating=np.array([8]),
        ...                  updating=np.array([9]), agreeing=np.array([1]))
        >>> other = one.model_copy(update={"rank": 1, "computing": np.array([14]), "exposed": np.array([3])})
        >>> found = split([one, other])
        >>> found.waiting.tolist(), found.exposed.tolist(), found.slowest.tolist()
        ([[4], [0]], [[3], [3]], [1])
    """
    steps = {len(rank.computing) for rank in ranks}
    if len(steps) != 1 or steps == {0}:
        return None
    columns = ("computing", "exposed", "communicating", "agreeing")
    computing, exposed, communicating, agreeing = (np.array([getattr(r, name) for r in ranks]) for name in columns)
    waiting = np.minimum(exposed, computing.max(axis=0) - computing)
    return Split(computing, waiting, exposed - waiting, np.maximum(communicating - exposed, 0), agreeing)


def tables(run: RunRecord) -> Iterator[Table]:
    """Time of a step and messages, by rank."""
    if run.ranks is None:
        return
    yield _times(run.ranks)
    yield _messages(run.ranks)


def lines(run: RunRecord) -> Iterator[str]:
    """What the tables mean, and what is not as with one process."""
    if run.ranks is None:
        return
    ranks = run.ranks
    facts = ", ".join(f"{name} {value}" for name, value in ranks.communicator.items() if name in ("communicator", "library"))
    yield f"{len(ranks.ranks)} ranks by {ranks.scheme}; {facts}; parameters of ranks: {ranks.promise}"
    breakdown = split(ranks.ranks)
    if breakdown is not None and len(ranks.ranks) > 1:
        counts = np.bincount(breakdown.slowest, minlength=len(ranks.ranks))
        slow = int(counts.argmax())
        host, often = ranks.ranks[slow].local.get("host", "an unknown host"), share(counts[slow] / counts.sum())
        yield (
            f"imbalance: the slowest rank computes {share(breakdown.imbalance)} longer than the mean; "
            f"rank {slow} on {host} is it in {often} of the steps"
        )
        yield (
            "waiting is the part of the time in messages until the slowest rank has its gradients, "
            "counted from the moment when all have agreed on the step; exposed is the rest of it after the gradients"
        )
    if breakdown is None and len(ranks.ranks) > 1:
        yield "ranks take steps each on their own: who waits for whom cannot be told"
    drift = [e.figures[_DRIFT] for e in run.evaluations if _DRIFT in e.figures]
    if drift:
        first, largest, last = (significant(value, 3) for value in (drift[0], max(drift), drift[-1]))
        yield f"drift, a rank's largest distance from the mean: {first} at first, {largest} at most, {last} at last"
    yield from ranks.remarks


def _times(ranks: RanksRecord) -> Table:
    table = Table(title="a step on each rank: medians", pad_edge=False)
    table.add_column("rank")
    for name in ("steps", "samples", "computing", "waiting", "exposed messages", "overlapped messages", "agreeing"):
        table.add_column(name, justify="right")
    table.add_column("where")
    breakdown = split(ranks.ranks)
    for number, rank in enumerate(ranks.ranks):
        shown = ["–"] * 5
        if breakdown is not None:
            parts = (breakdown.computing, breakdown.waiting, breakdown.exposed, breakdown.overlapped, breakdown.agreeing)
            shown = [duration(float(np.median(part[number])) / 1e9) for part in parts]
        elif len(rank.computing):
            shown[0] = duration(float(np.median(rank.computing)) / 1e9)
        table.add_row(str(rank.rank), str(len(rank.samples)), str(int(rank.samples.sum())), *shown, _where(rank))
    return table


def _where(rank: RankRecord) -> str:
    cpus = rank.local.get("cpus")
    bound = f", CPUs {_numbered(cpus)}" if isinstance(cpus, list) and cpus else ""
    return f"{rank.local.get('host', '–')}{bound}, {rank.local.get('device') or '–'}"


def _numbered(cpus: Sequence[object]) -> str:
    numbers = [int(str(cpu)) for cpu in cpus]
    whole = numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]}-{numbers[-1]}" if whole and len(numbers) > 1 else ", ".join(map(str, numbers))


def _messages(ranks: RanksRecord) -> Table:
    table = Table(title="messages of all ranks", pad_edge=False)
    table.add_column("operation")
    for name in (
        "calls of a rank",
        "handed over",
        "sent by the usual algorithms",
        "from a rank, most",
        "time in calls, median",
    ):
        table.add_column(name, justify="right")
    for operation in dict.fromkeys(m.operation for rank in ranks.ranks for m in rank.messages):
        messages = [m for rank in ranks.ranks for m in rank.messages if m.operation == operation]
        calls = sorted({m.calls for m in messages})
        table.add_row(
            operation,
            str(calls[0]) if len(calls) == 1 else f"{calls[0]} to {calls[-1]}",
            in_bytes(sum(m.payload_bytes for m in messages)),
            in_bytes(sum(m.moved_bytes for m in messages)),
            in_bytes(max(m.moved_bytes for m in messages)),
            duration(float(np.median([m.spent_ns for m in messages])) / 1e9),
        )
    return table

"""Runs that were measured, beside what is predicted for as many ranks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deep_bench.distributed.scaling.calls import MESSAGES
from deep_bench.distributed.scaling.pattern import Pattern
from deep_bench.distributed.scaling.record import MeasuredRecord, PointRecord
from deep_bench.distributed.scaling.trace import Scheme
from deep_bench.errors import InvalidArgument
from deep_bench.training.record import RankRecord, RunRecord
from deep_bench.training.runs import Runs

_WARM = 5
_SAME = {"iallreduce": "allreduce", "sendrecv": "exchange"}


@dataclass(frozen=True)
class Run:
    """A run of several ranks.

    Args:
        file: Its record.
        run: What it says.
        ranks: How many.
        batch: The samples of a rank in most steps, of the one that had the most.
    """

    file: Path
    run: RunRecord
    ranks: int
    batch: int

    @property
    def of_ranks(self) -> list[RankRecord]:
        """What it says of each rank."""
        assert self.run.ranks is not None
        return self.run.ranks.ranks


def runs_in(file: Path, on: str, scheme: Scheme) -> list[Run]:
    """The runs of a record that several ranks made, or one alone under ``--distributed``.

    Args:
        file: The record.
        on: What must have computed.
        scheme: What must have kept ranks together.

    Raises:
        InvalidArgument: It has none, or runs of something else.
        InvalidRecord: It is no record of training.
    """
    runs = []
    for run in Runs.load(file).record.runs:
        ranks = [] if run.ranks is None else run.ranks.ranks
        _check(file, run, on, scheme)
        if ranks and all(len(rank.samples) > _WARM for rank in ranks):
            most = np.max([rank.samples for rank in ranks], axis=0)
            runs.append(Run(file, run, len(ranks), Counter(most.tolist()).most_common(1)[0][0]))
    if not runs:
        raise InvalidArgument(f"{file}, which has no run of several ranks", "a record of deep-bench train --distributed …")
    return runs


def _check(file: Path, run: RunRecord, on: str, scheme: Scheme) -> None:
    """Whether a run is of what is predicted."""
    kind, network = type(scheme.made).__name__, scheme.network
    facts = [("computed by", run.label, on), ("of the network", run.network.name if run.network else network, network)]
    if run.ranks is not None:
        facts.append(("with the scheme", run.ranks.scheme.partition("(")[0], kind))
    for description, was, expected in facts:
        if was != expected:
            raise InvalidArgument(f"{file}, {description} {was}", f"a record of what is predicted: {expected}")


def steps_of(run: Run) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds of each whole step, of the rank that took longest: loading, agreement, gradients, update with messages; and of
    the one that computed longest, without messages and waiting.
    """
    rows, own_times = [], []
    for rank in run.of_ranks:
        stamps = np.asarray(rank.stamps).reshape(-1, 5)[-len(rank.computing) :]
        loading = stamps[:, 1] - stamps[:, 0] if len(stamps) == len(rank.computing) else np.zeros(len(rank.computing))
        own_times.append(loading + rank.computing + rank.updating - rank.communicating)
        rows.append(loading + rank.agreeing + rank.computing + rank.updating)
    most = np.max([rank.samples for rank in run.of_ranks], axis=0)
    mask = (most == run.batch) & (np.arange(len(most)) >= _WARM)
    return np.max(rows, axis=0)[mask] / 1e9, np.max(own_times, axis=0)[mask] / 1e9


def beside(run: Run, point: PointRecord, own_point: PointRecord, pattern: Pattern, replayed: float | None) -> MeasuredRecord:
    """A run beside a prediction for as many ranks with as many samples.

    Args:
        run: The run.
        point: By the formulas.
        own_point: By the formulas, from the run's own computing.
        pattern: What ranks say.
        replayed: By the simulator.
    """
    steps, own_times = steps_of(run)
    calls, payload = _said(run.of_ranks[0], len(run.of_ranks[0].samples))
    expected_calls, expected_payload = _expected(pattern, run.ranks)
    least, most = np.percentile(steps, (5, 95))
    names = sorted(set(expected_calls))
    return MeasuredRecord(
        file=str(run.file), ranks=run.ranks, batch=run.batch,
        hosts=len({str(rank.local.get("host", "")) for rank in run.of_ranks}), steps=steps, mean=float(steps.mean()),
        median=float(np.median(steps)), least=float(least), most=float(most), computing=float(own_times.mean()),
        predicted=point.mean, predicted_computing=point.computing, predicted_own=own_point.mean,
        replayed=replayed,
        calls={name: (calls.get(name, 0.0), expected_calls[name]) for name in names},
        payload={name: (payload.get(name, 0.0), expected_payload[name]) for name in names},
    )  # fmt: skip


def _said(rank: RankRecord, steps: int) -> tuple[dict[str, float], dict[str, float]]:
    calls: Counter[str] = Counter()
    payload: Counter[str] = Counter()
    for total in rank.messages:
        name = _SAME.get(total.operation, total.operation)
        calls[name] += total.calls
        payload[name] += total.payload_bytes
    return {n: c / steps for n, c in calls.items()}, {n: p / steps for n, p in payload.items()}


def _expected(pattern: Pattern, ranks: int) -> tuple[dict[str, float], dict[str, float]]:
    """What rank 0 calls in a step, on average, counted as `Counting` counts: each message that comes is a call."""
    calls: dict[str, float] = {}
    payload: dict[str, float] = {}
    for number in range(1, pattern.period + 1):
        for call in pattern.step(ranks, 0, number):
            if call.operation in MESSAGES:
                times = len(call.sources) if call.operation == "recv" else len(call.to)
                times = 1 if call.operation == "exchange" else times
                size = call.size * (len(call.sources) if call.operation == "recv" else len(call.to))
            else:
                times, size = 1, call.size // len(call.group) if call.operation == "allgather" else call.size
            calls[call.operation] = calls.get(call.operation, 0.0) + times / pattern.period
            payload[call.operation] = payload.get(call.operation, 0.0) + size / pattern.period
    return calls, payload

"""The record of a communication benchmark, kept on rank 0 while it goes on."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from deep_bench import __version__
from deep_bench.distributed.collectives.blocks import RankBlock
from deep_bench.distributed.collectives.clocks import Clocks
from deep_bench.distributed.collectives.kinds import Kind
from deep_bench.distributed.collectives.result import MARK, Result, begin_name, case_label, rank_name
from deep_bench.distributed.collectives.settings import Settings
from deep_bench.distributed.collectives.trial import Trial
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.machine.model import Machine
from deep_bench.errors import DeepBenchError, InvalidArgument, NotKept
from deep_bench.measure.environment import StealMeter, capture
from deep_bench.measure.record import (
    BlockRecord,
    CaseFacts,
    ErrorRecord,
    Recipe,
    Record,
    SampleSet,
    SuiteFacts,
    SystemRecord,
    TrialRecord,
    VerdictRecord,
)
from deep_bench.measure.storage import RecordWriter

MACHINE_FILE = "machine.json"

_SOURCE = "operations and sizes after the OSU micro-benchmarks, bandwidths after nccl-tests"


class Keeper:
    """Collects what was found, and writes it; what cannot be written is tried again with the next size, and told in the end.

    Args:
        systems: Label to communicator.
        settings: What is measured.
        places: Where each rank is.
        machine: What messages cost.
        measured: Whether that was measured in this run, so that it is written too.
        output: The folder; ``None`` to write nothing.
    """

    def __init__(
        self,
        systems: Mapping[str, Communicator],
        settings: Settings,
        places: Sequence[Mapping[str, Any]],
        machine: Machine | None,
        measured: bool,
        output: Path | None,
    ) -> None:
        self._steal = StealMeter()
        notes: list[str] = []
        dtype = settings.dtype
        cases = [
            CaseFacts(label=case_label(kind, size), operator=kind.name, dtype=dtype, attributes={"bytes": size})
            for kind, size in settings.cases()
        ]
        system_records = [
            SystemRecord(
                label=label,
                framework=label,
                facts={
                    "communicator": dict(comm.describe()),
                    "ranks": [dict(place) for place in places],
                    "link": _link(machine, label, [place["host"] for place in places], notes),
                },
            )
            for label, comm in systems.items()
        ]
        self.record = Record(
            deep_bench=__version__,
            command=sys.argv,
            recipe=Recipe(options=_options(settings), seeds={"data and order": settings.seed}),
            suite=SuiteFacts(name=MARK, source=_SOURCE, cases=cases),
            environment=capture(),
            systems=system_records,
            notes=notes,
        )
        self._output = output
        self._writer: RecordWriter | None = None
        self._machine = machine if measured else None
        self._unwritten: InvalidArgument | None = None
        self._write()

    def add(self, label: str, kind: Kind, size: int, trial: Trial | None, failure: DeepBenchError | None) -> None:
        """Keep what one trial found, or why it found nothing."""
        entry = TrialRecord(case=case_label(kind, size), error=None if failure is None else ErrorRecord.of(failure))
        if trial is not None and failure is None:
            entry.samples = _samples(trial)
            entry.verdict = VerdictRecord(
                verdict="wrong" if trial.wrong else "right",
                reason="; ".join(trial.wrong) or _right(kind),
                effort="before and after the timing, on other data each time",
            )
        self.record[label].trials.append(entry)

    def write(self, clocks: Clocks) -> None:
        """Bring the file up to date."""
        for system in self.record.systems:
            system.facts["clocks"] = [asdict(clock) for clock in clocks.models()]
        self._write()

    def _write(self) -> None:
        if self._output is None:
            return
        self._unwritten = None
        try:
            if self._writer is None:
                self._writer = RecordWriter(self._output, self.record)
            else:
                self._writer.write(self.record)
            if self._machine is not None:
                self._machine.save(self._output / MACHINE_FILE)
                self._machine = None
        except InvalidArgument as error:
            self._unwritten = error

    def finished(self, clocks: Clocks, *, interrupted: bool) -> Result:
        """Complete the record, and read it.

        Raises:
            NotKept: It could not be written; the error has it.
        """
        self.record.steal = self._steal.share()
        self.record.load_after = psutil.getloadavg()[0]
        self.record.interrupted, self.record.complete = interrupted, not interrupted
        self.write(clocks)
        if self._unwritten is not None:
            failure = self._unwritten
            raise NotKept(failure.came, failure.expected, found=Result(self.record)) from failure
        return Result(self.record, None if self._writer is None else self._writer.path)


def _options(settings: Settings) -> dict[str, Any]:
    return {**asdict(settings), "collectives": list(settings.collectives), "pair": list(settings.pair)}


def _right(kind: Kind) -> str:
    if not kind.sized:
        return "no rank left before the last one came, each coming late in turn, by the common clock"
    return "all elements on all ranks are equal to what they must be; sums are of whole numbers, and exact"


def _link(machine: Machine | None, label: str, hosts: Sequence[str], notes: list[str]) -> Any:
    """What messages over a communicator cost here; ``None``, and a note, where the machine does not know."""
    if machine is None:
        return None
    try:
        return machine.link(label, hosts).model_dump(mode="json")
    except (InvalidArgument, KeyError) as error:
        notes.append(f"nothing is predicted for {label}: {error}")
        return None


def _samples(trial: Trial) -> list[SampleSet]:
    """Each rank's durations, and when they began after the first one of their block."""
    sample_sets = []
    for rank in range(trial.comm.size):
        durations = [_block(block, rank, block.ns[rank]) for block in trial.blocks]
        begins = [_block(block, rank, block.begin[rank] - block.begin[rank, 0]) for block in trial.blocks]
        sample_sets.append(
            SampleSet(quantity=rank_name(rank), blocks=durations, warm_up=trial.warm_up if rank == 0 else None)
        )
        sample_sets.append(SampleSet(quantity=begin_name(rank), blocks=begins))
    return sample_sets


def _block(block: RankBlock, rank: int, ns: Any) -> BlockRecord:
    return BlockRecord(
        start_ns=int(block.begin[rank, 0]), batch=block.batch, n=len(ns), ns=ns, preempted=block.preempted[rank]
    )

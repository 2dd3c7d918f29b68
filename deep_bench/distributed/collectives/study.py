"""The measurement: each benchmark and size over all communicators, block by block in random order, on all ranks.

Rank 0 keeps the record while it goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import psutil

from deep_bench.distributed.collectives.operations import BenchmarkKind, OperationSetting, memory_bytes
from deep_bench.distributed.collectives.result import MARK, CommunicationResult, begin_name, case_label, rank_name
from deep_bench.distributed.collectives.settings import BenchmarkSettings
from deep_bench.distributed.collectives.timing import OperationTrial, RankAgreement, RankBlock, RankClocks
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.launch import launch, local_facts
from deep_bench.distributed.machine import Machine, measured_machine
from deep_bench.errors import DeepBenchError, InvalidArgument, NotKept
from deep_bench.measure.environment import provenance
from deep_bench.measure.progress import Bars, recording
from deep_bench.measure.session import relative_half_width
from deep_bench.measure.units import in_bytes
from deep_bench.records.model import (
    BlockRecord,
    CaseFacts,
    ErrorRecord,
    OptionsRecord,
    Record,
    SampleSet,
    SuiteFacts,
    SystemRecord,
    TrialRecord,
    VerdictRecord,
)
from deep_bench.study.study import RecordFile

BACKENDS = ("gloo", "nccl")
"""Names of torch's backends, each short for the communicator ``torch`` with it."""


def check_names(names: Sequence[str]) -> None:
    """See that communicators exist, and each is named once. See `opened`."""
    from deep_bench import communicators

    if not names or len(set(names)) < len(names):
        raise InvalidArgument(f"communicators {', '.join(names) or '(none)'}", "at least one, and each once")
    for name in names:
        communicators.require("torch" if name in BACKENDS else name)


@contextmanager
def opened(names: Sequence[str]) -> Iterator[dict[str, Communicator]]:
    """While it lasts, one communicator of each name.

    Args:
        names: Those of `deep_bench.communicators`, or of torch's backends; each once.

    Raises:
        UnknownName, FrameworkMissing: There is no such communicator here.
        InvalidArgument: One is named twice.
    """
    from deep_bench import communicators

    check_names(names)
    by_name: dict[str, Communicator] = {}
    try:
        for name in names:
            by_name[name] = communicators["torch"](backend=name) if name in BACKENDS else communicators[name]()
        yield by_name
    finally:
        for comm in reversed(by_name.values()):
            comm.close()


MACHINE_FILE = "machine.json"

_SOURCE = "operations and sizes after the OSU micro-benchmarks, bandwidths after nccl-tests"


class RecordKeeper:
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
        settings: BenchmarkSettings,
        places: Sequence[Mapping[str, Any]],
        machine: Machine | None,
        measured: bool,
        output: Path | None,
    ) -> None:
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
            **provenance(),
            recipe=OptionsRecord(options=settings.as_options(), seeds={"data and order": settings.seed}),
            suite=SuiteFacts(name=MARK, source=_SOURCE, cases=cases),
            systems=system_records,
            notes=notes,
        )
        self.file = RecordFile(self.record, output, at_once=False)  # the other ranks would wait for one that is refused
        self._machine_file = None if output is None or not measured else output / MACHINE_FILE
        self._machine = machine
        self._keep()

    def add(
        self, label: str, kind: BenchmarkKind, size: int, trial: OperationTrial | None, failure: DeepBenchError | None
    ) -> None:
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

    def write(self, clocks: RankClocks) -> None:
        """Bring the file up to date."""
        for system in self.record.systems:
            system.facts["clocks"] = [asdict(clock) for clock in clocks.models()]
        self._keep()

    def _keep(self) -> None:
        self.file.keep()
        with suppress(InvalidArgument):  # `finished` tells it
            self._save_machine()

    def finished(self) -> CommunicationResult:
        """What was found.

        Raises:
            NotKept: The record, or what messages cost, could not be written; the error has the result.
        """
        result = self.file.result(CommunicationResult)
        try:
            self._save_machine()
        except InvalidArgument as error:
            raise NotKept(error.came, error.expected, found=result) from error
        return result

    def _save_machine(self) -> None:
        if self._machine is not None and self._machine_file is not None:
            self._machine.save(self._machine_file)
            self._machine = None


def _right(kind: BenchmarkKind) -> str:
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


def _samples(trial: OperationTrial) -> list[SampleSet]:
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


_LEAST_ROUNDS = 6
"""For an interval over blocks; taken unless they need twice the budget."""


_LEAST_SAMPLES = 6
"""For an interval over samples; taken unless they need ten times the budget."""


def study(
    systems: Mapping[str, Communicator],
    settings: BenchmarkSettings | None = None,
    *,
    machine: Machine | None = None,
    output: Path | None = None,
    progress: bool = True,
) -> CommunicationResult | None:
    """Check and time operations over several communicators of the same ranks. All ranks call this together.

    Before each repetition there is a barrier of the same communicator (none in the benchmarks of pairs and of barriers). The
    time of an operation is the maximum over the ranks, repetition by repetition. The systems take turns, in an order that is
    drawn for each round. The ranks' clocks are compared before the first size, between sizes and after the last.

    Args:
        systems: Label to communicator; all have the same ranks in the same order.
        settings: What to measure.
        machine: What messages cost, for predictions; measured first by default.
        output: A folder for the record, and for ``machine.json`` if it is measured.
        progress: Whether to show a bar, on rank 0.

    Returns:
        What was found, on rank 0; ``None`` elsewhere.

    Raises:
        InvalidArgument: There is one rank alone; no communicator; or they differ in their ranks.
        NotKept: On rank 0, when all is measured: the record could not be written. The error's ``found`` is the result.

    Example:
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> settings = BenchmarkSettings(sizes="8,64", budget=0.02)
        >>> result, nothing = run_local(2, lambda comm: study({"local": comm}, settings, progress=False))
        >>> [(row.size, row.verdict) for row in result.rows], nothing
        ([(8, 'right'), (64, 'right')], None)
    """
    settings = settings or BenchmarkSettings()
    comms = list(systems.values())
    if not comms or len({(comm.rank, comm.size) for comm in comms}) > 1:
        raise InvalidArgument(f"communicators {', '.join(systems) or '(none)'}", "at least one, all of the same ranks")
    settings.check_ranks(comms[0].size)
    return _BenchmarkStudy(systems, settings, progress and comms[0].rank == 0).run(machine, output)


class _BenchmarkStudy:
    def __init__(self, systems: Mapping[str, Communicator], settings: BenchmarkSettings, progress: bool) -> None:
        self.systems, self.settings = systems, settings
        self.control = next(iter(systems.values()))
        self.together, self.clocks = RankAgreement(self.control), RankClocks(self.control)
        self.random = np.random.default_rng(settings.seed)
        self.leads, self.launched = self.control.rank == 0, launch()
        self.bars = Bars(progress)

    def run(self, machine: Machine | None, output: Path | None) -> CommunicationResult | None:
        """Everything, in order; each size is written as soon as it is there."""
        places = self.together.gathered(local_facts(self.launched)) or []
        measures = machine is None
        if measures:
            self.bars.phase("messages", len(self.systems), "communicators")
            machine = measured_machine(self.systems, [place["host"] for place in places], self.together, self.bars.advance)
        if not self.leads:
            self._measure(None)
            return None
        keeper = RecordKeeper(self.systems, self.settings, places, machine, measures, output)
        with recording(keeper.record, self.bars):
            self._measure(keeper)
            keeper.record.interrupted = self.together.stopped
        keeper.write(self.clocks)
        return keeper.finished()

    def _measure(self, keeper: RecordKeeper | None) -> None:
        cases = self.settings.cases()
        self.bars.phase("measuring", len(cases), "sizes")
        with self.together.listening():
            self.clocks.compare()
            for kind, size in cases:
                self._case(kind, size, keeper)
                self.clocks.compare()
                if keeper is not None:
                    keeper.write(self.clocks)
                self.bars.advance()
                if self.together.stopped:
                    break

    def _case(self, kind: BenchmarkKind, size: int, keeper: RecordKeeper | None) -> None:
        """One benchmark of one size over all systems."""
        self.bars.at(f"{kind.name} {size} B")
        lacking = self._lacking_memory(kind, size)
        if lacking is not None:
            for label in self.systems if keeper is not None else ():
                keeper.add(label, kind, size, None, lacking)  # type: ignore[union-attr]
            return
        most_ns = int(self.settings.budget * 1e9 / (2 * _LEAST_ROUNDS) / len(self.systems))
        trials = {label: self._trial(comm, kind, size, most_ns) for label, comm in self.systems.items()}
        for trial in trials.values():
            trial.check(2 * self.settings.seed + 1)
        able = [trial for trial in trials.values() if trial.failure is None]
        for trial in able:
            trial.warm(int(self.settings.budget * 1e9 / 4 / len(able)))
        self._rounds(able)
        for trial in able:
            trial.check(2 * self.settings.seed + 2)
        for label, trial in trials.items() if keeper is not None else ():
            keeper.add(label, kind, size, trial, trial.failure)  # type: ignore[union-attr]

    def _rounds(self, able: list[OperationTrial]) -> None:
        begin, number = perf_counter(), 0
        pending = bool(able)
        while self.together.goes_on(pending):
            for index in self.random.permutation(len(able)):
                able[index].sample()
            number += 1
            if self.leads:
                pending = self._unfinished(able, number, perf_counter() - begin)

    def _unfinished(self, able: list[OperationTrial], number: int, elapsed: float) -> bool:
        """Whether another round is worth its time: as rank 0 sees it."""
        few = any(sum(block.ns.shape[1] for block in trial.blocks) < _LEAST_SAMPLES for trial in able)
        if elapsed >= self.settings.budget:
            return (few and elapsed < 10 * self.settings.budget) or (
                number < _LEAST_ROUNDS and elapsed < 2 * self.settings.budget
            )
        if number < _LEAST_ROUNDS:
            return True
        widths = [_width(trial.blocks, trial.setting.pair[0] if trial.kind.pair else None) for trial in able]
        return any(width is None or width > self.settings.ci_width for width in widths)

    def _trial(self, comm: Communicator, kind: BenchmarkKind, size: int, most_ns: int) -> OperationTrial:
        dtype = self.settings.element_type
        setting = OperationSetting(comm, size // dtype.itemsize, dtype, self.settings.pair)
        return OperationTrial(comm, kind, setting, self.together, self.clocks, most_ns)

    def _lacking_memory(self, kind: BenchmarkKind, size: int) -> DeepBenchError | None:
        """Why a size cannot be measured: the arrays of all ranks of a node do not fit into its memory."""
        ranks = self.launched.local_size or self.control.size
        needed = memory_bytes(kind.name, self.control.size, size) * ranks * len(self.systems)
        available = psutil.virtual_memory().available
        if self.together.most(int(needed > 0.8 * available)):
            subject = f"{kind.name} of {in_bytes(size, digits=None)}"
            return DeepBenchError(
                f"{subject} needs {in_bytes(needed)} of a node; {in_bytes(available)} are free",
                advice="ask for smaller sizes, or fewer ranks on a node",
            )
        return None


def _width(blocks: list[RankBlock], rank: int | None) -> float | None:
    from deep_bench.distributed.collectives.result import operation_blocks

    return relative_half_width(operation_blocks(blocks, rank))

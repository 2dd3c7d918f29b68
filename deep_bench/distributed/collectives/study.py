"""The measurement: each benchmark and size over all communicators, block by block in random order, on all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import psutil

from deep_bench.distributed.collectives.blocks import RankBlock
from deep_bench.distributed.collectives.clocks import Clocks
from deep_bench.distributed.collectives.kinds import Kind
from deep_bench.distributed.collectives.problems import Setting, memory_bytes
from deep_bench.distributed.collectives.settings import Settings
from deep_bench.distributed.collectives.together import Together
from deep_bench.distributed.collectives.trial import Trial
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.launch import launch, local_facts
from deep_bench.distributed.machine.measure import measured_machine
from deep_bench.errors import DeepBenchError, InvalidArgument
from deep_bench.measure.progress import Bars
from deep_bench.measure.session import relative_half_width
from deep_bench.measure.units import in_bytes

if TYPE_CHECKING:
    from deep_bench.distributed.collectives.keeping import Keeper
    from deep_bench.distributed.collectives.result import Result
    from deep_bench.distributed.machine.model import Machine

_LEAST_ROUNDS = 6
"""For an interval over blocks; taken unless they need twice the budget."""

_LEAST_SAMPLES = 6
"""For an interval over samples; taken unless they need ten times the budget."""


def study(
    systems: Mapping[str, Communicator],
    settings: Settings | None = None,
    *,
    machine: Machine | None = None,
    output: Path | None = None,
    progress: bool = True,
) -> Result | None:
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
        >>> settings = Settings(sizes="8,64", budget=0.02)
        >>> result, nothing = run_local(2, lambda comm: study({"local": comm}, settings, progress=False))
        >>> [(row.size, row.verdict) for row in result.rows], nothing
        ([(8, 'right'), (64, 'right')], None)
    """
    settings = settings or Settings()
    comms = list(systems.values())
    if not comms or len({(comm.rank, comm.size) for comm in comms}) > 1:
        raise InvalidArgument(f"communicators {', '.join(systems) or '(none)'}", "at least one, all of the same ranks")
    settings.check_ranks(comms[0].size)
    return _Study(systems, settings, progress and comms[0].rank == 0).run(machine, output)


class _Study:
    def __init__(self, systems: Mapping[str, Communicator], settings: Settings, progress: bool) -> None:
        self.systems, self.settings = systems, settings
        self.control = next(iter(systems.values()))
        self.together, self.clocks = Together(self.control), Clocks(self.control)
        self.random = np.random.default_rng(settings.seed)
        self.leads, self.launched = self.control.rank == 0, launch()
        self.bars = Bars(progress)

    def run(self, machine: Machine | None, output: Path | None) -> Result | None:
        """Everything, in order; each size is written as soon as it is there."""
        from deep_bench.distributed.collectives.keeping import Keeper

        places = self.together.told(local_facts(self.launched)) or []
        measures = machine is None
        if measures:
            self.bars.phase("messages", len(self.systems), "communicators")
            machine = measured_machine(self.systems, [place["host"] for place in places], self.together, self.bars.advance)
        keeper = Keeper(self.systems, self.settings, places, machine, measures, output) if self.leads else None
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
        self.bars.close()
        return None if keeper is None else keeper.finished(self.clocks, interrupted=self.together.stopped)

    def _case(self, kind: Kind, size: int, keeper: Keeper | None) -> None:
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

    def _rounds(self, able: list[Trial]) -> None:
        begin, number = perf_counter(), 0
        pending = bool(able)
        while self.together.goes_on(pending):
            for index in self.random.permutation(len(able)):
                able[index].sample()
            number += 1
            if self.leads:
                pending = self._unfinished(able, number, perf_counter() - begin)

    def _unfinished(self, able: list[Trial], number: int, elapsed: float) -> bool:
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

    def _trial(self, comm: Communicator, kind: Kind, size: int, most_ns: int) -> Trial:
        dtype = self.settings.element_type
        setting = Setting(comm, size // dtype.itemsize, dtype, self.settings.pair)
        return Trial(comm, kind, setting, self.together, self.clocks, most_ns)

    def _lacking_memory(self, kind: Kind, size: int) -> DeepBenchError | None:
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

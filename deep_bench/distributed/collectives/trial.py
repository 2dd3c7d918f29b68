"""One operation of one size over one communicator: checked, warmed up, and timed block by block."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from math import ceil
from time import perf_counter_ns

import numpy as np

from deep_bench.distributed.collectives.blocks import RankBlock, gathered, sampled
from deep_bench.distributed.collectives.clocks import Clocks, common_origin
from deep_bench.distributed.collectives.kinds import Kind
from deep_bench.distributed.collectives.problems import Setting, problem
from deep_bench.distributed.collectives.together import Together
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.errors import DeepBenchError
from deep_bench.measure.record import WarmUpRecord
from deep_bench.measure.timing import BATCH_BELOW_NS, BATCHED_SAMPLE_NS
from deep_bench.measure.warmup import judge

BLOCK_NS = 50_000_000
"""How long a block lasts at least …"""

CALLS = 10
"""… and how many samples it has, unless that is more than its share of the budget."""

_WARM_UP_BLOCK_NS = 5_000_000
_LATE_NS = 300_000


@dataclass
class Trial:
    """The operation over one communicator. All ranks call its methods together; rank 0 alone keeps what was found.

    Args:
        comm: The communicator.
        kind: The benchmark.
        setting: Size, element type, pair.
        together: Over which the ranks agree.
        clocks: Of the ranks.
        most_ns: The longest that a block may last.
    """

    comm: Communicator
    kind: Kind
    setting: Setting
    together: Together
    clocks: Clocks
    most_ns: int
    blocks: list[RankBlock] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    failure: DeepBenchError | None = None
    warm_up: WarmUpRecord | None = None

    def __post_init__(self) -> None:
        self._problem = problem(self.kind.name, self.setting)
        self._barrier = None if self.kind.pair or not self.kind.sized else self.comm.barrier
        self._estimate, self._batch = 1, 1

    def check(self, seed: int) -> None:
        """Make the operation on fresh data, and note what is wrong on any rank, or that it was refused."""
        if not self.kind.sized:
            self._check_barrier()
            return
        wrong, failure = 0, None
        try:
            self._problem.prepare(self.comm.rank, self.comm.size, seed)
            self.comm.barrier()
            wrong = self._problem.wrong(seed)
        except DeepBenchError as error:
            failure = error
        if self.together.most(int(failure is not None)):
            self.failure = failure or DeepBenchError(f"{self.kind.name} failed on another rank")
            return
        counts = self.together.told(wrong)
        wrong_counts = {rank: count for rank, count in enumerate(counts or []) if count}
        if wrong_counts:
            self.wrong.append(f"{sum(wrong_counts.values())} wrong elements, on ranks {', '.join(map(str, wrong_counts))}")

    def _check_barrier(self) -> None:
        """Each rank in turn comes late; nobody may have left before it came, on the common clock."""
        for late in range(self.comm.size):
            before = partial(_spin, _LATE_NS) if self.comm.rank == late else None
            self.comm.barrier()
            block = gathered(sampled(self._problem.call, before, samples=1), self.together.comm)
            if block is None:
                continue
            clocks = common_origin(self.clocks.models())
            begin = np.array([c.on_rank_0(row)[0] for c, row in zip(clocks, block.begin, strict=True)])
            early = begin.max() - (begin + block.ns[:, 0]).min() - max(c.skew for c in clocks)
            if early > 0:
                self.wrong.append(f"a rank left {early / 1e3:.3g} µs before rank {late} came")

    def warm(self, most_ns: int) -> None:
        """Repeat it until the times are steady, and find out how many repetitions make a block."""
        begin, medians, calls, first = perf_counter_ns(), [], 1, 0
        block, self._estimate = self._timed(1, 1)
        if block is not None:
            first = int(block.ns.max())
        unsteady = True
        while self.together.goes_on(unsteady):
            samples = min(max(_WARM_UP_BLOCK_NS // self._estimate, 1), 10_000)
            block, self._estimate = self._timed(*self.together.decided(samples, 1))
            calls += samples
            if block is not None:
                medians.append(float(np.median(block.ns.max(axis=0))))
                unsteady = judge(medians)[0] is not True and perf_counter_ns() - begin < most_ns
        steady, reason = judge(medians)
        if self.kind.name == "latency" and medians and medians[-1] < BATCH_BELOW_NS:
            self._batch = ceil(BATCHED_SAMPLE_NS / medians[-1])
        self.warm_up = WarmUpRecord(
            steady=steady, first_call_ns=first, cost_ns=perf_counter_ns() - begin, calls=calls, medians_ns=medians,
            batch=self._batch, reason=reason,
        )  # fmt: skip

    def sample(self) -> None:
        """Take a block."""
        per_sample = self._estimate * self._batch
        target = max(BLOCK_NS // per_sample, CALLS)
        samples, batch = self.together.decided(min(max(target, 1), max(self.most_ns // per_sample, 1)), self._batch)
        block, sample_ns = self._timed(samples, batch)
        self._estimate = max(sample_ns // batch, 1)
        if block is not None:
            self.blocks.append(block)

    def _timed(self, samples: int, batch: int) -> tuple[RankBlock | None, int]:
        """A block of all ranks, on rank 0; and what a sample took with all that is around it, in nanoseconds."""
        begin = perf_counter_ns()
        local_block = sampled(self._problem.call, self._barrier, samples, batch)
        sample_ns = (perf_counter_ns() - begin) // samples
        return gathered(local_block, self.together.comm), max(sample_ns, 1)


def _spin(duration: int) -> None:
    begin = perf_counter_ns()
    while perf_counter_ns() - begin < duration:
        pass

"""What a communicator costs beside the calls of mpi4py that it makes, and what counting costs.

    python benchmarks/communicator_cost.py [--rounds 30]

It starts two ranks under this environment's ``mpirun``. For each size, both ranks take blocks of each contestant in the same
random order, a barrier before each block, and every sample is a batch of calls. `MpiCommunicator.allreduce` may take at most
1.1 times what ``MPI.COMM_WORLD.Allreduce(x, out)`` takes, and `Counting` 1 us a message beside the communicator within.
A bar holds when the upper end of the ratio's interval does. Rank 0's clock counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns

import numpy as np
from _side_by_side import Bar, Outcome, told
from rich.console import Console
from rich.table import Table

import deep_bench as db
from deep_bench.measure.compare import ratio
from deep_bench.measure.timing import Block

SIZES = (8, 64, 512, 4 * 2**10, 32 * 2**10, 256 * 2**10, 2**20, 4 * 2**20)
BLOCK_NS = 20_000_000
SAMPLES = 10
MOST = 1.1
COUNTING_NS = 1_000.0
RAW, OURS, COUNTED = "raw", "MpiCommunicator", "Counting"
EMPTY = np.zeros(SAMPLES, np.bool_)

Calls = dict[str, Callable[[], object]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, help="blocks of each contestant at each size")
    arguments = parser.parse_args()
    if "OMPI_COMM_WORLD_SIZE" in os.environ or "PMI_SIZE" in os.environ:
        return measured(arguments.rounds)
    environment = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMP_NUM_THREADS": "1",
    }
    mpirun = Path(sys.executable).with_name("mpirun")
    command = [str(mpirun), "-n", "2", sys.executable, *sys.argv]
    return subprocess.run(command, env={**os.environ, **environment}, check=False).returncode


def measured(rounds: int) -> int:
    """Measure on this rank; print and judge on rank 0."""
    comm = db.communicators["mpi"]()
    found = []
    for nbytes in SIZES:
        allreduce = f"allreduce of {nbytes} B"
        blocks = interleaved(comm, allreduces(comm, nbytes), rounds)
        found += judged(allreduce, blocks, [Bar(OURS, RAW, MOST)])
    for name, calls in (("allreduce", counted_allreduces(comm)), ("message", counted_messages(comm))):
        blocks = interleaved(comm, calls, rounds)
        allowance = COUNTING_NS * (2 if name == "message" else 1)
        found += judged(f"counted {name}, 8 B", blocks, [Bar(COUNTED, OURS, 1.0, allowance_ns=allowance)])
    if comm.rank:
        return 0
    table = Table("what", "base", "median", "ratio", title=", ".join(comm.describe().values()))
    for name, outcome, base, mine in found:
        table.add_row(name, f"{base / 1e3:.3f} us", f"{mine / 1e3:.3f} us", f"{outcome.value:.3f}")
    Console(width=120).print(table)
    return told([(name, outcome) for name, outcome, *_ in found])


def allreduces(comm: db.distributed.Communicator, nbytes: int) -> Calls:
    """The same sum, called in mpi4py and through the communicator."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    x, out = (np.zeros(nbytes // 4, np.float32) for _ in range(2))
    return {RAW: lambda: world.Allreduce(x, out), OURS: lambda: comm.allreduce(x, out=out)}


def counted_allreduces(comm: db.distributed.Communicator) -> Calls:
    """A sum, counted and not."""
    x, out = np.zeros(2, np.float32), np.zeros(2, np.float32)
    counting = db.distributed.Counting(comm)
    return {OURS: lambda: comm.allreduce(x, out=out), COUNTED: lambda: counting.allreduce(x, out=out)}


def counted_messages(comm: db.distributed.Communicator) -> Calls:
    """A message there and one back, counted and not."""
    x, out = np.zeros(2, np.float32), np.zeros(2, np.float32)
    other = 1 - comm.rank

    def both(via: db.distributed.Communicator) -> Callable[[], None]:
        def first() -> None:
            via.send(x, other)
            via.recv(out, other)

        def second() -> None:
            via.recv(out, other)
            via.send(x, other)

        return second if comm.rank else first

    return {OURS: both(comm), COUNTED: both(db.distributed.Counting(comm))}


def interleaved(comm: db.distributed.Communicator, calls: Calls, rounds: int) -> dict[str, list[Block]]:
    """Blocks of each call, in a random order that both ranks draw alike."""
    order, blocks = np.random.default_rng(0), {name: [] for name in calls}
    batch = batch_for(comm, calls)
    for _ in range(rounds):
        for name in order.permutation(list(calls)):
            comm.barrier()
            blocks[name].append(block(calls[name], batch))
    return blocks


def batch_for(comm: db.distributed.Communicator, calls: Calls) -> int:
    """How many calls make a sample, so that blocks take the time that they should."""
    slowest = 1
    for call in calls.values():
        call()
        comm.barrier()
        begin = perf_counter_ns()
        for _ in range(10):
            call()
        slowest = max(slowest, (perf_counter_ns() - begin) // 10)
    slowest = int(comm.allreduce(np.array([slowest]), "max")[0])
    return max(1, BLOCK_NS // SAMPLES // slowest)


def block(call: Callable[[], object], batch: int) -> Block:
    """Some samples in a row, the first of which is not kept."""
    stamps = np.empty(SAMPLES + 2, np.int64)
    repeats = range(batch)
    for sample in range(SAMPLES + 1):
        stamps[sample] = perf_counter_ns()
        for _ in repeats:
            call()
    stamps[-1] = perf_counter_ns()
    return Block(int(stamps[1]), batch, np.diff(stamps)[1:], EMPTY)


def judged(name: str, blocks: dict[str, list[Block]], bars: list[Bar]) -> list[tuple[str, Outcome, float, float]]:
    """What became of each bar, with the medians that are compared."""
    found = []
    for bar in bars:
        compared = ratio([blocks[bar.label]], [blocks[bar.base]])
        low, high = compared.interval or (compared.value, np.inf)
        most = bar.most + bar.allowance_ns / compared.base
        shown = Bar(bar.label, bar.base, round(most, 3))
        word = "holds" if high <= most else "does not hold"
        found.append((name, Outcome(shown, word, compared.value, low, high), compared.base, compared.median))
    return found


if __name__ == "__main__":
    sys.exit(main())

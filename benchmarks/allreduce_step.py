"""What a step of ``allreduce`` costs on two ranks, beside a loop written with mpi4py and torch's DDP over gloo.

    python benchmarks/allreduce_step.py [--budget 20] [--only MLP]
    mpirun -n 2 python benchmarks/allreduce_step.py

All three train the same torch module with the same optimizer, 64 samples a rank, one thread each; they take turns in
random order, the same on both ranks, in blocks with a barrier before each. At most 1.05 of the loop, and no slower than
DDP. A bar holds when the upper end of the ratio's interval does. Times are rank 0's; no rank ends a step before all have
begun it.

Then, with larger gradients: how long a step waits for messages with and without overlap. On as many cores as ranks the
thread that communicates takes its time from the one that computes: it shows what is hidden, not speed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
from _allreduce_systems import SYSTEMS, overlapping
from _side_by_side import Bar, Outcome, told

import deep_bench as db
from deep_bench.measure.compare import ratio
from deep_bench.measure.timing import Block

RANKS = 2
BLOCK_NS = 50_000_000
BARS = (Bar("deep_bench", "by hand", 1.05), Bar("deep_bench", "DDP over gloo", 1.0))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for each comparison")
    parser.add_argument("--only", choices=("MLP", "LeNet", "overlap"), help="one of the comparisons")
    arguments = parser.parse_args()
    if "OMPI_COMM_WORLD_SIZE" not in os.environ and "PMI_RANK" not in os.environ:
        return _launch()
    comm = db.communicators["mpi"](threads="multiple")
    found = []
    for case in ("MLP", "LeNet"):
        if arguments.only in (None, case):
            calls = {name: make(case, comm) for name, make in SYSTEMS.items()}
            found += [(case, outcome) for outcome in _judged(_blocks(calls, comm, arguments.budget), comm)]
    if arguments.only in (None, "overlap"):
        _overlap(comm, arguments.budget)
    return told(found) if comm.rank == 0 else 0


def _launch() -> int:
    """The same under ``mpirun``."""
    environment = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMP_NUM_THREADS": "1",
    }
    mpirun = Path(sys.executable).with_name("mpirun")
    command = [str(mpirun), "-n", str(RANKS), sys.executable, *sys.argv]
    return subprocess.run(command, env={**os.environ, **environment}, check=False).returncode


def _blocks(calls: Mapping[str, Callable[[], Any]], comm: Any, budget: float) -> dict[str, list[Block]]:
    """The blocks of each system on this rank."""
    order = np.random.default_rng(0)
    counts = {}
    for name, call in calls.items():
        for _ in range(20):
            call()
        mean = np.array([np.median(_timed(call, 20, comm).ns)])
        counts[name] = max(10, int(BLOCK_NS / comm.allreduce(mean, "max")[0]))
    found: dict[str, list[Block]] = {name: [] for name in calls}
    end = perf_counter_ns() + budget * 1e9
    while comm.broadcast(np.array([perf_counter_ns() < end]))[0]:
        for name in order.permutation(list(calls)):
            found[name].append(_timed(calls[name], counts[name], comm))
    return found


def _timed(call: Callable[[], Any], count: int, comm: Any) -> Block:
    comm.barrier()
    call()  # on caches that another system has filled
    ns = np.empty(count, np.int64)
    start = last = perf_counter_ns()
    for index in range(count):
        call()
        now = perf_counter_ns()
        ns[index], last = now - last, now
    return Block(start, 1, ns, np.zeros(count, bool))


def _judged(blocks: Mapping[str, list[Block]], comm: Any) -> list[Outcome]:
    if comm.rank != 0:
        return []
    for name, of_system in blocks.items():
        samples = np.concatenate([block.ns for block in of_system]) / 1e6
        low, middle, high = np.quantile(samples, [0.25, 0.5, 0.75])
        print(f"{name}: {middle:.3f} ms (quartiles {low:.3f} and {high:.3f}, {len(samples)} steps)")
    found = []
    for bar in BARS:
        compared = ratio([blocks[bar.label]], [blocks[bar.base]])
        low, high = compared.interval or (0.0, float("inf"))
        found.append(Outcome(bar, "holds" if high <= bar.most else "does not hold", compared.value, low, high))
    return found


def _overlap(comm: Any, budget: float) -> None:
    """Print how long steps wait for messages."""
    pairs = {flag: overlapping("deep MLP", comm, overlap=flag) for flag in (False, True)}
    waited: dict[bool, list[int]] = {flag: [] for flag in pairs}

    def noting(flag: bool) -> Callable[[], None]:
        call, exposed = pairs[flag]

        def step() -> None:
            call()
            waited[flag].append(exposed())

        return step

    blocks = _blocks({str(flag): noting(flag) for flag in pairs}, comm, budget / 2)
    if comm.rank == 0:
        for flag, of_flag in waited.items():
            steps = np.concatenate([block.ns for block in blocks[str(flag)]]) / 1e6
            word = "with overlap" if flag else "without"
            print(f"deep MLP, {word}: {np.median(of_flag) / 1e6:.2f} ms of {np.median(steps):.2f} ms wait for messages")


if __name__ == "__main__":
    sys.exit(main())

"""Kill a rank of a distributed run at random moments, see how the others end, resume, and compare what it ends with.

    python benchmarks/kill_ranks.py [--trials 20] [--amid 5] [--ranks 3] [--on torch:threads=1] [--on reference] [--seed 0]

Each trial starts ``mpirun -n 3 deep-bench train digits --distributed allreduce`` with a checkpoint after every step, and
kills one rank with SIGKILL after a random step and a random time; in ``--amid`` of the trials rank 0, while it writes a
checkpoint. Then it sees that all ranks ended within ten seconds, that there was one message and it named the rank, that
every checkpoint is whole, and that the same command with ``--resume`` ends with the same parameters, state and losses as a
run never killed, bit by bit. Frameworks take turns.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from tqdm import tqdm

from deep_bench.arrays import leaves
from deep_bench.training import latest_checkpoint, read_checkpoint

STEPS, BOUND_S = 36, 10.0
_LOOK_S = 1e-3
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Found:
    """What came of a trial."""

    rank: int
    moment: str
    ended_s: float
    named: bool
    whole: bool
    same: bool

    @property
    def fine(self) -> bool:
        """Whether all of it was as it should be."""
        return self.ended_s <= BOUND_S and self.named and self.whole and self.same


def start(on: str, ranks: int, folder: Path, *more: str) -> subprocess.Popen[str]:
    """The run, with checkpoints after every step; its ranks are in one session, which is ended if they do not end."""
    words = ["--on", on, "--distributed", "allreduce", "--steps", str(STEPS), "--no-target", "--patience", "60s"]
    words += ["--checkpoints", str(folder / "kept"), "--checkpoint-every", "1", "--output", str(folder / "out"), *more]
    here = Path(sys.executable).parent
    command = [str(here / "mpirun"), "-n", str(ranks), str(here / "deep-bench"), "train", "digits", *words]
    return subprocess.Popen(
        command,
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kept(on: str, folder: Path) -> Path:
    """Where the checkpoints of the run are."""
    return folder / "kept" / on.replace(":", "_") / "seed_0"


def processes(launcher: int) -> dict[int, psutil.Process]:
    """The process of each rank."""
    found = {}
    for process in psutil.Process(launcher).children(recursive=True):
        if (rank := process.environ().get("OMPI_COMM_WORLD_RANK")) is not None:
            found[int(rank)] = process
    return found


def killed(process: subprocess.Popen[str], folder: Path, rank: int, after: int, wait_s: float, amid: bool) -> str:
    """Kill a rank after so many steps; when that was."""
    first = folder / f"step_{after:010d}.h5"
    while not first.exists() and process.poll() is None:
        time.sleep(_LOOK_S)  # older checkpoints are soon deleted
    pid = processes(process.pid)[rank].pid
    if amid:
        while process.poll() is None and not any(folder.glob(".*.part")):
            pass
    else:
        time.sleep(wait_s)
    os.kill(pid, signal.SIGKILL)
    half = any(folder.glob(".*.part"))
    return f"{'amid' if half and rank == 0 else 'between'} checkpoints, step {after}"


def digest(folder: Path) -> str:
    """A digest of all that is in the latest checkpoint, but for times."""
    latest = latest_checkpoint(folder)
    if latest is None:
        return "nothing"
    tree = read_checkpoint(latest)
    parts = {"step": tree["step"], "losses": tree["history"]["losses"], "figures": tree["history"]["figures"]}
    found = hashlib.sha256(latest.name.encode())
    for path, array in sorted(leaves(parts).items()):
        found.update(repr(path).encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def trial(on: str, ranks: int, rank: int, after: int, wait_s: float, amid: bool, expected: str) -> Found:
    """One killing."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        checkpoints = kept(on, folder)
        process = start(on, ranks, folder)
        moment = killed(process, checkpoints, rank, after, wait_s, amid)
        begun = time.monotonic()
        try:
            told = process.communicate(timeout=6 * BOUND_S)[1]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return Found(rank, moment, float("inf"), named=False, whole=False, same=False)
        ended = time.monotonic() - begun
        messages = re.findall(r"^deep-bench: .*", told, re.MULTILINE)
        named = len(messages) == 1 and f"rank {rank} of {ranks} on " in messages[0] and "Traceback (most" not in told
        if not named:
            print(told, file=sys.stderr)
        try:
            whole = all(read_checkpoint(path) for path in checkpoints.glob("step_*.h5"))
        except Exception as error:
            print(error, file=sys.stderr)
            whole = False
        start(on, ranks, folder, "--resume").communicate()
        return Found(rank, moment, ended, named, whole, digest(checkpoints) == expected)


def whole_run(on: str, ranks: int) -> str:
    """What a run that is never killed ends with."""
    with tempfile.TemporaryDirectory() as temporary:
        start(on, ranks, Path(temporary)).communicate()
        found = digest(kept(on, Path(temporary)))
    if found == "nothing":
        raise SystemExit(f"a run on {on} left no checkpoint")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--amid", type=int, default=5, help="how many of them while rank 0 writes a checkpoint")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--on", action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    frameworks = arguments.on or ["torch:threads=1", "reference"]
    expected = {on: whole_run(on, arguments.ranks) for on in frameworks}
    results = []
    print("trial  on               rank  moment                        ended after  message  whole  same bits", flush=True)
    for number in tqdm(range(arguments.trials), disable=None, leave=False):
        on, amid = frameworks[number % len(frameworks)], number < arguments.amid
        rank = 0 if amid else int(rng.integers(arguments.ranks))
        after, wait_s = int(rng.integers(1, STEPS - 6)), float(rng.uniform(0, 0.2))
        found = trial(on, arguments.ranks, rank, after, wait_s, amid, expected[on])
        results.append(found)
        marks = "  ".join(f"{'yes' if mark else 'NO':>7}" for mark in (found.named, found.whole, found.same))
        print(f"{number:5}  {on:15}  {rank:4}  {found.moment:28}  {found.ended_s:9.2f} s  {marks}", flush=True)
    bad = [found for found in results if not found.fine]
    half = sum(found.moment.startswith("amid") for found in results)
    slowest = max(found.ended_s for found in results)
    print(f"{len(results)} trials, {half} amid a checkpoint: {len(bad)} not fine; all ended within {slowest:.2f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

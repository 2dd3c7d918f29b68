"""Kill a training run at random moments, resume it, and compare what it ends with.

    python benchmarks/kill_and_resume.py [--trials 20] [--amid 5] [--on torch:threads=1] [--on reference] [--seed 0]

Each trial starts a process that trains the ``digits`` recipe and writes a checkpoint after every step, kills it with SIGKILL
after a random number of steps, ``--amid`` of them while a checkpoint is being written, resumes it from the latest checkpoint
in a new process, and compares parameters, statistics, the optimizer's state and all losses with a run never stopped,
bit by bit.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from tqdm import tqdm

from deep_bench.arrays import leaves
from deep_bench.events import Moment
from deep_bench.training import Checkpoints, Trainer, latest_checkpoint, read_checkpoint, train

STEPS = 36
"""One epoch of 23 steps, an evaluation, and part of the next epoch."""


class Told:
    """Prints the number of each step, so that the process that watches knows where this one is."""

    moments = (Moment.AFTER_STEP,)

    def __call__(self, moment: Moment, index: int, time_ns: int, data: object) -> None:  # noqa: ARG002
        print(index + 1, flush=True)


def trainer(on: str, folder: Path | None) -> Trainer:
    """The run, with checkpoints after every step if there is a folder."""
    kept = [] if folder is None else [Checkpoints(folder, steps=1, epochs=1, keep=3)]
    return train("digits", on=on, seed=3, callbacks=[Told(), *kept], stop_at_target=False)


def digest(run: Trainer) -> str:
    """A digest of all that a run ended with, but for times."""
    tree = run.snapshot()
    found = hashlib.sha256()
    kept = {"step": tree["step"], "losses": tree["history"]["losses"], "figures": tree["history"]["figures"]}
    for path, array in sorted(leaves(kept).items()):
        found.update(repr(path).encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def work(on: str, folder: Path) -> None:
    """What the process that is killed does, and the one that resumes."""
    run = trainer(on, folder)
    latest = latest_checkpoint(folder)
    if latest is not None:
        run.restore(read_checkpoint(latest))
    run.run(steps=STEPS)
    print("digest", digest(run), flush=True)


def start(on: str, folder: Path) -> subprocess.Popen[str]:
    """Such a process."""
    command = [sys.executable, __file__, "--work", str(folder), "--on", on]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})


def killed(process: subprocess.Popen[str], folder: Path, after: int, amid: bool) -> tuple[int, bool]:
    """Kill it after so many steps; the number of steps it had told of, and whether a checkpoint was half-written."""
    assert process.stdout is not None
    told = 0
    while told < after:
        line = process.stdout.readline()
        if not line.strip().isdecimal():
            raise SystemExit(f"the process ended by itself after step {told}: {line}")
        told = int(line)
    if amid:
        while process.poll() is None and not any(folder.glob(".*.part")):
            pass  # a checkpoint begins to be written within a step
    process.send_signal(signal.SIGKILL)
    process.wait()
    return told, any(folder.glob(".*.part"))


def trial(on: str, after: int, amid: bool, expected: str) -> tuple[bool, str]:
    """One killing; whether the resumed run ended with the same bits, and what happened."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        told, half = killed(start(on, folder), folder, after, amid)
        for path in folder.glob("step_*.h5"):
            read_checkpoint(path)  # raises where one is damaged
        resumed = start(on, folder)
        out, _ = resumed.communicate()
        ended = next((line.split()[1] for line in out.splitlines() if line.startswith("digest")), "nothing")
    same = ended == expected
    where = "amid a checkpoint" if half else "between checkpoints"
    return same, f"{on}, killed after step {told}, {where}: {'the same bits' if same else 'DIFFERENT'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20, help="for each framework")
    parser.add_argument("--amid", type=int, default=5, help="how many of them while a checkpoint is written")
    parser.add_argument("--on", action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work is not None:
        work(arguments.on[0], arguments.work)
        return 0
    rng = np.random.default_rng(arguments.seed)
    lost = half = count = 0
    for on in arguments.on or ["torch:threads=1", "reference"]:
        process = start(on, Path(tempfile.mkdtemp()))
        expected = process.communicate()[0].split()[-1]
        for number in tqdm(range(arguments.trials), desc=on, disable=None, leave=False):
            same, line = trial(on, int(rng.integers(1, STEPS - 2)), number < arguments.amid, expected)
            print(line, flush=True)
            lost, half, count = lost + (not same), half + ("amid" in line), count + 1
    print(f"{count} trials, {half} amid a checkpoint: {lost} lost or changed")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())

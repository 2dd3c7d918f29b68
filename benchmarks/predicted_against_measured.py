"""What `deep-bench scale` predicts for 2 and 4 ranks, beside steps that are measured here.

    python benchmarks/predicted_against_measured.py [--steps 200] [--scheme allreduce]

It measures what messages cost (two ranks under this environment's ``mpirun``), trains on 1, 2 and 4 ranks, and predicts the
same from traces and from one rank's times, by formulas and by SimGrid where that is installed. The pattern of messages must
be that of the runs. Times are shown side by side, without a bar: with more ranks than cores, and memory that they share, the
difference is what a network would not have.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from deep_bench.distributed.scaling.record import MeasuredRecord, load_scaling

HERE = Path(sys.executable).parent
RANKS = (1, 2, 4)
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMP_NUM_THREADS": "1",
}
ON = "torch:threads=1"
CALLS = 0.15
"""So much may the calls of a step differ from the pattern's: losses are summed, and parameters compared, now and then."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="of each run")
    parser.add_argument("--scheme", default="allreduce", help="what keeps ranks together")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder)
        run(2, "communicate", "--collective", "latency", "--sizes", "8:1Ki", "--budget", "200ms", "--output", str(output))
        records = {ranks: trained(ranks, arguments, output / str(ranks)) for ranks in RANKS}
        words = ["scale", "digits", "--on", ON, "--ranks", "2,4", "--machine", str(output / "machine.json")]
        words += ["--distributed", arguments.scheme, "--times", str(records[1]), "--output", str(output)]
        words += [word for ranks in RANKS[1:] for word in ("--measured", str(records[ranks]))]
        print(run(1, *words, launched=False))
        found = load_scaling(next(output.glob("scaling-*.json")))
    return judged(found.measured)


def trained(ranks: int, arguments: argparse.Namespace, output: Path) -> Path:
    """The record of a run."""
    words = ["train", "digits", "--on", ON, "--distributed", arguments.scheme, "--no-target"]
    run(ranks, *words, "--steps", str(arguments.steps), "--output", str(output))
    return next(output.glob("*training*.json"))


def run(ranks: int, *words: str, launched: bool = True) -> str:
    """One command of deep-bench, on several ranks; its output."""
    launcher = [str(HERE / "mpirun"), "-n", str(ranks)] if launched else []
    command = [*launcher, str(HERE / "deep-bench"), *words]
    done = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {done.returncode}: {done.stderr}")
    return done.stdout


def judged(measured: list[MeasuredRecord]) -> int:
    """Whether each run said what the pattern says; the exit status."""
    wrong = 0
    for one in measured:
        for name, (calls, expected) in one.calls.items():
            if abs(calls - expected) > CALLS:
                wrong += 1
                print(
                    f"{name} on {one.ranks} ranks: {calls:.2f} calls a step measured, {expected:.2f} predicted",
                    file=sys.stderr,
                )
    print("the pattern of messages is that of the runs" if not wrong else f"{wrong} operations differ", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

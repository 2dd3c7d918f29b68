"""Every scheme trains the digits to their target on several ranks: epochs and time to train, beside what was sent.

    python benchmarks/schemes.py [--ranks 3] [--on torch:threads=1] [--only allreduce] [--seed 0] [--write docs/schemes.md]

Each is a launch of ``mpirun -n 3 deep-bench train digits --distributed …`` of its own; its record is read. Ranks share the
cores of one machine: times say what a scheme costs here, volumes what it would ask of a network.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from deep_bench.training.record import TrainingRecord, load_training

SCHEMES = (
    "allreduce",
    "parameter-server",
    "sharded-state",
    "hierarchical:per_node=2",
    "averaging",
    "averaging:every=4",
    "post-local:until=12,every=4",
    "decentralised:topology=ring",
    "decentralised:topology=exponential",
    "gossip",
    "gradient-push",
    "asynchronous",
    "stale-synchronous:bound=2",
    "sparse:k=0.05",
    "quantised:levels=127",
    "one-bit",
    "low-rank:rank=2",
)
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Outcome:
    """What a scheme came to.

    Args:
        scheme: As it is written on the command line.
        reached: Whether it reached the target.
        epochs: Whole epochs until then, or until the end.
        seconds: From the first touch of the data until then, or until the end.
        accuracy: The best.
        sent: Bytes that the usual algorithms send, of all ranks, for an epoch.
        promise: What it says of the parameters of different ranks.
    """

    scheme: str
    reached: bool
    epochs: int
    seconds: float
    accuracy: float
    sent: float
    promise: str

    @classmethod
    def of(cls, scheme: str, record: TrainingRecord) -> Outcome:
        """Read a record of one run."""
        (run,) = record.runs
        assert run.ranks is not None
        assert record.target is not None
        last = run.evaluations[-1]
        moved = sum(m.moved_bytes for rank in run.ranks.ranks for m in rank.messages)
        accuracies = [one.figures["accuracy"] for one in run.evaluations]
        epochs = last.epoch
        reached = max(accuracies) >= record.target.value
        return cls(scheme, reached, epochs, last.time_ns / 1e9, max(accuracies), moved / epochs, run.ranks.promise)


def outcome(scheme: str, ranks: int, on: str, seed: int) -> Outcome | str:
    """Launch one scheme; what went wrong, if something did."""
    programs = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        command = [str(programs / "mpirun"), "-n", str(ranks), str(programs / "deep-bench"), "train", "digits"]
        command += ["--on", on, "--distributed", scheme, "--seed", str(seed), "--output", folder]
        ended = subprocess.run(
            command, env={**ENVIRONMENT, **os.environ}, capture_output=True, text=True, timeout=600, check=False
        )
        found = sorted(Path(folder).glob("*_training_*.json"))
        if not found:
            return f"{scheme}: exit status {ended.returncode}: {ended.stderr.strip()[-400:]}"
        return Outcome.of(scheme, load_training(found[0]))


def table(outcomes: list[Outcome], ranks: int, on: str) -> str:
    """The outcomes in Markdown."""
    lines = [
        f"`mpirun -n {ranks} deep-bench train digits --on {on} --distributed SCHEME`, target accuracy 0.97, one run each.",
        "",
        "| scheme | target | epochs | time to it | best accuracy | sent in an epoch | ranks' parameters |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for one in outcomes:
        reached = "reached" if one.reached else "missed"
        lines.append(
            f"| {one.scheme} | {reached} | {one.epochs} | {one.seconds:.2f} s | {one.accuracy:.4f} "
            f"| {one.sent / 2**20:.2f} MiB | {one.promise} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--on", default="torch:threads=1")
    parser.add_argument("--only", action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, help="Write the table into this file.")
    given = parser.parse_args()
    chosen = given.only or SCHEMES
    found = [outcome(scheme, given.ranks, given.on, given.seed) for scheme in tqdm(chosen, disable=None)]
    outcomes = [one for one in found if isinstance(one, Outcome)]
    failures = [one for one in found if isinstance(one, str)]
    text = table(outcomes, given.ranks, given.on)
    if given.write is not None:
        given.write.write_text(
            f"# Schemes on the digits\n\nMade by `python benchmarks/schemes.py --write {given.write}`.\n\n{text}"
        )
    print(text)
    for failure in failures:
        print(failure)
    return 0 if not failures and all(one.reached for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())

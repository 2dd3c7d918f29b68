"""The command line, where one rank is told other words than the others."""

from __future__ import annotations

import sys
from pathlib import Path

import deep_bench as db
from deep_bench.cli import main

WORDS = ["--on", "reference", "--output", sys.argv[1]]
OTHERS = Path(sys.argv[1], "kept")

if __name__ == "__main__":
    other = db.communicators["mpi"]().rank == 1
    status = []
    folder = OTHERS / "reference" / "seed_0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "step_0000000009.h5").touch()
    for scheme, *words in (
        ["allreduce", "digitz"],
        ["allreduce", "digits", "data.name=digitz"] if other else ["allreduce", "digits"],
        ["allreduce", "digits", f"optimizer.lr=0.{1 + other}"],
        ["allreduce", "digits", "--runs", "2", "--resume", "--checkpoints", "kept"] if other else ["allreduce", "digits"],
        ["alreduce", "digits"],
        ["allreduce:bukket=2", "digits"],
        ["decentralised:topology=rang", "digits"],
        ["allreduce", "digits", "--checkpoints", str(OTHERS)],
    ):
        try:
            main(["train", *words, *WORDS, "--distributed", scheme])
        except SystemExit as end:
            status.append(end.code)
    sys.exit(0 if status == [2] * 8 else 1)

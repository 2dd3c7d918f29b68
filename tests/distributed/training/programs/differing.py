"""The command line, where one rank is told other words than the others."""

from __future__ import annotations

import sys

import deep_bench as db
from deep_bench.cli import main

WORDS = ["--on", "reference", "--distributed", "allreduce", "--steps", "1", "--output", sys.argv[1]]

if __name__ == "__main__":
    other = db.communicators["mpi"]().rank == 1
    status = []
    for words in (
        ["digitz"],
        ["digits", "data.name=digitz"] if other else ["digits"],
        ["digits", f"optimizer.lr=0.{1 + other}"],
    ):
        try:
            main(["train", *words, *WORDS])
        except SystemExit as end:
            status.append(end.code)
    sys.exit(0 if status == [2, 2, 2] else 1)

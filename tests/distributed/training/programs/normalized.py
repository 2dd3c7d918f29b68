"""Synchronised normalization over MPI, while a thread sends gradients; rank 0 keeps its course."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import deep_bench as db
from tests.distributed.training.normalized import course, small


def main(path: Path) -> None:
    """Train."""
    comm = db.communicators["mpi"](threads="multiple")
    found = course(comm, "reference", small(), overlap=True, overlap_from=0)
    if comm.rank == 0:
        arrays = {f"{step} {name}": a for step, held in enumerate(found.parameters) for name, a in held.items()}
        np.savez(path, losses=np.array(found.losses), **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

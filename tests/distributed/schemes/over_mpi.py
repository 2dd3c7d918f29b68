"""What `test_allreduce` starts under ``mpirun``: the schemes that keep ranks equal, over MPI."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import deep_bench as db
from tests.distributed.schemes.equivalence import EVEN, PARTS, alone, check_equivalent, trained

STEPS = 10
SETTINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("allreduce", {}),
    ("allreduce", {"bucket": 64}),
    ("allreduce", {"bucket": 64, "overlap": True, "overlap_from": 0}),
    ("hierarchical", {}),
    ("hierarchical", {"per_node": 1}),
    ("parameter-server", {}),
    ("sharded-state", {}),
)


def main() -> int:
    comm = db.communicators["mpi"](threads="multiple")
    rules = {"reference": db.optimizers["adam"](lr=0.05)}
    if "torch" in db.frameworks and not db.frameworks.missing("torch"):
        rules["torch"] = db.optimizers["torch.adam"](lr=0.05)
    expected = alone(rules["reference"], STEPS)
    for framework, rule in rules.items():
        device = db.frameworks[framework]()
        for name, settings in SETTINGS:
            for parts in (PARTS, EVEN):
                if parts is EVEN and settings:
                    continue
                made = db.distributed_optimizers[name](rule, comm, **settings)
                mine = trained(made, comm, device, parts, STEPS)
                check_equivalent([mine, _other(comm, mine)], expected, (1, STEPS))
                if settings.get("overlap"):
                    assert made.exposed_ns is not None
    if comm.rank == 0:
        print("all fine")
    return 0


def _other(comm: Any, mine: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """What the other rank holds."""
    sent = np.concatenate([w.reshape(-1) for held in mine for w in held.values()])
    received, found, at = np.empty_like(sent), [], 0
    comm.sendrecv(sent, 1 - comm.rank, received, 1 - comm.rank)
    for held in mine:
        theirs = {}
        for name, w in held.items():
            theirs[name] = received[at : at + w.size].reshape(w.shape)
            at += w.size
        found.append(theirs)
    return found


if __name__ == "__main__":
    sys.exit(main())

"""A rank gets SIGTERM; all end after the same step, and go on from the checkpoint as if nothing had been."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import deep_bench as db
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.events import Moment
from deep_bench.training.checkpoint import Checkpoints, latest_checkpoint, read_checkpoint
from tests.distributed.training.ranks import together

STEPS, AT = 13, 6


def main(folder: Path) -> None:
    """Three runs: one whole, one that is ended, one that goes on from it."""
    comm: Communicator = db.communicators["mpi"]()

    def signalled(moment: Moment, index: int, time_ns: int, data: Any) -> None:
        if moment is Moment.AFTER_STEP and index == AT and comm.rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    def made(*callbacks: Any) -> Any:
        return together(comm, normalized=True, callbacks=callbacks)

    whole = made().run(steps=STEPS)
    ended = made(Checkpoints(folder), signalled).run(steps=STEPS)
    trainer = made()
    latest = latest_checkpoint(folder)
    trainer.restore(read_checkpoint(latest) if comm.rank == 0 and latest is not None else None)
    resumed = trainer.run(steps=STEPS)
    same = list(resumed.losses) == list(whole.losses)
    told = f"rank {comm.rank}: {ended.steps} steps, {ended.stopped_because}; the same after that: {same}"
    rows = [told] if comm.rank == 0 else []
    print(*rows, f"rank {comm.rank} {ended.steps} {same}", sep="\n", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The conformance suite of communicators, for anyone's.

    mpirun -n 3 python -m deep_bench.testing.communicators mpi
    torchrun --nproc-per-node 3 -m deep_bench.testing.communicators torch
    mpirun -n 3 python -m deep_bench.testing.communicators package.module:MyCommunicator
    python -m deep_bench.testing.communicators local --ranks 7

The exit status is 0 if all ranks found all in order. A check that does not come to its end is named with each rank's stack.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Timer

import deep_bench as db
from deep_bench.distributed.communicators.communicator import Communicator, guarded
from deep_bench.distributed.communicators.local import run_local
from deep_bench.testing.communicator_checks import COMMUNICATOR_CHECKS

RANKS = (1, 2, 3, 4, 7)
"""The numbers of ranks for which a communicator should be checked."""

_GRACE_S = 5.0


def check_communicator(
    comm: Communicator,
    checks: Iterable[str] = COMMUNICATOR_CHECKS,
    told: Callable[[str], object] | None = None,
    limit_s: float | None = None,
) -> dict[str, str]:
    """Put a communicator through the checks; all of its ranks call this at the same time.

    A check sends all of its messages before it judges, so that ranks stay together where one of them finds a fault. One that
    raises amid its messages may leave others waiting: give it a limit.

    Args:
        comm: This rank's.
        checks: Their names, out of `COMMUNICATOR_CHECKS`.
        told: Called with each fault as it is found.
        limit_s: After so long in one check this process says which one it is, and where, and ends with the status 1.

    Returns:
        Name of the check to what this rank found wrong; empty if all is well.

    Example:
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> run_local(2, check_communicator)
        [{}, {}]
    """
    faults = {}
    for name in checks:
        try:
            with _limited(comm, name, limit_s):
                COMMUNICATOR_CHECKS[name](comm)
        except Exception as error:
            faults[name] = _words(error)
            if told is not None:
                told(f"rank {comm.rank} of {comm.size}, {name}: {faults[name]}")
    return faults


def check_in_threads(
    wrapped: Callable[[Communicator], Communicator], ranks: int, checks: Iterable[str] = COMMUNICATOR_CHECKS
) -> dict[str, str]:
    """Put a communicator that is built on others through the checks, over ranks that are threads of this process.

    A rank that waits for ever is found out at once, and spoils no check but its own.

    Args:
        wrapped: Makes it of a rank's `LocalCommunicator`.
        ranks: How many.
        checks: Their names.

    Returns:
        Name of the check to what the first rank that failed found wrong.

    Example:
        >>> check_in_threads(lambda comm: comm, 3, ["exchanges", "splits"])
        {}
    """
    faults = {}
    for name in checks:
        try:
            run_local(ranks, partial(_on_one, name, wrapped))
        except Exception as error:
            faults[name] = _words(error)
    return faults


@contextmanager
def _limited(comm: Communicator, name: str, limit_s: float | None) -> Iterator[None]:
    if limit_s is None:
        yield
        return
    timer = Timer(limit_s, _end, [f"rank {comm.rank} of {comm.size}, {name}: not at its end after {limit_s:g} s"])
    timer.daemon = True
    timer.start()
    faulthandler.dump_traceback_later(limit_s + _GRACE_S, exit=True)  # where nothing else of Python runs any more
    try:
        yield
    finally:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()


def _end(text: str) -> None:
    print(f"{text}; it may wait for a rank that failed in it before", file=sys.stderr, flush=True)
    faulthandler.dump_traceback()
    sys.stdout.flush()
    os._exit(1)


def _on_one(name: str, wrapped: Callable[[Communicator], Communicator], comm: Communicator) -> None:
    COMMUNICATOR_CHECKS[name](wrapped(comm))


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Put the communicator of the command line through the checks, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="in db.communicators, or package.module:attribute")
    parser.add_argument("--ranks", type=int, help="threads of this process, for local only")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds in one check after which a rank is ended")
    options = parser.parse_args(arguments)
    if options.name == "local":
        lines = [
            f"{ranks} ranks, {name}: {fault}" for ranks in _ranks(options.ranks) for name, fault in _local(ranks).items()
        ]
        print("\n".join(lines) or "local: all in order")
        return 1 if lines else 0
    if options.ranks is not None:
        parser.error("--ranks is for local; others are started by mpirun, srun or torchrun")
    comm: Communicator = db.communicators[options.name]()
    with guarded(comm):
        faults = check_communicator(comm, told=lambda text: print(text, flush=True), limit_s=options.limit)
        if comm.rank == 0:
            facts = ", ".join(f"{name} {value}" for name, value in comm.describe().items())
            print(f"rank 0 of {comm.size}: {len(COMMUNICATOR_CHECKS)} checks, {len(faults)} faults ({facts})", flush=True)
        with _limited(comm, "the barrier at the end", options.limit):
            comm.barrier()
    return 1 if faults else 0


def _ranks(requested: int | None) -> tuple[int, ...]:
    return RANKS if requested is None else (requested,)


def _local(ranks: int) -> dict[str, str]:
    return check_in_threads(lambda comm: comm, ranks)


if __name__ == "__main__":
    sys.exit(main())

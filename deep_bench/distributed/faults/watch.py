"""``watched``: ranks that watch each other, so that none waits for ever for one that is lost."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.communicators.guard import cause
from deep_bench.distributed.communicators.local import LocalCommunicator
from deep_bench.distributed.faults.leaving import FAULT
from deep_bench.distributed.faults.monitor import Monitor
from deep_bench.distributed.faults.party import Party, assembled
from deep_bench.distributed.faults.report import failure_of
from deep_bench.distributed.faults.teller import Teller
from deep_bench.distributed.faults.verdict import GRACE_S
from deep_bench.distributed.faults.where import Where, of_communication
from deep_bench.errors import DeepBenchError, InvalidArgument

PATIENCE_S = 600.0
"""An evaluation on rank 0, or the loading of data, may take so long while others wait."""

_CONNECTING_S = 10.0
_ENDED_S = 20.0

_watch: Watch | None = None


class Watch:
    """This rank, as it is watched.

    Args:
        party: The ranks.
        teller: Of this one.
        where: Its place.
        monitor: On rank 0.
    """

    def __init__(self, party: Party, teller: Teller, where: Where, monitor: Monitor | None) -> None:
        self._party, self._teller, self._where, self._monitor = party, teller, where, monitor

    def follow(self, steps: Callable[[], int], calls: Callable[[], int], common: Callable[[], int] | None = None) -> None:
        """Tell others how far this rank is.

        Args:
            steps: How many steps it has taken.
            calls: How many operations are behind it.
            common: How many steps this rank knows that all have taken.
        """
        self._where.step, self._where.calls, self._where.common = steps, calls, common

    def survive(self) -> None:
        """From now on ranks but rank 0 may be lost: the others go on."""
        if self._monitor is not None:
            self._monitor.survives = True

    def failed(self, error: BaseException) -> None:
        """End all ranks, since this one cannot go on."""
        message = (
            str(error) if isinstance(error, DeepBenchError) else "".join(traceback.format_exception_only(error)).strip()
        )
        whole = "".join(traceback.format_exception(error))
        self._teller.failed(failure_of(error, message, whole, disturbed=of_communication(error)))
        time.sleep(GRACE_S + _ENDED_S)  # a thread ends this process before
        self._party.tell(f"rank {self._party.rank} failed, and rank 0 does not answer: {message}")
        self._party.leave(FAULT)

    def end(self) -> None:
        """This rank has come to its end as it should. Rank 0 waits for the others."""
        self._teller.goodbye()
        self._teller.join()
        if self._monitor is not None:
            self._monitor.join()
        self._party.server.close()


@contextmanager
def watched(
    comm: Communicator,
    *,
    patience_s: float = PATIENCE_S,
    folder: Path | None = None,
    resume: str = "",
    host: str | None = None,
    but: tuple[type[BaseException], ...] = (),
) -> Iterator[Watch | None]:
    """Within the block no rank waits for ever for another: if one is killed, stopped, hangs or raises, all end.

    Each rank has a thread that tells rank 0 twice a second where it is, over a connection beside the communicator. Rank 0,
    or the lowest rank that is left, prints one message with the rank, its host and the cause; all leave with the status 3
    (130 after Ctrl-C), and all their stacks are in a file that the message names. A rank is lost when its connection ends;
    it is silent when nothing came for the patience; it hangs when it got no further for so long while others wait in an
    operation. Python code that keeps the interpreter's lock for so long counts as silent, and is killed.

    Ranks that are threads of one process, and one rank alone, are not watched.

    Args:
        comm: The ranks, which all call this together.
        patience_s: See above.
        folder: Where the file goes; ``None`` for no file.
        resume: What the message advises, to go on.
        host: Where this rank runs, as the message should say it.
        but: What all ranks raise together, each of which ends by itself.

    Raises:
        InvalidArgument: A patience that is not positive.
        CommunicationFailed: Ranks that cannot agree on how they are reached.

    Example:
        >>> with watched(LocalCommunicator()) as watch:
        ...     print(watch)
        None
    """
    global _watch
    if not patience_s > 0:
        raise InvalidArgument(f"a patience of {patience_s} s", "more than 0")
    if comm.size == 1 or isinstance(comm, LocalCommunicator):
        yield None
        return
    watch = _begun(assembled(comm, patience_s, folder, resume, host), comm)
    if watch is None:
        yield None
        return
    _watch = watch
    try:
        yield watch
    except but:
        watch.end()
        raise
    except BaseException as error:
        watch.failed(error)
        raise
    else:
        watch.end()
    finally:
        _watch = None


def current() -> Watch | None:
    """How this rank is watched, if it is."""
    return _watch


def end_all(comm: Communicator, error: BaseException) -> None:
    """End all ranks, since this one failed: by its watch, if it is watched.

    Args:
        comm: The ranks.
        error: Why.
    """
    if _watch is not None:
        _watch.failed(error)
    comm.abort(cause(error))


def _begun(party: Party, comm: Communicator) -> Watch | None:
    """The watch, if every rank reaches rank 0; else it is told, and there is none."""
    where = Where()
    monitor = Monitor(party, where) if comm.rank == 0 else None
    if monitor is not None:
        monitor.start()
    lines = party.reach(0, _CONNECTING_S)
    reached = comm.allgather(np.array([lines is not None])).reshape(-1)
    if lines is not None and reached.all():
        if monitor is not None:
            monitor.judges = True
        teller = Teller(party, lines, where)
        teller.start()
        return Watch(party, teller, where, monitor)
    if lines is not None:
        lines.close()
    if monitor is not None:
        monitor.over = True
        monitor.join()
        hosts = ", ".join(sorted({party.members[int(rank)].host for rank in np.flatnonzero(~reached)}))
        party.tell(f"ranks do not watch each other: {party.members[0].host} cannot be reached from {hosts} by TCP")
    party.server.close()
    return None

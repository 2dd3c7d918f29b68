"""What ranks agree on while they measure: rank 0 decides, and whoever is asked to stop says so."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator


class Together:
    """Agreement over one communicator; all ranks call its methods in the same order."""

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm
        self.stopped = False
        self._asked = False

    def decided(self, *values: int) -> list[int]:
        """The numbers as rank 0 has them."""
        return [int(value) for value in self.comm.broadcast(np.array(values, np.int64), 0)]

    def most(self, value: int) -> int:
        """The largest of all ranks' numbers."""
        return int(self.comm.allreduce(np.array([value], np.int64), "max")[0])

    def goes_on(self, wanted: bool) -> bool:
        """Whether rank 0 wants to go on and nobody was asked to stop."""
        self.stopped = bool(self.most(int(self._asked)))
        return bool(self.decided(int(wanted))[0]) and not self.stopped

    def told(self, fact: Any) -> list[Any] | None:
        """What each rank tells, as JSON; on rank 0."""
        text = json.dumps(fact).encode()
        row = np.zeros(self.most(len(text)), np.uint8)
        row[: len(text)] = np.frombuffer(text, np.uint8)
        rows = self.comm.gather(row, 0)
        return None if rows is None else [json.loads(bytes(entry).rstrip(b"\0")) for entry in rows]

    @contextmanager
    def listening(self, signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)) -> Iterator[None]:
        """While it lasts, signals ask to stop at the next block instead of ending this rank in the middle of one."""

        def ask(*_: object) -> None:
            self._asked = True

        if current_thread() is not main_thread():  # only that one may say what signals do
            yield
            return
        before = {number: signal.signal(number, ask) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

"""What each rank of a run has observed of itself, and all of it on rank 0."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.communicators.counting import Counting
from deep_bench.distributed.training.bytes import gather
from deep_bench.training.record import RANK_COLUMNS, MessagesRecord, RankRecord, RanksRecord
from deep_bench.training.steps import Tree

Times = NDArray[np.int64]

COLUMNS = tuple(name for name in RANK_COLUMNS if name != "stamps")
"""What is kept of each step besides stamps; see `RankRecord`."""


class Observed:
    """The steps of this rank.

    Args:
        comm: The ranks, counted; its log is emptied from time to time.
        local: Where this process runs.

    Attributes:
        stepped: Whether a step was begun since somebody set this to false.
    """

    def __init__(self, comm: Counting, local: Mapping[str, Any]) -> None:
        self._comm, self._local = comm, dict(local)
        self._columns: dict[str, array[int]] = {name: array("q") for name in COLUMNS}
        self._windows = array("q")
        self._totals: dict[str, MessagesRecord] = {}
        self._began_ns = 0
        self.stepped = False

    def begin(self, samples: int, agreeing_ns: int) -> None:
        """A step begins: all ranks have just agreed on it."""
        self._columns["samples"].append(samples)
        self._columns["agreeing"].append(agreeing_ns)
        self._began_ns = perf_counter_ns()
        self.stepped = True

    def end(self, computed_ns: int) -> None:
        """It is done.

        Args:
            computed_ns: When the gradients were there.
        """
        self._windows.extend((self._began_ns, computed_ns, perf_counter_ns()))

    def fold(self) -> None:
        """Sum up what was counted since this was called last, and forget the calls."""
        windows = np.array(self._windows, np.int64).reshape(-1, 3)
        self._windows = array("q")
        communicating, exposed = within(windows, self._comm.calls)
        self._columns["computing"].extend((windows[:, 1] - windows[:, 0]).tolist())
        self._columns["updating"].extend((windows[:, 2] - windows[:, 1]).tolist())
        self._columns["communicating"].extend(communicating.tolist())
        self._columns["exposed"].extend(exposed.tolist())
        for name, total in self._comm.totals().items():
            before = self._totals.setdefault(
                name, MessagesRecord(operation=name, calls=0, payload_bytes=0, moved_bytes=0, spent_ns=0)
            )
            before.calls += total.calls
            before.payload_bytes += total.payload
            before.moved_bytes += total.moved
            before.spent_ns += round(total.seconds * 1e9)
        self._comm.clear()

    def as_tree(self) -> Tree:
        """The steps, for a checkpoint."""
        return {name: np.array(column, np.int64) for name, column in self._columns.items()}

    def of_tree(self, tree: Tree) -> None:
        """Go on from `as_tree`."""
        self._columns = {name: array("q", np.asarray(tree[name]).tolist()) for name in COLUMNS}

    def record(self, trainer: Any, remarks: list[str], job: Mapping[str, Any]) -> RanksRecord | None:
        """All ranks' together, on rank 0; all call this."""
        self.fold()
        mine = RankRecord(
            rank=self._comm.rank,
            local=self._local,
            stamps=np.array(trainer.history.stamps, np.int64),
            messages=list(self._totals.values()),
            **{name: np.array(column, np.int64) for name, column in self._columns.items()},
        )
        inner: Communicator = self._comm.inner
        rows = gather(inner, np.frombuffer(mine.model_dump_json().encode(), np.uint8).copy())
        if rows is None:
            return None
        return RanksRecord(
            scheme=repr(trainer.taker.rule),
            promise=trainer.taker.rule.promise,
            communicator=dict(inner.describe()),
            job=dict(job),
            remarks=remarks,
            ranks=[RankRecord.model_validate_json(row.tobytes()) for row in rows],
        )


def within(windows: Times, calls: Mapping[str, Times]) -> tuple[Times, Times]:
    """The time in calls of each step, and how much of it was after its gradients.

    Args:
        windows: When each step began, had its gradients, and ended; of shape (steps, 3), in nanoseconds.
        calls: ``start_ns`` and ``inside_ns`` of calls, in the order in which they began.

    Example:
        >>> calls = {"start_ns": np.array([5, 18, 25, 40]), "inside_ns": np.array([9, 4, 2, 1])}
        >>> within(np.array([[10, 20, 30], [30, 35, 50]]), calls)
        (array([6, 1]), array([4, 1]))
    """
    communicating, exposed = np.zeros(len(windows), np.int64), np.zeros(len(windows), np.int64)
    start, inside = calls["start_ns"], calls["inside_ns"]
    first, last = (np.searchsorted(start, windows[:, column]) for column in (0, 2))
    for step, (begin, end) in enumerate(zip(first, last, strict=True)):
        computed, done = windows[step, 1:]
        window = slice(begin, end)
        ends = np.minimum(start[window] + inside[window], done)
        communicating[step] = inside[window].sum()
        exposed[step] = np.maximum(ends - np.maximum(start[window], computed), 0).sum()
    return communicating, exposed

"""Which of several ranks that live in threads of one process goes on: one at a time, so that a run can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Condition

import numpy as np

from deep_bench.errors import CommunicationFailed, DeepBenchError, InvalidArgument

Ready = Callable[[], bool]


class Schedule:
    """Passes the turn from rank to rank. The thread that has it runs until it must wait for another rank.

    Args:
        ranks: How many.
        order: ``None``: the next rank that can go on, by number. A seed: one of those that can, drawn at every message as
            well. A list: the choices of an earlier run, to repeat it.

    Attributes:
        choices: The ranks that were chosen so far.
        failure: Why no rank can go on, if it came to that.
    """

    def __init__(self, ranks: int, order: int | Sequence[int] | None = None) -> None:
        self.choices: list[int] = []
        self.failure: DeepBenchError | None = None
        self._ranks = ranks
        self._draws = np.random.default_rng(order) if isinstance(order, int) else None
        self._script = None if order is None or isinstance(order, int) else list(order)
        self._changed = Condition()
        self._waiting: dict[int, tuple[str, Ready]] = {rank: ("its begin", lambda: True) for rank in range(ranks)}
        self._turn: int | None = None
        self._stopped: BaseException | None = None

    @property
    def preempts(self) -> bool:
        """Whether the turn may pass where nobody has to wait."""
        return self._draws is not None or self._script is not None

    def begin(self, rank: int) -> None:
        """Wait for the first turn."""
        with self._changed:
            if self._turn is None and rank == 0:
                self._pass(after=self._ranks - 1)
            self._await(rank)

    def wait(self, rank: int, what: str, ready: Ready) -> None:
        """Return when something is so, with the turn.

        Args:
            rank: Who waits.
            what: For what, in words.
            ready: Whether it is so.

        Raises:
            CommunicationFailed: No rank can go on; or another rank failed.
        """
        with self._changed:
            if not self.preempts and ready():
                return
            self._waiting[rank] = (what, ready)
            self._pass(after=rank)
            self._await(rank)

    def rest(self, rank: int) -> None:
        """Let the others go on before this rank does."""
        with self._changed:
            self._waiting[rank] = ("its next turn", lambda: True)
            self._pass(after=rank)
            self._await(rank)

    def end(self, rank: int, failure: BaseException | None = None) -> None:
        """This rank has come to its end; or failed, whereupon all others fail too."""
        with self._changed:
            self._waiting.pop(rank, None)
            if failure is not None and self._stopped is None:
                self._stopped = failure
            self._pass(after=rank)

    def _await(self, rank: int) -> None:
        self._changed.wait_for(lambda: self._turn == rank or self._stopped is not None)
        if self._stopped is not None:
            raise CommunicationFailed(f"rank {rank} was stopped: {self._stopped}")
        self._waiting.pop(rank)

    def _pass(self, after: int) -> None:
        able = [rank for rank, (_, ready) in sorted(self._waiting.items()) if ready()]
        if not able and self._waiting and self._stopped is None:
            message = "; ".join(f"rank {rank} waits for {event}" for rank, (event, _) in sorted(self._waiting.items()))
            self.failure = self._stopped = CommunicationFailed(
                f"no rank can go on: {message}", "messages that match", "compare what each rank sends and receives"
            )
        self._turn = self._chosen(able, after) if able else None
        self._changed.notify_all()

    def _chosen(self, able: list[int], after: int) -> int:
        if self._script is not None:
            if len(self.choices) >= len(self._script) or self._script[len(self.choices)] not in able:
                self.failure = self._stopped = InvalidArgument(
                    f"a schedule whose choice {len(self.choices)} cannot be followed: ranks {able} can go on",
                    "the choices of a run of the same program",
                )
                return able[0]
            rank = self._script[len(self.choices)]
        elif self._draws is not None:
            rank = able[int(self._draws.integers(len(able)))]
        else:
            rank = min(able, key=lambda r: (r - after - 1) % self._ranks)
        self.choices.append(rank)
        return rank

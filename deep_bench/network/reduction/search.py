"""The search for a smaller network: what was tried, what is the smallest so far, and when to stop."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from deep_bench.errors import WorkerDied
from deep_bench.graph import Network
from deep_bench.measure.progress import Bars
from deep_bench.network.reduction.candidate import Candidate
from deep_bench.network.suspect import quiet

Predicate = Callable[[Network, Mapping[str, np.ndarray]], bool]
"""Whether a network on some inputs still shows what is looked for."""

T = TypeVar("T")


class OutOfTimeError(Exception):
    """The time for the search is spent."""


class Search:
    """Asks a predicate about candidates, and keeps the smallest that satisfies it.

    Args:
        predicate: What must stay true.
        start: A candidate that satisfies it.
        budget: Seconds for the search.
        bars: Shows progress.

    Attributes:
        predicate: As given.
        best: The smallest candidate so far that satisfies the predicate.
        tried: How many candidates the predicate was asked about.
        crashed: On how many a framework's process ended; the predicate has the attribute ``deaths``, if it counts them.
        failed: How many it failed on with another exception, which counts as *no*.
        first_failure: The first of these exceptions in one line.
        steps: What made the network smaller, in order.
    """

    def __init__(self, predicate: Predicate, start: Candidate, budget: float, bars: Bars) -> None:
        self.best = start
        self.tried = self.failed = self.crashed = 0
        self.first_failure = ""
        self.steps: list[str] = []
        self.predicate, self._bars = predicate, bars
        self._start, self._budget = time.monotonic(), budget
        self._shown = 0.0
        self._refused: set[str] = set()

    def check(self) -> float:
        """The seconds since the start.

        Raises:
            OutOfTimeError: The time is spent.
        """
        elapsed = time.monotonic() - self._start
        if elapsed > self._budget:
            raise OutOfTimeError
        return elapsed

    def holds(self, candidate: Candidate) -> bool:
        """Ask the predicate; what it said no to once is not asked again.

        Raises:
            OutOfTimeError: The time is spent.
        """
        elapsed = self.check()
        self._bars.at(f"{len(self.best.nodes)} nodes, {self.best.size} numbers, {self.tried} tried")
        self._bars.advance(elapsed - self._shown)
        self._shown = elapsed
        key = _fingerprint(candidate)
        if key in self._refused:
            return False
        self.tried += 1
        if self._asked(candidate):
            return True
        self._refused.add(key)
        return False

    def _asked(self, candidate: Candidate) -> bool:
        before = self._deaths()
        try:
            with quiet():
                return bool(self.predicate(candidate.network, candidate.inputs))
        except WorkerDied:  # it shows a crash, which is not what is looked for
            return False
        except Exception as error:  # a candidate on which the question has no answer shows nothing
            self.failed += 1
            self.first_failure = self.first_failure or f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"[:200]
            return False
        finally:
            self.crashed += self._deaths() > before

    def _deaths(self) -> int:
        return int(getattr(self.predicate, "deaths", 0))

    def offer(self, candidate: Candidate | None, what: str) -> bool:
        """Take a smaller candidate, if there is one and the predicate holds for it.

        Args:
            candidate: What it may be reduced to; ``None`` where that cannot be.
            what: What was done, for `steps`.
        """
        if candidate is None or not self.holds(candidate):
            return False
        self.best = candidate
        self.steps.append(what)
        return True


def _fingerprint(candidate: Candidate) -> str:
    """What tells a candidate from others: its network and inputs."""
    digest = hashlib.sha256(candidate.network.to_proto().SerializeToString(deterministic=True))
    for name, array in candidate.inputs.items():
        content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        digest.update(f"{name} {array.dtype} {array.shape} ".encode() + content)
    return digest.hexdigest()


def minimise(items: Sequence[T], still: Callable[[Sequence[T]], bool]) -> list[T]:
    """A part of ``items`` for which ``still`` holds, and from which no single one can be left out: delta debugging.

    Args:
        items: A sequence for which it holds.
        still: Asked of parts, in order; it keeps what it accepts.

    Example:
        >>> minimise(range(100), lambda part: 17 in part and 60 in part)
        [17, 60]

    Source:
        Zeller and Hildebrandt, *Simplifying and Isolating Failure-Inducing Input*, IEEE TSE 28(2), 2002, section 3.
    """
    retained, pieces = list(items), 2
    while len(retained) > 1:
        size = -(-len(retained) // pieces)
        parts = [retained[i : i + size] for i in range(0, len(retained), size)]
        alone = next((part for part in parts if still(part)), None) if pieces <= len(retained) else None
        if alone is not None:
            retained, pieces = alone, 2
            continue
        complements = ([x for p in parts if p is not part for x in p] for part in parts) if len(parts) > 2 else iter(())
        without = next((complement for complement in complements if still(complement)), None)
        if without is not None:
            retained, pieces = without, max(pieces - 1, 2)
        elif pieces >= len(retained):
            break
        else:
            pieces = min(2 * pieces, len(retained))
    return retained

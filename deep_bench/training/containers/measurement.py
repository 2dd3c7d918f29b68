"""How long batches take from containers: in order and at random, from the disk and from memory, decoding apart."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument
from deep_bench.measure.session import Plan, Watch, measure
from deep_bench.measure.statistics import Summary, summarize
from deep_bench.training.containers import Container, RecordContainer, in_memory
from deep_bench.training.sets import open_set
from deep_bench.workers.fleet import Contender


def drop(files: Sequence[Path]) -> None:
    """Ask the system to forget what it has of these files; what is mapped or not yet written stays.

    Source:
        posix_fadvise(2), POSIX_FADV_DONTNEED.
    """
    for file in files:
        number = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(number)


def why_not(files: Sequence[Path]) -> str:
    """Why these files cannot be taken out of the cache; empty if they can, as trying the first of them shows.

    Source:
        preadv2(2), RWF_NOWAIT: only what is in the cache is read.
    """
    if not files:
        return "it has no files"
    if not hasattr(os, "posix_fadvise") or not hasattr(os, "RWF_NOWAIT"):
        return "this system has no call for it"
    file = max(files, key=os.path.getsize)
    os.sync()
    drop([file])
    number = os.open(file, os.O_RDONLY)
    try:
        cached_bytes = os.preadv(number, [bytearray(1)], os.path.getsize(file) // 2, os.RWF_NOWAIT)
    except BlockingIOError:
        return ""
    except OSError as error:
        return f"whether its file system does it cannot be seen ({errno.errorcode.get(error.errno or 0, error.strerror)})"
    finally:
        os.close(number)
    return "its file system keeps it in memory" if cached_bytes else "its files are empty"


COLD = ", cold"
_NEVER = "not measured"
_BLOCK_NS = 20_000_000  # cold calls are many times as long as their samples: the sets are opened again before each
_WARM_UP_S = 0.3


class Reading:
    """Batches of a set, as a system under test (`deep_bench.workers.host.System`).

    Its calls are ``sequential`` and ``random``, each a batch further; the same with ``, cold``, for which the set is closed,
    its files are taken out of the system's cache and it is opened again before each; and, where samples are decoded,
    ``fetching`` and ``decoding`` of batches in order.

    Args:
        name: As `open_set` takes it.
        root: The folder of data sets.
        memory: Whether to read all of it into memory first.
        batch: Samples in a batch.
        seed: Of the random order.
    """

    threaded = False

    def __init__(self, name: str, root: str | None = None, memory: bool = False, batch: int = 64, seed: int = 0) -> None:
        self._name, self._root, self._memory, self._batch, self._seed = name, root, memory, batch, seed
        self.before: dict[str, Callable[[], None]] = {}

    def prepare(self) -> dict[str, Any]:
        """Open the set, and see what can be measured of it."""
        self._set = self._opened()
        count = len(self._set)
        if not count:
            raise InvalidArgument(f"{self._name} has no samples", "at least one to measure")
        self._orders = {
            "sequential": _batches(np.arange(count), self._batch),
            "random": _batches(np.random.default_rng(self._seed).permutation(count), self._batch),
        }
        self._next = dict.fromkeys((*self._orders, "fetching", "decoding"), 0)
        files = self._set.origin.files if isinstance(self._set, Container) and self._set.path is not None else ()
        self._files = files
        warm_only = why_not(files)
        if not warm_only:
            self.before = {order + COLD: self._cool for order in self._orders}
        return {"batch": min(self._batch, count), "not cold": warm_only}

    def calls(self) -> Mapping[str, Callable[[], object]]:
        """The calls by name."""
        by_name: dict[str, Callable[[], object]] = {order: self._reading(order) for order in self._orders}
        by_name |= {order + COLD: self._reading(order) for order in self._orders if order + COLD in self.before}
        if isinstance(self._set, RecordContainer):
            fetched = [(self._set.fetch(batch.tolist()), batch.tolist()) for batch in self._orders["sequential"][:8]]
            by_name["fetching"] = lambda: self._records().fetch(self._following("fetching", "sequential").tolist())
            by_name["decoding"] = lambda: self._records().decoded(*fetched[self._turn("decoding", len(fetched))])
        return by_name

    def synchronize(self) -> None:
        """Nothing: a read has ended when it returns."""

    def _opened(self) -> Any:
        dataset = open_set(self._name, self._root)
        return in_memory(dataset) if self._memory else dataset

    def _cool(self) -> None:
        """What is mapped stays in the cache: so the set is closed first."""
        self._set.close()
        drop(self._files)
        self._set = self._opened()

    def _reading(self, order: str) -> Callable[[], object]:
        return lambda: self._set[self._following(order, order)]

    def _records(self) -> RecordContainer:
        assert isinstance(self._set, RecordContainer)
        return self._set

    def _following(self, call: str, order: str) -> NDArray[np.int64]:
        batches = self._orders[order]
        return batches[self._turn(call, len(batches))]

    def _turn(self, call: str, of: int) -> int:
        number = self._next[call]
        self._next[call] = (number + 1) % of
        return number


def _batches(numbers: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    """Full batches; a single smaller one, if there are too few samples."""
    full = len(numbers) // size * size
    return np.split(numbers[:full], full // size) if full else [numbers]


@dataclass(frozen=True)
class ReadingSubject:
    """What is measured.

    Args:
        label: Its name in the report.
        name: As `open_set` takes it.
        memory: Whether it is read into memory first.
    """

    label: str
    name: str
    memory: bool = False


@dataclass(frozen=True)
class ReadingFigures:
    """How long one call takes.

    Args:
        n: Samples of the time.
        median_ns: Their median: a batch's latency.
        low_ns: The lower end of its 95 % interval; None where samples are too few.
        high_ns: The upper end.
        samples_per_s: Samples of the set a second, at the median.
    """

    n: int
    median_ns: float
    low_ns: float | None
    high_ns: float | None
    samples_per_s: float


@dataclass(frozen=True)
class Latencies:
    """What was measured of a subject.

    Args:
        label: The subject.
        batch: Samples in a batch.
        calls: Name of a call to its figures; see `Reading`.
        not_cold: Why nothing was read from the disk; empty if it was.
        error: Why it failed; empty if it did not.
    """

    label: str
    batch: int = 0
    calls: Mapping[str, ReadingFigures] = field(default_factory=dict)
    not_cold: str = ""
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class ReadingMeasurement:
    """All subjects, and whether the user ended it early."""

    latencies: tuple[Latencies, ...]
    interrupted: bool = False


def measure_reading(
    subjects: Sequence[ReadingSubject],
    *,
    root: Path | str | None = None,
    batch: int = 64,
    seed: int = 0,
    budget_s: float | None = None,
    ci_width: float = 0.02,
    in_process: bool = False,
    watch: Watch = lambda _: None,
) -> ReadingMeasurement:
    """Time batches of several sets in turns, each in a process of its own.

    Args:
        subjects: The sets.
        root: The folder of data sets.
        batch: Samples in a batch.
        seed: Of the random order.
        budget_s: Seconds for all; by default 10 for each.
        ci_width: Stop when half the 95 % interval of each median is at most this share of it.
        in_process: Start no processes: for a debugger.
        watch: Told of each block.

    Raises:
        InvalidArgument: No subject, or a batch below 1.
    """
    if batch < 1 or not subjects:
        raise InvalidArgument(f"{len(subjects)} sets in batches of {batch}", "at least one set, at least one sample")
    shared = {"root": None if root is None else str(root), "batch": batch, "seed": seed}
    contenders = [
        Contender(s.label, f"{__name__}:Reading", {"name": s.name, "memory": s.memory, **shared}) for s in subjects
    ]
    budget_s = 10.0 * len(subjects) if budget_s is None else budget_s
    plan = Plan(ci_width=ci_width, budget_s=budget_s, seed=seed, min_ns=_BLOCK_NS, warm_up_s=_WARM_UP_S)
    measurement = measure(contenders, plan, in_process=in_process, watch=watch)
    rows = []
    for subject in subjects:
        facts = measurement.prepared.get(subject.label, {}).get("facts", {})
        error = measurement.failures.get(subject.label)
        size = facts.get("batch", 0)
        series = {s.quantity: summarize(s.blocks) for s in measurement.series if s.label == subject.label and s.blocks}
        calls = {name: _figures(summary, size) for name, summary in series.items()}
        not_cold = facts.get("not cold", _NEVER)
        rows.append(Latencies(subject.label, size, calls, not_cold, "" if error is None else str(error)))
    return ReadingMeasurement(tuple(rows), measurement.interrupted)


def _figures(summary: Summary, batch: int) -> ReadingFigures:
    interval = summary.interval
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return ReadingFigures(summary.n, summary.median, low, high, batch / summary.median * 1e9)

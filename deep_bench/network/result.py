"""What a run found, as typed objects and as a table; all of it computed from the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from deep_bench.errors import UnknownName
from deep_bench.fault import Exposure
from deep_bench.measure import storage
from deep_bench.measure.comparison import Comparison, Ratio, compare, ratio
from deep_bench.measure.record import Record, SystemRecord
from deep_bench.measure.statistics import Interval, Summary, interval_over, median_over, summarize
from deep_bench.measure.timing import Block
from deep_bench.network.system import NATIVE, NUMPY

RIGHT_ENOUGH = frozenset({"right", "no information", "cannot tell"})
"""Verdicts that do not make a run fail: nothing was found wrong."""


@dataclass(frozen=True)
class SystemResult:
    """What was found of one system. Times are in seconds.

    Args:
        record: What was kept of it.
    """

    record: SystemRecord

    @property
    def label(self) -> str:
        """How it was asked for: the framework with its options."""
        return self.record.label

    @property
    def verdict(self) -> str:
        """*right*, *reduced precision*, *wrong*, *cannot tell* or *no information*; *unchecked*; or *failed*."""
        if self.record.error is not None:
            return "failed"
        return self.record.verdict.verdict if self.record.verdict is not None else "unchecked"

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        if self.record.error is not None:
            return self.record.error.message
        return self.record.verdict.reason if self.record.verdict is not None else ""

    @property
    def significant_bits(self) -> float | None:
        """The precision that explains the error seen, in bits; ``None`` if it was not checked."""
        return self.record.verdict.significant_bits if self.record.verdict is not None else None

    @property
    def max_error(self) -> float | None:
        """The largest absolute error of any output element."""
        return self.record.verdict.max_abs_error if self.record.verdict is not None else None

    @property
    def findings(self) -> list[str]:
        """What is worth knowing and is no failure."""
        return self.record.verdict.findings if self.record.verdict is not None else []

    @property
    def exposures(self) -> list[Exposure]:
        """The known faults of the framework that nodes of the network may meet."""
        return [Exposure(f.name, f.severity, f.reason, tuple(f.nodes)) for f in self.record.known_faults]

    def launches(self, quantity: str = NATIVE) -> list[list[Block]]:
        """The raw samples, launch by launch, block by block."""
        return self.record.launches(quantity)

    @cached_property
    def _native(self) -> list[Summary]:
        return [summarize(blocks) for blocks in self.launches(NATIVE)]

    @property
    def summary(self) -> Summary | None:
        """All statistics of the call on native arrays, in nanoseconds; of the first launch where there are several."""
        return self._native[0] if self._native else None

    @property
    def median(self) -> float | None:
        """The median of the call on native arrays; the median over launches where there are several."""
        return median_over(self._native)

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of `median` in seconds, and over what it was taken."""
        return interval_over(self._native)

    @cached_property
    def numpy_median(self) -> float | None:
        """The median of the call from and to NumPy arrays."""
        return median_over([summarize(blocks) for blocks in self.launches(NUMPY)])

    @property
    def p99(self) -> float | None:
        """The 99th percentile of the call on native arrays; ``None`` if there are too few samples to tell."""
        percentile = self.summary.percentiles["p99"] if self.summary is not None else None
        return None if percentile is None else percentile.value / 1e9


class Result(Mapping[str, SystemResult]):
    """What a run found: label to system. Printing it shows the table.

    Args:
        record: The run's record.
        path: The record's file, if it was written.

    Example:
        >>> import deep_bench as db
        >>> result = db.run("digits-cnn", on=["reference"], budget=0.5, twin=False, progress=False)
        >>> result["reference"].verdict
        'right'
    """

    def __init__(self, record: Record, path: Path | None = None) -> None:
        self.record = record
        self.path = path
        self._systems = {s.label: SystemResult(s) for s in record.systems}

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read a record's file.

        Raises:
            InvalidRecord: It is none.
        """
        return cls(storage.load(Path(path)), Path(path))

    def __getitem__(self, label: str) -> SystemResult:
        if label not in self._systems:
            raise UnknownName("system of this run", label, self._systems)
        return self._systems[label]

    def __iter__(self) -> Iterator[str]:
        return iter(s.label for s in self.record.systems if s.twin_of is None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def ok(self) -> bool:
        """Whether no system failed and no result was found wrong."""
        return all(s.verdict in RIGHT_ENOUGH or s.verdict == "unchecked" for s in self.values())

    @property
    def interrupted(self) -> bool:
        """Whether the run was ended early."""
        return self.record.interrupted

    @property
    def failures(self) -> list[SystemResult]:
        """The systems that failed."""
        return [s for s in self.values() if s.record.error is not None]

    @cached_property
    def fastest(self) -> SystemResult | None:
        """The system with the least median."""
        timed = [s for s in self.values() if s.median is not None]
        return min(timed, key=lambda s: s.median or 0.0) if timed else None

    def ratio(self, label: str, base: str | None = None) -> Ratio | None:
        """The time of one system over that of another (by default the fastest), with its interval."""
        against = self[base] if base is not None else self.fastest
        if against is None or not self[label].launches() or not against.launches():
            return None
        return ratio(self[label].launches(), against.launches())

    @cached_property
    def twins(self) -> Comparison | None:
        """One system against itself, measured twice in this run: the differences that mean nothing."""
        for system in self._systems.values():
            twin_of = system.record.twin_of
            if twin_of is not None and system.launches() and self[twin_of].launches():
                return compare(system.launches(), self[twin_of].launches())
        return None

    def table(self, width: int | None = None) -> str:
        """The table as text.

        Args:
            width: Columns of text; by default those of the terminal, or 160 where there is none.
        """
        from deep_bench.network.report import as_text

        return as_text(self, width)

    def as_json(self) -> dict[str, Any]:
        """The derived figures as plain JSON types; raw samples are in the record."""
        from deep_bench.network.report import as_json

        return as_json(self)

    def save(self, folder: str | Path) -> Path:
        """Write the record to a folder, which is made if it is not there, and return its file.

        Raises:
            InvalidArgument: The folder cannot be made or written.
        """
        from deep_bench.measure.folder import output_folder

        self.path = storage.save(self.record, output_folder(folder))
        return self.path

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        from deep_bench.network.report import as_html

        return as_html(self)

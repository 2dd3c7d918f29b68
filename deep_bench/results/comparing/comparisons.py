"""``Comparisons``: all that a comparison of two sides found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from deep_bench.measure.storage import written
from deep_bench.results.comparing.comparison import Change, Comparison
from deep_bench.results.comparing.correction import CORRECTIONS
from deep_bench.results.comparing.pairing import RECORD, Pairing
from deep_bench.results.result import Result


@dataclass(frozen=True)
class Comparisons(Sequence[Comparison]):
    """What was found. Printing it shows the report.

    Args:
        pairings: What was paired; several where one base was compared with several others.
        comparisons: One for each figure of each pair, totals last.
        changes: Outcomes that are not right, or others than before; the worst first.
        margin: The relative difference that counts as none.
        correction: How many comparisons were taken into account.
    """

    pairings: tuple[Pairing, ...]
    comparisons: tuple[Comparison, ...]
    changes: tuple[Change, ...]
    margin: float
    correction: str

    @overload
    def __getitem__(self, index: int) -> Comparison: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Comparison]: ...
    def __getitem__(self, index: int | slice) -> Comparison | Sequence[Comparison]:
        return self.comparisons[index]

    def __len__(self) -> int:
        return len(self.comparisons)

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    @property
    def factor(self) -> str:
        """What tells the sides apart."""
        return self.pairings[0].factor

    @property
    def tests(self) -> int:
        """How many comparisons the correction takes into account."""
        return sum(comparison.tested for comparison in self.comparisons)

    @property
    def left(self) -> tuple[tuple[Result, ...], tuple[Result, ...]]:
        """The results of each side that have no counterpart, each once."""
        both = [{id(r): r for p in self.pairings for r in p.left[which]}.values() for which in (0, 1)]
        return tuple(both[0]), tuple(both[1])

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know to judge the words."""
        from deep_bench.results.comparing.notes import notes

        return notes(self)

    def __str__(self) -> str:
        return self.table()

    def table(self, width: int | None = None) -> str:
        """The report as text.

        Args:
            width: Characters in a line; by default those of the terminal.
        """
        from deep_bench.results.comparing.report import as_text

        return as_text(self, width)

    def plot(self, file: str | Path) -> Path:
        """A forest plot: each ratio with its interval.

        Raises:
            InvalidArgument: There is no ratio to show, or the file cannot be written.
        """
        from deep_bench.results.comparing.plot import plot

        return plot(self, file)

    def as_json(self) -> dict[str, Any]:
        """All of it in plain types; infinities and NaN are ``None``."""
        first = self.pairings[0]
        names = ["before", "after"]
        return {
            "factor": self.factor,
            "values": [] if self.factor == RECORD else [dict(zip(names, p.values, strict=True)) for p in self.pairings],
            "further": sum(p.further for p in self.pairings),
            "across": {name: list(values) for name, values in first.across.items()},
            "margin": self.margin,
            "correction": {"name": self.correction, "promise": CORRECTIONS[self.correction], "tests": self.tests},
            "copies": _names(path for p in self.pairings for entry in p.pairs for path in entry.copies),
            "shared": _names(path for p in self.pairings for entry in p.pairs for path in entry.shared),
            "changes": [{**asdict(change), "worse": change.worse} for change in self.changes],
            "comparisons": [_plain(asdict(entry)) for entry in self.comparisons],
            "unpaired": {
                name: [{"name": r.name, "file": str(r.file), "labels": dict(r.labels)} for r in side]
                for name, side in zip(names, self.left, strict=True)
            },
            "notes": list(self.notes),
        }

    def save(self, file: str | Path) -> Path:
        """Write `as_json` to a file.

        Raises:
            InvalidArgument: It cannot be written.
        """
        import json

        text = json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n"
        return written(Path(file), lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _names(files: Iterable[Path]) -> list[str]:
    return list(dict.fromkeys(map(str, files)))


def _plain(x: Any) -> Any:
    if isinstance(x, dict):
        return {name: _plain(value) for name, value in x.items()}
    if isinstance(x, list | tuple):
        return [_plain(value) for value in x]
    if isinstance(x, float):
        return x if abs(x) < float("inf") else None
    return x

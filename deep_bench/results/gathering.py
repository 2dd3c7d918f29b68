"""Files and folders of records as one data set."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from deep_bench.errors import DeepBenchError, FrameworkMissing, InvalidArgument, InvalidRecord, UnknownName, on_a_line
from deep_bench.results.paths import path_of
from deep_bench.results.reading.files import find, kind_of
from deep_bench.results.reading.kinds import NO_RESULTS, record_kinds
from deep_bench.results.reading.labels import text_of
from deep_bench.results.result import Result

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Refused:
    """A file that was not read.

    Args:
        file: Its path.
        reason: Why.
    """

    file: Path
    reason: str

    def __str__(self) -> str:
        name = on_a_line(self.file)
        return self.reason if name in self.reason else f"{name}: {self.reason}"


class Results(Sequence[Result]):
    """Results of any kinds, in their order; a slice or a choice of them is one again.

    Args:
        results: What was read.
        refused: What was not.
    """

    def __init__(self, results: Iterable[Result] = (), refused: Iterable[Refused] = ()) -> None:
        self._results = tuple(results)
        self.refused = tuple(refused)

    @overload
    def __getitem__(self, at: int) -> Result: ...
    @overload
    def __getitem__(self, at: slice) -> Results: ...
    def __getitem__(self, at: int | slice) -> Result | Results:
        return Results(self._results[at], self.refused) if isinstance(at, slice) else self._results[at]

    def __len__(self) -> int:
        return len(self._results)

    def where(self, /, **labels: Any) -> Results:
        """Those that have all of these labels.

        Args:
            **labels: Name to a value, or to several of which any will do. ``*`` in a value stands for any characters;
                ``None`` for results without the label. A name with a dot is given as ``**{"option.threads": 1}``.

        Raises:
            UnknownName: No result has such a label.

        Example:
            >>> from datetime import datetime
            >>> both = Results(
            ...     Result("network", Path("a.json"), datetime(2026, 1, 1), {"system": name, "ranks": "1"}, {})
            ...     for name in ("torch", "torch:threads=1"))
            >>> [found.labels["system"] for found in both.where(system="torch:*", ranks=[1, 2])]
            ['torch:threads=1']
            >>> both.where(sytem="torch")
            Traceback (most recent call last):
                ...
            deep_bench.errors.UnknownName: unknown label 'sytem'
            Expected: one of ranks, system
            What to do: did you mean 'system'?
        """
        names = self.labels()
        for name in labels:
            if self and name not in names:
                raise UnknownName("label", name, names)
        tests = {name: _test(value) for name, value in labels.items()}
        return Results(
            (r for r in self if all(test(r.labels.get(name)) for name, test in tests.items())),
            self.refused,
        )

    def labels(self) -> dict[str, tuple[str, ...]]:
        """Each label, and the values that it has, numbers by their size."""
        by_label: dict[str, dict[str, None]] = {}
        for result in self:
            for name, value in result.labels.items():
                by_label.setdefault(name, {})[value] = None
        return {name: tuple(sorted(by_label[name], key=_natural)) for name in sorted(by_label)}

    def files(self) -> tuple[Path, ...]:
        """The files that were read, each once."""
        return tuple(dict.fromkeys(result.file for result in self))

    def export(self, path: str | Path, format: str = "table", *, samples: bool = False) -> Path:  # noqa: A002
        """Write them to a file that another program reads; see `deep_bench.results.export.export`.

        Raises:
            InvalidArgument, FrameworkMissing: As there.
        """
        from deep_bench.results.export import export

        return export(self, path, format, samples=samples)

    def to_dataframe(self, *, samples: bool = False) -> pandas.DataFrame:
        """A row for each figure, or for each sample, as `deep_bench.results.export.rows` gives them.

        Raises:
            FrameworkMissing: pandas is not installed.
        """
        from deep_bench.results.export.rows import columns, rows, sample_rows

        try:
            import pandas
        except ImportError as error:
            raise FrameworkMissing(
                "to_dataframe needs pandas, which is not installed here",
                advice="pip install pandas; deep_bench.results.export.rows gives the same as dictionaries",
            ) from error
        return pandas.DataFrame(sample_rows(self) if samples else rows(self), columns=list(columns(self, samples)))

    def table(self, labels: Sequence[str] = (), width: int | None = None) -> str:
        """One row for each, as text.

        Args:
            labels: Further labels, each a column.
            width: Columns of text; by default those of the terminal, or 160 where there is none.

        Raises:
            UnknownName: No result has such a label.
        """
        from deep_bench.results.table import as_text

        return as_text(self, labels, width)

    def __repr__(self) -> str:
        return self.table()


def gather(*paths: str | Path, progress: Callable[[int, int], object] | None = None) -> Results:
    """Read records of any kind.

    Folders are searched down; what is in a file tells whether it is a record, not its name. A file that cannot be read is in
    `Results.refused` with the reason, and hides no other. What begins with a dot is skipped, and links within a folder are
    not followed.

    Args:
        *paths: Files, and folders.
        progress: Called after each file with how many were looked at, and how many there are.

    Returns:
        A result for each system and problem, the earliest run first.

    Raises:
        InvalidArgument: What is no path, a path that does not exist, or none at all.

    Example:
        >>> import tempfile
        >>> import deep_bench as db
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = db.run("digits-cnn", on=["reference"], budget=0.3, twin=False, progress=False, output=folder)
        ...     found = gather(folder)
        >>> found[0].labels["network"], found[0].labels["system"], found[0].outcome
        ('digits-cnn', 'reference', 'right')
    """
    if not paths:
        raise InvalidArgument("no records", "files or folders of records")
    places = [path_of(path, "a record, or a folder of records") for path in paths]
    named = {path.absolute() for path in places}
    files: dict[Path, tuple[Path, str]] = {}
    for path in places:
        for file, fault in find(path):
            files.setdefault(file.absolute() if fault else file.resolve(), (file, fault))
    results: list[Result] = []
    refused: list[Refused] = []
    for number, (file, fault) in enumerate(files.values()):
        try:
            if fault:
                raise InvalidRecord(f"{on_a_line(file)}: {fault}")
            results += _read_settled(file, explicit=file.absolute() in named)
        except Exception as error:  # strangers' files fail in their own ways: the reason is kept, and all others are read
            refused.append(Refused(file, _told(error, file)))
        if progress is not None:
            progress(number + 1, len(files))
    return Results(sorted(results, key=lambda r: (r.created, str(r.file))), refused)


def _read_settled(file: Path, explicit: bool) -> Sequence[Result]:
    """What `_read` gives; once more, where the run that writes the record has just replaced it and what lies beside it."""
    before = file.stat().st_ino
    try:
        return _read(file, explicit)
    except InvalidRecord:
        if file.stat().st_ino == before:
            raise
    return _read(file, explicit)


def _read(file: Path, explicit: bool) -> Sequence[Result]:
    kind = kind_of(file)
    if kind is None or kind in NO_RESULTS:
        if explicit:
            raise InvalidRecord(f"{on_a_line(file)} holds no results", "a record that deep_bench wrote")
        return ()
    if kind not in record_kinds:
        raise InvalidRecord(
            f"{on_a_line(file)} is of kind {kind!r}",
            f"one of {', '.join(record_kinds)}",
            "read it with the version that wrote it",
        )
    results: Sequence[Result] = record_kinds[kind](file)
    return [replace(result, created=_in_utc(result.created)) for result in results]


def _in_utc(moment: datetime) -> datetime:
    """One without a time zone is taken to be in UTC, as all that deep_bench writes."""
    return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _told(error: Exception, file: Path) -> str:
    """An error in one line, the file's name as it is but for what would end the line."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, DeepBenchError):
        text = f"{error.came}{f' (expected: {error.expected})' if error.expected else ''}"
    for name in (str(file), file.name, str(file.parent)):
        text = text.replace(name, on_a_line(name))
    return " ".join(text.split())


def _test(value: Any) -> Callable[[str | None], bool]:
    """Whether a label's value is what is asked for."""
    choices = value if isinstance(value, list | tuple | set | frozenset) else [value]
    texts = [".*".join(map(re.escape, text_of(choice).split("*"))) for choice in choices if choice is not None]
    pattern = re.compile("|".join(texts), re.DOTALL)
    missing = None in choices
    return lambda label: missing if label is None else bool(texts) and pattern.fullmatch(label) is not None


def _natural(text: str) -> tuple[tuple[int, float, str], ...]:
    """Numbers in a text by their size.

    Example:
        >>> sorted(["128x8", "8x8", "torch", "16"], key=_natural)
        ['8x8', '16', '128x8', 'torch']
    """
    parts = re.findall(r"(\d+)|(\D+)", text)
    return tuple((0, float(number), "") if number else (1, 0.0, words) for number, words in parts)

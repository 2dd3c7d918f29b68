"""The parts of a report, whatever format it is written in: sections of text, tables and pictures.

Rows are named by the labels that tell results apart. Verdicts, and whether rules hold, are words, each with a sign of its
own shape, so that no colour is needed. What the tables of results do not have is read from the records again.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from deep_bench.errors import DeepBenchError, short_digests, shortened
from deep_bench.results.result import Result, distinguishing_labels, group_by
from deep_bench.results.results import problem_name, short_names

_LONGEST = 600
_LONGEST_LINE = 2_000
_HIDDEN_CHARACTERS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


def clean(text: object, most: int = _LONGEST) -> str:
    """A text from a record as a page can show it: on one line, without characters that are no text, and not too long.

    Control characters, halves of surrogate pairs and marks that turn the direction of writing become ``U+FFFD``: some would
    make a page invalid, others would show a name as something that it is not.

    Args:
        text: Any.
        most: The most characters that are kept.

    Example:
        >>> clean("a\\nb\\x00c"), clean("\\u202egpj.exe")
        ('a b�c', '�gpj.exe')
    """
    words = " ".join(str(text).split())
    visible = "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in _HIDDEN_CHARACTERS else c for c in words)
    return shortened(visible, most)


def clean_lines(text: str) -> str:
    """The same of a text whose lines and indentation are kept.

    Example:
        >>> clean_lines("{\\n  a\\x00\\n}")
        '{\\n  a�\\n}'
    """
    lines = [(line, line.lstrip(" ")) for line in text.splitlines()]
    return "\n".join(" " * (len(line) - len(inner)) + clean(inner, _LONGEST_LINE) for line, inner in lines)


@dataclass(frozen=True)
class Sign:
    """A verdict, or whether a rule holds: a word that has a sign beside it; see `deep_bench.results.report.model`."""

    word: str


@dataclass(frozen=True)
class Attachment:
    """A file that comes with the report.

    Args:
        name: The file's.
        data: What is in it.
    """

    name: str
    data: bytes = field(repr=False)


Cell: TypeAlias = str | Sign | Attachment


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        name: At its head.
        figures: Whether it has figures, which stand to the right.
        first: Whether its cells follow the name of a row where there is little room, before all others.
    """

    name: str
    figures: bool = False
    first: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        caption: What it shows.
        columns: From left to right.
        rows: A cell for each column.
        keys: So many columns at the left say what a row is of.
        folded: Whether it may be folded away where a reader can open it.
        wordy: Whether its cells are sentences: where there is little room they then stand below each other.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    keys: int = 1
    folded: bool = False
    wordy: bool = False


@dataclass(frozen=True)
class Picture:
    """A plot.

    Args:
        name: Of its file; no other plot of the report has it.
        svg: The drawing.
        alt: What it shows, for those who cannot see it.
        caption: Below it.
    """

    name: str
    svg: str = field(repr=False)
    alt: str
    caption: str


@dataclass(frozen=True)
class Pictures:
    """Plots that stand beside each other where there is room."""

    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Lines:
    """A list; an entry with a sign has its verdict before it."""

    lines: tuple[str | tuple[Sign, str], ...]


@dataclass(frozen=True)
class Code:
    """What is typed, or a file's text; its lines are kept."""

    text: str
    caption: str = ""


@dataclass(frozen=True)
class Heading:
    """The title of a part of a section."""

    text: str


Block: TypeAlias = Table | Pictures | Text | Lines | Code | Heading


@dataclass(frozen=True)
class Section:
    """A part of the report with a title.

    Args:
        name: Where a link leads to.
        title: As it is read.
        blocks: What is in it.
    """

    name: str
    title: str
    blocks: tuple[Block, ...]


Tone = Literal["good", "doubt", "bad", "open"]


@dataclass(frozen=True)
class Mark:
    """How a word is shown.

    Args:
        character: In text.
        tone: Which colour.
        path: In a square of 16, as SVG has it.
    """

    character: str
    tone: Tone
    path: str


_DISC = "M8 1a7 7 0 1 0 0 14A7 7 0 1 0 8 1z"
_RING = f"{_DISC}M8 2.6a5.4 5.4 0 1 1 0 10.8A5.4 5.4 0 1 1 8 2.6z"
_CHECK = "M4.2 8.4l2.6 2.7 5-5.6-1.2-1.1-3.9 4.4-1.4-1.5z"
_CROSS = "M4 5.2L6.8 8 4 10.8 5.2 12 8 9.2l2.8 2.8 1.2-1.2L9.2 8 12 5.2 10.8 4 8 6.8 5.2 4z"

MARKS = {
    "right": Mark("✓", "good", _DISC + _CHECK),
    "reduced precision": Mark("◐", "doubt", f"{_RING}M8 2v12A6 6 0 0 0 8 2z"),
    "wrong": Mark("✗", "bad", f"M1.5 1.5h13v13h-13z{_CROSS}"),
    "cannot tell": Mark("?", "doubt", "M8 .6L15.4 8 8 15.4.6 8zM8 2.9L2.9 8 8 13.1 13.1 8zM7 9h2v1.8H7zM7 4.8h2v3.4H7z"),
    "no information": Mark("∅", "open", f"{_RING}M4.5 7.2h7v1.6h-7z"),
    "failed": Mark("!", "bad", "M8 .8L15.6 14.6H.4zM7.1 5.4h1.8v4.8H7.1zM7.1 11.3h1.8v1.8H7.1z"),
    "unchecked": Mark("○", "open", _RING),
}  # fmt: skip
"""The verdicts, from what is good news on."""


RULE_MARKS = {"holds": MARKS["right"], "fails": MARKS["wrong"], "does not apply": MARKS["no information"]}
"""What a rule can do."""


OTHER_MARK = MARKS["unchecked"]


TONES: dict[Tone, str] = {"good": "#00664d", "doubt": "#7a4a00", "bad": "#a33100", "open": "#4a525c"}
"""Colours that differ in lightness as well, each with a contrast of 7 to 1 to white or nearly so."""


def mark_of(word: str) -> Mark:
    """How a word is shown; one that is not known, which only a stranger's record can have, as what was not checked.

    Example:
        >>> mark_of("wrong").character, mark_of("holds").character, mark_of("splendid").character
        ('✗', '✓', '○')
    """
    return MARKS.get(word) or RULE_MARKS.get(word) or OTHER_MARK


KINDS = {
    "network": "Networks",
    "operators": "Operators",
    "communication": "Communication",
    "training": "Training",
    "scaling": "Scaling, predicted",
    "mlperf": "MLPerf",
}
"""Kind of record to its title, in the order of the report."""


_MOST_COLUMNS = 4


def of_kinds(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The results of each kind, in the order of the report."""
    order = dict.fromkeys([*KINDS, *(result.kind for result in results)])
    by_kind = {kind: [result for result in results if result.kind == kind] for kind in order}
    return {kind: by_problem(kind_results) for kind, kind_results in by_kind.items() if kind_results}


def by_problem(results: Sequence[Result]) -> list[Result]:
    """The results of each problem beside each other, in the order in which problems first come."""
    order = {name: number for number, name in reversed(list(enumerate(map(problem_name, results))))}
    return sorted(results, key=lambda result: order[problem_name(result)])


def title_of(kind: str) -> str:
    """The title of a kind of record."""
    return KINDS.get(kind, clean(kind))


def system_of(result: Result) -> str:
    """The system, as a label has it."""
    return result.labels.get("system") or result.labels.get("framework") or "–"


def further_labels(results: Sequence[Result], named: Callable[[Result], str] = system_of) -> dict[str, list[str]]:
    """Label to its value for each result, of all labels that tell results of one name apart.

    Of many the first have columns of their own, and one column has the others; where labels are not enough, the record's
    name comes last.

    Args:
        results: The rows of a table.
        named: What a row is called beside its problem.

    Example:
        >>> from datetime import datetime
        >>> from pathlib import Path
        >>> about = [{"system": "a", "size.batch": size} for size in "12"]
        >>> further_labels([Result("network", Path("r.json"), datetime(2026, 1, 1), labels, {}) for labels in about])
        {'size.batch': ['1', '2']}
    """
    names = distinguishing_labels(group_by(results, lambda result: (problem_name(result), named(result))))
    separate, shared = names[:_MOST_COLUMNS], names[_MOST_COLUMNS:]
    columns = {name: [_label_value(result, name) for result in results] for name in separate}
    if shared:
        columns["further"] = [
            ", ".join(f"{clean(name, 80)} {_label_value(result, name)}" for name in shared) for result in results
        ]
    rows = {(problem_name(result), named(result), *(result.labels.get(name) for name in names)) for result in results}
    if len(rows) < len(results):
        short = short_names(list(dict.fromkeys(result.file for result in results)))
        columns["record"] = [clean(short[result.file], 60) for result in results]
    return columns


def _label_value(result: Result, name: str) -> str:
    return clean(short_digests(result.labels.get(name, "–")), 80)


def subject_of(result: Result) -> str:
    """What was run, in a word: the network, the operator or the operation."""
    of = result.labels
    names = ("operator", "case") if result.kind in ("operators", "communication") else ("network", "recipe")
    return clean(next((of[name] for name in names if name in of), problem_name(result)), 60)


def settings_of(result: Result, factor: str = "system") -> dict[str, str]:
    """The labels in which two results of one problem must agree that differ in the factor alone.

    Args:
        result: One of them.
        factor: The label that tells them apart.
    """
    free = {factor, "launches", "cell", "host", "version"}
    if factor == "system":
        free |= {"framework", "device"}
    if result.kind == "training":
        free |= {"seed", "network.sha256"}  # initial values are a matter of the seed
    details = ("option.", "framework.") if factor == "system" else (f"{factor}.",)
    return {name: value for name, value in result.labels.items() if name not in free and not name.startswith(details)}


def system_numbers(results: Sequence[Result]) -> Mapping[str, int]:
    """System to a number, in the order in which they come."""
    return {name: number for number, name in enumerate(dict.fromkeys(map(system_of, results)))}


def enumeration(words: Sequence[str], most: int = 4) -> str:
    """Some words as a sentence has them.

    Example:
        >>> enumeration(["a"]), enumeration(["a", "b", "c"]), enumeration(["a", "b", "c", "d", "e", "f"], 3)
        ('a', 'a, b and c', 'a, b, c and 3 more')
    """
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


MOST_SOURCES = 60
"""So many records are read again at most; of more, the first."""


@dataclass(frozen=True)
class RecordSource:
    """A record's file.

    Args:
        file: Where it is.
        kind: Of its results.
        results: What was read from it.
        record: The record; ``None`` where it cannot be read any more, or nothing here knows its kind.
        fault: Why there is no record.
    """

    file: Path
    kind: str
    results: tuple[Result, ...]
    record: Any = None
    fault: str = ""

    @property
    def created(self) -> datetime:
        """When the run began."""
        return self.results[0].created

    @property
    def command(self) -> list[str]:
        """What was typed; empty where it is not known."""
        words = self.value("command")
        return [str(word) for word in words] if isinstance(words, list) else []

    def value(self, name: str) -> Any:
        """A field of the record, of whatever kind it is; ``None`` where it has none such."""
        return self.record.get(name) if isinstance(self.record, Mapping) else getattr(self.record, name, None)


def record_sources(results: Sequence[Result]) -> list[RecordSource]:
    """The first `MOST` files of the results, read again.

    A file that was moved or changed since its results were read is no reason to write no report: the source says so.
    """
    files: dict[Path, list[Result]] = {}
    for result in results:
        files.setdefault(result.file, []).append(result)
    return [_read_source(file, tuple(file_results)) for file, file_results in list(files.items())[:MOST_SOURCES]]


def _read_source(file: Path, results: tuple[Result, ...]) -> RecordSource:
    kind = results[0].kind
    try:
        return RecordSource(file, kind, results, _readers().get(kind, _plain_command)(file))
    except (DeepBenchError, OSError, ValueError) as error:
        return RecordSource(file, kind, results, None, str(error))


def _readers() -> Mapping[str, Callable[[Path], Any]]:
    from deep_bench.distributed.scaling.record import load_scaling
    from deep_bench.records.store import load
    from deep_bench.training.record import load_training

    measurement = dict.fromkeys(("network", "operators", "communication"), load)
    return {**measurement, "training": load_training, "scaling": load_scaling}


def _plain_command(file: Path) -> Any:
    """What is in the file of a kind that comes from elsewhere; its reader has seen that it is no larger than may be."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else None

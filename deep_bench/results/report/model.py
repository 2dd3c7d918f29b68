"""The parts of a report, whatever format it is written in."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import TypeAlias

from deep_bench.errors import shortened

_LONGEST = 600
_LONGEST_LINE = 2_000
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


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
    visible = "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in _HIDDEN else c for c in words)
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
    """A verdict, or whether a rule holds: a word that has a sign beside it; see `deep_bench.results.report.signs`."""

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

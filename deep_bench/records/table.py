"""Tables of text from which nothing is cut: where the room is too small, names fold, then columns go to a second table."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from deep_bench.errors import FrameworkMissing

if TYPE_CHECKING:
    import pandas

_WIDTH = 160
_NARROWEST_NAME = 18
_NOTE = 130


def columns() -> int:
    """The characters in a line: of the terminal; elsewhere what ``COLUMNS`` says, or 160.

    A launcher such as ``mpirun`` gives its ranks a terminal that has no size.
    """
    if sys.stdout is not None and sys.stdout.isatty() and (width := os.get_terminal_size().columns) > 0:
        return width
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isdecimal() and int(text) > 0 else _WIDTH


def figure_columns(*names: str) -> list[Column]:
    """Columns for figures, which are justified to the right."""
    return [Column(name, justify="right") for name in names]


def text_of(parts: Iterable[Table | Text | str], width: int | None = None) -> str:
    """A report as text.

    Args:
        parts: Tables, as `print_table` prints them; sentences, as `print_note` does; lines (`Text`), as `print_line` does.
        width: The characters in a line; by default `columns`.

    Example:
        >>> print(text_of([Text("a title"), "a sentence of several words"], width=16))
        a title
        a sentence of
        several words
    """
    out = io.StringIO()
    console = Console(file=out, width=width or columns(), color_system=None, highlight=False)
    for part in parts:
        if isinstance(part, Table):
            print_table(console, part)
        elif isinstance(part, Text):
            print_line(console, part)
        else:
            print_note(console, part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def print_table(console: Console, table: Table, keys: int = 1) -> None:
    """Print a table, its title as lines of text before it; columns for which there is no room are in further ones below.

    Columns that are justified to the right hold figures, which are never broken; all others fold.

    Args:
        console: Where to; a table of the first columns and a single further one may be wider than it.
        table: What.
        keys: How many of its columns tell one row from another: they come first, and are in every part of the table.

    Example:
        >>> table = Table("node", title="all nodes")
        >>> table.add_column("time", justify="right")
        >>> table.add_column("memory", justify="right")
        >>> table.add_row("encoder/attention/MatMul", "12.34 ms 56.7 %", "8.00 MiB")
        >>> print_table(Console(width=40, color_system=None), table)
        all nodes
        ┏━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━┓
        ┃ node               ┃            time ┃
        ┡━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━┩
        │ encoder/attention/ │ 12.34 ms 56.7 % │
        │ MatMul             │                 │
        └────────────────────┴─────────────────┘
        ┏━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━┓
        ┃ node                     ┃   memory ┃
        ┡━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━┩
        │ encoder/attention/MatMul │ 8.00 MiB │
        └──────────────────────────┴──────────┘
    """
    title, table.title = table.title, None
    if title:
        print_line(console, title if isinstance(title, Text) else Text(str(title)))
    for part in _parts(table, console.width, keys):
        widths = _widths(part, console.width - _edges(part))
        for column, width in zip(part.columns, widths, strict=True):
            column.width, column.overflow, column.no_wrap = width, "fold", False
        before, console.width = console.width, max(console.width, sum(widths) + _edges(part))
        console.print(part)
        console.width = before


def print_line(console: Console, line: str | Text) -> None:
    """Print a line of text: wrapped at words on a terminal; elsewhere in one piece, so that it can be searched for."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    console.print(Text(line) if isinstance(line, str) else line, soft_wrap=not on_terminal)


def print_note(console: Console, note: str) -> None:
    """Print a sentence below a table, wrapped at words in lines of at most 130 characters; no word is broken.

    Example:
        >>> print_note(Console(width=30, color_system=None), "times are of launching, not of finished work")
        times are of launching, not of
        finished work
    """
    for line in wrap(note, min(console.width, _NOTE), break_long_words=False, break_on_hyphens=False) or [""]:
        console.print(Text(line), soft_wrap=True)


def _parts(table: Table, width: int, keys: int) -> list[Table]:
    """The table, or several that hold as many of its columns each as have room, after those that tell its rows apart."""
    first, parts = table.columns[:keys], [table.columns[:keys]]
    for column in table.columns[keys:]:
        longer = [*parts[-1], column]
        if len(parts[-1]) > keys and sum(map(_least_width, longer)) + _edges(table, len(longer)) > width:
            longer = [*first, column]
            parts.append(longer)
        parts[-1] = longer
    return [_with_columns(table, columns) for columns in parts] if len(parts) > 1 else [table]


def _with_columns(table: Table, columns: Sequence[Column]) -> Table:
    """A table of some of the columns, all else as it was."""
    part = copy(table)
    part.columns = [replace(column, _index=index) for index, column in enumerate(columns)]
    return part


def _edges(table: Table, columns: int | None = None) -> int:
    """What stands between and around the columns."""
    return (
        (2 if table.box else 0)
        + (2 if table.pad_edge else 0)
        + 3 * ((len(table.columns) if columns is None else columns) - 1)
    )


def _full_width(column: Column) -> int:
    """The width in which nothing of a column folds."""
    return max(_length(cell) for cell in (column.header, *column.cells))


def _least_width(column: Column) -> int:
    """The least width of a column: figures and short heads keep in one line, names and long heads fold."""
    if column.justify != "right":
        return min(_full_width(column), _NARROWEST_NAME)
    body = max((_length(cell) for cell in column.cells), default=0)
    return max(body, min(_length(column.header), _NARROWEST_NAME))


def _widths(table: Table, room: int) -> list[int]:
    """The width of each column: what its contents take if there is room for all; else names share what figures leave."""
    full_widths, least = [_full_width(c) for c in table.columns], [_least_width(c) for c in table.columns]
    if sum(full_widths) <= room:
        return full_widths
    spare, widths = max(room - sum(least), 0), list(least)
    for index in sorted(range(len(full_widths)), key=lambda i: full_widths[i] - least[i]):
        still = sum(1 for i in range(len(full_widths)) if full_widths[i] - least[i] >= full_widths[index] - least[index])
        extra = min(full_widths[index] - least[index], spare // max(still, 1))
        widths[index] += extra
        spare -= extra
    return widths


def _length(cell: Any) -> int:
    text = cell.plain if isinstance(cell, Text) else str(cell)
    return max((cell_len(line) for line in text.splitlines()), default=0)


def data_frame(rows: Iterable[Mapping[str, Any]], otherwise: str, columns: Sequence[str] | None = None) -> pandas.DataFrame:
    """Rows as a data frame of pandas.

    Args:
        rows: Column to value.
        otherwise: What gives the same without pandas.
        columns: In their order; by default those of the rows.

    Raises:
        FrameworkMissing: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise FrameworkMissing(
            "to_dataframe needs pandas, which is not installed here",
            advice=f"pip install pandas; {otherwise} gives the same as dictionaries",
        ) from error
    return pandas.DataFrame(rows, columns=columns)

"""Tables of text from which nothing is cut: where the room is too small, names fold, and figures keep theirs."""

from __future__ import annotations

import os
import sys
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDTH = 160
_NARROWEST_NAME = 18


def columns() -> int:
    """The characters in a line: of the terminal; elsewhere what ``COLUMNS`` says, or 160."""
    if sys.stdout is not None and sys.stdout.isatty():
        return os.get_terminal_size().columns
    stated = os.environ.get("COLUMNS", "")
    return int(stated) if stated.isdecimal() and int(stated) > 0 else _WIDTH


def print_table(console: Console, table: Table) -> None:
    """Print a table, its title as lines of text before it, as wide as its figures need even if the console is narrower.

    Columns that are justified to the right hold figures, which are never broken; all others fold.

    Example:
        >>> table = Table("node", title="all nodes")
        >>> table.add_column("time", justify="right")
        >>> table.add_row("encoder/attention/MatMul", "12.34 ms 56.7 %")
        >>> print_table(Console(width=20, color_system=None), table)
        all nodes
        ┏━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━┓
        ┃ node               ┃            time ┃
        ┡━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━┩
        │ encoder/attention/ │ 12.34 ms 56.7 % │
        │ MatMul             │                 │
        └────────────────────┴─────────────────┘
    """
    title, table.title = table.title, None
    if title:
        print_line(console, title if isinstance(title, Text) else Text(str(title)))
    edges = (4 if table.pad_edge else 2) + 3 * (len(table.columns) - 1)
    widths = _widths(table, console.width - edges)
    for column, width in zip(table.columns, widths, strict=True):
        column.width, column.overflow, column.no_wrap = width, "fold", False
    before, console.width = console.width, max(console.width, sum(widths) + edges)
    console.print(table)
    console.width = before


def print_line(console: Console, line: str | Text) -> None:
    """Print a line of text: wrapped at words on a terminal; elsewhere in one piece, so that it can be searched for."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    console.print(Text(line) if isinstance(line, str) else line, soft_wrap=not on_terminal)


def _widths(table: Table, room: int) -> list[int]:
    """The width of each column: what its contents take if there is room for all; else names share what figures leave."""
    bodies = [max((_length(cell) for cell in column.cells), default=0) for column in table.columns]
    heads = [_length(column.header) for column in table.columns]
    wanted = [max(pair) for pair in zip(bodies, heads, strict=True)]
    figures = [column.justify == "right" for column in table.columns]
    least = [
        max(body, min(head, _NARROWEST_NAME)) if figure else min(full, _NARROWEST_NAME)
        for body, head, figure, full in zip(bodies, heads, figures, wanted, strict=True)
    ]
    if sum(wanted) <= room:
        return wanted
    spare, given = max(room - sum(least), 0), list(least)
    for index in sorted(range(len(wanted)), key=lambda i: wanted[i] - least[i]):
        still = sum(1 for i in range(len(wanted)) if wanted[i] - least[i] >= wanted[index] - least[index])
        more = min(wanted[index] - least[index], spare // max(still, 1))
        given[index] += more
        spare -= more
    return given


def _length(cell: Any) -> int:
    text = cell.plain if isinstance(cell, Text) else str(cell)
    return max((cell_len(line) for line in text.splitlines()), default=0)

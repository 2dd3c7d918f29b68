"""A report as Markdown, with its plots as files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import quote

from deep_bench import __version__
from deep_bench.results.report.contents import Report
from deep_bench.results.report.model import (
    Attachment,
    Block,
    Cell,
    Code,
    Heading,
    Lines,
    Picture,
    Pictures,
    Sign,
    Table,
    Text,
)
from deep_bench.results.report.signs import mark

_SPECIAL = re.compile(r"[\\`*_\[\]|~$]|^(?:[#+=-]|\d+(?=[.)]))")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def as_markdown(report: Report, folder: str) -> str:
    """The same facts and tables as the page.

    Args:
        report: What is in it.
        folder: Where its plots are, seen from the file.
    """
    lines = [f"# {plain(report.title)}", ""]
    lines += [f"- **{plain(name)}**: {plain(text)}" for name, text in report.facts]
    for section in report.sections:
        lines += ["", f"## {plain(section.title)}"]
        for block in section.blocks:
            lines += ["", *_lines(block, folder)]
    lines += ["", "---", "", f"Written by deep\\_bench {plain(__version__)}."]
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """A text that Markdown shows as it is, and that no reader of it takes for HTML.

    Example:
        >>> plain("a_b | <script>")
        'a\\\\_b \\\\| &lt;script&gt;'
    """
    marked = _SPECIAL.sub(lambda match: f"\\{match[0]}" if not match[0].isdecimal() else f"{match[0]}\\", text)
    return "".join(_HTML.get(character, character) for character in marked)


def _lines(block: Block, folder: str) -> Iterator[str]:
    if isinstance(block, Text):
        yield plain(block.text)
    elif isinstance(block, Heading):
        yield f"### {plain(block.text)}"
    elif isinstance(block, Code):
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", block.text)), default=0))
        yield from ([plain(block.caption), ""] if block.caption else [])
        yield from (fence, block.text, fence)
    elif isinstance(block, Lines):
        yield from (f"- {_line(line)}" for line in block.lines)
    elif isinstance(block, Pictures):
        yield from (line for picture in block.pictures for line in _picture(picture, folder))
    elif isinstance(block, Table):
        yield from _table(block)


def _line(line: str | tuple[Sign, str]) -> str:
    return plain(line) if isinstance(line, str) else f"{_cell(line[0])}: {plain(line[1])}"


def _picture(picture: Picture, folder: str) -> Iterator[str]:
    yield f"![{plain(picture.alt)}]({quote(str(PurePosixPath(folder) / file_name(picture)))})"
    yield ""
    yield plain(picture.caption)
    yield ""


def file_name(picture: Picture) -> str:
    """Of a plot's file.

    Example:
        >>> file_name(Picture("network-times-0", "", "", ""))
        'network-times-0.svg'
    """
    return f"{re.sub(r'[^0-9A-Za-z-]+', '-', picture.name)}.svg"


def _table(table: Table) -> Iterator[str]:
    yield f"**{plain(table.caption)}**"
    yield ""
    yield f"| {' | '.join(plain(column.name) for column in table.columns)} |"
    yield f"|{'|'.join(' ---: ' if column.figures else ' --- ' for column in table.columns)}|"
    yield from (f"| {' | '.join(map(_cell, row))} |" for row in table.rows)


def _cell(cell: Cell) -> str:
    if isinstance(cell, Sign):
        return f"{plain(mark(cell.word).character)} {plain(cell.word)}"
    return "the file itself" if isinstance(cell, Attachment) else plain(cell)

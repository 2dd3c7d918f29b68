"""A report as a page of HTML. Making one needs jinja2."""

from __future__ import annotations

import base64
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from deep_bench import __version__
from deep_bench.errors import Unsupported
from deep_bench.results.report.contents import Report
from deep_bench.results.report.model import Attachment, Picture, Pictures, Sign, Table, clean
from deep_bench.results.report.signs import TONES, mark

if TYPE_CHECKING:
    import jinja2

_HERE = "deep_bench.results.report"
_LONGEST_WORD = 28
_AMOUNT = re.compile(r"[\d.e+-]+ [^\s\d]\S*")


def as_html(report: Report, *, embed: bool = True) -> str:
    """The page: one text that needs no other file. Every text in it is escaped, whatever a record calls things.

    Args:
        report: What is in it.
        embed: Whether the records that are attached are within it; else the page names them only.

    Raises:
        Unsupported: jinja2 is not installed.
    """
    style = files(_HERE).joinpath("pages/style.css").read_text(encoding="utf-8")
    page = _environment().get_template("report.html.jinja")
    return page.render(report=report, style=style, version=__version__, embed=embed)


def attachments(report: Report) -> list[Attachment]:
    """The files that come with a report."""
    tables = [block for section in report.sections for block in section.blocks if isinstance(block, Table)]
    return [cell for table in tables for row in table.rows for cell in row if isinstance(cell, Attachment)]


def drawings(report: Report) -> list[Picture]:
    """All plots of a report."""
    blocks = [block for section in report.sections for block in section.blocks if isinstance(block, Pictures)]
    return [picture for block in blocks for picture in block.pictures]


def _environment() -> jinja2.Environment:
    try:
        import jinja2
    except ImportError as error:
        raise Unsupported("a page without jinja2", advice="pip install 'deep-bench[report]'") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(_HERE, "pages"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "tone": lambda word: mark(word).tone,
        "path": lambda word: mark(word).path,
        "colour": lambda word: TONES[mark(word).tone],
        "breakable": _breakable,
        "kind": lambda block: type(block).__name__,
        "data_link": _data_link,
        "clean": clean,
    }
    environment.tests |= {"sign": lambda x: isinstance(x, Sign), "attachment": lambda x: isinstance(x, Attachment)}
    return environment


def _breakable(text: str) -> Any:
    """A text whose long words may be broken, for otherwise one of them could be wider than a page."""
    from markupsafe import Markup, escape

    if _AMOUNT.fullmatch(text):
        return text.replace(" ", "\N{NO-BREAK SPACE}")
    parts = (part for part in re.split(rf"(\S{{{_LONGEST_WORD}}})", text) if part)
    return Markup("<wbr>").join(map(escape, parts)) if len(text) > _LONGEST_WORD else text


def _data_link(attachment: Attachment) -> str:
    kind = "application/json" if attachment.name.endswith(".json") else "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(attachment.data).decode('ascii')}"

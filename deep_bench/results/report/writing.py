"""`write`: a report in a file, whose name tells the format: a page of HTML, a PDF, or Markdown with its plots beside it.

A page needs jinja2, a PDF weasyprint as well.
"""

from __future__ import annotations

import base64
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from deep_bench import __version__
from deep_bench.errors import InvalidArgument, Unsupported, on_a_line
from deep_bench.records.store import written
from deep_bench.results.report.contents import Report, report
from deep_bench.results.report.model import (
    TONES,
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
    clean,
    mark_of,
)
from deep_bench.results.result import Result
from deep_bench.results.results import path_of

if TYPE_CHECKING:
    import jinja2

_PANGO = "apt-get install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0, or write .html and print it from a browser"


def write(
    results: Sequence[Result],
    file: str | Path,
    *,
    base: str | None = None,
    title: str | None = None,
    notes: Sequence[str] = (),
) -> Path:
    """Write a report: verdicts first, tables, plots with intervals, the twelve rules, how to repeat it, the raw data.

    Args:
        results: What `deep_bench.results.gather` read.
        file: ``.html`` (one page that needs no other file), ``.md`` (its plots in a folder beside it) or ``.pdf``.
        base: What ratios are over: a system, or a label and its value (``"optimizer=Adam"``). By default the system that has
            most results.
        title: Of the report; by default what was run on what.
        notes: What a reader should know that no record says, such as why not all CPUs were used.

    Returns:
        The file.

    Raises:
        InvalidArgument: Another format, no results, or the file cannot be written.
        UnknownName: No result has the base.
        Unsupported: A library that the format needs is missing; the message says what to install.

    Example:
        >>> import tempfile
        >>> import deep_bench as db
        >>> from deep_bench.results import gather
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = db.run("digits-cnn", on=["reference"], budget=0.3, twin=False, progress=False, output=folder)
        ...     page = write(gather(folder), f"{folder}/report.html").read_text(encoding="utf-8")
        >>> "The result is right." in page
        True
    """
    path = path_of(file, "a file to write")
    writer = writer_of(path)
    writer(report(results, base=base, title=title, notes=notes), path)
    return path


def writer_of(path: Path) -> Callable[[Report, Path], None]:
    """What writes the format that a file's name tells.

    Raises:
        InvalidArgument: There is no such format.
        Unsupported: Something is missing that it needs.
    """
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise InvalidArgument(f"{on_a_line(path)}: no format for {path.suffix or 'a name without an end'!r}",
                              f"a name that ends in {', '.join(_WRITERS)}")  # fmt: skip
    if writer is _write_pdf:
        weasyprint()
    return writer


def weasyprint() -> Any:
    """The library that makes PDFs.

    Raises:
        Unsupported: It is not installed, or a system library that it needs is not.
    """
    try:
        from PIL import ImageFile

        truncated = ImageFile.LOAD_TRUNCATED_IMAGES

        with warnings.catch_warnings():
            # What a later version will need says nothing of the PDF that this one makes.
            warnings.filterwarnings("ignore", "HarfBuzz-Subset will be required", DeprecationWarning)
            import weasyprint as library

        ImageFile.LOAD_TRUNCATED_IMAGES = truncated  # WeasyPrint lets all of the process read half an image as a whole one
    except ImportError as error:
        raise Unsupported("a PDF without WeasyPrint", advice="pip install 'deep-bench[report]'") from error
    except OSError as error:
        raise Unsupported(f"a PDF without Pango: {str(error).splitlines()[0]}", advice=_PANGO) from error
    return library


def _write_html(document: Report, path: Path) -> None:
    _write_text(path, as_html(document))


def _write_text(path: Path, text: str) -> None:
    written(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _write_markdown(document: Report, path: Path) -> None:
    folder = path.with_name(f"{path.stem}_plots")
    pictures = drawings(document)
    if pictures:
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise InvalidArgument(
                f"the plots' folder {on_a_line(folder)} cannot be made: {error.strerror}", advice="name another file"
            ) from error
    for picture in pictures:
        _write_text(folder / file_name(picture), picture.svg)
    _write_text(path, as_markdown(document, folder.name))


def _write_pdf(document: Report, path: Path) -> None:
    library = weasyprint()
    page = library.HTML(string=as_html(document, embed=False), url_fetcher=_refuse)
    files = [library.Attachment(string=attachment.data, name=attachment.name) for attachment in attachments(document)]
    content = page.write_pdf(attachments=files)
    written(path, lambda temporary: temporary.write_bytes(content))


def _refuse(url: str, *_: object, **__: object) -> Any:
    raise InvalidArgument(f"the report wants to load {url[:80]!r}", "a page that needs no other file")


_WRITERS: dict[str, Callable[[Report, Path], None]] = {".html": _write_html, ".md": _write_markdown, ".pdf": _write_pdf}


_PACKAGE = "deep_bench.results.report"
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
    style = files(_PACKAGE).joinpath("pages/style.css").read_text(encoding="utf-8")
    page = _jinja_environment().get_template("report.html.jinja")
    return page.render(report=report, style=style, version=__version__, embed=embed)


def attachments(report: Report) -> list[Attachment]:
    """The files that come with a report."""
    tables = [block for section in report.sections for block in section.blocks if isinstance(block, Table)]
    return [cell for table in tables for row in table.rows for cell in row if isinstance(cell, Attachment)]


def drawings(report: Report) -> list[Picture]:
    """All plots of a report."""
    blocks = [block for section in report.sections for block in section.blocks if isinstance(block, Pictures)]
    return [picture for block in blocks for picture in block.pictures]


def _jinja_environment() -> jinja2.Environment:
    try:
        import jinja2
    except ImportError as error:
        raise Unsupported("a page without jinja2", advice="pip install 'deep-bench[report]'") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(_PACKAGE, "pages"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "tone": lambda word: mark_of(word).tone,
        "path": lambda word: mark_of(word).path,
        "colour": lambda word: TONES[mark_of(word).tone],
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


_SPECIAL = re.compile(r"[\\`*_\[\]|~$]|^(?:[#+=-]|\d+(?=[.)]))")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def as_markdown(report: Report, folder: str) -> str:
    """The same facts and tables as the page.

    Args:
        report: What is in it.
        folder: Where its plots are, seen from the file.
    """
    lines = [f"# {escape(report.title)}", ""]
    lines += [f"- **{escape(name)}**: {escape(text)}" for name, text in report.facts]
    for section in report.sections:
        lines += ["", f"## {escape(section.title)}"]
        for block in section.blocks:
            lines += ["", *_markdown_lines(block, folder)]
    lines += ["", "---", "", f"Written by deep\\_bench {escape(__version__)}."]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """A text that Markdown shows as it is, and that no reader of it takes for HTML.

    Example:
        >>> escape("a_b | <script>")
        'a\\\\_b \\\\| &lt;script&gt;'
    """
    marked = _SPECIAL.sub(lambda match: f"\\{match[0]}" if not match[0].isdecimal() else f"{match[0]}\\", text)
    return "".join(_HTML.get(character, character) for character in marked)


def _markdown_lines(block: Block, folder: str) -> Iterator[str]:
    if isinstance(block, Text):
        yield escape(block.text)
    elif isinstance(block, Heading):
        yield f"### {escape(block.text)}"
    elif isinstance(block, Code):
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", block.text)), default=0))
        yield from ([escape(block.caption), ""] if block.caption else [])
        yield from (fence, block.text, fence)
    elif isinstance(block, Lines):
        for line in block.lines:
            yield f"- {escape(line) if isinstance(line, str) else f'{_markdown_cell(line[0])}: {escape(line[1])}'}"
    elif isinstance(block, Pictures):
        for picture in block.pictures:
            yield f"![{escape(picture.alt)}]({quote(str(PurePosixPath(folder) / file_name(picture)))})"
            yield from ("", escape(picture.caption), "")
    elif isinstance(block, Table):
        yield from (f"**{escape(block.caption)}**", "")
        yield f"| {' | '.join(escape(column.name) for column in block.columns)} |"
        yield f"|{'|'.join(' ---: ' if column.figures else ' --- ' for column in block.columns)}|"
        yield from (f"| {' | '.join(map(_markdown_cell, row))} |" for row in block.rows)


def file_name(picture: Picture) -> str:
    """Of a plot's file.

    Example:
        >>> file_name(Picture("network-times-0", "", "", ""))
        'network-times-0.svg'
    """
    return f"{re.sub(r'[^0-9A-Za-z-]+', '-', picture.name)}.svg"


def _markdown_cell(cell: Cell) -> str:
    if isinstance(cell, Sign):
        return f"{escape(mark_of(cell.word).character)} {escape(cell.word)}"
    return "the file itself" if isinstance(cell, Attachment) else escape(cell)

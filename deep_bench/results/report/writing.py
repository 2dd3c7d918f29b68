"""``write``: a report in a file, whose name tells the format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deep_bench.errors import InvalidArgument, Unsupported, on_a_line
from deep_bench.measure.storage import written
from deep_bench.results.paths import path_of
from deep_bench.results.report.contents import Report, report
from deep_bench.results.report.page import as_html, attachments, drawings
from deep_bench.results.report.text import as_markdown, file_name
from deep_bench.results.result import Result

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
        import weasyprint as found

        ImageFile.LOAD_TRUNCATED_IMAGES = truncated  # WeasyPrint lets all of the process read half an image as a whole one
    except ImportError as error:
        raise Unsupported("a PDF without WeasyPrint", advice="pip install 'deep-bench[report]'") from error
    except OSError as error:
        raise Unsupported(f"a PDF without Pango: {str(error).splitlines()[0]}", advice=_PANGO) from error
    return found


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

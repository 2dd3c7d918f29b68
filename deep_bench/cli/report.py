"""``deep-bench report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from deep_bench.cli.verb import WHERE, FileToWrite, Verb, gather_chosen
from deep_bench.errors import DeepBenchError, on_a_line


class ReportToWrite(FileToWrite):
    """A file for a report, whose format its name tells."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Read a path that ends in a format that can be written here."""
        from deep_bench.results.report.writing import writer_of

        path = super().convert(value, param, ctx)
        try:
            writer_of(path)
        except DeepBenchError as error:
            self.fail(str(error), param, ctx)
        return path


@click.command("report", cls=Verb)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FOLDER|RECORD…")
@click.option("-o", "--output", "file", required=True, type=ReportToWrite(), help="NAME.html, NAME.md or NAME.pdf.")
@click.option("--base", metavar="SYSTEM|LABEL=VALUE", help="What ratios are over. Default: the system with most results.")
@click.option("--title", help="Default: what was run on what.")
@click.option(
    "--note", "notes", metavar="TEXT", multiple=True, help="What no record says, such as why not all CPUs were used."
)
@WHERE
def command(
    paths: tuple[Path, ...],
    file: Path,
    base: str | None,
    title: str | None,
    notes: tuple[str, ...],
    where: tuple[tuple[str, str], ...],
) -> None:
    """Write a report of records: verdicts first, tables, plots with intervals, the raw data, how to repeat it.

    Folders are searched down. A page (.html) is one file that needs no other; Markdown (.md) has its plots in a folder
    beside it; a PDF has the records attached. What could not be read is in the report, with the reason.
    """
    from deep_bench.results.report import write
    from deep_bench.results.report.summary import verdict_sentence

    results = gather_chosen(paths, where)
    written = write(results, file, base=base, title=title, notes=notes)
    click.echo(f"{verdict_sentence(results)} {len(results)} results, {len(results.refused)} files not read.")
    click.echo(f"report: {on_a_line(written)}")

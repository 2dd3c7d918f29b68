"""``deep-bench export``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from deep_bench.cli.verb import WHERE, FileToWrite, Verb, gather_chosen
from deep_bench.errors import on_a_line


@click.command("export", cls=Verb)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FOLDER|RECORD…")
@click.option(
    "-o", "--output", type=FileToWrite(), required=True, metavar="FILE", help="The end of its name tells its form."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "reframe", "jube", "benchpark"]),
    default="table",
    show_default=True,
    help="table: .csv, .parquet, .json; reframe: .json (run report), .log (performance log); jube: .csv, .dat; "
    "benchpark: .json (Ramble's figures of merit).",
)
@click.option("--samples", is_flag=True, help="A row for each sample instead of one for each figure.")
@WHERE
def command(
    paths: tuple[Path, ...],
    output: Path,
    form: str,
    samples: bool,
    where: tuple[tuple[str, str], ...],
) -> None:
    """Write what records hold to a file that another program reads.

    The status is 1 where a record could not be read: the file has all others.
    """
    from deep_bench.results.results import check_export

    check_export(output, form, samples)
    results = gather_chosen(paths, where)
    results.export(output, form, samples=samples)
    count = len(results)
    click.echo(f"{count} result{'s' * (count != 1)}: {on_a_line(output)}")
    for refused in results.refused:
        click.echo(f"not read: {refused}", err=True)
    sys.exit(1 if results.refused else 0)

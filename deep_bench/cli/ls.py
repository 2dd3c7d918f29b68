"""``deep-bench ls``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from deep_bench.cli.verb import WHERE, Verb, gather_chosen


@click.command("ls", cls=Verb)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FOLDER|RECORD…")
@WHERE
@click.option("--label", "labels", multiple=True, metavar="NAME", help="Show a label in a column of its own. Repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
def command(
    paths: tuple[Path, ...],
    where: tuple[tuple[str, str], ...],
    labels: tuple[str, ...],
    as_json: bool,
) -> None:
    """List what records hold: when, what, on which system, the verdict, and the first figure with its interval.

    Folders are searched down. The status is 1 where a file could not be read.
    """
    results = gather_chosen(paths, where)
    if as_json:
        from deep_bench.results.formats import as_json as shown

        refused = [{"file": str(r.file), "reason": r.reason} for r in results.refused]
        click.echo(json.dumps({"results": [shown(result) for result in results], "refused": refused}, indent=2))
    else:
        click.echo(results.table(labels))
    sys.exit(1 if results.refused else 0)

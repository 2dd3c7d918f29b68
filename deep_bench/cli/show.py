"""``deep-bench show``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.command("show")
@click.argument("record", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(record: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001 (read by main)
    """Print a record again, recomputed from its raw samples."""
    from deep_bench.network.result import Result

    result = Result.load(record)
    click.echo(json.dumps(result.as_json(), indent=2) if as_json else result.table())
    sys.exit(0 if result.ok else 1)

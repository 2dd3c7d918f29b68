"""``deep-bench show``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from deep_bench.cli.verb import Verb


@click.command("show", cls=Verb)
@click.argument("record", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@click.option("--rules", is_flag=True, help="How the report does by the twelve rules of Hoefler and Belli.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(record: Path, as_json: bool, rules: bool, debug: bool) -> None:  # noqa: ARG001 (read by main)
    """Print a record again, recomputed from its raw samples."""
    from deep_bench.measure.storage import load

    kind_of = _kind(record)
    if kind_of == "training":
        _show_training(record, as_json)
        return
    if kind_of == "scaling":
        _show_scaling(record, as_json)
        return
    from deep_bench.distributed.collectives.result import Result as Communication
    from deep_bench.distributed.collectives.result import is_communication
    from deep_bench.network.report import rules_table
    from deep_bench.network.result import Result
    from deep_bench.operators.studies.result import Study

    read = load(record)
    if rules:
        click.echo(rules_table(Result(read, record)))
        return
    kind: Any = Communication if is_communication(read) else Study if read.suite is not None else Result
    result = kind(read, record)
    click.echo(json.dumps(result.as_json(), indent=2) if as_json else result.table())
    sys.exit(0 if result.ok else 1)


def _kind(record: Path) -> str:
    """Of what a file is the record; what cannot be read is left to what reads records."""
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(content.get("kind", "")) if isinstance(content, dict) else ""


def _show_training(record: Path, as_json: bool) -> None:
    from deep_bench.training.runs import Runs

    runs = Runs.load(record)
    click.echo(runs.record.model_dump_json(indent=2) if as_json else runs.report())


def _show_scaling(record: Path, as_json: bool) -> None:
    from deep_bench.distributed.scaling.record import load_scaling
    from deep_bench.distributed.scaling.report import as_text

    read = load_scaling(record)
    click.echo(read.model_dump_json(indent=2) if as_json else as_text(read))

"""``deep-bench doctor``."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.cli.verb import Verb


@click.command("doctor", cls=Verb)
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
def command(as_json: bool) -> None:
    """This machine: what would disturb a measurement, and what to do about it."""
    from deep_bench.measure.environment import capture, risks
    from deep_bench.records.table import columns, print_table

    environment = capture()
    findings = risks(environment)
    if as_json:
        listed = [{"name": r.name, "risk": r.what, "advice": r.advice} for r in findings]
        click.echo(json.dumps({"environment": environment.model_dump(mode="json"), "risks": listed}, indent=2))
        return
    console = Console(width=columns())
    table = Table("fact", "value", show_header=False)
    for name, value in environment.model_dump(mode="json", exclude={"unknown"}).items():
        if value not in (None, [], {}):
            table.add_row(name.replace("_", " "), Text(_shown(value)))
    print_table(console, table)
    for name, reason in environment.unknown.items():
        console.print(Text(f"unknown: {name.replace('_', ' ')}: {reason}"))
    for risk in findings:
        console.print(Text(str(risk)))
    if not findings:
        console.print("no risk found")


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    if isinstance(value, list):
        return "; ".join(_shown(v) if isinstance(v, dict) else str(v) for v in value)
    return str(value)

"""``deep-bench list``."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Table

from deep_bench import frameworks
from deep_bench.variant import option_types


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(as_json: bool, debug: bool) -> None:  # noqa: ARG001 (read by main)
    """Frameworks: what is known, what is installed, with which options.

    Imports nothing that is missing.
    """
    rows = [_describe(name) for name in frameworks]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table("framework", "version", "device", "options", title=None)
    for row in rows:
        options = ", ".join(f"{name}=<{kind}>" for name, kind in row["options"].items())
        table.add_row(row["name"], row["version"] or f"[dim]not installed: {row['install']}", row["device"] or "", options)
    Console().print(table)


def _describe(name: str) -> dict[str, object]:
    missing = frameworks.missing(name)
    if missing:
        return {
            "name": name,
            "version": None,
            "device": None,
            "options": {},
            "install": f"pip install 'deep-bench[{name}]'",
        }
    adapter = frameworks[name]
    facts = adapter().describe()
    options = {option: kind.__name__ for option, kind in option_types(adapter).items()}
    return {"name": name, "version": facts["version"], "device": facts["device"], "options": options, "install": None}

"""``deep-bench list``."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench import frameworks
from deep_bench.cli.verb import Verb
from deep_bench.errors import DeepBenchError
from deep_bench.records.table import columns, print_table
from deep_bench.variant import Variant, option_types
from deep_bench.workers.process import Worker


@click.command("list", cls=Verb)
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
def command(as_json: bool) -> None:
    """Frameworks: what is known, what is installed, with which options.

    Imports nothing that is missing.
    """
    rows = [_row(name) for name in frameworks]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table("framework", "version", "device", "options")
    for row in rows:
        options = ", ".join(f"{name}=<{kind}>" for name, kind in row["options"].items())
        table.add_row(row["name"], Text(row["version"] or row["problem"]), row["device"] or "", Text(options))
    print_table(Console(width=columns()), table)


class FrameworkFacts:
    """What a framework says of itself; made in a process of its own, where it may print what it likes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def facts(self) -> dict[str, Any]:
        """Version, device and options."""
        adapter = Variant(self._name).create()
        description = adapter.describe()
        options = {option: kind.__name__ for option, kind in option_types(type(adapter)).items()}
        return {"version": description["version"], "device": description["device"], "options": options}


def _row(name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "version": None, "device": None, "options": {}, "problem": None}
    if frameworks.missing(name):
        return row | {"problem": f"not installed: pip install 'deep-bench[{name}]'"}
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Worker(
                "deep_bench.cli.list:FrameworkFacts", {"name": name}, label=name, log=Path(folder) / "log"
            ) as worker:
                return row | worker.call("facts")
        except DeepBenchError as error:
            return row | {"problem": f"installed, but does not work: {error.came}"}

"""``deep-bench recipe``: experiments as recipes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli import FAILED, INTERRUPTED
from deep_bench.cli.verb import Subcommands, Verb
from deep_bench.errors import InvalidArgument

if TYPE_CHECKING:
    from deep_bench.recipes import Cell, Experiment, Outcome

command = Subcommands(
    "recipe",
    {
        "list": "The recipes that ship.",
        "check": "Whether a recipe is sound; with --here, whether this machine can run it.",
        "expand": "The cells of a recipe, and the command of each.",
        "run": "Measure all cells of a recipe, here or as jobs of SLURM.",
        "resume": "Go on with a run: measure the cells that are not done.",
        "status": "What became of the cells of a run.",
    },
    "State an experiment as a file - what is fixed, what varies, what is accepted - and run it cell by cell.",
)

_changes = click.option(
    "--set", "changes", multiple=True, metavar="PATH=VALUE", help="Change a field first. Repeat for more."
)
_code = click.option("--allow-code", is_flag=True, help="Let it run code: a Python recipe, your own operators, setup lines.")
_launcher = click.option(
    "--launcher", type=click.Choice(["local", "slurm"]), default="local", show_default=True, help="Where cells run."
)
_detach = click.option("--no-wait", is_flag=True, help="With --launcher slurm: submit the jobs and return.")
_json = click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
_folder = click.argument("folder", type=click.Path(path_type=Path))
_recipe = click.argument("recipe", metavar="NAME|FILE.yaml|FILE.py")


@click.command("list", cls=Verb)
@_json
def listing(as_json: bool) -> None:
    """The recipes that ship: name, level, number of cells, and what each is for."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from deep_bench.recipes import READY, load_experiment
    from deep_bench.records.table import columns, print_table

    experiments = [load_experiment(name) for name in READY]
    rows = [{"name": e.name, "level": e.level, "cells": len(e.cells), "title": e.fields.title} for e in experiments]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table("recipe", "level", "cells", "what for")
    for row in rows:
        table.add_row(*(Text(str(value)) for value in row.values()))
    print_table(Console(width=columns()), table)


@click.command("check", cls=Verb)
@_recipe
@_changes
@click.option("--here", is_flag=True, help="Also whether all that it needs is here, and fits; frameworks are imported.")
@_code
def check(recipe: str, changes: Sequence[str], here: bool, allow_code: bool) -> None:
    """See whether a recipe is sound: each wrong field is named with its line and the nearest right one.

    Exit status: 0 it is; 1 something that it needs is missing here, or does not fit (--here); 2 it is not.
    """
    experiment = _load(recipe, changes, allow_code)
    click.echo(
        f"{experiment.name}: level {experiment.level}, cells: {len(experiment.cells)}, conditions: {len(experiment.rules)}"
    )
    if here:
        from deep_bench.recipes.requirements import missing_here, wrong_here

        faults = [f"missing: {fault}" for fault in missing_here(experiment)]
        faults += [f"wrong: {fault}" for fault in wrong_here(experiment)] if experiment.home.is_dir() else []
        for line in faults:
            click.echo(line)
        click.echo("this machine cannot run it as it is" if faults else "this machine can run it")
        sys.exit(FAILED if faults else 0)


@click.command("expand", cls=Verb)
@_recipe
@_changes
@_code
@_json
def expand(recipe: str, changes: Sequence[str], allow_code: bool, as_json: bool) -> None:
    """List the cells of a recipe: factors, what is compared within one measurement, and the command."""
    experiment = _load(recipe, changes, allow_code)
    cells = [_expanded(cell) for cell in experiment.cells]
    if as_json:
        click.echo(json.dumps(cells, indent=2, ensure_ascii=False))
        return
    for entry in cells:
        click.echo(f"{entry['id']}  {entry['name']}\n    {entry['command']}")


def _expanded(cell: Cell) -> dict[str, Any]:
    from deep_bench.recipes.cell import as_typed

    return {
        "id": cell.id,
        "name": cell.name,
        "factors": dict(cell.factors),
        "together": list(cell.together),
        "command": as_typed(cell),
    }


@click.command("run", cls=Verb)
@_recipe
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The folder. Default: results/NAME.")
@click.option("--only", multiple=True, metavar="FACTOR=VALUE", help="Only cells that have this value. Repeat for more.")
@_changes
@click.option("--dry-run", is_flag=True, help="Only list what would run.")
@_code
@_launcher
@_detach
@_json
def run(recipe: str, output: Path | None, only: tuple[str, ...], changes: Sequence[str], **options: Any) -> None:
    """Measure all cells of a recipe, each in a process of its own; one that fails stops no other.

    In a folder where the same recipe ran before, only cells that have not ended are measured. Ctrl-C ends the running cell
    and keeps everything.

    Exit status: 0 all was accepted; 1 a cell failed, or something was not accepted; 2 bad usage or input; 130 interrupted.
    """
    from deep_bench.recipes import run_experiment
    from deep_bench.recipes.recipe import select_cells

    experiment = _load(recipe, changes, options["allow_code"])
    if options["dry_run"]:
        for cell in select_cells(experiment.cells, only, experiment.factors):
            entry = _expanded(cell)
            click.echo(f"{entry['id']}  {entry['name']}\n    {entry['command']}")
        return
    folder = Path("results") / experiment.name if output is None else output
    with _space_told():
        outcome = run_experiment(experiment, folder, only=only, **_how(options))
    _end(outcome, options)


@click.command("resume", cls=Verb)
@_folder
@click.option("--failed", is_flag=True, help="Measure cells that failed or were skipped again, too.")
@_code
@_launcher
@_detach
@_json
def resume(folder: Path, failed: bool, **options: Any) -> None:
    """Go on with a run: measure all its cells that are not done.

    Exit status: as of `deep-bench recipe run`.
    """
    from deep_bench.recipes import resume_experiment

    with _space_told():
        outcome = resume_experiment(folder, failed=failed, allow_code=options["allow_code"], **_how(options))
    _end(outcome, options)


def _how(options: dict[str, Any]) -> dict[str, Any]:
    return {"launcher": options["launcher"], "wait": not options["no_wait"], "progress": not options["as_json"]}


@contextmanager
def _space_told() -> Iterator[None]:
    """A disk that is full is no bad input."""
    from deep_bench.recipes import NotWritten

    try:
        yield
    except NotWritten as error:
        click.echo(f"deep-bench: {error}", err=True)
        sys.exit(FAILED)


@click.command("status", cls=Verb)
@_folder
@_json
def status(folder: Path, as_json: bool) -> None:
    """Show what became of the cells of a run; nothing is run.

    Exit status: 0 all was accepted; 1 not, or not yet.
    """
    from deep_bench.recipes import experiment_status

    outcome = experiment_status(folder)
    click.echo(json.dumps(outcome.as_json(), indent=2) if as_json else outcome.table())
    if not outcome.ended and not outcome.running:
        click.echo(f"some cells were not measured; go on: {outcome.store.resume}", err=True)
    sys.exit(0 if outcome.ok else FAILED)


def _load(recipe: str, changes: Sequence[str], allow_code: bool) -> Experiment:
    from deep_bench.recipes import load_experiment

    experiment = load_experiment(recipe, *changes, allow_code=allow_code)
    ran = [f"the program {recipe}"] if recipe.endswith(".py") else []
    if ran or experiment.code:
        click.echo(f"this recipe runs code: {'; '.join([*ran, *experiment.code])}", err=True)
    for cell in experiment.cells:
        # see that the verb that measures a cell takes its words, which it reads and does nothing with
        from deep_bench.recipes.cell import plain_words

        name, *words = plain_words(cell)
        verb: click.Command = import_module(f"deep_bench.cli.{name}").command
        try:
            verb.make_context(name, words)
        except click.UsageError as error:
            message = f"{recipe}: the cell {cell.name}: {error.format_message()}"
            raise InvalidArgument(message, advice=f"see deep-bench {name} -h") from error
    return experiment


def _end(outcome: Outcome, options: dict[str, Any]) -> None:
    """Print what became of it, and exit."""
    click.echo(json.dumps(outcome.as_json(), indent=2) if options["as_json"] else outcome.table())
    again = outcome.store.resume
    if options["launcher"] == "slurm":
        again += " --launcher slurm"
        if outcome.jobs:
            hint = f"deep-bench recipe status {click.format_filename(outcome.store.path)}"
            click.echo(f"jobs waiting or running: {len(outcome.jobs)}; see {hint}", err=True)
            if options["no_wait"]:
                sys.exit(0)
    if outcome.interrupted:
        click.echo(f"deep-bench: interrupted; go on: {again}", err=True)
        sys.exit(INTERRUPTED)
    if not outcome.ended:
        click.echo(f"some cells were not measured; go on: {again}", err=True)
    sys.exit(0 if outcome.ok else FAILED)

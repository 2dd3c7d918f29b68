"""``deep-bench environments``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli.verb import Verb

if TYPE_CHECKING:
    from deep_bench.environments import Built, Declaration, Declarations

_FILE = click.option(
    "--file", "file", type=click.Path(path_type=Path), help="Where they are declared. Default: environments.yaml here."
)


@click.group("environments")
def command() -> None:
    """Other Python environments: built once from what is declared, locked, and run in (torch@NAME)."""


@command.command("list", cls=Verb)
@_FILE
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
def list_them(file: Path | None, as_json: bool) -> None:
    """What is declared, and what is built."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from deep_bench.environments import Declarations, all_built
    from deep_bench.records.table import columns, print_table

    declared = Declarations.read(file)
    rows = [_row(name, declared.get(name)) for name in sorted({*declared, *all_built()})]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        click.echo(f"none is declared in {declared.path}, and none is built")
        return
    table = Table("environment", "state", "python", "requirements", "lock")
    for row in rows:
        lock = row["lock_sha256"][:12] if row["lock_sha256"] else ""
        table.add_row(*(Text(str(cell)) for cell in (row["name"], row["state"], row["python"], row["requirements"], lock)))
    print_table(Console(width=columns()), table)


@command.command("build", cls=Verb)
@click.argument("name")
@_FILE
@click.option("--again", is_flag=True, help="Build it anew if it is there.")
@click.option("--unlocked", is_flag=True, help="Let pip choose the versions, although there is a lock.")
def build_it(name: str, file: Path | None, again: bool, unlocked: bool) -> None:
    """Build NAME from its lock, or from what is declared. This installs packages, which runs their code."""
    from deep_bench.environments import Lock
    from deep_bench.environments.building import lock_file, read_lock

    declared = _declarations(file)
    declaration = declared[name]
    path = lock_file(declared.path, name)
    lock = None if unlocked else read_lock(path, name)
    if declaration.prefix:
        click.echo(f"commands in {name} are run as: {declaration.command('…')}", err=True)
    if lock is not None:
        click.echo(f"the versions are those of {path}", err=True)
    environment = _built(name, declaration, lock=lock, again=again)
    pins = Lock.parse(environment.lock, name).pins
    click.echo(
        f"{environment.python}; locked {', '.join(f'{n} {v}' for n, v in pins.items())}; lock {environment.lock_sha256}"
    )


@command.command("lock", cls=Verb)
@click.argument("name")
@_FILE
def lock_it(name: str, file: Path | None) -> None:
    """Write the lock of NAME, built if it is not there, beside the file that declares it: NAME.lock.txt."""
    from deep_bench.environments.building import lock_file, write_lock

    declared = _declarations(file)
    environment = _built(name, declared[name])
    click.echo(str(write_lock(lock_file(declared.path, name), environment.lock)))


@command.command("check", cls=Verb)
@click.argument("name")
@_FILE
def check_it(name: str, file: Path | None) -> None:
    """Whether NAME, a name or a folder, can be worked in, and holds what it was built with and what its lock file says.

    Exit status: 0 it does; 1 it differs from a lock; 2 it cannot be worked in, or its lock file is none.
    """
    from deep_bench.environments import Lock, all_built, built, differences, place_of
    from deep_bench.environments.building import lock_file, looked_at, read_lock

    environment, declared = built(name) if name in all_built() else None, _declarations(file)
    lean = environment is not None and not environment.declaration.deep_bench
    lock_differences: list[str] = []
    if environment is not None and (lock := read_lock(path := lock_file(declared.path, name), name)) is not None:
        pairs = lock.differences(Lock.parse(environment.lock, name))
        lock_differences = [f"not as in {path}: {line}" for line in pairs]
    for line in lock_differences:
        click.echo(line)
    facts = looked_at(place_of(name, lean=lean, declared=declared))
    click.echo(
        f"{facts['python']}, {len(facts['packages'])} packages" + (f"; {facts['remark']}" if "remark" in facts else "")
    )
    changed = differences(environment) if environment is not None else []
    for line in changed:
        click.echo(f"not as locked: {line}")
    sys.exit(1 if changed or lock_differences else 0)


@command.command("remove", cls=Verb)
@click.argument("name")
def remove_it(name: str) -> None:
    """Remove NAME, or what a build of it left."""
    from deep_bench.environments import all_built, remove
    from deep_bench.errors import UnknownName

    if not remove(name):
        raise UnknownName("environment", name, all_built(), "see `deep-bench environments list`")
    click.echo(f"{name} is removed")


def _declarations(file: Path | None) -> Declarations:
    from deep_bench.environments import Declarations

    return Declarations.read(file)


def _built(name: str, declaration: Declaration, **options: Any) -> Built:
    from deep_bench.environments import build

    return build(name, declaration, tell=lambda line: click.echo(line, err=True), **options)


def _row(name: str, declaration: Declaration | None) -> dict[str, Any]:
    from deep_bench.environments import built

    environment = built(name)
    of = declaration or (environment.declaration if environment else None)
    state = "not built" if environment is None else "built"
    if environment is not None and declaration is not None and declaration.sha256 != environment.declaration.sha256:
        state = "built from another declaration"
    return {
        "name": name,
        "state": state if declaration is not None else f"{state}, not declared here",
        "python": environment.python if environment is not None else "",
        "requirements": ", ".join(of.requirements) if of is not None else "",
        "lock_sha256": environment.lock_sha256 if environment is not None else None,
    }

"""``deep-bench bundle``."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from deep_bench.cli.verb import FileToWrite, Spelled, Verb, refuse_unless


def _name_and_place(text: str) -> tuple[str, str]:
    name, _, where = text.partition("=")
    refuse_unless(name.strip() and where.strip())
    return name, where


_ELSEWHERE = Spelled("name=where", _name_and_place, ": write a name and where it can be had, such as net.onnx=https://…")


@click.command("bundle", cls=Verb)
@click.argument("records", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--output", type=FileToWrite(), default=Path("bundle.zip"), show_default=True, help="The archive.")
@click.option("--command", "words", metavar="'COMMAND …'", help="What repeats it. Default: what the records say.")
@click.option("--input", "inputs", type=click.Path(path_type=Path, exists=True), multiple=True,
              help="A further file or folder that it reads. Repeat for more.")  # fmt: skip
@click.option("--elsewhere", type=_ELSEWHERE, multiple=True, metavar="NAME=WHERE",
              help="Where others can have a network that is gone, or a file too large. Repeat for more.")  # fmt: skip
@click.option("--licence", default="", metavar="NAME", help="Under which it is shared: CC-BY-4.0, …")
@click.option("--licence-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The licence's text.")
@click.option("--title", default="", help="What it is, in words.")
@click.option("--force", is_flag=True, help="Replace the archive if it is there already.")
def command(
    records: tuple[Path, ...],
    output: Path,
    words: str | None,
    inputs: tuple[Path, ...],
    elsewhere: tuple[tuple[str, str], ...],
    licence: str,
    licence_file: Path | None,
    title: str,
    force: bool,
) -> None:
    """Pack what others need to repeat a run: records, what it read, the exact environment, deep_bench, and a README.

    RECORDS are the files of one run, or a folder. Paths in the run's command are looked up from here: call it where the run
    was called. A file of the run that is gone, or is another now, is refused.
    """
    from deep_bench.errors import printable
    from deep_bench.recipes.bundles import bundle
    from deep_bench.recipes.manifest import omission_line

    archive = bundle(
        records,
        output,
        command=None if words is None else shlex.split(words),
        inputs=inputs,
        elsewhere=dict(elsewhere),
        licence=licence,
        licence_file=licence_file,
        title=title,
        force=force,
    )
    click.echo(f"bundle: {output}, {len(archive.files)} files, {output.stat().st_size} bytes")
    for omission in archive.left:
        lost = omission.files or not omission.source
        click.echo(printable(f"{'warning: ' if lost else ''}not in it: {omission_line(omission)}"), err=bool(lost))
    for name, (then, locked) in archive.lock.drifted.items():
        click.echo(f"the run had {name} {then}, the lock has {locked or 'none'}: bundle in the environment of the run")
    for remark in archive.remarks:
        click.echo(f"note: {remark}")
    click.echo(f"repeat it: deep-bench repeat {shlex.quote(str(output))}")

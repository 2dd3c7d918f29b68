"""``deep-bench bundle``."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from deep_bench.cli.options import FileToWrite
from deep_bench.cli.verb import Verb


@click.command("bundle", cls=Verb)
@click.argument("records", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--output", type=FileToWrite(), default=Path("bundle.zip"), show_default=True, help="The archive.")
@click.option("--command", "words", metavar="'COMMAND …'", help="What repeats it. Default: what the records say.")
@click.option("--input", "inputs", type=click.Path(path_type=Path, exists=True), multiple=True,
              help="A further file or folder that it reads. Repeat for more.")  # fmt: skip
@click.option("--licence", default="", metavar="NAME", help="Under which it is shared: CC-BY-4.0, …")
@click.option("--licence-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The licence's text.")
@click.option("--title", default="", help="What it is, in words.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(
    records: tuple[Path, ...],
    output: Path,
    words: str | None,
    inputs: tuple[Path, ...],
    licence: str,
    licence_file: Path | None,
    title: str,
    debug: bool,  # noqa: ARG001 (read by main)
) -> None:
    """Pack what others need to repeat a run: records, what it read, the exact environment, deep_bench, and a README.

    RECORDS are the files of one run, or a folder. Paths in the run's command are looked up from here: call it where the run
    was called.
    """
    from deep_bench.repeating import bundle

    made = bundle(
        records,
        output,
        command=None if words is None else shlex.split(words),
        inputs=inputs,
        licence=licence,
        licence_file=licence_file,
        title=title,
    )
    click.echo(f"bundle: {output}, {len(made.files)} files, {output.stat().st_size} bytes")
    for one in made.left:
        click.echo(f"not in it: {one.what}: {one.why}")
    for name, (then, now) in made.lock.drifted.items():
        click.echo(f"the run had {name} {then}, the lock has {now or 'none'}: bundle in the environment of the run")
    for remark in made.remarks:
        click.echo(f"note: {remark}")
    click.echo(f"repeat it: deep-bench repeat {shlex.quote(str(output))}")

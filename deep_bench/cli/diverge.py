"""``deep-bench diverge``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli import FAILED
from deep_bench.cli.verb import SIZE, FileToWrite, PictureToWrite, Verb, check_files, check_systems, one_each
from deep_bench.errors import DeepBenchError, InvalidInput, InvalidNetwork, WorkerError
from deep_bench.workers.process import failure_text

if TYPE_CHECKING:
    from deep_bench.network.divergence import Divergence


@click.command("diverge", cls=Verb)
@click.argument("network")
@click.option("--on", "on", multiple=True, required=True, metavar="FRAMEWORK[:OPTION=VALUE,…]", help="Repeat for several.")
@click.option("--input", "inputs", type=click.Path(path_type=Path), help="An .npz file with one array per input.")
@click.option("--batch", type=click.IntRange(min=0), help="Size of the open first dimensions.")
@click.option("--size", "sizes", type=SIZE, multiple=True, help="Size of an open dimension.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--gradients", metavar="LOSS", help="Examine the gradients of this value.")
@click.option("--effort", type=click.Choice(["quick", "full"]), default="quick", show_default=True)
@click.option("--all", "every", is_flag=True, help="Show every node, not only those that matter.")
@click.option("--in-process", is_flag=True, help="Start no processes: for a debugger.")
@click.option("--plot", type=PictureToWrite(stem=True), help="Write a picture; with several frameworks one each.")
@click.option("--json", "json_file", type=FileToWrite(), help="Write all of it as JSON.")
def command(
    network: str,
    on: tuple[str, ...],
    every: bool,
    plot: Path | None,
    json_file: Path | None,
    debug: bool,
    **options: Any,
) -> None:
    """Find the first node of NETWORK whose result rounding cannot explain.

    Exit status: 0 rounding explains everything; 1 it does not, there was nothing to judge, or a framework failed; 2 bad
    usage or input; 130 interrupted (what was examined by then is shown and written, as partial).
    """
    check_systems(on)
    pictures = [] if plot is None else one_each(plot, on)
    check_files(pictures, "--plot")
    options["sizes"] = dict(options["sizes"])
    divergences: list[Divergence] = []
    errors: dict[str, DeepBenchError] = {}
    reason = "interrupted before it was reached"
    try:
        _examine(network, on, options, divergences, errors, every=every)
    except Exception as error:  # shown as it is, once what was examined is kept
        reason = f"ended by {type(error).__name__}: {error}"
        raise
    finally:
        if divergences or errors:
            _write(
                on, divergences, {s: failure_text(errors[s], s) if s in errors else reason for s in on}, json_file, pictures
            )
    if debug:
        for system, failure in errors.items():
            click.echo(f"{system}:\n{getattr(failure, 'details', failure)}", err=True)
    if any(d.interrupted for d in divergences):
        raise KeyboardInterrupt
    sys.exit(0 if not errors and all(d.ok and d.judged for d in divergences) else FAILED)


def _examine(
    network: str,
    on: Sequence[str],
    options: dict[str, Any],
    divergences: list[Divergence],
    errors: dict[str, DeepBenchError],
    *,
    every: bool,
) -> None:
    """Each framework in turn. One that fails is said to, and the others are examined; bad usage of all of them is raised."""
    from deep_bench.network.divergence import diverge

    for system in on:
        try:
            divergences.append(diverge(network, system, **options))
        except (InvalidInput, InvalidNetwork):
            raise  # no framework can do better
        except DeepBenchError as error:
            if len(on) == 1 and not isinstance(error, WorkerError):
                raise
            errors[system] = error
            continue
        click.echo(divergences[-1].table(every=every))
        if divergences[-1].interrupted:
            return
    usage = [error for error in errors.values() if not isinstance(error, WorkerError)]
    if len(usage) == len(on):
        errors.clear()
        raise usage[0]


def _write(
    on: Sequence[str],
    divergences: Sequence[Divergence],
    reasons: Mapping[str, str],
    file: Path | None,
    pictures: Sequence[Path],
) -> None:
    """Write what was examined, and why the others were not."""
    examined = {divergence.system: divergence for divergence in divergences}
    missing = [system for system in on if system not in examined]
    if missing:
        click.echo(f"partial: {len(examined)} of {len(on)} systems were examined")
    for system in missing:
        click.echo(f"{system}: not examined: {reasons[system]}")
    if file is not None:
        plain = [examined[s].as_json() if s in examined else {"system": s, "error": reasons[s]} for s in on]
        write_json(file, plain)
        click.echo(f"record: {file}")
    for system, picture in zip(on, pictures, strict=False):  # no pictures if none were asked for
        if system in examined:
            click.echo(f"plot: {examined[system].plot(picture)}")


def write_json(path: Path, content: Any) -> None:
    """Write a file of JSON, whole or not at all."""
    from deep_bench.records.store import replace

    text = json.dumps(content, indent=2, allow_nan=False)
    replace(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

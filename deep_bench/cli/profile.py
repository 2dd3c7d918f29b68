"""``deep-bench profile``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from deep_bench.cli import FAILED, INTERRUPTED
from deep_bench.cli.options import FileToWrite, PictureToWrite, Size, check_systems
from deep_bench.cli.verb import Verb


@click.command("profile", cls=Verb)
@click.argument("network")
@click.option("--on", "on", multiple=True, metavar="FRAMEWORK[:OPTION=VALUE,…]", help="Repeat to compare. Default: all.")
@click.option("--backward", "loss", metavar="LOSS", help="An output of one element: profile its gradients too.")
@click.option("--repeat", type=click.IntRange(min=1), default=20, show_default=True, help="Observed calls.")
@click.option("--input", "inputs", type=click.Path(path_type=Path), help="An .npz file with one array per input.")
@click.option("--batch", type=click.IntRange(min=0), help="Size of the open first dimensions.")
@click.option("--size", "sizes", type=Size(), multiple=True, help="Size of an open dimension.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Rows to print.")
@click.option("--all", "everything", is_flag=True, help="Print all rows.")
@click.option("--in-process", is_flag=True, help="Start no processes: for a debugger.")
@click.option("--json", "json_file", type=FileToWrite(), help="Write everything to a file.")
@click.option("--plot", "plot_file", type=PictureToWrite(), help="Write a picture: .png, .pdf, .svg …")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(
    network: str, top: int, everything: bool, json_file: Path | None, plot_file: Path | None, debug: bool, **options: Any
) -> None:
    """Show where the time and memory of NETWORK go, node by node, in several frameworks side by side.

    NETWORK is an .onnx file or the name of one that ships (digits-cnn).

    Exit status: 0 all frameworks were profiled; 1 one of them could not be; 2 bad usage or input; 130 interrupted
    (the frameworks that were profiled by then are shown and written, as partial).
    """
    del debug  # looked for by the main program
    check_systems(options["on"])
    from deep_bench.network.profiling.profile import profile

    systems, sizes = list(options.pop("on")) or None, dict(options.pop("sizes"))
    found = profile(network, systems, options.pop("inputs"), sizes=sizes, **options)
    click.echo(found.table(None if everything else top))
    if json_file is not None:
        click.echo(f"profile: {found.save(json_file)}")
    if plot_file is not None:
        from deep_bench.network.profiling.picture import plot

        click.echo(f"picture: {plot(found, plot_file)}")
    if found.interrupted:
        click.echo("deep-bench: interrupted", err=True)
        sys.exit(INTERRUPTED)
    sys.exit(0 if found.ok else FAILED)

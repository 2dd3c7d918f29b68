"""``deep-bench diverge``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from deep_bench.cli.run import Size


@click.command("diverge")
@click.argument("network")
@click.option("--on", "on", multiple=True, required=True, metavar="FRAMEWORK[:OPTION=VALUE,…]", help="Repeat for several.")
@click.option("--input", "inputs", type=click.Path(path_type=Path), help="An .npz file with one array per input.")
@click.option("--batch", type=click.IntRange(min=0), help="Size of the open first dimensions.")
@click.option("--size", "sizes", type=Size(), multiple=True, help="Size of an open dimension.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--gradients", metavar="LOSS", help="Examine the gradients of this value.")
@click.option("--effort", type=click.Choice(["quick", "full"]), default="quick", show_default=True)
@click.option("--all", "every", is_flag=True, help="Show every node, not only those that matter.")
@click.option("--plot", type=click.Path(path_type=Path), help="Write a picture; with several frameworks one each.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all of it as JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(
    network: str,
    on: tuple[str, ...],
    every: bool,
    plot: Path | None,
    json_file: Path | None,
    debug: bool,  # noqa: ARG001 (read by main)
    **options: Any,
) -> None:
    """Find the first node of NETWORK whose result rounding cannot explain.

    Exit status: 0 rounding explains everything; 1 it does not; 2 bad usage or input; 130 interrupted.
    """
    from deep_bench.network.divergence import diverge

    options["sizes"] = dict(options["sizes"])
    found = []
    for system in on:
        found.append(diverge(network, system, **options))
        click.echo(found[-1].table(every=every))
    if json_file is not None:
        write_json(json_file, [d.as_json() for d in found])
        click.echo(f"record: {json_file}")
    for system, one in zip(on, found, strict=True):
        if plot is not None:
            target = plot if len(on) == 1 else plot.with_stem(f"{plot.stem}-{_file_name(system)}")
            click.echo(drawn("plot", partial(one.plot, target)))
    sys.exit(0 if all(d.ok for d in found) else 1)


def drawn(label: str, draw: Callable[[], Path]) -> str:
    """What to say of a picture, also where nothing can draw it."""
    try:
        return f"{label}: {draw()}"
    except ImportError:
        return f"no {label}: matplotlib is not installed (pip install 'deep-bench[report]')"


def write_json(path: Path, content: Any) -> None:
    """Write a file of JSON, whole or not at all."""
    from deep_bench.measure.storage import replace

    text = json.dumps(content, indent=2, allow_nan=False)
    replace(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _file_name(system: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in system)

"""``deep-bench run``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli import FAILED
from deep_bench.cli.verb import SIZE, SWEEP, Verb, check_systems, finish, settings_options
from deep_bench.errors import NotKept
from deep_bench.study.settings import NetworkSettings

if TYPE_CHECKING:
    from deep_bench.graph import Network


@click.command("run", cls=Verb)
@click.argument("network")
@click.option(
    "--on", "on", multiple=True, metavar="FRAMEWORK[@ENVIRONMENT][:OPTION=VALUE,…]", help="Repeat to compare. Default: all."
)
@click.option("--input", "inputs", type=click.Path(path_type=Path), help="An .npz file with one array per input.")
@click.option("--batch", type=click.IntRange(min=0), help="Size of the open first dimensions.")
@click.option("--size", "sizes", type=SIZE, multiple=True, help="Size of an open dimension.")
@click.option("--sweep", type=SWEEP, help="Run once for each size: a latency-throughput curve.")
@click.option("--transform", "steps", multiple=True, metavar="NAME[:OPTIONS]", help="First transform it, as the verb does.")
@settings_options(NetworkSettings, "seed", "ci_width", "budget", "check")
@click.option("--output", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
def command(network: str, sweep: tuple[str, tuple[int, ...]] | None, as_json: bool, debug: bool, **options: Any) -> None:
    """Check and time NETWORK, an .onnx file or the name of one that ships (digits-cnn).

    Exit status: 0 nothing was found wrong; 1 a result was wrong or of reduced precision, a framework failed, or the record
    could not be written (what was measured is shown); 2 bad usage or input; 130 interrupted (what was measured is kept).
    """
    check_systems(options["on"])
    settings = dict(options, on=list(options["on"]) or None, sizes=dict(options["sizes"]))
    chosen = _transformed(network, settings.pop("steps"), options["output"])
    outcome, unwritten = _run_or_sweep(chosen, sweep, settings)
    click.echo(json.dumps(outcome.as_json(), indent=2) if as_json else outcome.table())
    if debug and not as_json:
        for system in outcome.failures:
            click.echo(f"{system.label}:\n{system.record.error.details}", err=True)
    if unwritten is not None:
        click.echo(f"deep-bench: {unwritten}", err=True)
        sys.exit(FAILED)
    finish(ok=outcome.ok, interrupted=outcome.interrupted)


def _transformed(network: str, steps: Sequence[str], output: Path) -> str | Network:
    """The network, after the transformations that were asked for; the folder for the record is looked at before."""
    if not steps:
        return network
    from deep_bench.graph import load
    from deep_bench.network.transform.steps import TransformStep, transformed
    from deep_bench.records.folders import output_folder

    parsed = [TransformStep.parse(text) for text in steps]
    output_folder(output)

    def unchanged(step: TransformStep, description: str) -> None:
        click.echo(f"deep-bench: the transformation {step} {description}", err=True)

    return transformed(load(network), parsed, unchanged=unchanged)


def _run_or_sweep(
    network: str | Network, sweep: tuple[str, tuple[int, ...]] | None, settings: dict[str, Any]
) -> tuple[Any, NotKept | None]:
    """What was measured, and why it is not kept if it could not be."""
    try:
        if sweep is not None:
            from deep_bench.network.run import run_sweep

            return run_sweep(network, *sweep, **settings), None
        from deep_bench.network.run import run

        return run(network, **settings), None
    except NotKept as error:
        return error.found, error

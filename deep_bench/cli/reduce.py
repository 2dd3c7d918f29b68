"""``deep-bench reduce``."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from deep_bench.cli import INTERRUPTED
from deep_bench.cli.run import Seconds, Size
from deep_bench.errors import InvalidArgument


@click.command("reduce")
@click.argument("network")
@click.option("--on", "on", multiple=True, required=True, metavar="FRAMEWORK[:OPTION=VALUE,…]", help="What shows it.")
@click.option(
    "--while", "condition", default="wrong", show_default=True, metavar="wrong|crashes|slower=2x",
    help="What must stay true; slower is meant relative to a second --on.",
)  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path), required=True, help="A folder for what is found.")
@click.option("--input", "inputs", type=click.Path(path_type=Path), help="An .npz file with one array per input.")
@click.option("--batch", type=click.IntRange(min=0), help="Size of the open first dimensions.")
@click.option("--size", "sizes", type=Size(), multiple=True, help="Size of an open dimension.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--gradients", metavar="LOSS", help="Reduce what is wrong in the gradients of this value.")
@click.option("--budget", type=Seconds(), default="5m", show_default=True, help="Time for the search.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(
    network: str,
    on: tuple[str, ...],
    condition: str,
    output: Path,
    gradients: str | None,
    debug: bool,  # noqa: ARG001 (read by main)
    **options: Any,
) -> None:
    """Shrink NETWORK to the smallest that is still computed wrongly, crashes, or is slow.

    Writes model.onnx, inputs.npz, expected.npz and reproduce.py, which does without deep_bench.

    Exit status: 0 a network was found and written; 2 bad usage, or it does not show what it should; 130 interrupted (the
    smallest network until then is written).
    """
    from deep_bench.network.folder import output_folder
    from deep_bench.network.reduction import reduce

    output_folder(output)
    options["sizes"] = dict(options["sizes"])
    with ExitStack() as stack:
        posed, predicate = _posed(network, on, condition, gradients, stack)
        found = reduce(posed, options.pop("inputs"), predicate, **options)
        found.save(output)
    click.echo(str(found))
    for line in (*found.steps, *(f"note: {note}" for note in found.notes)):
        click.echo(f"  {line}")
    click.echo(f"written to {output}: {', '.join(sorted(file.name for file in output.iterdir()))}")
    if found.interrupted:
        sys.exit(INTERRUPTED)


def _posed(network: str, on: Sequence[str], condition: str, gradients: str | None, stack: ExitStack) -> tuple[Any, Any]:
    """The network to reduce, and what must stay true of it."""
    from deep_bench.network.reduction import Crashes, Slower, Wrong

    slower = re.fullmatch(r"slower=(\d+(?:\.\d+)?)x?", condition)
    if len(on) != (2 if slower else 1):
        came = f"--on {' --on '.join(on)} --while {condition}"
        raise InvalidArgument(came, "one --on, and for slower=2x a second one: what the first is slower than")
    if slower:
        return _derived(network, gradients), stack.enter_context(Slower(on[0], on[1], float(slower[1])))
    if condition == "crashes":
        return _derived(network, gradients), stack.enter_context(Crashes(on[0]))
    if condition != "wrong":
        raise InvalidArgument(f"--while {condition}", "wrong, crashes, or slower=2x")
    wrong = Wrong(on[0], gradients=gradients is not None and _differentiates(on[0]))
    return _with_loss(network, str(gradients)) if wrong.gradients else _derived(network, gradients), wrong


def _differentiates(system: str) -> bool:
    from deep_bench.network.suspect import as_adapter

    return as_adapter(system).differentiates


def _with_loss(network: str, loss: str) -> Any:
    """The network with the loss as its only output."""
    from deep_bench.graph import load

    return load(network).with_outputs([loss])


def _derived(network: str, loss: str | None) -> Any:
    """The network, or the one that gives its gradients."""
    if loss is None:
        return network
    from deep_bench.graph import load
    from deep_bench.network import differentiate

    return differentiate(load(network), loss)

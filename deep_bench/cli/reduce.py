"""``deep-bench reduce``."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from deep_bench.cli import INTERRUPTED
from deep_bench.cli.verb import SECONDS, SIZE, Verb, check_files, check_systems
from deep_bench.errors import InvalidArgument


@click.command("reduce", cls=Verb)
@click.argument("network")
@click.option("--on", "on", multiple=True, required=True, metavar="FRAMEWORK[:OPTION=VALUE,…]", help="What shows it.")
@click.option(
    "--while", "condition", default="wrong", show_default=True, metavar="wrong|crashes|slower=2x",
    help="What must stay true; slower is meant relative to a second --on.",
)  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path), required=True, help="A new or empty folder for what is found.")
@click.option("--force", is_flag=True, help="Use a folder that is not empty, and replace an earlier reduction in it.")
@click.option("--input", "inputs", type=click.Path(path_type=Path), help="An .npz file with one array per input.")
@click.option("--batch", type=click.IntRange(min=0), help="Size of the open first dimensions.")
@click.option("--size", "sizes", type=SIZE, multiple=True, help="Size of an open dimension.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--gradients", metavar="LOSS", help="Reduce what is wrong in the gradients of this value.")
@click.option("--budget", type=SECONDS, default="5m", show_default=True, help="Time for the search.")
@click.option("--limit", type=SECONDS, default="2m", show_default=True, help="When a framework that runs counts as hanging.")
def command(
    network: str,
    on: tuple[str, ...],
    condition: str,
    output: Path,
    force: bool,
    gradients: str | None,
    limit: float,
    **options: Any,
) -> None:
    """Shrink NETWORK to the smallest that is still computed wrongly, crashes, or is slow.

    Writes model.onnx, inputs.npz, expected.npz, actual.npz and reproduce.py, which does without deep_bench. A folder that is
    not empty is refused; with --force it is used: those files of an earlier reduction are replaced or removed, others stay.

    Frameworks run in processes of their own. A smaller network on which one crashes, is killed or hangs does not count (with
    --while crashes it does), and the search goes on; how many there were is printed.

    Exit status: 0 a network was found and written; 2 bad usage, or it does not show what it should; 130 interrupted (the
    smallest network until then is written).
    """
    from deep_bench.network.reduction import reduce

    check_systems(on)
    # see that the condition exists, and that there are as many frameworks as it is about
    slower = _factor(condition)
    if not slower and condition not in ("wrong", "crashes"):
        raise InvalidArgument(f"--while {condition}", "wrong, crashes, or slower=2x")
    if len(on) != (2 if slower else 1):
        came = f"--on {' --on '.join(on)} --while {condition}"
        raise InvalidArgument(came, "one --on, and for slower=2x a second one: what the first is slower than")
    # make the folder; one that holds files is refused, unless that is what is wanted
    from deep_bench.network.reduction import FILES
    from deep_bench.records.folders import output_folder

    output_folder(output)
    check_files([output / name for name in FILES], "--output")
    existing = sorted(file.name for file in output.iterdir())
    if existing and not force:
        raise InvalidArgument(
            f"the output folder {output} is not empty: {', '.join(existing[:5])}{', …' if len(existing) > 5 else ''}",
            "a new or an empty folder, so that no file in it is of an earlier run",
            "name another, or use it with --force",
        )
    options["sizes"] = dict(options["sizes"])
    with ExitStack() as stack:
        posed, predicate = _posed(network, on, condition, gradients, limit, stack)
        reduction = reduce(posed, options.pop("inputs"), predicate, **options)
        written = sorted(reduction.write(output))
    click.echo(str(reduction))
    for line in (*reduction.steps, *(f"note: {note}" for note in reduction.notes)):
        click.echo(f"  {line}")
    click.echo(f"written to {output}: {', '.join(written)}")
    if reduction.interrupted:
        sys.exit(INTERRUPTED)


def _posed(
    network: str, on: Sequence[str], condition: str, gradients: str | None, limit: float, stack: ExitStack
) -> tuple[Any, Any]:
    """The network to reduce, and what must stay true of it."""
    from deep_bench.network.reduction import Crashes, Slower, Wrong

    slower = _factor(condition)
    if slower:
        return _derived(network, gradients), stack.enter_context(Slower(on[0], on[1], slower, limit=limit))
    if condition == "crashes":
        return _derived(network, gradients), stack.enter_context(Crashes(on[0], limit=limit))
    native_gradients = gradients is not None and _differentiates(on[0])
    wrong = stack.enter_context(Wrong(on[0], gradients=native_gradients, limit=limit))
    return _with_loss(network, str(gradients)) if wrong.gradients else _derived(network, gradients), wrong


def _factor(condition: str) -> float | None:
    """How many times slower is meant, if that is what is meant.

    Raises:
        InvalidArgument: The factor is no finite number above 1: anything is slower than nothing.
    """
    word, equals, text = condition.partition("=")
    if word != "slower":
        return None
    try:
        times = float(text.removesuffix("x"))
    except ValueError:
        times = math.nan
    if not (equals and math.isfinite(times) and times > 1):
        raise InvalidArgument(f"--while {condition}", "slower=2x, or another factor above 1")
    return times


def _differentiates(system: str) -> bool:
    from deep_bench.network.adapter_process import as_adapter

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

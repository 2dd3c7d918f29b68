"""``deep-bench profile``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from deep_bench.cli import FAILED
from deep_bench.cli.verb import SIZE, FileToWrite, PictureToWrite, Verb, check_systems, finish

_OF_TIMES = {
    "loss": "--backward", "repeat": "--repeat", "top": "--top", "everything": "--all", "in_process": "--in-process",
    "plot_file": "--plot",
}  # fmt: skip


@click.command("profile", cls=Verb)
@click.argument("network")
@click.option("--on", "on", multiple=True, metavar="FRAMEWORK[:OPTION=VALUE,…]", help="Repeat to compare. Default: all.")
@click.option("--backward", "loss", metavar="LOSS", help="An output of one element: profile its gradients too.")
@click.option("--repeat", type=click.IntRange(min=1), default=20, show_default=True, help="Observed calls.")
@click.option("--input", "inputs", type=click.Path(path_type=Path), help="An .npz file with one array per input.")
@click.option("--batch", type=click.IntRange(min=0), help="Size of the open first dimensions.")
@click.option("--size", "sizes", type=SIZE, multiple=True, help="Size of an open dimension.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Rows to print.")
@click.option("--all", "everything", is_flag=True, help="Print all rows.")
@click.option("--algorithms", is_flag=True, help="Instead of times: which algorithm each framework chose for each node.")
@click.option("--in-process", is_flag=True, help="Start no processes: for a debugger.")
@click.option("--json", "json_file", type=FileToWrite(), help="Write everything to a file.")
@click.option("--plot", "plot_file", type=PictureToWrite(), help="Write a picture: .png, .pdf, .svg …")
def command(
    network: str, top: int, everything: bool, json_file: Path | None, plot_file: Path | None, **options: Any
) -> None:
    """Show where the time and memory of NETWORK go, node by node, in several frameworks side by side.

    NETWORK is an .onnx file or the name of one that ships (digits-cnn). With --algorithms it shows a line for each node
    instead: what oneDNN, oneMKL or CUDA say that they run for it, in their own words, where the framework lets them.

    Exit status: 0 all frameworks were profiled; 1 one of them could not be; 2 bad usage or input; 130 interrupted
    (the frameworks that were profiled by then are shown and written, as partial).
    """
    check_systems(options["on"])
    systems, sizes = list(options.pop("on")) or None, dict(options.pop("sizes"))
    if options.pop("algorithms"):
        # see that nothing is asked for that only times have
        context = click.get_current_context()
        for name, option in _OF_TIMES.items():
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{option} beside --algorithms, which takes no times: leave one of them out")
        arguments = {name: options[name] for name in ("inputs", "batch", "seed")}
        sys.exit(0 if _show_algorithms(network, systems, json_file, sizes=sizes, **arguments) else FAILED)
    from deep_bench.network.profiling import profile

    outcome = profile(network, systems, options.pop("inputs"), sizes=sizes, **options)
    click.echo(outcome.table(None if everything else top))
    if json_file is not None:
        click.echo(f"profile: {outcome.save(json_file)}")
    if plot_file is not None:
        from deep_bench.network.plots import plot_profile

        click.echo(f"picture: {plot_profile(outcome, plot_file)}")
    finish(ok=outcome.ok, interrupted=outcome.interrupted)


def _show_algorithms(network: str, systems: Sequence[str] | None, json_file: Path | None, **arguments: Any) -> bool:
    """Print a line for each node of each framework, or one for all where they are alike; say whether all could be asked."""
    from deep_bench import frameworks
    from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidInput, InvalidNetwork
    from deep_bench.graph import as_network
    from deep_bench.network.profiling import algorithm_lines, chosen_algorithms
    from deep_bench.records.store import replace

    graph = as_network(network)
    algorithms: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for system in systems if systems is not None else [name for name in frameworks if not frameworks.missing(name)]:
        try:
            algorithms[system] = chosen_algorithms(graph, system, **arguments)
        except (InvalidArgument, InvalidInput, InvalidNetwork):
            raise  # the user's to mend, whatever the framework
        except DeepBenchError as error:
            failed[system] = str(error)
    for system, nodes in algorithms.items():
        (only,) = answers if len(answers := set(nodes.values())) == 1 else [None]
        lines = [f"{system}: {only}"] if isinstance(only, str) else [f"{system}:", *algorithm_lines(graph, nodes)]
        click.echo("\n  ".join(lines))
    for system, reason in failed.items():
        click.echo(f"{system}: {reason.removeprefix(f'{system}: ')}")
    if json_file is not None:
        text = json.dumps({"algorithms": algorithms, "failed": failed}, indent=1) + "\n"
        replace(json_file, lambda path: path.write_text(text, encoding="utf-8"))
        click.echo(f"algorithms: {json_file}")
    return not failed

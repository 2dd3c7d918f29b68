"""``deep-bench communicate``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli import FAILED, INTERRUPTED, USAGE
from deep_bench.cli.verb import FileToWrite, PictureToWrite, Spelled, Verb, refuse_unless, settings_options
from deep_bench.distributed.collectives.settings import CollectiveSettings
from deep_bench.errors import DeepBenchError, NotKept

if TYPE_CHECKING:
    from deep_bench.distributed.collectives.result import CommunicationResult
    from deep_bench.distributed.communicators.communicator import Communicator


def _pair(text: str) -> tuple[int, ...]:
    ranks = text.split(",")
    refuse_unless(len(ranks) == 2 and all(rank.isdecimal() for rank in ranks))
    return tuple(map(int, ranks))


_PAIR = Spelled("rank,rank", _pair, ": write two ranks, such as 0,1")


@click.command("communicate", cls=Verb)
@click.option(
    "--collective", "collectives", multiple=True, required=True, metavar="NAME",
    help="latency, bandwidth, bidirectional, allreduce, reduce, broadcast, gather, scatter, allgather, reduce-scatter, "
    "alltoall, barrier, neighbours. Repeat for more.",
)  # fmt: skip
@settings_options(CollectiveSettings, "sizes", only=True)
@click.option("--over", "over", multiple=True, default=("mpi",), show_default=True, help="mpi, gloo … Repeat to compare.")
@settings_options(CollectiveSettings, "dtype", only=True)
@click.option("--pair", type=_PAIR, default="0,1", show_default=True, help="The ranks of latency and bandwidths.")
@settings_options(CollectiveSettings, "budget", "ci_width", "seed", only=True)
@click.option("--machine", type=click.Path(path_type=Path), help="Predict from this file, instead of measuring the machine.")
@click.option("--json", "json_file", type=FileToWrite(), help="Write all figures to a file.")
@click.option("--plot", "plot_file", type=PictureToWrite(), help="Write a picture: .png, .pdf, .svg …")
@click.option("--output", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
def command(
    over: tuple[str, ...], machine: Path | None, json_file: Path | None, plot_file: Path | None, output: Path, **options: Any
) -> None:
    """Check and time messages and collective operations among the ranks of mpirun or srun.

    Each is put beside what LogGP predicts for its algorithms from the cost of single messages, which is measured first and
    kept in OUTPUT/machine.json. Rank 0 prints and writes.

    Exit status: 0 all results were right; 1 one was wrong, failed, or could not be written; 2 bad usage or input; 130
    interrupted (what was measured is kept).
    """
    from deep_bench.distributed.collectives.settings import BenchmarkSettings
    from deep_bench.distributed.collectives.study import check_names, opened, study
    from deep_bench.distributed.communicators.communicator import guarded
    from deep_bench.distributed.launch import launch
    from deep_bench.distributed.machine import load_machine
    from deep_bench.records.folders import output_folder

    leads = launch().rank == 0
    try:
        settings = BenchmarkSettings(**options)
        machine_model = None if machine is None else load_machine(machine)
        folder = output_folder(output)
        check_names(over)
        settings.check_ranks(launch().size)
    except DeepBenchError:
        if not leads:  # all ranks find the same, and rank 0 tells it
            sys.exit(USAGE)
        raise
    with opened(over) as systems, guarded(next(iter(systems.values()))):
        unwritten: list[DeepBenchError] = []
        try:
            result = study(systems, settings, machine=machine_model, output=folder)
        except NotKept as error:
            result, unwritten = error.found, [error]
        mine = 0 if result is None else _shown(result, json_file, plot_file, unwritten)
        status = _agreed(next(iter(systems.values())), mine)
    sys.exit(status)


def _shown(
    result: CommunicationResult, json_file: Path | None, plot_file: Path | None, unwritten: list[DeepBenchError]
) -> int:
    """Print the table, whatever can be written; the exit status."""
    click.echo(result.table())
    try:
        _write(result, json_file, plot_file)
    except DeepBenchError as error:
        unwritten = [*unwritten, error]
    for reason in unwritten:
        click.echo(f"deep-bench: {reason}", err=True)
    if unwritten or not result.record.interrupted:
        return FAILED if unwritten or not result.ok else 0
    click.echo("deep-bench: interrupted", err=True)
    return INTERRUPTED


def _write(result: CommunicationResult, json_file: Path | None, plot_file: Path | None) -> None:
    if json_file is not None:
        from deep_bench.records.store import written

        text = json.dumps(result.as_json(), indent=1) + "\n"
        written(json_file, lambda path: path.write_text(text, encoding="utf-8"))
        click.echo(f"figures: {json_file}")
    if plot_file is not None:
        click.echo(f"picture: {result.plot(plot_file)}")


def _agreed(comm: Communicator, status: int) -> int:
    """Rank 0's exit status, on all ranks."""
    import numpy as np

    return int(comm.broadcast(np.array([status], np.int64), 0)[0])

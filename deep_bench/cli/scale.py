"""``deep-bench scale``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli.verb import SECONDS, FileToWrite, PictureToWrite, Spelled, Verb, refuse_unless

if TYPE_CHECKING:
    from deep_bench.distributed.machine import Link
    from deep_bench.distributed.scaling.study import Prediction

_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_RATES = {
    "B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12, "KiB/s": 2**10, "MiB/s": 2**20, "GiB/s": 2**30,
    "Gb/s": 1e9 / 8, "Mb/s": 1e6 / 8,
}  # fmt: skip
_MOST = 2**24

_HOW = (
    "what do messages cost? Measure it, on two nodes if the prediction is for a network:\n"
    "  mpirun -n 2 deep-bench communicate --collective latency --over mpi      (writes results/machine.json)\n"
    "  deep-bench scale … --machine results/machine.json\n"
    "or state it: --latency 1us --bandwidth 12GB/s"
)


def _rank_counts(text: str) -> tuple[int, ...]:
    """Numbers of ranks: ``4..65536`` (doubled from the first to the last), or ``4,6,12``."""
    begin, dots, end = text.partition("..")
    parts = [begin, end] if dots else text.split(",")
    refuse_unless(all(part.strip().isdecimal() and 2 <= int(part) <= _MOST for part in parts))
    numbers = [int(part) for part in parts]
    if not dots:
        return tuple(sorted(set(numbers)))
    if numbers[0] > numbers[1]:
        raise click.BadParameter(f"{text!r}: the first number is the smaller one")
    powers = [numbers[0]]
    while powers[-1] * 2 <= numbers[1]:
        powers.append(powers[-1] * 2)
    return tuple(dict.fromkeys([*powers, numbers[1]]))


RANK_COUNTS = Spelled("from..to|list", _rank_counts, f": write 4..65536, or a list 4,6,12; from 2 to {_MOST}")


def _quantity(name: str, units: dict[str, float], example: str) -> Spelled:
    """A number above 0 with its unit."""

    def read(text: str) -> float:
        from deep_bench.measure.units import read_scaled

        amount = read_scaled(text, units)
        refuse_unless(amount > 0)
        return amount

    return Spelled(name, read, f": write {example}; units are {', '.join(units)}")


def _algorithm(text: str) -> tuple[str, str]:
    collective, sign, algorithm = text.partition("=")
    refuse_unless(sign)
    return collective, algorithm


_ALGORITHM = Spelled("collective=algorithm", _algorithm, ": write a collective and its algorithm, such as allreduce=ring")


class TraceFile(FileToWrite):
    """A file for a simulator, whose format its name tells."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Read a path with a suffix that is known."""
        path = super().convert(value, param, ctx)
        if path.suffix not in (".goal", ".et", ".json"):
            self.fail(f"{path}: write NAME.goal for LogGOPSim, NAME.et or NAME.json for Chakra (ASTRA-sim)", param, ctx)
        return path


@click.command("scale", cls=Verb)
@click.argument("recipe", metavar="NAME|FILE.yaml")
@click.argument("changes", nargs=-1, metavar="[FIELD=VALUE]…")
@click.option("--ranks", type=RANK_COUNTS, default="4..65536", show_default=True, help="Doubled; or a list 4,6,12.")
@click.option("--machine", type=click.Path(path_type=Path), help="What messages cost, as `deep-bench communicate` wrote it.")
@click.option("--over", help="The communicator of the machine file. Default: the first.")
@click.option("--latency", type=_quantity("time", _TIMES, "1us"), help="Of a message, instead of a machine file: 1us.")
@click.option("--bandwidth", type=_quantity("rate", _RATES, "12GB/s"), help="Of a link, with --latency: 12GB/s.")
@click.option("--distributed", "scheme", default="allreduce", show_default=True, metavar="SCHEME[:SETTING=VALUE,…]")
@click.option(
    "--on",
    default=None,
    metavar="FRAMEWORK[:OPTION=VALUE,…]",
    help="What computes. Default: the recipe's first that is here.",
)
@click.option("--scaling", type=click.Choice(["strong", "weak"]), default="strong", show_default=True,
              help="Whether the recipe's batch is that of all ranks together, or that of each.")  # fmt: skip
@click.option("--algorithm", "algorithms", type=_ALGORITHM, multiple=True, help="Repeat for more. Default: the cheapest.")
@click.option("--network", type=click.Choice(["fat-tree", "dragonfly", "torus"]), default="fat-tree", show_default=True,
              help="That SimGrid replays on.")  # fmt: skip
@click.option("--replay-up-to", type=click.IntRange(min=0), default=1024, show_default=True, help="Ranks; 0: no simulator.")
@click.option("--budget", type=SECONDS, default="8s", show_default=True, help="For measuring what one rank computes.")
@click.option("--times", type=click.Path(path_type=Path), help="A record of train --distributed with these times, instead.")
@click.option("--measured", type=click.Path(path_type=Path), multiple=True, help="Such records, to compare with. Repeat.")
@click.option("--steps", type=click.IntRange(min=3), help="To trace. Default: until the scheme repeats itself.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--trace", "trace_file", type=TraceFile(), help="Write it for LogGOPSim (.goal) or ASTRA-sim (.et, .json).")
@click.option("--trace-ranks", type=click.IntRange(min=2), help="Of how many ranks. Default: the fewest predicted.")
@click.option("--plot", "plot_file", type=PictureToWrite(), help="Write a picture: .png, .pdf, .svg …")
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON and nothing else.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
def command(recipe: str, changes: tuple[str, ...], **options: Any) -> None:
    """Predict how training scales: traced on few ranks here, never presented as measured.

    The recipe runs with its scheme on 2 to 8 local ranks; the pattern of their messages is generalised and checked. What one
    rank computes is measured. Closed LogGP formulas, and SimGrid where it is installed, say how long a step would take.

    Exit status: 0 predicted; 2 bad usage or input, or a pattern that says nothing about more ranks; 130 interrupted.
    """
    from deep_bench.distributed.scaling.study import ScalingQuestion, scale
    from deep_bench.measure.progress import Bars
    from deep_bench.records.folders import output_folder
    from deep_bench.training.recipes import load_recipe

    link, words = _link(options)
    loaded = load_recipe(recipe, *changes)
    folder = output_folder(options["output"])
    names = ("scheme", "ranks", "scaling", "network", "replay_up_to", "budget", "times", "measured", "steps", "seed")
    question = ScalingQuestion(
        recipe=loaded, on=options["on"] or _first_installed(loaded.fields.frameworks), link=link, machine=words,
        algorithms=dict(options["algorithms"]), **{name: options[name] for name in names},
    )  # fmt: skip
    bars = Bars(not options["as_json"])
    bars.phase("predicting", float("inf"), "parts begun")

    def advance(part: str) -> None:
        bars.at(part)
        bars.advance()

    try:
        prediction = scale(question, advance)
    finally:
        bars.close()
    _show(prediction, options, prediction.record.save(folder))


def _first_installed(names: Sequence[str]) -> str:
    """The first framework that is here; the reference, which is slow, only where there is no other."""
    from deep_bench import frameworks

    fast = [name for name in names if name != "reference" and not (name in frameworks and frameworks.missing(name))]
    return fast[0] if fast else "reference"


def _link(options: dict[str, Any]) -> tuple[Link, str]:
    """What messages cost, and the same in words."""
    from deep_bench.distributed.scaling.study import machine_of_file, stated_machine

    if options["machine"] is not None:
        if options["latency"] or options["bandwidth"]:
            raise click.UsageError("--machine, or --latency with --bandwidth: not both")
        return machine_of_file(options["machine"], options["over"])
    if not options["latency"] or not options["bandwidth"]:
        raise click.UsageError(_HOW)
    if options["over"] is not None:
        raise click.UsageError(
            "--over names a communicator of the --machine file; with --latency and --bandwidth there is none"
        )
    return stated_machine(options["latency"], options["bandwidth"])


def _show(prediction: Prediction, options: dict[str, Any], path: Path) -> None:
    from deep_bench.distributed.scaling.report import as_text

    record = prediction.record
    click.echo(record.model_dump_json() if options["as_json"] else as_text(record))
    verbose = not options["as_json"]
    if verbose:
        click.echo(f"record: {path}")
    if options["plot_file"] is not None:
        from deep_bench.distributed.plots import draw_scaling

        drawn = draw_scaling(record, options["plot_file"])
        if verbose:
            click.echo(f"picture: {drawn}")
    if options["trace_file"] is not None:
        file = options["trace_file"]
        ranks = options["trace_ranks"]
        from deep_bench.distributed.scaling.simulators import write_chakra, write_goal

        count = ranks or prediction.record.points[0].ranks
        program = prediction.program(count)
        written = [write_goal(program, file)] if file.suffix == ".goal" else write_chakra(program, file)
        if verbose:
            click.echo(f"predicted trace of {count} ranks: {written[0]}{f' to {written[-1]}' if len(written) > 1 else ''}")

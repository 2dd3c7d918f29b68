"""``deep-bench roofline``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli.verb import SECONDS, FileToWrite, PictureToWrite, Spelled, Verb, check_systems, finish, whole_numbers

if TYPE_CHECKING:
    from deep_bench.measure.session import SessionProgress


_THREADS = Spelled("number,number,…", partial(whole_numbers, least=1), ": write numbers of threads, such as 1,2,8")


@click.command("roofline", cls=Verb)
@click.option(
    "--on", "on", multiple=True, metavar="FRAMEWORK[:OPTION=VALUE,…]", help="Measured beside NumPy; repeat for more."
)
@click.option("--threads", type=_THREADS, help="Numbers of threads. Default: 1, and all CPUs of this process.")
@click.option("--dtype", "dtypes", multiple=True, help="An element type; repeat for more. Default: all.")
@click.option("--budget", type=SECONDS, help="Time for measuring. Default: 2s for each product and copy.")
@click.option("--ci-width", type=float, default=0.02, show_default=True, help="Half-width of the interval over the median.")
@click.option("--again", is_flag=True, help="Measure anew, whatever was kept.")
@click.option("--json", "json_file", type=FileToWrite(), help="Write everything to a file.")
@click.option("--plot", "plot_file", type=PictureToWrite(), help="Write a picture: .png, .pdf, .svg …")
def command(json_file: Path | None, plot_file: Path | None, on: tuple[str, ...], **options: Any) -> None:
    """Measure what this machine computes and moves in a second at most.

    Products of large matrices for each element type, and copies and sums of large arrays, for each number of threads. What
    was measured is kept and printed again the next time.

    Exit status: 0 there are roofs of NumPy and of each framework; 1 one of them has none; 2 bad usage; 130 interrupted.
    """
    check_systems(on)
    from deep_bench.measure.progress import Bars
    from deep_bench.measure.roofline import DTYPES, as_text, roofline
    from deep_bench.records.table import columns

    bars = Bars()
    options["dtypes"] = options["dtypes"] or DTYPES
    begun = False

    def watch(progress: SessionProgress) -> None:
        nonlocal begun
        if not begun:
            bars.phase("measuring", progress.budget_s, "s")
            begun = True
        bars.measured(progress)

    try:
        outcome = roofline(on, watch=watch, **options)
    finally:
        bars.close()
    click.echo(as_text(outcome, columns()))
    if json_file is not None:
        from deep_bench.records.store import replace

        text = outcome.model_dump_json(indent=1) + "\n"
        replace(json_file, lambda path: path.write_text(text, encoding="utf-8"))
        click.echo(f"roofline: {json_file}")
    if plot_file is not None:
        from deep_bench.operators.plots import plot_roofline

        click.echo(f"picture: {plot_roofline(outcome, plot_file)}")
    missing = {rate.by for rate in outcome.rates} - {rate.by for rate in outcome.rates if rate.value is not None}
    finish(ok=not missing, interrupted=any(note.startswith("interrupted") for note in outcome.notes))

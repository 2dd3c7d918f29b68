"""``deep-bench operators``."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli import FAILED
from deep_bench.cli.verb import FileToWrite, PictureToWrite, Verb, check_files, check_systems, finish, settings_options
from deep_bench.errors import NotKept
from deep_bench.operators.studies.settings import StudySettings

if TYPE_CHECKING:
    from deep_bench.operators.studies.result import Study
    from deep_bench.operators.suites.suite import Suite

_BY_SUITE = "(named for the suite)"
_KINDS = ("time", "error", "violin", "roofline")


class SuitePicture(PictureToWrite):
    """A picture, or none named: then its name is made from the suite's."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Read a path, unless none is named."""
        return Path(_BY_SUITE) if str(value) == _BY_SUITE else super().convert(value, param, ctx)


@click.command("operators", cls=Verb)
@click.argument("operators", nargs=-1, metavar="[FILE.py:CLASS]…")
@click.option("--suite", required=True, metavar="NAME|FILE", help="A suite's name, or a .toml or .onnx file with the cases.")
@click.option("--on", "on", multiple=True, metavar="FRAMEWORK[@ENVIRONMENT][:OPTION=VALUE,…]", help="Repeat to compare.")
@click.option("--case", "cases", multiple=True, metavar="LABEL", help="Only this case of the suite. Repeat for more.")
@click.option("--sample", type=click.IntRange(min=1), help="Only so many cases, drawn by the seed.")
@click.option("--dtype", help="Its cases in another floating-point type.")
@settings_options(StudySettings, "seed", "budget", "limit", "launches", "twin", "ci_width", "check", only=True)
@settings_options(StudySettings, "backward", "cold", "numpy", only=True)
@click.option("--metric", "metrics", multiple=True, help="Find this out too: 'peak memory', energy, instructions … Repeat.")
@click.option("--base", help="The contestant that others are compared with. Default: the first framework.")
@settings_options(StudySettings, "isolate", "in_process", only=True)
@click.option(
    "--plot",
    "plot_file",
    type=SuitePicture(),
    is_flag=False,
    flag_value=_BY_SUITE,
    help="Write a picture; without a name here, named for the suite.",
)
@click.option("--kind", type=click.Choice(_KINDS), default="time", show_default=True, help="Of picture.")
@click.option("--json", "json_file", type=FileToWrite(), help="Write all figures to a file.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
def command(
    operators: tuple[str, ...],
    plot_file: Path | None,
    kind: str,
    json_file: Path | None,
    output: Path,
    debug: bool,
    **options: Any,
) -> None:
    """Check and time operators: your own, each named by its file and class, and those of frameworks (--on).

    Exit status: 0 nothing was found wrong; 1 a result was wrong or of reduced precision, a contestant failed, or the record
    could not be written (what was measured is shown); 2 bad usage or input; 130 interrupted (what was measured is kept).
    """
    on = options.pop("on")
    check_systems(on)
    from deep_bench.records.folders import output_folder

    suite = _suite(options["seed"], **{name: options.pop(name) for name in ("suite", "cases", "sample", "dtype")})
    if plot_file == Path(_BY_SUITE):
        plot_file = PictureToWrite().convert(f"{re.sub(r'[^0-9A-Za-z._-]+', '-', suite.name)}.png", None, None)
        check_files([plot_file], "--plot")
    folder = output_folder(output)
    if not operators and not on:
        raise click.UsageError("name an operator (my_kernels.py:FastGelu), a framework (--on torch), or both")
    from deep_bench.operators.studies.experiment import study

    unwritten: NotKept | None = None
    try:
        outcome = study([*operators, *on], suite, output=folder, **options)
    except NotKept as error:
        outcome, unwritten = error.found, error
    try:
        _show(outcome, plot_file, kind, json_file)
    finally:
        if unwritten is not None:
            click.echo(f"deep-bench: {unwritten}", err=True)
    if debug:
        for trial in outcome.failures:
            assert trial.record.error is not None
            click.echo(f"{trial.label}, {trial.case.name}:\n{trial.record.error.details}", err=True)
    if unwritten is not None:
        sys.exit(FAILED)
    finish(ok=outcome.ok, interrupted=outcome.interrupted)


def _suite(seed: int, suite: str, cases: Sequence[str], sample: int | None, dtype: str | None) -> Suite:
    """The cases that were asked for."""
    from dataclasses import replace

    from deep_bench.operators.suites.from_network import suite_of

    selection = suite_of(suite)
    if cases:
        selection = replace(selection, cases=[selection.case(label) for label in dict.fromkeys(cases)])
    if sample is not None:
        selection = selection.sample(sample, seed)
    return selection if dtype is None else selection.with_dtype(dtype)


def _show(outcome: Study, plot_file: Path | None, kind: str, json_file: Path | None) -> None:
    click.echo(outcome.table())
    if json_file is not None:
        from deep_bench.records.store import replace

        text = json.dumps(outcome.as_json(), indent=1) + "\n"
        replace(json_file, lambda path: path.write_text(text, encoding="utf-8"))
        click.echo(f"figures: {json_file}")
    if plot_file is not None and outcome.trials:
        click.echo(f"picture: {outcome.plot(plot_file, kind)}")  # type: ignore[arg-type]

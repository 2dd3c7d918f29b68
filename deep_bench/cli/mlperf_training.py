"""``deep-bench mlperf train``, ``check``, ``score``, ``rcp``, ``reference``, ``system`` and ``tags``."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli import FAILED, INTERRUPTED
from deep_bench.cli.options import FileToWrite, Seconds, check_systems
from deep_bench.cli.ranks import Joined, joined
from deep_bench.cli.verb import Verb
from deep_bench.errors import printable

if TYPE_CHECKING:
    from deep_bench.mlperf.training.runs import Timed
    from deep_bench.training.recipes import Recipe
    from deep_bench.training.runs import Runs

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_ALONE = {"scaling": "strong", "samples": "sharded", "synchronise_statistics": False, "synchronise_normalization": False}
"""How ranks share what they train; `deep-bench train` has more ways."""

_FACTS = click.option("--facts", type=_FILE, metavar="FILE.yaml", help="What no program knows: submitter, cooling, …")
_ON = click.option("--on", "framework", default="torch", show_default=True, metavar="FRAMEWORK[:OPTION=VALUE,…]")
_RULESET = click.option("--ruleset", metavar="ROUND", help="Rules of this round, as 6.1.0. Default: the newest.")
_DEBUG = click.option("--debug", is_flag=True, help="Show tracebacks.")


@click.command("train", cls=Verb)
@click.argument("recipe", metavar="NAME|FILE.yaml")
@click.argument("changes", nargs=-1, metavar="[FIELD=VALUE]…")
@_ON
@click.option("--runs", type=click.IntRange(min=1), default=5, show_default=True, help="With the recipe's first seeds.")
@click.option("--seed", "seeds", type=click.IntRange(min=0), multiple=True, help="This seed instead. Repeat for more runs.")
@click.option("--benchmark", metavar="NAME", help="What the logs call it. Default: the recipe's name.")
@_FACTS
@click.option("--hyperparameter", "stated", multiple=True, metavar="KEY=VALUE", help="What nobody tells. Repeat for more.")
@click.option("--keep-caches", is_flag=True, help="Do not clear the machine's caches before each run: for trying.")
@click.option("--apart", is_flag=True, help="A fresh process for each run.")
@click.option("--limit", type=Seconds(), help="At most so long for a run.")
@click.option("--distributed", metavar="SCHEME", help="Together with the other ranks that mpirun or srun started.")
@click.option("--over", type=click.Choice(["mpi", "torch"]), help="What ranks talk by. Default: mpi.")
@click.option("--patience", type=Seconds(), default="10min", show_default=True, help="Of several ranks.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The folder of your organization.")
@_DEBUG
def train(recipe: str, changes: tuple[str, ...], framework: str, **options: Any) -> None:
    """Train a recipe several times until its target, with a log of each run as MLPerf has it.

    FOLDER becomes a submission's: results/SYSTEM/BENCHMARK/result_0.txt and so on, the system's description, the recipe,
    how to run it. Nothing of it is a result of MLPerf before MLCommons has reviewed it.

    Exit status: 0 all runs reached the target; 1 one did not; 2 bad usage or input; 130 interrupted.
    """
    check_systems([framework])
    with _ranks(options) as ranks:
        timed = _planned(recipe, changes, framework, options, ranks)
        runs = timed.run(apart=options["apart"], seconds=options["limit"], progress=ranks is None or ranks.first)
        if timed.logs:
            status = _told_rest(timed, runs) if runs.record.interrupted else _told_scores(timed)
        else:
            status = INTERRUPTED if runs.record.interrupted else 0
        if ranks is not None:
            status = ranks.status(status)
    sys.exit(status)


def _ranks(options: dict[str, Any]) -> AbstractContextManager[Joined | None]:
    if options["distributed"] is not None:
        return joined({**options, **_ALONE, "validate": None, "checkpoints": None})
    from deep_bench.distributed.launch import launch

    if (started := launch()).size > 1:
        raise click.UsageError(
            f"started on {started.size} ranks by {started.launcher}, each of which would train by itself: say --distributed"
        )
    return nullcontext()


def _planned(name: str, changes: tuple[str, ...], framework: str, options: dict[str, Any], ranks: Joined | None) -> Timed:
    from deep_bench.mlperf.system import load_facts
    from deep_bench.mlperf.training.caches import clear_caches, kept_caches
    from deep_bench.mlperf.training.runs import planned
    from deep_bench.training.recipes import load_recipe

    recipe = load_recipe(name, *changes)
    plan = {
        "seeds": _seeds(recipe, options),
        "output": options["output"],
        "facts": load_facts(options["facts"]) if options["facts"] is not None else None,
        "benchmark": options["benchmark"],
        "clear": kept_caches if options["keep_caches"] else clear_caches,
        "hyperparameters": dict(map(_pair, options["stated"])),
    }
    if ranks is None:
        return planned(recipe, framework, **plan)
    agreed_plan = ranks.agreed(lambda: planned(recipe, framework, **plan, make=ranks.trainer, logs=ranks.first))
    ranks.check_alike(recipe, [framework])
    return agreed_plan


def _pair(text: str) -> tuple[str, int | float | str]:
    """A key, and a value that is a number where it can be."""
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise click.UsageError(f"--hyperparameter {text!r}: say KEY=VALUE, as in precision=fp32")
    for kind in (int, float):
        with suppress(ValueError):
            return key, kind(value)
    return key, value


def _seeds(recipe: Recipe, options: dict[str, Any]) -> list[int]:
    recipe_seeds = list(recipe.fields.seeds)
    if not options["seeds"] and options["runs"] > len(recipe_seeds):
        raise click.UsageError(f"--runs {options['runs']}: the recipe has {len(recipe_seeds)} seeds; name others by --seed")
    return list(options["seeds"]) or recipe_seeds[: options["runs"]]


def _told_rest(timed: Timed, runs: Runs) -> int:
    """What an interrupted command leaves, and what is still to be done."""
    from deep_bench.training.trainer import INTERRUPTED as BROKEN_OFF

    logs = [timed.layout.log(number) for number in range(len(timed.seeds))]
    click.echo(f"interrupted; kept in {timed.layout.results}: {_names(log for log in logs if log.exists())}", err=True)
    click.echo(f"the record: deep-bench show {shlex.quote(str(runs.path))}", err=True)
    ended = {run.seed for run in runs.runs if run.error is not None or run.stopped_because not in ("", BROKEN_OFF)}
    if remaining := [seed for seed in timed.seeds if seed not in ended]:
        seeds, done = " ".join(f"--seed {seed}" for seed in remaining), timed.seeds.index(remaining[0])
        click.echo(f"to go on: the same command with {seeds} instead of --runs, and another folder", err=True)
        if done:
            click.echo(f"then move {_names(logs[:done])} beside its logs, under numbers that are free", err=True)
    return INTERRUPTED


def _names(logs: Iterable[Path]) -> str:
    return ", ".join(log.name for log in logs) or "no log"


def _told_scores(timed: Timed) -> int:
    from deep_bench.mlperf.system.fields import UNKNOWN
    from deep_bench.mlperf.training.score import scored

    scores = scored(timed.layout.results)
    for line in scores[0].lines():
        click.echo(printable(line))
    description = json.loads(timed.layout.description.read_text(encoding="utf-8"))
    if unknown := [name for name, value in description.items() if value == UNKNOWN]:
        click.echo(f"unknown of the system: {', '.join(unknown)}: deep-bench mlperf system tells how to give them", err=True)
    return 0 if all(time is not None for time in scores[0].times) else FAILED


@click.command("check", cls=Verb)
@click.argument("paths", nargs=-1, required=True, metavar="FOLDER|LOG…", type=click.Path(exists=True, path_type=Path))
@_RULESET
@_DEBUG
def check(paths: tuple[Path, ...], ruleset: str | None, debug: bool) -> None:  # noqa: ARG001 (read by `main`)
    """Check logs of training, and the descriptions of systems beside them: by MLPerf's own checkers, and by deep_bench's.

    MLPerf's checker knows the names of MLPerf's benchmarks only. For others it runs with the name registered, and that it
    refuses the name as it is is told.

    Exit status: 0 all is as it should be; 1 something is not; 2 bad usage or input.
    """
    from deep_bench.mlperf.training.examine import examined

    fine = True
    for path in paths:
        for report in examined(path, ruleset):
            fine &= report.fine
            for line in report.lines():
                click.echo(printable(line))
    sys.exit(0 if fine else FAILED)


@click.command("score", cls=Verb)
@click.argument("folder", type=_FOLDER)
@click.option("--official", is_flag=True, help="Let MLPerf's result summarizer compute it as well.")
@_RULESET
@_DEBUG
def score(folder: Path, official: bool, ruleset: str | None, debug: bool) -> None:  # noqa: ARG001 (read by `main`)
    """The score of runs by their logs: the mean time to the target without the fastest and the slowest run.

    Exit status: 0 there is a score for all; 1 one has none; 2 bad usage or input.
    """
    from deep_bench.mlperf.training.score import scored

    fine = True
    for report in scored(folder):
        fine &= report.score.seconds is not None
        for line in report.lines():
            click.echo(printable(line))
        if official:
            click.echo(report.official(ruleset))
    sys.exit(0 if fine else FAILED)


@click.command("rcp", cls=Verb)
@click.argument("folder", type=_FOLDER)
@click.option(
    "--reference", required=True, metavar="NAME|FILE.json", help="One that ships, or of deep-bench mlperf reference."
)
@_DEBUG
def rcp(folder: Path, reference: str, debug: bool) -> None:  # noqa: ARG001 (read by `main`)
    """Whether runs need significantly less training to their target than a reference: then something is not as in it.

    FOLDER is that of the logs, or a submission's: then each of its folders of logs is compared.

    Exit status: 0 passed; 1 failed; 2 bad usage or input.
    """
    from deep_bench.mlperf.training.reference import compare_all

    comparisons = compare_all(folder, reference)
    for place, comparison in comparisons.items():
        if len(comparisons) > 1:
            click.echo(f"{place}:")
        for line in comparison.lines():
            click.echo(line)
    sys.exit(0 if all(comparison.passed for comparison in comparisons.values()) else FAILED)


@click.command("reference", cls=Verb)
@click.argument("recipe", metavar="NAME|FILE.yaml")
@click.argument("changes", nargs=-1, metavar="[FIELD=VALUE]…")
@_ON
@click.option("--batch", "batches", type=click.IntRange(min=1), multiple=True, required=True, help="Repeat for more points.")
@click.option("--runs", type=click.IntRange(min=3), default=10, show_default=True, help="Of each batch size.")
@click.option("-o", "--output", type=FileToWrite(), required=True, metavar="FILE.json")
@_DEBUG
def reference(recipe: str, changes: tuple[str, ...], framework: str, **options: Any) -> None:
    """Train a recipe with several batch sizes, and keep after how many epochs each run reached its target."""
    check_systems([framework])
    from deep_bench.mlperf.training.reference import record
    from deep_bench.training.recipes import load_recipe

    loaded_recipe = load_recipe(recipe, *changes)
    where = record(
        loaded_recipe, framework, batches=options["batches"], runs=options["runs"], output=options["output"], told=click.echo
    )
    click.echo(f"written to {where}")


@click.command("system", cls=Verb)
@_FACTS
@click.option("--kind", type=click.Choice(["training", "inference"]), default="training", show_default=True)
@click.option("-o", "--output", type=FileToWrite(), metavar="FILE.json", help="Default: print it.")
@_DEBUG
def system(facts: Path | None, kind: Any, output: Path | None, debug: bool) -> None:  # noqa: ARG001 (read by `main`)
    """Describe this machine as MLPerf has it: all fields that its programs ask for, unknown where nobody tells.

    Which are unknown, why, and how to give them goes to standard error.

    Exit status: 0 nothing that the rules want is unknown; 1 something is; 2 bad usage or input.
    """
    from deep_bench.measure.environment import capture
    from deep_bench.measure.storage import written
    from deep_bench.mlperf.system import describe, load_facts, missing

    environment, declared = capture(), load_facts(facts) if facts is not None else {}
    text = json.dumps(describe(environment, declared, kind), indent=2)
    if output is None:
        click.echo(text)
    else:
        written(output, lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))
    unknown = missing(environment, declared, kind)
    for gap in unknown:
        click.echo(str(gap), err=True)
    sys.exit(FAILED if any(gap.field.meaningful for gap in unknown) else 0)


@click.command("tags", cls=Verb)
@click.argument("log", type=_FILE)
@click.option("-o", "--output", type=FileToWrite(), required=True, metavar="FILE.txt")
@_DEBUG
def tags(log: Path, output: Path, debug: bool) -> None:  # noqa: ARG001 (read by `main`)
    """Write the log of a run in the tags of MLPerf v0.5, for tools that read no other."""
    from deep_bench.mlperf.training.events import read_log
    from deep_bench.mlperf.training.tags import write_tags

    click.echo(f"written to {write_tags(read_log(log), output)}")

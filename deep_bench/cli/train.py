"""``deep-bench train``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli import FAILED, INTERRUPTED
from deep_bench.cli.options import PictureToWrite, Seconds, check_systems
from deep_bench.cli.verb import Verb

if TYPE_CHECKING:
    from deep_bench.training.recipes import Recipe
    from deep_bench.training.runs import Runs

_FIELDS = {"epochs": "epochs", "every": "evaluation.every"}
"""Option to the field of the recipe that it changes."""


@click.command("train", cls=Verb)
@click.argument("recipe", metavar="NAME|FILE.yaml")
@click.argument("changes", nargs=-1, metavar="[FIELD=VALUE]…")
@click.option(
    "--on", "on", multiple=True, metavar="FRAMEWORK[:OPTION=VALUE,…]", help="Repeat to compare. Default: the recipe's."
)
@click.option("--epochs", type=click.IntRange(min=1), help="At most. Default: the recipe's.")
@click.option("--steps", type=click.IntRange(min=1), help="At most.")
@click.option("--limit", type=Seconds(), help="At most so long, from the first touch of the data.")
@click.option("--target", metavar="SCORE=VALUE", help="Stop when it is reached: accuracy=0.97. Default: the recipe's.")
@click.option("--no-target", is_flag=True, help="Go on until the limit, whatever the scores.")
@click.option(
    "--every", type=click.IntRange(min=1), metavar="SAMPLES", help="Evaluate after so many. Default: the recipe's."
)
@click.option("--network", help="Another network.")
@click.option("--optimizer", help="Another optimizer: one of db.optimizers.")
@click.option("--runs", type=click.IntRange(min=1), default=1, show_default=True, help="With the recipe's first seeds.")
@click.option("--seed", "seeds", type=click.IntRange(min=0), multiple=True, help="This seed instead. Repeat for more runs.")
@click.option("--apart", is_flag=True, help="A fresh process for each run.")
@click.option("--checkpoints", type=click.Path(file_okay=False, path_type=Path), help="Write checkpoints into this folder.")
@click.option("--resume", is_flag=True, help="Go on from the latest checkpoint there.")
@click.option("--validate", type=click.IntRange(min=1), metavar="STEPS", help="First see that so many steps are right.")
@click.option("--plot", "plot_file", type=PictureToWrite(stem=True), help="Draw the times to the target.")
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON and nothing else.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(recipe: str, changes: tuple[str, ...], on: tuple[str, ...], **options: Any) -> None:
    """Train what a recipe says on one or several frameworks, until its target is reached.

    The recipe is one that ships (digits, mnist5k, hamlet, movielens-100k, co2) or a file. FIELD=VALUE changes a field
    of it: optimizer.lr=0.01 data.root=/data.

    Exit status: 0 all runs reached the target, or came to their end where there is none; 1 one missed it or failed, or a
    step was wrong; 2 bad usage or input; 130 interrupted (what is there is kept).
    """
    check_systems(on)
    from deep_bench.measure.folder import output_folder

    made = _recipe(recipe, changes, options)
    frameworks = on or _installed(made.fields.frameworks)
    if options["resume"] and options["checkpoints"] is None:
        raise click.UsageError("--resume needs --checkpoints: the folder to go on from")
    folder = output_folder(options["output"])
    seeds, target = _seeds(made, options), _target(made, options)
    fine = options["validate"] is None or _validated(made, frameworks, seeds[0], options["validate"], options["as_json"])
    runs: Runs | None = None
    for framework in frameworks:
        runs = _train(made, framework, seeds, target, folder, options, runs)
        if runs.record.interrupted:
            break
    assert runs is not None
    _show(runs, frameworks, options)
    if runs.record.interrupted:
        click.echo("deep-bench: interrupted", err=True)
        sys.exit(INTERRUPTED)
    sys.exit(0 if fine and _fine(runs) else FAILED)


def _recipe(name: str, changes: Sequence[str], options: dict[str, Any]) -> Recipe:
    """The recipe, with what the command line changes in it."""
    from deep_bench.training.recipes import load_recipe

    own = [f"{field}.name={options[field]}" for field in ("network", "optimizer") if options[field] is not None]
    own += [f"{field}={options[name]}" for name, field in _FIELDS.items() if options[name] is not None]
    return load_recipe(name, *own, *changes)


def _installed(names: Sequence[str]) -> tuple[str, ...]:
    """Those of a recipe's frameworks that are there; the others are named."""
    from deep_bench import frameworks

    absent = [name for name in names if name in frameworks and frameworks.missing(name)]
    if absent:
        click.echo(f"not installed, and left out: {', '.join(absent)}", err=True)
    found = tuple(name for name in names if name not in absent)
    if not found:
        raise click.UsageError(
            "none of the recipe's frameworks is installed: pip install 'deep-bench[torch]', or --on reference"
        )
    return found


def _seeds(recipe: Recipe, options: dict[str, Any]) -> list[int]:
    if options["seeds"]:
        return list(options["seeds"])
    count, known = options["runs"], list(recipe.fields.seeds)
    if count > len(known):
        raise click.UsageError(f"--runs {count}: the recipe has {len(known)} seeds; name others by --seed or seeds=[0,1,…]")
    return known[:count]


def _target(recipe: Recipe, options: dict[str, Any]) -> tuple[str, float] | None:
    if options["no_target"]:
        return None
    if options["target"] is None:
        return next(iter(recipe.fields.target.items()), None)
    name, _, value = options["target"].rpartition("=")
    try:
        wanted = float(value)
    except ValueError as error:
        raise click.BadParameter(f"{options['target']!r}: write accuracy=0.97", param_hint="--target") from error
    known = [recipe.score(number).name for number in range(len(recipe.fields.scores))]
    if name not in known:
        raise click.BadParameter(f"no score {name!r}: the recipe has {', '.join(known)}", param_hint="--target")
    return name, wanted


def _train(
    recipe: Recipe,
    framework: str,
    seeds: Sequence[int],
    target: tuple[str, float] | None,
    folder: Path,
    options: dict[str, Any],
    into: Runs | None,
) -> Runs:
    """Runs on a framework, in one record with those on others."""
    from deep_bench.training.runs import several

    return several(
        partial(_trainer, recipe, framework, options["checkpoints"], options["resume"]),
        seeds,
        target=target,
        epochs=recipe.fields.epochs,
        steps=options["steps"],
        seconds=options["limit"],
        apart=options["apart"],
        label=framework,
        output=folder if into is None else None,
        into=into,
        progress=not options["as_json"],
    )


def _trainer(
    recipe: Recipe, framework: str, checkpoints: Path | None, resume: bool, seed: int, callbacks: Sequence[Any]
) -> Any:
    """A trainer as `several` asks for one, which goes on from a checkpoint if there is one."""
    from deep_bench.training.checkpoint import Checkpoints, latest_checkpoint, read_checkpoint
    from deep_bench.training.workload import train

    kept = [] if checkpoints is None else [Checkpoints(checkpoints / framework.replace(":", "_") / f"seed_{seed}")]
    trainer = train(recipe, framework, seed=seed, callbacks=[*callbacks, *kept], stop_at_target=False)
    latest = latest_checkpoint(kept[0].folder) if resume and kept else None
    if resume and latest is None:
        click.echo(f"{framework}, seed {seed}: nothing to resume in {kept[0].folder}; it starts afresh", err=True)
    if latest is not None:
        trainer.restore(read_checkpoint(latest))
    return trainer


def _validated(recipe: Recipe, frameworks: Sequence[str], seed: int, steps: int, quiet: bool) -> bool:
    """Whether each framework's first steps are right."""
    from deep_bench.training.validation import batches_of, validate_training
    from deep_bench.training.workload import workload

    made = workload(recipe, seed)
    batches = batches_of(made.loader())
    found = validate_training(made.network, made.optimizer, batches, list(frameworks), steps=steps, seed=seed)
    click.echo(str(found), err=quiet)
    return found.ok


def _fine(runs: Runs) -> bool:
    if any(run.error is not None for run in runs.runs):
        return False
    return runs.record.target is None or all(t.reached for t in runs.to_target)


def _show(runs: Runs, frameworks: Sequence[str], options: dict[str, Any]) -> None:
    if options["as_json"]:
        click.echo(runs.record.model_dump_json())
        return
    click.echo(runs.report())
    plot = options["plot_file"]
    if plot is None or runs.record.target is None:
        return
    for framework in [name for name in frameworks if name in runs.record.labels()]:
        name = plot if len(frameworks) == 1 else plot.with_stem(f"{plot.stem}-{framework.replace(':', '_')}")
        click.echo(f"picture: {type(runs)(runs.record, label=framework).plot(name)}")

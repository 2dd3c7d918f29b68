"""``deep-bench train``."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli import FAILED, INTERRUPTED
from deep_bench.cli.ranks import TrainingRanks, training_ranks
from deep_bench.cli.verb import SECONDS, PictureToWrite, Spelled, Verb, check_systems, refuse_unless
from deep_bench.errors import DeepBenchError, NotKept, shortened

if TYPE_CHECKING:
    from deep_bench.training.recipes import Recipe
    from deep_bench.training.results import Runs

Keeping = tuple[Path, dict[str, Any]]
"""The folder of a framework's checkpoints, and how often one is written beside those at epochs' ends."""


def _steps_or_seconds(text: str) -> dict[str, float]:
    limit: dict[str, float] = {"steps": int(text)} if text.isdecimal() else {"seconds": SECONDS.convert(text, None, None)}
    refuse_unless(all(limit.values()))
    return limit


_OFTEN = Spelled("steps|duration", _steps_or_seconds, ": write 100 for steps, or 30s")


_FIELDS = {"epochs": "epochs", "every": "evaluation.every"}
"""Option to the field of the recipe that it changes."""

_LONGEST = 300
"""Characters of what a framework's import says."""


@click.command("train", cls=Verb)
@click.argument("recipe", metavar="NAME|FILE.yaml")
@click.argument("changes", nargs=-1, metavar="[FIELD=VALUE]…")
@click.option(
    "--on", "on", multiple=True, metavar="FRAMEWORK[:OPTION=VALUE,…]", help="Repeat to compare. Default: the recipe's."
)
@click.option("--epochs", type=click.IntRange(min=1), help="At most. Default: the recipe's.")
@click.option("--steps", type=click.IntRange(min=1), help="At most.")
@click.option("--limit", type=SECONDS, help="At most so long, from the first touch of the data.")
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
@click.option(
    "--checkpoint-every",
    type=_OFTEN,
    help="Also after so many steps, or so long: 100, 30s. Without: at epochs' ends, and at the end, Ctrl-C included; of "
    "schemes whose ranks take steps each on their own (gossip, asynchronous, stale-synchronous) at the end only.",
)
@click.option("--resume", is_flag=True, help="Go on from the latest checkpoint there that is whole.")
@click.option("--changed", is_flag=True, help="Go on even if optimizer, order, data, seed or framework are others now.")
@click.option("--validate", type=click.IntRange(min=1), metavar="STEPS", help="First see that so many steps are right.")
@click.option(
    "--distributed",
    metavar="SCHEME[:SETTING=VALUE,…]",
    help="Together with the other ranks that mpirun or srun started: allreduce, decentralised:topology=ring, …",
)
@click.option("--over", type=click.Choice(["mpi", "torch"]), help="What ranks talk by. Default: mpi.")
@click.option(
    "--scaling",
    type=click.Choice(["strong", "weak"]),
    default="strong",
    show_default=True,
    help="Of several ranks: whether the recipe's batch is that of all together, or that of each.",
)
@click.option(
    "--samples",
    type=click.Choice(["sharded", "reshuffled", "replicated"]),
    default="sharded",
    show_default=True,
    help="Of several ranks: each its part of every batch, its part of the set in an epoch, or all.",
)
@click.option(
    "--patience",
    type=SECONDS,
    default="10min",
    show_default=True,
    help="Of several ranks: end all when one has not answered, or kept others waiting, for so long.",
)
@click.option(
    "--synchronise-normalization", is_flag=True, help="Normalize batches by all ranks' samples, as one process does."
)
@click.option("--synchronise-statistics", is_flag=True, help="Average the statistics of normalizations over ranks.")
@click.option("--plot", "plot_file", type=PictureToWrite(stem=True), help="Draw the times to the target.")
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON and nothing else.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
def command(recipe: str, changes: tuple[str, ...], on: tuple[str, ...], **options: Any) -> None:
    """Train what a recipe says on one or several frameworks, until its target is reached.

    The recipe is one that ships (digits, mnist5k, hamlet, movielens-100k, co2) or a file. FIELD=VALUE changes a field
    of it: optimizer.lr=0.01 data.root=/data.

    Exit status: 0 all runs reached the target, or came to their end where there is none; 1 one missed it or failed, its loss
    is not finite in the end, a step was wrong, or what was measured could not be written; 2 bad usage or input; 3 a rank was
    lost, and the others ended; 130 interrupted (what is there is kept).
    """
    with training_ranks(options) as ranks:
        status = _run(recipe, changes, on, options, ranks)
    if ranks is not None and ranks.lost_some:
        from deep_bench.distributed.watch import leave

        leave(status)  # MPI's own end may wait for ever for those that were lost
    sys.exit(status)


def _run(
    recipe: str, changes: tuple[str, ...], on: tuple[str, ...], options: dict[str, Any], ranks: TrainingRanks | None
) -> int:
    """Everything, on this rank; the exit status."""
    prepare = partial(_prepared, recipe, changes, on, options, writes=ranks is None or ranks.first)
    loaded_recipe, frameworks, folder, seeds, target = prepare() if ranks is None else ranks.agreed(prepare)
    if ranks is not None:
        ranks.check_alike(loaded_recipe, frameworks)
    usable = frameworks if options["validate"] is None else [name for name in frameworks if _loads(name)]
    fine = options["validate"] is None or _validated(
        loaded_recipe, usable, seeds[0], options["validate"], options["as_json"]
    )
    runs: Runs | None = None
    unwritten: DeepBenchError | None = None
    for framework in usable:
        loads = partial(_loads, framework)
        if not (loads() if ranks is None else ranks.all(loads)):
            fine = False
            continue
        try:
            runs = _train(loaded_recipe, framework, seeds, target, folder, options, runs, ranks)
        except NotKept as error:
            runs, unwritten = error.found, error
        assert runs is not None
        if runs.record.interrupted:
            break
    if runs is None:
        return FAILED
    if ranks is None or ranks.first:
        try:
            _show(runs, frameworks, options)
        except DeepBenchError as error:  # a picture
            unwritten = unwritten or error
        if unwritten is not None:
            click.echo(f"deep-bench: {unwritten}", err=True)
        for run in runs.runs:
            if run.lost_from is not None:
                label = f"{run.label}, seed {run.seed}"
                click.echo(f"deep-bench: {label}: {run.history().about_losses()} (counted from 0)", err=True)
        if runs.record.interrupted:
            click.echo("deep-bench: interrupted", err=True)
    fine &= len(usable) == len(frameworks) and all(run.error is None and run.lost_from is None for run in runs.runs)
    fine &= runs.record.target is None or all(t.reached for t in runs.to_target)
    status = 0 if fine else FAILED
    if runs.record.interrupted:
        status = INTERRUPTED
    status = FAILED if unwritten is not None else status
    return status if ranks is None else ranks.status(status)


def _prepared(
    recipe: str, changes: tuple[str, ...], on: tuple[str, ...], options: dict[str, Any], *, writes: bool
) -> tuple[Recipe, Sequence[str], Path | None, list[int], tuple[str, float] | None]:
    """What is to be trained, where, and where it is written: all that can be refused before anything begins."""
    check_systems(on)
    from deep_bench.records.folders import output_folder

    loaded_recipe = _recipe(recipe, changes, options)
    frameworks = on or _installed(loaded_recipe.fields.frameworks)
    for option in ("resume", "checkpoint_every"):
        if options[option] and options["checkpoints"] is None:
            raise click.UsageError(f"--{option.replace('_', '-')} needs --checkpoints: the folder that they are in")
    if options["changed"] and not options["resume"]:
        raise click.UsageError("--changed needs --resume: it is about what is gone on from")
    _check_scheme(options)
    folder = output_folder(options["output"]) if writes else None
    return loaded_recipe, frameworks, folder, _seeds(loaded_recipe, options), _target(loaded_recipe, options)


def _check_scheme(options: dict[str, Any]) -> None:
    if options["distributed"] is None:
        return
    from deep_bench.distributed.training.train import settings_of

    kind, _ = settings_of(options["distributed"])
    if options["checkpoint_every"] and not kind.lockstep:
        raise click.UsageError(
            f"--checkpoint-every with {options['distributed']}: its ranks take steps each on their own, never at the "
            "same place; leave it out: one is written at the end, also where a signal, a limit or a target brought it about"
        )


def _recipe(name: str, changes: Sequence[str], options: dict[str, Any]) -> Recipe:
    """The recipe, with what the command line changes in it."""
    from deep_bench.training.recipes import load_recipe

    overrides = [f"{field}.name={options[field]}" for field in ("network", "optimizer") if options[field] is not None]
    overrides += [f"{field}={options[name]}" for name, field in _FIELDS.items() if options[name] is not None]
    return load_recipe(name, *overrides, *changes)


def _installed(names: Sequence[str]) -> tuple[str, ...]:
    """Those of a recipe's frameworks that are there; the others are named."""
    from deep_bench import frameworks

    absent = [name for name in names if name in frameworks and frameworks.missing(name)]
    if absent:
        click.echo(f"not installed, and left out: {', '.join(absent)}", err=True)
    installed = tuple(name for name in names if name not in absent)
    if not installed:
        raise click.UsageError(
            "none of the recipe's frameworks is installed: pip install 'deep-bench[torch]', or --on reference"
        )
    return installed


def _loads(name: str) -> bool:
    """Whether a framework can be imported; it is told if not, and others go on without it."""
    from deep_bench import frameworks
    from deep_bench.variant import Variant

    try:
        frameworks[Variant.parse(name).framework]
    except DeepBenchError:
        raise
    except Exception as error:  # what a broken installation raises is anybody's guess
        cause = "".join(traceback.format_exception_only(error)).strip().partition("\n")[0]
        click.echo(f"{name} is left out: it cannot be imported here: {shortened(cause, _LONGEST)}", err=True)
        return False
    return True


def _seeds(recipe: Recipe, options: dict[str, Any]) -> list[int]:
    if options["seeds"]:
        return list(options["seeds"])
    count, recipe_seeds = options["runs"], list(recipe.fields.seeds)
    if count > len(recipe_seeds):
        raise click.UsageError(
            f"--runs {count}: the recipe has {len(recipe_seeds)} seeds; name others by --seed or seeds=[0,1,…]"
        )
    return recipe_seeds[:count]


def _target(recipe: Recipe, options: dict[str, Any]) -> tuple[str, float] | None:
    if options["no_target"]:
        return None
    if options["target"] is None:
        return next(iter(recipe.fields.target.items()), None)
    name, _, value = options["target"].rpartition("=")
    try:
        threshold = float(value)
    except ValueError as error:
        raise click.BadParameter(f"{options['target']!r}: write accuracy=0.97", param_hint="--target") from error
    score_names = [recipe.score(number).name for number in range(len(recipe.fields.scores))]
    if name not in score_names:
        raise click.BadParameter(f"no score {name!r}: the recipe has {', '.join(score_names)}", param_hint="--target")
    return name, threshold


def _train(
    recipe: Recipe,
    framework: str,
    seeds: Sequence[int],
    target: tuple[str, float] | None,
    folder: Path | None,
    options: dict[str, Any],
    into: Runs | None,
    ranks: TrainingRanks | None,
) -> Runs:
    """Runs on a framework, in one record with those on others."""
    from deep_bench.training.runs import several

    keeping: Keeping | None = None
    if options["checkpoints"] is not None:
        keeping = options["checkpoints"] / framework.replace(":", "_"), options["checkpoint_every"] or {}
    return several(
        partial(_trainer, recipe, framework, keeping, options["resume"], options["changed"], ranks),
        seeds,
        target=target,
        epochs=recipe.fields.epochs,
        steps=options["steps"],
        seconds=options["limit"],
        apart=options["apart"],
        label=framework,
        output=folder if into is None else None,
        into=into,
        progress=not options["as_json"] and (ranks is None or ranks.first),
    )


def _trainer(
    recipe: Recipe,
    framework: str,
    keeping: Keeping | None,
    resume: bool,
    changed: bool,
    ranks: TrainingRanks | None,
    seed: int,
    callbacks: Sequence[Any],
) -> Any:
    """A trainer as `several` asks for one, which goes on from a checkpoint if there is one."""
    from deep_bench.training.callbacks import StopAtSignal
    from deep_bench.training.checkpoint import Checkpoints, read_checkpoint
    from deep_bench.training.workload import train

    make = partial(train, stop_at_target=False) if ranks is None else ranks.trainer
    if keeping is None:
        return make(recipe, framework, seed=seed, callbacks=callbacks)
    folder, often = keeping
    checkpoints = Checkpoints(folder / f"seed_{seed}", **often)
    trainer = make(recipe, framework, seed=seed, callbacks=[*callbacks, checkpoints, StopAtSignal()])

    def find() -> Any:
        checkpoints.hold()
        latest = _latest(checkpoints.folder, f"{framework}, seed {seed}")
        return None if latest is None else read_checkpoint(latest)

    def check() -> None:
        checkpoints.check_folder(trainer.progress.step)

    try:
        if resume and ranks is not None:
            ranks.resumed(trainer, find)
        elif resume and (checkpoint := find()) is not None:
            trainer.restore(checkpoint, changed=changed)
        if ranks is None:
            check()
        else:
            ranks.agreed(check if ranks.first else lambda: None)
    except BaseException:
        checkpoints.release()  # a run that was refused would hold the folder for as long as its traceback lives
        raise
    return trainer


def _latest(folder: Path, label: str) -> Path | None:
    """The checkpoint to go on from; what is unusual is told."""
    from deep_bench.training.checkpoint import latest_checkpoint, set_aside_damaged

    damaged = set_aside_damaged(folder)
    latest = latest_checkpoint(folder)
    if damaged and latest is not None:
        names = ", ".join(path.name for path in damaged)
        click.echo(
            f"{label}: the latest checkpoint was damaged, and is now {names}; it goes on from {latest.name}", err=True
        )
    if latest is None:
        alternatives = sorted({path.parents[1].name for path in folder.parents[1].glob(f"*/{folder.name}/step_*.h5")})
        hint = f" (there are runs of {', '.join(alternatives)}, which go on only there)" if alternatives else ""
        click.echo(f"{label}: nothing to resume in {folder}{hint}; it starts afresh", err=True)
    return latest


def _validated(recipe: Recipe, frameworks: Sequence[str], seed: int, steps: int, quiet: bool) -> bool:
    """Whether each framework's first steps are right."""
    from deep_bench.training.validation import batches_of, validate_training
    from deep_bench.training.workload import workload

    work = workload(recipe, seed)
    batches = batches_of(work.loader())
    validation = validate_training(work.network, work.optimizer, batches, list(frameworks), steps=steps, seed=seed)
    click.echo(str(validation), err=quiet)
    return validation.ok


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

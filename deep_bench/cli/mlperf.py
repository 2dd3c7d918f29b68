"""``deep-bench mlperf``: systems under test for the LoadGen, logs of training, and the folder of a submission."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deep_bench.cli import FAILED, INTERRUPTED
from deep_bench.cli.ranks import TrainingRanks, training_ranks
from deep_bench.cli.verb import SECONDS, FileToWrite, Subcommands, Verb, check_systems
from deep_bench.errors import printable

if TYPE_CHECKING:
    from deep_bench.mlperf.training.runs import Timed
    from deep_bench.training.results import Runs

command = Subcommands(
    "mlperf",
    {
        "inference": "Run a network under MLPerf's LoadGen: is the run valid, were outputs right, how fast was it?",
        "submission": "Lay out runs as the folder of an open-division submission, and check it.",
        "train": "Train a recipe several times, with MLPerf's log of each run.",
        "check": "Check logs of training by MLPerf's own checker and by deep_bench's.",
        "score": "The score of runs by their logs.",
        "rcp": "Do runs need less training to their target than a reference?",
        "reference": "Train a recipe with several batch sizes, and keep after how many epochs it converges.",
        "system": "Describe this machine as MLPerf has it, and tell what is unknown.",
        "tags": "Write the log of a run in the tags of MLPerf v0.5.",
    },
    "Run MLPerf's own tools on any framework: results are unverified unless MLCommons has reviewed them.",
)


_SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")
_MODES = ("performance", "accuracy", "submission", "find-peak")
_SETTINGS = (
    "scenario", "mode", "batch", "workers", "max_delay", "min_duration", "short", "target_qps", "target_latency",
    "user_conf", "audit", "performance_samples", "stall", "trace", "check", "target_share", "reference_accuracy",
)  # fmt: skip


@click.command("inference", cls=Verb)
@click.argument("network", metavar="NETWORK")
@click.option("--on", "framework", required=True, metavar="FRAMEWORK[:OPTION=VALUE,…]", help="What answers the queries.")
@click.option("--system", default="", metavar="MODULE:CLASS", help="A System of your own, instead of an executor.")
@click.option(
    "--scenario", type=click.Choice(_SCENARIOS), default="SingleStream", show_default=True, help="How queries come."
)
@click.option("--mode", type=click.Choice(_MODES), default="performance", show_default=True, help="What the run is for.")
@click.option("--dataset", metavar="NAME|PATH|recipe:NAME", help="The samples. Networks that ship have some.")
@click.option("--root", type=click.Path(path_type=Path), help="The folder of data sets, for those that have files.")
@click.option("--short", is_flag=True, help="2 s instead of 600 s, to try things: not a valid submission duration.")
@click.option("--min-duration", type=SECONDS, help="What the run lasts at least. Default: 600s, as the rules ask for.")
@click.option("--target-qps", type=float, help="Server: queries a second. Offline: samples a second to expect.")
@click.option("--target-latency", type=SECONDS, help="Server: the bound. SingleStream, MultiStream: what to expect.")
@click.option(
    "--user-conf", type=click.Path(path_type=Path, dir_okay=False), help="A user.conf, which LoadGen reads itself."
)
@click.option(
    "--batch", type=click.IntRange(min=1), help="The most samples at once. Default: 64 Offline, 8 MultiStream, else 1."
)
@click.option(
    "--workers", type=click.IntRange(min=0), help="Threads that answer; 0: LoadGen's own. Default: 1 Server, else 0."
)
@click.option(
    "--max-delay", type=SECONDS, default="0s", show_default=True, help="Server: how long a sample waits for a batch."
)
@click.option("--performance-samples", type=click.IntRange(min=1), help="In memory at once. Default: all, at most 1024.")
@click.option("--stall", type=SECONDS, default="30s", show_default=True, help="Without an answer, the run is given up.")
@click.option("--trace/--no-trace", default=None, help="Keep LoadGen's own latencies. Default: of up to 1,000,000 samples.")
@click.option("--check", type=click.Choice(["off", "quick", "full"]), default="quick", show_default=True)
@click.option("--target-share", type=float, default=0.99, show_default=True, help="Of the reference's accuracy: the target.")
@click.option("--reference-accuracy", type=float, help="The reference's, where it is known: 0.7646.")
@click.option("--audit", metavar="TEST01|TEST04", help="Make an audit of the runs that --against names.")
@click.option("--against", type=click.Path(path_type=Path), multiple=True, help="Folder of a run, for --audit. Repeat.")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="A folder without files. Default: a new one in results/."
)
@click.option("--overwrite", type=click.Path(path_type=Path), help="The same folder again: what a run left in it may go.")
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON and nothing else.")
def inference(network: str, **options: Any) -> None:
    """Run a network under MLPerf's LoadGen, in a process of its own. Results are unverified.

    LoadGen's logs, the settings it read and the record are in the folder. VALID means here that LoadGen says so, that it
    reports no errors, and that the answers are right. Why such a run is still no submission is below the word.

    Exit status: 0 VALID; 1 INVALID, or the run failed; 2 bad usage or input; 130 interrupted.
    """
    from deep_bench.mlperf.inference import Settings, run
    from deep_bench.mlperf.inference.report import as_text

    folder = options["output"] or _new_folder(network, options)
    overwrite = options["overwrite"]
    if overwrite is not None and overwrite.resolve() != folder.resolve():
        raise click.UsageError(f"--overwrite {overwrite} is not the folder of --output, {folder}: name the same")
    settings = Settings(**{name: options[name] for name in _SETTINGS})

    def begun(home: Path) -> None:
        if not options["as_json"]:
            click.echo(f"running under LoadGen; its logs are in {home}", err=True)

    def slow(lasting: str) -> None:
        if not options["as_json"]:
            click.echo(f"this will take {lasting}", err=True)

    record = run(
        network,
        options["framework"],
        dataset=options["dataset"],
        root=options["root"],
        settings=settings,
        folder=folder,
        overwrite=overwrite is not None,
        system=options["system"],
        against=options["against"],
        begun=begun,
        slow=slow,
    )
    click.echo(record.model_dump_json(exclude={"latencies"}) if options["as_json"] else as_text(record))
    sys.exit(INTERRUPTED if record.interrupted else 0 if record.valid else FAILED)


def _new_folder(network: str, options: dict[str, Any]) -> Path:
    framework = options["framework"].partition(":")[0]
    name = f"{Path(network).stem}-{framework}-{options['scenario']}-{options['mode']}"
    return Path("results") / f"mlperf-{name}-{datetime.now(UTC):%Y%m%dT%H%M%S}"


@click.command("submission", cls=Verb)
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FOLDER…")
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True, help="A new folder.")
@click.option("--submitter", required=True, help="The organization.")
@click.option("--system", required=True, help="What the system's description is called.")
@click.option("--facts", type=click.Path(path_type=Path), help="A YAML file of what the machine does not tell of itself.")
@click.option("--benchmark", help="Default: the network's name.")
def submission(runs: tuple[Path, ...], facts: Path | None, output: Path, **names: Any) -> None:
    """Lay out VALID runs as the folder of an open-division submission, and say what the rules still ask for.

    For each scenario: a run of accuracy and one of performance mode (or one of submission mode), and audits. MLCommons' own
    checker is in its repository (mlcommons/inference, tools/submission): run it before you submit.

    Exit status: 0 nothing is missing that can be told here; 1 something is; 2 bad usage or input.
    """
    from deep_bench.mlperf.inference.submission import lay_out
    from deep_bench.mlperf.system import load_facts

    layout = lay_out(runs, output, facts=load_facts(facts) if facts is not None else None, **names)
    for place in layout.scenarios:
        click.echo(f"laid out: {place}")
    for finding in layout.findings:
        click.echo(f"missing: {finding}")
    click.echo("unverified. Result not verified by MLCommons Association.")
    sys.exit(FAILED if layout.findings else 0)


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_ALONE = {"scaling": "strong", "samples": "sharded", "synchronise_statistics": False, "synchronise_normalization": False}
"""How ranks share what they train; `deep-bench train` has more ways."""


_FACTS = click.option("--facts", type=_FILE, metavar="FILE.yaml", help="What no program knows: submitter, cooling, …")
_ON = click.option("--on", "framework", default="torch", show_default=True, metavar="FRAMEWORK[:OPTION=VALUE,…]")
_RULESET = click.option("--ruleset", metavar="ROUND", help="Rules of this round, as 6.1.0. Default: the newest.")


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
@click.option("--limit", type=SECONDS, help="At most so long for a run.")
@click.option("--distributed", metavar="SCHEME", help="Together with the other ranks that mpirun or srun started.")
@click.option("--over", type=click.Choice(["mpi", "torch"]), help="What ranks talk by. Default: mpi.")
@click.option("--patience", type=SECONDS, default="10min", show_default=True, help="Of several ranks.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The folder of your organization.")
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


def _ranks(options: dict[str, Any]) -> AbstractContextManager[TrainingRanks | None]:
    if options["distributed"] is not None:
        return training_ranks({**options, **_ALONE, "validate": None, "checkpoints": None})
    from deep_bench.distributed.launch import launch

    if (started := launch()).size > 1:
        raise click.UsageError(
            f"started on {started.size} ranks by {started.launcher}, each of which would train by itself: say --distributed"
        )
    return nullcontext()


def _planned(
    name: str, changes: tuple[str, ...], framework: str, options: dict[str, Any], ranks: TrainingRanks | None
) -> Timed:
    from deep_bench.mlperf.system import load_facts
    from deep_bench.mlperf.training.callback import clear_caches, kept_caches
    from deep_bench.mlperf.training.runs import planned
    from deep_bench.training.recipes import load_recipe

    recipe = load_recipe(name, *changes)
    recipe_seeds = list(recipe.fields.seeds)
    if not options["seeds"] and options["runs"] > len(recipe_seeds):
        raise click.UsageError(f"--runs {options['runs']}: the recipe has {len(recipe_seeds)} seeds; name others by --seed")
    plan = {
        "seeds": (list(options["seeds"]) or recipe_seeds[: options["runs"]]),
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
    from deep_bench.mlperf.system import UNKNOWN
    from deep_bench.mlperf.training.check import scored

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
def check(paths: tuple[Path, ...], ruleset: str | None) -> None:
    """Check logs of training, and the descriptions of systems beside them: by MLPerf's own checkers, and by deep_bench's.

    MLPerf's checker knows the names of MLPerf's benchmarks only. For others it runs with the name registered, and that it
    refuses the name as it is is told.

    Exit status: 0 all is as it should be; 1 something is not; 2 bad usage or input.
    """
    from deep_bench.mlperf.training.check import examined

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
def score(folder: Path, official: bool, ruleset: str | None) -> None:
    """The score of runs by their logs: the mean time to the target without the fastest and the slowest run.

    Exit status: 0 there is a score for all; 1 one has none; 2 bad usage or input.
    """
    from deep_bench.mlperf.training.check import scored

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
def rcp(folder: Path, reference: str) -> None:
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
def system(facts: Path | None, kind: Any, output: Path | None) -> None:
    """Describe this machine as MLPerf has it: all fields that its programs ask for, unknown where nobody tells.

    Which are unknown, why, and how to give them goes to standard error.

    Exit status: 0 nothing that the rules want is unknown; 1 something is; 2 bad usage or input.
    """
    from deep_bench.measure.environment import capture
    from deep_bench.mlperf.system import describe, load_facts, missing
    from deep_bench.records.store import written

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
def tags(log: Path, output: Path) -> None:
    """Write the log of a run in the tags of MLPerf v0.5, for tools that read no other."""
    from deep_bench.mlperf.training.logs import read_log, write_tags

    click.echo(f"written to {write_tags(read_log(log), output)}")

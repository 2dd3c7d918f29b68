"""``deep-bench mlperf inference`` and ``deep-bench mlperf submission``."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from deep_bench.cli import FAILED, INTERRUPTED
from deep_bench.cli.options import Seconds
from deep_bench.cli.verb import Verb

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
@click.option("--min-duration", type=Seconds(), help="What the run lasts at least. Default: 600s, as the rules ask for.")
@click.option("--target-qps", type=float, help="Server: queries a second. Offline: samples a second to expect.")
@click.option("--target-latency", type=Seconds(), help="Server: the bound. SingleStream, MultiStream: what to expect.")
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
    "--max-delay", type=Seconds(), default="0s", show_default=True, help="Server: how long a sample waits for a batch."
)
@click.option("--performance-samples", type=click.IntRange(min=1), help="In memory at once. Default: all, at most 1024.")
@click.option("--stall", type=Seconds(), default="30s", show_default=True, help="Without an answer, the run is given up.")
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
@click.option("--debug", is_flag=True, help="Show tracebacks.")
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
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def submission(runs: tuple[Path, ...], facts: Path | None, output: Path, **names: Any) -> None:
    """Lay out VALID runs as the folder of an open-division submission, and say what the rules still ask for.

    For each scenario: a run of accuracy and one of performance mode (or one of submission mode), and audits. MLCommons' own
    checker is in its repository (mlcommons/inference, tools/submission): run it before you submit.

    Exit status: 0 nothing is missing that can be told here; 1 something is; 2 bad usage or input.
    """
    from deep_bench.mlperf.inference.submission import lay_out
    from deep_bench.mlperf.system import load_facts

    names.pop("debug")
    layout = lay_out(runs, output, facts=load_facts(facts) if facts is not None else None, **names)
    for place in layout.scenarios:
        click.echo(f"laid out: {place}")
    for finding in layout.findings:
        click.echo(f"missing: {finding}")
    click.echo("unverified. Result not verified by MLCommons Association.")
    sys.exit(FAILED if layout.findings else 0)

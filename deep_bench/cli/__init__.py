"""The command line, one file per verb: each parses, calls the library and prints."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from importlib import import_module

import click

from deep_bench import __version__
from deep_bench.errors import DeepBenchError

FAILED = 1
USAGE = 2
INTERRUPTED = 130
_VERBS = {
    "badges": "Which of ACM's badges a bundle has earned, check by check, and why not.",
    "bundle": "Pack what others need to repeat a run: records, inputs, the exact environment, and a README.",
    "communicate": "Check and time messages and collective operations among ranks, beside what LogGP predicts.",
    "compare": "What is faster, slower, no different, or wrong now? Two records, or the systems of one; a gate for CI.",
    "conformance": "Run the ONNX standard's own test cases on a framework.",
    "data": "What data sets hold, and how fast batches come from them in each kind of container.",
    "diverge": "Find the first node of a network whose result rounding cannot explain.",
    "doctor": "What this machine is, and what would disturb a measurement.",
    "environments": "Other Python environments: build them from what is declared, lock, check and remove them.",
    "export": "Write what records hold to CSV, Parquet or JSON, or as ReFrame, JUBE and Benchpark have it.",
    "list": "Frameworks: what is known, what is installed, with which options.",
    "ls": "List what records and folders of records hold, chosen by any label.",
    "mlperf": "Run MLPerf's own tools on any framework: the LoadGen for inference, logs of training, a submission's folder.",
    "operators": "Check and time operators: your own kernels, and those of frameworks, on a suite of cases.",
    "profile": "Where the time and memory of a network go, node by node.",
    "recipe": "Experiments as files: what is fixed, what varies, what is accepted; run cell by cell, resumable.",
    "reduce": "Shrink a network to the smallest that is still wrong, crashes or is slow.",
    "repeat": "Run a bundle or a record again in a clean environment: the same bits, verdicts, figures?",
    "report": "Write a page, Markdown or a PDF: verdicts, tables, plots with intervals, the twelve rules, the raw data.",
    "roofline": "What this machine computes and moves in a second at most, measured.",
    "run": "Check and time a network in several frameworks.",
    "scale": "Predict how training scales to more ranks than there are, from traces of few; predicted, not measured.",
    "show": "Print a record again, recomputed from its raw samples.",
    "train": "Train what a recipe says, several times if asked: how long to the target, and is each step right?",
    "transform": "Change a network: fold, fuse, split, cut, other batch or precision; and check it.",
}


class _Verbs(click.Group):
    """Imports a verb's module when it is used, so that `--help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return sorted(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _VERBS:
            return None
        module = import_module(f"deep_bench.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl(sorted(_VERBS.items()))


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="deep-bench")
def _cli() -> None:
    """Time and check any piece of deep learning against slow references that a person can read."""


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, and exit: 0 all right, 1 something was wrong, 2 bad usage or input, 130 interrupted."""
    words = sys.argv[1:] if arguments is None else arguments
    if os.environ.get("DEEP_BENCH_INSTALLED_ONLY") != "1":  # the cells of a recipe that may run no code
        sys.path.append(os.getcwd())  # for adapters that are named by the import path of a file right here
    signal.signal(signal.SIGTERM, _interrupt)  # a batch system's time limit: what was measured is kept, as after Ctrl-C
    try:
        status = _cli.main(words, prog_name="deep-bench", standalone_mode=False)
    except click.exceptions.Exit as exit_request:
        status = exit_request.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("deep-bench: interrupted", err=True)
        status = INTERRUPTED
    except click.ClickException as error:
        error.show()
        status = USAGE
    except DeepBenchError as error:
        if "--debug" in words:
            traceback.print_exc()
        click.echo(f"deep-bench: {error}", err=True)
        status = USAGE
    except OSError as error:
        if "--debug" in words:
            traceback.print_exc()
        which = error.filename
        if which is None:
            which = "the output or a file could not be written"
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter fails again on flushing
        click.echo(f"deep-bench: {error.strerror or error}: {which}", err=True)
        status = FAILED
    sys.exit(status or 0)

"""``deep-bench show``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from deep_bench.cli.verb import Verb
from deep_bench.errors import DeepBenchError, InvalidRecord, on_a_line


@click.command("show", cls=Verb)
@click.argument("record", type=click.Path(path_type=Path), metavar="RECORD|FOLDER|FOLDER/PART")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@click.option("--rules", is_flag=True, help="How the report does by the twelve rules of Hoefler and Belli.")
def command(record: Path, as_json: bool, rules: bool) -> None:
    """Print a record again, recomputed from its raw samples.

    Of a folder, the single record in it, or the one whose name has a part that no other has: results/3cbf11d3.
    """
    from deep_bench.records.store import load
    from deep_bench.results import gather
    from deep_bench.results.gathering import MEASUREMENT, choose_record, kind_of, record_kinds

    file = choose_record(record)
    kind = kind_of(file)
    if kind is not None and kind not in record_kinds:
        raise InvalidRecord(f"{on_a_line(file)} is of kind {kind!r}", f"one of {', '.join(record_kinds)}")
    show = _OF_KIND.get(kind or MEASUREMENT, _show_results)
    if rules and show is not _show_measurement:
        raise click.UsageError(f"--rules is for records of what was timed; {on_a_line(file)} is of kind {kind!r}")
    if kind is None:
        load(file)  # says what is missing, where there is something like a record
    if refused := gather(file).refused:  # what `ls` and `report` refuse is refused here, for the same reason
        raise InvalidRecord(str(refused[0]))
    sys.exit(0 if _shown(show, file, as_json, rules) else 1)


def _shown(show: Callable[[Path, bool, bool], bool], file: Path, as_json: bool, rules: bool) -> bool:
    """Whether all is right. A record that is read but lacks what only its own report needs is shown by its results."""
    try:
        return show(file, as_json, rules)
    except (LookupError, TypeError, ValueError, ArithmeticError, DeepBenchError) as error:
        if rules:
            raise InvalidRecord(f"{on_a_line(file)} cannot be judged: {type(error).__name__}: {error}") from error
        reason = on_a_line(f"{file}: no report of its own: {type(error).__name__}: {error}; its results:")
        click.echo(reason, err=True)
    return _show_results(file, as_json, rules)


def _show_measurement(file: Path, as_json: bool, rules: bool) -> bool:
    from deep_bench.distributed.collectives.result import CommunicationResult, is_communication
    from deep_bench.network.result import Result, rules_table
    from deep_bench.operators.studies.result import Study
    from deep_bench.records.store import load

    read = load(file)
    if rules:
        click.echo(rules_table(Result(read, file)))
        return True
    kind: Any = CommunicationResult if is_communication(read) else Study if read.suite is not None else Result
    result = kind(read, file)
    click.echo(json.dumps(result.as_json(), indent=2) if as_json else result.table())
    return bool(result.ok)


def _show_training(file: Path, as_json: bool, rules: bool) -> bool:  # noqa: ARG001
    from deep_bench.training.results import Runs

    runs = Runs.load(file)
    click.echo(runs.record.model_dump_json(indent=2) if as_json else runs.report())
    return True


def _show_scaling(file: Path, as_json: bool, rules: bool) -> bool:  # noqa: ARG001
    from deep_bench.distributed.scaling.record import load_scaling
    from deep_bench.distributed.scaling.report import as_text

    read = load_scaling(file)
    click.echo(read.model_dump_json(indent=2) if as_json else as_text(read))
    return True


def _show_mlperf(file: Path, as_json: bool, rules: bool) -> bool:  # noqa: ARG001
    from deep_bench.mlperf.inference import load_inference
    from deep_bench.mlperf.inference.report import as_text

    read = load_inference(file)
    click.echo(read.model_dump_json(indent=2) if as_json else as_text(read))
    return read.valid


def _show_results(file: Path, as_json: bool, rules: bool) -> bool:  # noqa: ARG001
    """A kind without a report of its own: its results as a table."""
    from deep_bench.results import gather
    from deep_bench.results.formats import as_json as shown

    results = gather(file)
    click.echo(json.dumps([shown(result) for result in results], indent=2) if as_json else results.table())
    return not results.refused and all(result.ok for result in results)


_OF_KIND: Mapping[str, Callable[[Path, bool, bool], bool]] = {
    "measurement": _show_measurement,
    "mlperf": _show_mlperf,
    "scaling": _show_scaling,
    "training": _show_training,
}

"""A run under LoadGen as text, the verdict first; and as results, beside those of all other kinds."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from deep_bench.measure.units import duration, significant
from deep_bench.mlperf.inference import logs as p
from deep_bench.mlperf.inference.record import InferenceRecord, load_inference, ordinal
from deep_bench.mlperf.inference.settings import TARGET_SHARE, UNVERIFIED
from deep_bench.records.model import VerdictRecord
from deep_bench.records.table import columns, print_table
from deep_bench.results.result import (
    NS_IN_A_SECOND,
    Figure,
    Result,
    cell_labels,
    figures_by_name,
    labels,
    prefix_labels,
    single_figure,
)


def as_text(record: InferenceRecord) -> str:
    """The report, as ``deep-bench mlperf inference`` prints it."""
    out = StringIO()
    console = Console(file=out, width=columns(), highlight=False)
    for line in _verdict(record):
        console.print(Text(line))
    if record.complete:
        console.print()
        for line in _lines(record):
            console.print(Text(line))
        _print_percentiles(record, console)
    console.print()
    for note in (*(() if record.valid else record.remarks), *record.notes):
        console.print(Text(f"note: {note}"))
    console.print(Text(f"unverified. {UNVERIFIED} The MLPerf™ name is a trademark of MLCommons Association."))
    return out.getvalue().rstrip()


def result_text(record: InferenceRecord) -> str:
    """The scenario's metric with its unit."""
    if record.result is None:
        return "none"
    if record.rules.unit == "s":
        return duration(record.result)
    return f"{significant(record.result, 4)} {record.rules.unit}"


def _verdict(record: InferenceRecord) -> Iterator[str]:
    word = record.judgement.word if record.judgement else "unfinished"
    subject = record.system or record.framework
    audit = f", audit {record.settings['audit']}" if record.settings.get("audit") else ""
    yield f"{word}: {record.network.name} on {subject}, {record.scenario}, {record.mode} mode{audit}"
    if record.judgement is None:
        yield "  because the run was killed, or still goes on"
    for reason in record.judgement.reasons if record.judgement else ():
        yield f"  because {reason}"
    if record.valid and record.remarks:
        yield "  as LoadGen judges it, but"
        yield from (f"    {remark}" for remark in record.remarks)


def _lines(record: InferenceRecord) -> Iterator[str]:
    loadgen = record.loadgen
    says = loadgen.validity or (
        "nothing of validity: a run for accuracy" if record.mode == "accuracy" else "nothing of validity"
    )
    yield f"LoadGen {loadgen.version} says: {says}; {len(loadgen.errors)} errors, {len(loadgen.warnings)} warnings"
    if record.mode != "accuracy":
        yield f"{record.metric}: {result_text(record)} (unverified)"
        if record.bound is not None:
            yield f"  valid if the {ordinal(100 * record.percentile)} percentile latency is at most {duration(record.bound)}"
        if not record.percentile:
            yield "early stopping: the scenario has none"
        elif record.scenario == "Server":
            text = str(loadgen.values.get("early_stopping_result", "")).strip(" *")
            yield f"early stopping: {' '.join(text.split())}"
        elif not len(latencies := record.query_latencies()):
            yield "early stopping: not counted again, without LoadGen's trace"
        else:
            ours = p.early_stopping(latencies, record.percentile)
            shown = "too few queries" if ours is None else duration(ours * 1e-9)
            yield f"early stopping, counted again from {len(latencies)} queries: {shown} ({p.EARLY})"
    for entry in record.accuracy:
        word = "reached" if entry.met else "not reached"
        of_all = f", the data set has {record.samples}" if entry.total < record.samples else ""
        yield (
            f"accuracy of {entry.of}: {entry.accuracy:.4f} ({entry.correct} of {entry.total}{of_all}); "
            f"the target {entry.target:.4f}, {100 * entry.share:g} % of the reference's {entry.reference:.4f} "
            f"({entry.reference_from}), is {word}"
        )
        if entry.differing is not None:
            yield f"  {entry.differing} answers are another class than the reference's"
    if record.outputs is not None:
        bits = record.outputs.significant_bits
        precise = f", {bits:.1f} significant bits" if bits is not None else ""
        yield f"outputs of the network: {record.outputs.verdict}{precise} (by the reference, {record.outputs.effort} check)"
    else:
        yield "outputs of the network: not checked"
    if record.audit is not None:
        for name, (good, text) in record.audit.checks.items():
            yield f"audit {record.audit.name}, {name}: {'passed' if good else 'failed'} ({text})"
    if record.pilot is not None:
        unit = "samples/s" if record.scenario in ("Server", "Offline") else "ms a query"
        yield f"expected by the pilot: {significant(record.pilot, 4)} {unit}"


def _print_percentiles(record: InferenceRecord, console: Console) -> None:
    traced, local_latencies = record.query_latencies(), record.own_latencies()
    latencies = traced if len(traced) else local_latencies
    if record.mode in ("accuracy", "find-peak") or not record.percentile or not len(latencies):
        return
    origin = "from when it was scheduled, by LoadGen's trace" if len(traced) else "from its arrival, by our stamps"
    figures = ("LoadGen's", "ours", "95 % bound", "queries needed")
    table = Table(
        "percentile",
        *(Column(name, justify="right", no_wrap=True) for name in figures),
        title=f"latency of {len(latencies)} queries, {origin}",
        title_justify="left",
    )
    for entry in p.percentiles(latencies, record.percentile):
        bound = "too few" if entry.bound is None else duration(entry.bound * 1e-9)
        values = (duration(entry.loadgen * 1e-9), duration(entry.ours * 1e-9), bound, str(entry.needed))
        table.add_row(f"p{100 * entry.share:.8g}", *values)
    console.print()
    print_table(console, table)
    for name, definition in (("LoadGen's", p.LOADGEN), ("ours", p.OURS), ("95 % bound", p.BOUND)):
        console.print(Text(f"{name}: {definition}"))


_SHOWN = ("batch", "workers", "max_delay", "min_duration", "short", "target_qps", "target_latency", "audit")


def read_results(path: Path) -> list[Result]:
    """What a run gave.

    Raises:
        InvalidRecord: The file cannot be read, or holds no such record.
    """
    record = load_inference(path)
    settings = {name: record.settings.get(name) for name in _SHOWN}
    if record.bound is not None:
        settings |= {"target_latency": record.bound, "percentile": f"{100 * record.percentile:.8g}"}
    traced, stamped, rules = record.query_latencies(), record.own_latencies(), record.rules
    figures = [single_figure(record.metric, rules.unit, rules.direction, record.result, "by LoadGen; unverified")]
    if len(traced) or len(stamped):
        samples = (traced if len(traced) else stamped).astype(np.float64) / NS_IN_A_SECOND
        remark = "from the scheduled time, by LoadGen" if len(traced) else "from the arrival of the query, by its process"
        figures.append(Figure("query latency", "s", "lower", ((samples,),), remark))
    figures += [
        single_figure(f"accuracy in {entry.of}", "", "higher", entry.accuracy, f"target {entry.target:.4f}")
        for entry in record.accuracy
    ]
    about = labels(
        kind="mlperf",
        network=record.network.name,
        data=record.data.get("name"),
        framework=record.framework.partition(":")[0],
        system=record.system or record.framework,
        scenario=record.scenario,
        mode=record.mode,
        host=record.environment.hostname,
    )
    return [
        Result(
            kind="mlperf",
            file=path,
            created=record.created,
            labels=about | prefix_labels("option", settings) | cell_labels(record.recipe.options),
            figures=figures_by_name(figures),
            verdict=_verdict_record(record),
            errors=(record.error,) if record.error is not None else (),
            environment=record.environment,
            complete=record.complete,
            notes=(UNVERIFIED, *record.remarks, *record.notes),
        )
    ]


def _verdict_record(record: InferenceRecord) -> VerdictRecord | None:
    """Whether the answers were right. That a run is INVALID for other reasons is no fault of theirs."""
    if record.judgement is None:
        return None
    word = record.judgement.word
    wrong = (record.outputs is not None and record.outputs.verdict == "wrong") or any(
        not entry.met for entry in record.accuracy
    )
    has_evidence = record.outputs is not None or any(entry.share >= TARGET_SHARE for entry in record.accuracy)
    valid = "right" if has_evidence else "cannot tell"
    verdict = "wrong" if wrong else {"VALID": valid, "INVALID": "cannot tell", "FAILED": "no information"}[word]
    answers = "the answers are right" if has_evidence else "nothing tells whether the answers are right"
    reason = "; ".join(record.judgement.reasons) or f"LoadGen says VALID, without errors, and {answers}"
    bits = record.outputs.significant_bits if record.outputs else None
    return VerdictRecord(verdict=verdict, reason=f"{word}: {reason}", significant_bits=bits)

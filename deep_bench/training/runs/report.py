"""The report of training runs, as text."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from deep_bench.measure.metric import MetricRecord
from deep_bench.measure.tables import columns, print_note, print_table
from deep_bench.measure.units import duration, share, significant
from deep_bench.training.record import RunRecord
from deep_bench.training.runs import of_ranks
from deep_bench.training.runs.determinism import on_cpu
from deep_bench.training.runs.figures import final, throughput, to_target
from deep_bench.training.runs.result import Runs
from deep_bench.training.runs.survival import FEWEST, Survival


def as_text(runs: Runs, width: int | None = None) -> str:
    """All tables, and the lines below them."""
    out = io.StringIO()
    console = Console(file=out, width=width or columns(), highlight=False, color_system=None)
    print_table(console, _table(runs))
    for part in _parts(runs):
        print_table(console, _times(part))
    for run in runs.runs:
        for table in of_ranks.tables(run):
            print_table(console, table)
    for line in _lines(runs):
        print_note(console, line)
    return out.getvalue().rstrip("\n")


def _parts(runs: Runs) -> list[Runs]:
    """Those of each label apart."""
    return [Runs(runs.record, label=label) for label in dict.fromkeys(run.label for run in runs.runs)]


def _title(runs: Runs) -> str:
    record = runs.record
    subject = next((run.network.name for run in runs.runs if run.network is not None), "training")
    data = next((f" on {run.data['train']['name']}" for run in runs.runs if "train" in run.data), "")
    target = record.target
    goal = (
        ""
        if target is None
        else f" · target: {target.score} {'≥' if target.direction == 'higher' else '≤'} {target.value:g}"
    )
    often = dict.fromkeys(str(run.every) for run in runs.runs if run.every is not None)
    every = f" · evaluated every {' or '.join(often)} samples" if often else ""
    return f"{subject}{data}{goal}{every}"


def _table(runs: Runs) -> Table:
    names = list(dict.fromkeys(name for run in runs.runs for name in run.scores))
    table = Table(title=_title(runs), pad_edge=False)
    table.add_column("run")
    table.add_column("time to target" if runs.record.target is not None else "time", justify="right")
    table.add_column("samples", justify="right")
    table.add_column("steps", justify="right")
    for name in names:
        table.add_column(f"{name}: final (best)", justify="right")
    table.add_column("samples/s (95 % interval)", justify="right")
    table.add_column("setup", justify="right")
    table.add_column("ended")
    for run in runs.runs:
        table.add_row(*_row(runs, run, names))
    return table


def _row(runs: Runs, run: RunRecord, names: list[str]) -> list[str]:
    history, target = run.history(), runs.record.target
    if target is None:
        shown = [duration(history.wall_ns / 1e9), str(history.samples), str(history.steps)]
    else:
        attempt = to_target(run, target)
        beyond = "" if attempt.reached else "> "
        shown = [f"{beyond}{duration(attempt.seconds)}", f"{beyond}{attempt.samples}", f"{beyond}{attempt.steps}"]
    scores = [_score(run, name) for name in names]
    ended = f"{run.error.kind}: {run.error.message.splitlines()[0]}" if run.error is not None else run.stopped_because
    ended = "; ".join(filter(None, (ended, history.about_losses())))
    return [f"{run.label or 'run'}, seed {run.seed}", *shown, *scores, _rate(run), duration(run.setup_ns / 1e9), ended]


def _score(run: RunRecord, name: str) -> str:
    history = run.history()
    last = final(history, name)
    if last is None:
        return "–"
    best = history.best(name, run.scores[name].direction)
    unit = f" {run.scores[name].unit}" if run.scores[name].unit else ""
    shown = "–" if best is None else significant(best.figures[name], 4)
    return f"{significant(last.figures[name], 4)} ({shown}){unit}"


def _rate(run: RunRecord) -> str:
    rate = throughput(run.history())
    if rate is None:
        return "–"
    ends = rate.interval
    limits = "too few steps" if ends is None else f"{significant(ends.low)} to {significant(ends.high)}"
    return f"{significant(rate.median)} ({limits})"


def _times(runs: Runs) -> Table:
    """Where the time went, all runs of a label together, and the median of a step."""
    histories = [run.history() for run in runs.runs]
    total: dict[str, int] = {}
    for history in histories:
        for name, ns in history.split().items():
            total[name] = total.get(name, 0) + ns
    every = sum(total.values())
    steps = [history.phases() for history in histories if history.steps]
    table = Table(title=f"where the time of {runs.label or 'all runs'} went", pad_edge=False)
    table.add_column("part")
    for name in ("in all", "share", "median of a step"):
        table.add_column(name, justify="right")
    for name, ns in total.items():
        medians = [phases[name] for phases in steps if name in phases]
        median = duration(float(np.median(np.concatenate(medians))) / 1e9) if medians else "–"
        table.add_row(name, duration(ns / 1e9), share(ns / every) if every else "–", median)
    return table


def _lines(runs: Runs) -> Iterator[str]:
    fused = [run for run in runs.runs if run.steps and not run.history().phases()["update"].any()]
    if fused:
        yield "the update is part of the same graph as the gradients: its time is in theirs"
    devices = {str(run.framework.get("device", "cpu")) for run in runs.runs}
    if where := ", ".join(sorted(device for device in devices if not on_cpu(device))):
        yield f"on {where} work is handed over: a part's time is that of handing over, unless it waits"
    if synthetic_sets := {str(facts["name"]) for run in runs.runs for facts in run.data.values() if facts.get("synthetic")}:
        yield f"synthetic data, drawn by a program: {', '.join(sorted(synthetic_sets))}"
    for name, facts in {name: f for run in runs.runs for name, f in run.scores.items()}.items():
        yield f"{name}: {facts.direction} is better"
    for run in runs.runs:
        yield from of_ranks.lines(run)
    for part in _parts(runs):
        before = f"{part.label}: " if part.label else ""
        if runs.record.target is not None and part.finished:
            yield from (before + line for line in _target_lines(part))
        yield from (before + line for line in _metric_lines(part))
        yield from (before + line for line in _determinism_lines(part))
    yield from runs.record.notes
    if runs.record.interrupted:
        yield "interrupted: a run that was going on counts in no figure of several runs"
    if runs.path is not None:
        yield f"record: {runs.path}"


def _target_lines(runs: Runs) -> Iterator[str]:
    success = runs.success
    limits = f"too few runs for an interval: it takes {FEWEST}"
    if success.interval is not None and success.exact is not None:
        wilson, exact = (f"{share(low)} to {share(high)}" for low, high in (success.interval, success.exact))
        limits = f"95 % interval: {wilson} (Wilson), {exact} (Clopper-Pearson)"
    yield f"reached the target: {success.reached} of {success.n}, {share(success.share)}; {limits}"
    yield f"median time to the target: {_median(runs.survival(), True)}"
    yield f"median samples to the target: {_median(runs.survival('samples'), False)}"
    failures = [run for run in runs.finished if run.error is not None]
    if failures:
        yield f"{len(failures)} runs failed; they count as having gone on until then, as if they might still have reached it"
    score = runs.mlperf
    yield f"as MLPerf scores it: {'–' if score.seconds is None else duration(score.seconds)} ({score.reason})"


def _median(survival: Survival, seconds: bool) -> str:
    def shown(value: float) -> str:
        return duration(value) if seconds else f"{value:.0f}"

    if survival.median is None:
        return (
            f"none, since the share still going never falls to a half ({survival.n - survival.reached} "
            f"of {survival.n} censored)"
        )
    if survival.interval is None:
        return f"{shown(survival.median)}; no interval from {survival.n} runs"
    low, high = survival.interval
    how = "order statistics" if survival.reached == survival.n else "Kaplan-Meier, Brookmeyer-Crowley"
    end = "no upper end" if high is None else shown(high)
    return f"{shown(survival.median)}; 95 % interval {shown(low)} to {end} ({how})"


def _metric_lines(runs: Runs) -> Iterator[str]:
    by_name: dict[str, list[MetricRecord]] = {}
    for run in runs.runs:
        for metric in run.metrics:
            by_name.setdefault(metric.name, []).append(metric)
    for name, records in by_name.items():
        values = [float(np.median(metric.values)) for metric in records if metric.values]
        yield from dict.fromkeys(f"{name}: {metric.unavailable}" for metric in records if metric.unavailable)
        if values:
            unit = f" {records[0].unit}" if records[0].unit else ""
            low, middle, high = (significant(f(values), 4) for f in (min, np.median, max))
            spread = "" if len(values) == 1 else f", median of {len(values)} runs, from {low} to {high}"
            yield f"{name}: {middle}{unit}{spread}; {records[0].direction} is better"


def _determinism_lines(runs: Runs) -> Iterator[str]:
    records = [run.determinism for run in runs.runs if run.determinism.seeds]
    if records:
        again = "the same bits" if all(d.same_again == "bitwise" for d in records) else "the same bits are not promised"
        remarks = "".join(f"; {remark}" for remark in dict.fromkeys(r for d in records for r in d.remarks))
        yield f"made again on this machine with the same seeds: {again}{remarks}"

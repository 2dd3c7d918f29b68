"""What one or several training runs show, as text and as a picture; all of it is computed from the record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from deep_bench.errors import InvalidArgument, UnknownName, Unsupported
from deep_bench.measure.metrics import MetricRecord
from deep_bench.measure.units import duration, in_bytes, share, significant
from deep_bench.records.table import figure_columns, text_of
from deep_bench.training.figures import (
    FEWEST,
    MlperfScore,
    Success,
    Survival,
    ToTarget,
    final,
    mlperf_score,
    on_cpu,
    success,
    survival,
    throughput,
    to_target,
)
from deep_bench.training.record import (
    RankRecord,
    RanksRecord,
    RunRecord,
    TargetRecord,
    TrainingRecord,
    load_training,
    new_training_file,
    write_training,
)
from deep_bench.training.trainer import INTERRUPTED


class Runs:
    """Training runs of one recipe. Printing it shows the report.

    Args:
        record: Their record.
        path: The record's file, if it was written.
        label: Only those with this label; all by default.
    """

    def __init__(self, record: TrainingRecord, path: Path | None = None, *, label: str | None = None) -> None:
        if label is not None and label not in record.labels():
            raise UnknownName("label of runs", label, record.labels())
        self.record, self.path, self.label = record, path, label

    @classmethod
    def load(cls, path: str | Path, *, label: str | None = None) -> Runs:
        """Read a record's file.

        Raises:
            InvalidRecord: It is none.
        """
        return cls(load_training(path), Path(path), label=label)

    @property
    def runs(self) -> list[RunRecord]:
        """All of them, in their order, with one that was interrupted."""
        return [run for run in self.record.runs if self.label is None or run.label == self.label]

    @property
    def finished(self) -> list[RunRecord]:
        """Those that came to an end of their own: figures of several runs are of these."""
        return [run for run in self.runs if run.stopped_because != INTERRUPTED]

    @property
    def parts(self) -> list[Runs]:
        """Those of each label apart."""
        return [Runs(self.record, label=label) for label in dict.fromkeys(run.label for run in self.runs)]

    @property
    def target(self) -> TargetRecord:
        """What they were to reach.

        Raises:
            InvalidArgument: There was no target.
        """
        if self.record.target is None:
            raise InvalidArgument("runs without a target", "several(…, target=('accuracy', 0.97))")
        return self.record.target

    @cached_property
    def to_target(self) -> list[ToTarget]:
        """Of each finished run, how long it took to the target, or went on without reaching it."""
        return [to_target(run, self.target) for run in self.finished]

    @cached_property
    def success(self) -> Success:
        """How many finished runs reached the target."""
        return success(sum(t.reached for t in self.to_target), len(self.to_target))

    def survival(self, quantity: Literal["seconds", "samples"] = "seconds") -> Survival:
        """The distribution of the time, or of the number of samples, to the target; runs that missed it are censored."""
        return survival([getattr(t, quantity) for t in self.to_target], [t.reached for t in self.to_target])

    @property
    def mlperf(self) -> MlperfScore:
        """The score as MLPerf computes it."""
        return mlperf_score([t.seconds if t.reached else None for t in self.to_target])

    def save(self, folder: str | Path) -> Path:
        """Write the record to a folder, which is made if it is not there, and return its file.

        Raises:
            InvalidArgument: The folder cannot be made or written.
        """
        self.path = write_training(self.record, new_training_file(folder, self.record))
        return self.path

    def plot(self, file: str | Path) -> Path:
        """Draw the time to the target of each run, and the share of runs that are still going.

        Raises:
            InvalidArgument: The file cannot be written, or there was no target.
            Unsupported: matplotlib is not installed.
        """

        try:
            from deep_bench.training.plots import draw_runs
        except ImportError as error:
            raise Unsupported("a picture without matplotlib", advice="pip install deep-bench[report]") from error
        return draw_runs(self, file)

    def report(self, width: int | None = None) -> str:
        """Tables and what is worth knowing, as text.

        Args:
            width: Columns of text; by default those of the terminal, or 160 where there is none.
        """

        return text_of(_report(self), width)

    def __repr__(self) -> str:
        return self.report()


def _report(runs: Runs) -> Iterator[Table | str]:
    """Tables of the runs, of where their time went and of their ranks; then what they mean."""
    yield _run_table(runs)
    yield from map(_time_table, runs.parts)
    for run in runs.runs:
        yield from rank_tables(run)
    yield from _lines_below(runs)


def _run_table(runs: Runs) -> Table:
    names = list(dict.fromkeys(name for run in runs.runs for name in run.scores))
    subject = next((run.network.name for run in runs.runs if run.network is not None), "training")
    data = next((f" on {run.data['train']['name']}" for run in runs.runs if "train" in run.data), "")
    target = runs.record.target
    goal = ""
    if target is not None:
        goal = f" · target: {target.score} {'≥' if target.direction == 'higher' else '≤'} {target.value:g}"
    often = dict.fromkeys(str(run.every) for run in runs.runs if run.every is not None)
    every = f" · evaluated every {' or '.join(often)} samples" if often else ""
    time = "time to target" if target is not None else "time"
    scores = [f"{name}: final (best)" for name in names]
    figures = figure_columns(time, "samples", "steps", *scores, "samples/s (95 % interval)", "setup")
    table = Table("run", *figures, "ended", title=f"{subject}{data}{goal}{every}", pad_edge=False)
    for run in runs.runs:
        table.add_row(*_run_row(runs, run, names))
    return table


def _run_row(runs: Runs, run: RunRecord, names: list[str]) -> list[str]:
    history, target = run.history(), runs.record.target
    if target is None:
        shown = [duration(history.wall_ns / 1e9), str(history.samples), str(history.steps)]
    else:
        attempt = to_target(run, target)
        beyond = "" if attempt.reached else "> "
        shown = [f"{beyond}{duration(attempt.seconds)}", f"{beyond}{attempt.samples}", f"{beyond}{attempt.steps}"]
    scores = []
    for name in names:
        last = final(history, name)
        if last is None:
            scores.append("–")
            continue
        facts = run.scores[name]
        best = history.best(name, facts.direction)
        best_shown = "–" if best is None else significant(best.figures[name], 4)
        scores.append(f"{significant(last.figures[name], 4)} ({best_shown}){f' {facts.unit}' if facts.unit else ''}")
    ended = f"{run.error.kind}: {run.error.message.splitlines()[0]}" if run.error is not None else run.stopped_because
    ended = "; ".join(filter(None, (ended, history.about_losses())))
    rate, rate_shown = throughput(history), "–"
    if rate is not None:
        ends = rate.interval
        limits = "too few steps" if ends is None else f"{significant(ends.low)} to {significant(ends.high)}"
        rate_shown = f"{significant(rate.median)} ({limits})"
    return [f"{run.label or 'run'}, seed {run.seed}", *shown, *scores, rate_shown, duration(run.setup_ns / 1e9), ended]


def _time_table(runs: Runs) -> Table:
    """Where the time went, all runs of a label together, and the median of a step."""
    histories = [run.history() for run in runs.runs]
    total: dict[str, int] = {}
    for history in histories:
        for name, ns in history.split().items():
            total[name] = total.get(name, 0) + ns
    every = sum(total.values())
    steps = [history.phases() for history in histories if history.steps]
    figures = figure_columns("in all", "share", "median of a step")
    table = Table("part", *figures, title=f"where the time of {runs.label or 'all runs'} went", pad_edge=False)
    for name, ns in total.items():
        medians = [phases[name] for phases in steps if name in phases]
        median = duration(float(np.median(np.concatenate(medians))) / 1e9) if medians else "–"
        table.add_row(name, duration(ns / 1e9), share(ns / every) if every else "–", median)
    return table


def _lines_below(runs: Runs) -> Iterator[str]:
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
        yield from rank_lines(run)
    for part in runs.parts:
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
    yield f"median time to the target: {_median(runs.survival(), duration)}"
    yield f"median samples to the target: {_median(runs.survival('samples'), '{:.0f}'.format)}"
    failures = [run for run in runs.finished if run.error is not None]
    if failures:
        yield f"{len(failures)} runs failed; they count as having gone on until then, as if they might still have reached it"
    score = runs.mlperf
    yield f"as MLPerf scores it: {'–' if score.seconds is None else duration(score.seconds)} ({score.reason})"


def _median(survival: Survival, shown: Callable[[float], str]) -> str:
    if survival.median is None:
        censored = f"{survival.n - survival.reached} of {survival.n} censored"
        return f"none, since the share still going never falls to a half ({censored})"
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


Times = NDArray[np.int64]

_DRIFT = "drift"


@dataclass(frozen=True)
class RankSplit:
    """Where the time of each step went on each rank; arrays of shape (ranks, steps), in nanoseconds.

    Args:
        computing: From the moment when ranks had agreed on the step to the end of this rank's gradients.
        waiting: Of the time in messages after that, what passed until the slowest rank had its gradients.
        exposed: The rest of the time in messages after that.
        overlapped: The time in messages while gradients were computed.
        agreeing: Before the step, which waits for the slowest as well.
    """

    computing: Times
    waiting: Times
    exposed: Times
    overlapped: Times
    agreeing: Times

    @property
    def imbalance(self) -> float:
        """By how much the slowest rank computes longer than the mean of all, as a share of it, on average over steps."""
        mean = self.computing.mean(axis=0)
        return float(np.mean((self.computing.max(axis=0) - mean) / np.maximum(mean, 1)))

    @property
    def slowest(self) -> Times:
        """The rank that computed longest in each step."""
        return np.asarray(self.computing.argmax(axis=0))


def split_of_ranks(ranks: list[RankRecord]) -> RankSplit | None:
    """Where the time went, as far as all ranks took the same steps; ``None`` where they did not, or took none.

    Ranks leave the agreement together: the moment from which each counts is the same.

    Example:
        >>> one = RankRecord(rank=0, computing=np.array([10]), exposed=np.array([7]), communicating=np.array([8]),
        ...                  updating=np.array([9]), agreeing=np.array([1]))
        >>> other = one.model_copy(update={"rank": 1, "computing": np.array([14]), "exposed": np.array([3])})
        >>> found = split_of_ranks([one, other])
        >>> found.waiting.tolist(), found.exposed.tolist(), found.slowest.tolist()
        ([[4], [0]], [[3], [3]], [1])
    """
    steps = {len(rank.computing) for rank in ranks}
    if len(steps) != 1 or steps == {0}:
        return None
    columns = ("computing", "exposed", "communicating", "agreeing")
    computing, exposed, communicating, agreeing = (np.array([getattr(r, name) for r in ranks]) for name in columns)
    waiting = np.minimum(exposed, computing.max(axis=0) - computing)
    return RankSplit(computing, waiting, exposed - waiting, np.maximum(communicating - exposed, 0), agreeing)


def rank_tables(run: RunRecord) -> Iterator[Table]:
    """Time of a step and messages, by rank."""
    if run.ranks is not None:
        yield _rank_table(run.ranks)
        yield _messages(run.ranks)


def rank_lines(run: RunRecord) -> Iterator[str]:
    """What the tables mean, and what is not as with one process."""
    if run.ranks is None:
        return
    ranks = run.ranks
    facts = ", ".join(f"{name} {value}" for name, value in ranks.communicator.items() if name in ("communicator", "library"))
    yield f"{len(ranks.ranks)} ranks by {ranks.scheme}; {facts}; parameters of ranks: {ranks.promise}"
    breakdown = split_of_ranks(ranks.ranks)
    if breakdown is not None and len(ranks.ranks) > 1:
        counts = np.bincount(breakdown.slowest, minlength=len(ranks.ranks))
        slow = int(counts.argmax())
        host, often = ranks.ranks[slow].local.get("host", "an unknown host"), share(counts[slow] / counts.sum())
        yield (
            f"imbalance: the slowest rank computes {share(breakdown.imbalance)} longer than the mean; "
            f"rank {slow} on {host} is it in {often} of the steps"
        )
        yield (
            "waiting is the part of the time in messages until the slowest rank has its gradients, "
            "counted from the moment when all have agreed on the step; exposed is the rest of it after the gradients"
        )
    if breakdown is None and len(ranks.ranks) > 1:
        yield "ranks take steps each on their own: who waits for whom cannot be told"
    drift = [e.figures[_DRIFT] for e in run.evaluations if _DRIFT in e.figures]
    if drift:
        first, largest, last = (significant(value, 3) for value in (drift[0], max(drift), drift[-1]))
        yield f"drift, a rank's largest distance from the mean: {first} at first, {largest} at most, {last} at last"
    yield from ranks.remarks


def _rank_table(ranks: RanksRecord) -> Table:
    names = ("steps", "samples", "computing", "waiting", "exposed messages", "overlapped messages", "agreeing")
    table = Table("rank", *figure_columns(*names), "where", title="a step on each rank: medians", pad_edge=False)
    breakdown = split_of_ranks(ranks.ranks)
    for number, rank in enumerate(ranks.ranks):
        shown = ["–"] * 5
        if breakdown is not None:
            parts = (breakdown.computing, breakdown.waiting, breakdown.exposed, breakdown.overlapped, breakdown.agreeing)
            shown = [duration(float(np.median(part[number])) / 1e9) for part in parts]
        elif len(rank.computing):
            shown[0] = duration(float(np.median(rank.computing)) / 1e9)
        table.add_row(str(rank.rank), str(len(rank.samples)), str(int(rank.samples.sum())), *shown, _rank_place(rank))
    return table


def _rank_place(rank: RankRecord) -> str:
    cpus, bound = rank.local.get("cpus"), ""
    if isinstance(cpus, list) and cpus:
        numbers = [int(str(cpu)) for cpu in cpus]
        in_a_row = len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1))
        bound = f", CPUs {f'{numbers[0]}-{numbers[-1]}' if in_a_row else ', '.join(map(str, numbers))}"
    return f"{rank.local.get('host', '–')}{bound}, {rank.local.get('device') or '–'}"


def _messages(ranks: RanksRecord) -> Table:
    names = ("calls of a rank", "handed over", "sent by the usual algorithms", "from a rank, most", "time in calls, median")
    table = Table("operation", *figure_columns(*names), title="messages of all ranks", pad_edge=False)
    for operation in dict.fromkeys(m.operation for rank in ranks.ranks for m in rank.messages):
        messages = [m for rank in ranks.ranks for m in rank.messages if m.operation == operation]
        calls = sorted({m.calls for m in messages})
        table.add_row(
            operation,
            str(calls[0]) if len(calls) == 1 else f"{calls[0]} to {calls[-1]}",
            in_bytes(sum(m.payload_bytes for m in messages)),
            in_bytes(sum(m.moved_bytes for m in messages)),
            in_bytes(max(m.moved_bytes for m in messages)),
            duration(float(np.median([m.spent_ns for m in messages])) / 1e9),
        )
    return table

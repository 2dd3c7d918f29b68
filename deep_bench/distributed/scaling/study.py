"""``scale``: trace, generalise, measure one rank, predict, replay; and compare with runs that were measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from deep_bench.distributed.loggp import LogGP
from deep_bench.distributed.machine import Link, Segment, combining_time, load_machine
from deep_bench.distributed.scaling import simulators
from deep_bench.distributed.scaling.formulas import Rules, measured_times, of_record, predicted
from deep_bench.distributed.scaling.pattern import Pattern, learned_pattern
from deep_bench.distributed.scaling.program import Program
from deep_bench.distributed.scaling.record import MeasuredRecord, RanksPointRecord, ScalingRecord, TimesRecord
from deep_bench.distributed.scaling.report import assumptions
from deep_bench.distributed.scaling.simulators import NETWORKS
from deep_bench.distributed.scaling.trace import MESSAGES, TracedScheme, scheme_to_trace
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.measure.environment import provenance
from deep_bench.measure.units import duration, significant
from deep_bench.training.recipes import Recipe
from deep_bench.training.record import RankRecord, RunRecord
from deep_bench.training.results import Runs


def machine_of_file(path: Path, over: str | None = None) -> tuple[Link, str]:
    """What messages between nodes cost, or within one where nothing else was measured; and the same in words.

    Args:
        path: What `deep-bench communicate` wrote.
        over: The communicator; the first one by default.

    Raises:
        InvalidArgument: Nothing was measured.
        UnknownName: Nothing over that communicator.
        InvalidRecord: It is no such file.
    """
    machine = load_machine(path)
    if not machine.links:
        raise InvalidArgument(f"{path}, without any measured messages", "a machine that deep-bench communicate measured")
    names = list(dict.fromkeys(link.system for link in machine.links))
    if over is not None and over not in names:
        raise UnknownName(f"communicator of {path}", over, names)
    links = [link for link in machine.links if link.system == (over or names[0])]
    link = next((candidate for candidate in links if candidate.between == "nodes"), links[0])
    where = "between nodes" if link.between == "nodes" else "within one node, not over a network"
    return link, f"{path}: messages over {link.system}, measured {where}: {machine_text(link)}"


def stated_machine(latency: float, bandwidth: float) -> tuple[Link, str]:
    r"""A machine with :math:`L` and :math:`1 / G` as they are stated, and nothing else but adding up, measured here.

    Args:
        latency: Seconds.
        bandwidth: Bytes a second.

    Example:
        >>> f"{stated_machine(1e-6, 1e10)[0].message(10_001):.2e}"
        '2.00e-06'
    """
    gamma = combining_time(np.dtype(np.float32))
    parameters = LogGP(L=latency, o=0.0, g=0.0, G=1 / bandwidth, gamma=gamma)
    link = Link(
        system="stated", between="nodes", pair=(0, 1), hosts=("one", "another"), segments=[Segment(parameters=parameters)]
    )
    return link, f"as stated, not measured: {machine_text(link)}"


def machine_text(link: Link) -> str:
    """The parameters in words."""
    parts = []
    for segment in link.segments:
        p = segment.parameters
        sizes = "" if len(link.segments) == 1 else "larger: " if segment.up_to is None else f"up to {segment.up_to} B: "
        rate = f", 1/G {significant(1e-9 / p.G)} GB/s" if p.G else ""
        adding = f", adding {significant(1e-9 / p.gamma)} GB/s" if p.gamma else ""
        parts.append(f"{sizes}L {duration(p.L)}, o {duration(p.o)}, g {duration(p.g)}{rate}{adding}")
    return "; ".join(parts)


_WARM = 5
_SAME = {"iallreduce": "allreduce", "sendrecv": "exchange"}


@dataclass(frozen=True)
class MeasuredRun:
    """A run of several ranks.

    Args:
        file: Its record.
        run: What it says.
        ranks: How many.
        batch: The samples of a rank in most steps, of the one that had the most.
    """

    file: Path
    run: RunRecord
    ranks: int
    batch: int

    @property
    def of_ranks(self) -> list[RankRecord]:
        """What it says of each rank."""
        assert self.run.ranks is not None
        return self.run.ranks.ranks


def runs_in(file: Path, on: str, scheme: TracedScheme) -> list[MeasuredRun]:
    """The runs of a record that several ranks made, or one alone under ``--distributed``.

    Args:
        file: The record.
        on: What must have computed.
        scheme: What must have kept ranks together.

    Raises:
        InvalidArgument: It has none, or runs of something else.
        InvalidRecord: It is no record of training.
    """
    runs = []
    for run in Runs.load(file).record.runs:
        ranks = [] if run.ranks is None else run.ranks.ranks
        # whether a run is of what is predicted
        kind, network = type(scheme.made).__name__, scheme.network
        facts = [("computed by", run.label, on), ("of the network", run.network.name if run.network else network, network)]
        if run.ranks is not None:
            facts.append(("with the scheme", run.ranks.scheme.partition("(")[0], kind))
        for description, was, expected in facts:
            if was != expected:
                raise InvalidArgument(f"{file}, {description} {was}", f"a record of what is predicted: {expected}")
        if ranks and all(len(rank.samples) > _WARM for rank in ranks):
            most = np.max([rank.samples for rank in ranks], axis=0)
            runs.append(MeasuredRun(file, run, len(ranks), Counter(most.tolist()).most_common(1)[0][0]))
    if not runs:
        raise InvalidArgument(f"{file}, which has no run of several ranks", "a record of deep-bench train --distributed …")
    return runs


def steps_of(run: MeasuredRun) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds of each whole step, of the rank that took longest: loading, agreement, gradients, update with messages; and of
    the one that computed longest, without messages and waiting.
    """
    rows, own_times = [], []
    for rank in run.of_ranks:
        stamps = np.asarray(rank.stamps).reshape(-1, 5)[-len(rank.computing) :]
        loading = stamps[:, 1] - stamps[:, 0] if len(stamps) == len(rank.computing) else np.zeros(len(rank.computing))
        own_times.append(loading + rank.computing + rank.updating - rank.communicating)
        rows.append(loading + rank.agreeing + rank.computing + rank.updating)
    most = np.max([rank.samples for rank in run.of_ranks], axis=0)
    mask = (most == run.batch) & (np.arange(len(most)) >= _WARM)
    return np.max(rows, axis=0)[mask] / 1e9, np.max(own_times, axis=0)[mask] / 1e9


def compared_run(
    run: MeasuredRun, point: RanksPointRecord, own_point: RanksPointRecord, pattern: Pattern, replayed: float | None
) -> MeasuredRecord:
    """A run beside a prediction for as many ranks with as many samples.

    Args:
        run: The run.
        point: By the formulas.
        own_point: By the formulas, from the run's own computing.
        pattern: What ranks say.
        replayed: By the simulator.
    """
    steps, own_times = steps_of(run)
    calls, payload = _messages_a_step(run.of_ranks[0], len(run.of_ranks[0].samples))
    expected_calls, expected_payload = _messages_expected(pattern, run.ranks)
    least, most = np.percentile(steps, (5, 95))
    names = sorted(set(expected_calls))
    return MeasuredRecord(
        file=str(run.file), ranks=run.ranks, batch=run.batch,
        hosts=len({str(rank.local.get("host", "")) for rank in run.of_ranks}), steps=steps, mean=float(steps.mean()),
        median=float(np.median(steps)), least=float(least), most=float(most), computing=float(own_times.mean()),
        predicted=point.mean, predicted_computing=point.computing, predicted_own=own_point.mean,
        replayed=replayed,
        calls={name: (calls.get(name, 0.0), expected_calls[name]) for name in names},
        payload={name: (payload.get(name, 0.0), expected_payload[name]) for name in names},
    )  # fmt: skip


def _messages_a_step(rank: RankRecord, steps: int) -> tuple[dict[str, float], dict[str, float]]:
    calls: Counter[str] = Counter()
    payload: Counter[str] = Counter()
    for total in rank.messages:
        name = _SAME.get(total.operation, total.operation)
        calls[name] += total.calls
        payload[name] += total.payload_bytes
    return {n: c / steps for n, c in calls.items()}, {n: p / steps for n, p in payload.items()}


def _messages_expected(pattern: Pattern, ranks: int) -> tuple[dict[str, float], dict[str, float]]:
    """What rank 0 calls in a step, on average, counted as `Counting` counts: each message that comes is a call."""
    calls: dict[str, float] = {}
    payload: dict[str, float] = {}
    for number in range(1, pattern.period + 1):
        for call in pattern.step(ranks, 0, number):
            if call.operation in MESSAGES:
                times = len(call.sources) if call.operation == "recv" else len(call.to)
                times = 1 if call.operation == "exchange" else times
                size = call.size * (len(call.sources) if call.operation == "recv" else len(call.to))
            else:
                times, size = 1, call.size // len(call.group) if call.operation == "allgather" else call.size
            calls[call.operation] = calls.get(call.operation, 0.0) + times / pattern.period
            payload[call.operation] = payload.get(call.operation, 0.0) + size / pattern.period
    return calls, payload


_REPLAYED_STEPS = (4, 40)
"""As few, and as many where they have no more than"""


_MESSAGES = 100_000

Advance = Callable[[str], None]


@dataclass(frozen=True)
class ScalingQuestion:
    """What is to be predicted.

    Args:
        recipe: What is trained.
        on: What computes.
        scheme: What keeps ranks together, as on the command line.
        ranks: For how many.
        link: What messages cost.
        machine: The same in words.
        scaling: Whether the recipe's batch is that of all ranks together, or of each.
        algorithms: Collective to algorithm; the cheapest elsewhere.
        network: Of the simulator; one of `NETWORKS`.
        replay_up_to: The most ranks that it replays; 0 for no simulator.
        budget: Seconds for measuring what one rank computes.
        times: A record of `deep-bench train --distributed` with these times, instead.
        measured: Records of it, to compare with.
        steps: How many to trace; as many as the scheme needs by default.
        seed: Of all draws.

    Raises:
        InvalidArgument: No ranks, fewer than 2, or a budget that is not above 0.
        UnknownName: No such network.
    """

    recipe: Recipe
    on: str
    scheme: str
    ranks: Sequence[int]
    link: Link
    machine: str
    scaling: Literal["strong", "weak"] = "strong"
    algorithms: Mapping[str, str] = field(default_factory=dict)
    network: str = "fat-tree"
    replay_up_to: int = 1024
    budget: float = 8.0
    times: Path | None = None
    measured: Sequence[Path] = ()
    steps: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.ranks or min(self.ranks) < 2 or self.budget <= 0:
            raise InvalidArgument(f"ranks {list(self.ranks)}, a budget of {self.budget} s", "2 ranks or more, and some time")
        if self.network not in NETWORKS:
            raise UnknownName("network", self.network, NETWORKS)

    @property
    def whole_batch(self) -> int:
        """The recipe's."""
        return self.recipe.fields.sampler.batch

    def batch(self, ranks: int) -> int:
        """The samples of the rank that has the most."""
        return self.whole_batch if self.scaling == "weak" else ceil(self.whole_batch / ranks)

    def uneven(self, ranks: int) -> bool:
        """Whether ranks have different numbers of samples."""
        return self.scaling == "strong" and self.whole_batch % ranks != 0


@dataclass
class Prediction:
    """An answer.

    Args:
        question: What was asked.
        record: What was found.
        patterns: By whether ranks have different numbers of samples.
        rules: What messages cost.
    """

    question: ScalingQuestion
    record: ScalingRecord
    patterns: Mapping[bool, Pattern]
    rules: Rules

    def program(self, ranks: int, steps: int = 1) -> Program:
        """What so many ranks do, for a simulator.

        Raises:
            InvalidArgument: Nothing was predicted for so many.
        """
        if not any(point.ranks == ranks for point in self.record.points):
            available = ", ".join(str(point.ranks) for point in self.record.points)
            raise InvalidArgument(f"a trace of {ranks} ranks", f"one of those that were predicted: {available}")
        times = _times_of(self.record.times, self.question.batch(ranks))
        pattern = self.patterns[self.question.uneven(ranks)]
        return Program(pattern, ranks, times, self.rules, steps, self.question.seed)


def scale(question: ScalingQuestion, advance: Advance = lambda _: None) -> Prediction:
    """Predict.

    Args:
        question: What.
        advance: Told of what is done next.

    Raises:
        DoesNotGeneralise: What few ranks say does not tell what many would.
        InvalidArgument: Nothing can be predicted: the batch has no sample for so many ranks, for example.
        Unsupported: The scheme has no step that all ranks take together.
    """
    scheme = scheme_to_trace(question.scheme, question.recipe)
    ranks, notes = _possible(question)
    runs = [run for file in question.measured for run in runs_in(file, question.on, scheme)]
    patterns = _patterns(question, scheme, ranks, advance)
    times = _times(question, scheme, ranks, runs, notes, advance)
    overlap_from = getattr(scheme.made, "overlap_from", 0) if scheme.overlaps else None
    rules = Rules(question.link, question.algorithms, overlap_from)
    alone = _times_of(times, question.batch(1)).alone
    points = []
    for count in ranks:
        advance(f"formulas for {count} ranks")
        uneven = question.uneven(count)
        of_rank = _times_of(times, question.batch(count))
        points.append(predicted(patterns[uneven], count, of_rank, rules, uneven=uneven, seed=question.seed))
    some = next(iter(patterns.values()))
    record = ScalingRecord(
        **provenance(), recipe=dict(question.recipe.fields.model_dump()),
        title=question.recipe.fields.title or question.recipe.fields.name, scheme=question.scheme, framework=question.on,
        scaling=question.scaling, whole_batch=question.whole_batch, machine=question.machine,
        segments=question.link.segments, pattern=some.lines(), fitted=list(some.fitted), checked=list(some.checked),
        times=times, alone=alone, points=points, notes=notes,
    )  # fmt: skip
    prediction = Prediction(question, record, patterns, rules)
    simulator = _replayed(prediction, advance)
    for run in runs:
        record.measured.append(_compared(prediction, run, simulator))
    record.assumptions = assumptions(record, question.link, some, scheme, question.algorithms)
    return prediction


def _possible(question: ScalingQuestion) -> tuple[list[int], list[str]]:
    """The numbers of ranks that have samples, and what is said of the others."""
    requested = sorted(set(question.ranks))
    if question.scaling == "weak":
        return requested, []
    batch = question.whole_batch
    possible = [count for count in requested if count <= batch]
    if not possible:
        raise InvalidArgument(
            f"strong scaling of a batch of {batch} samples to {requested[0]} ranks and more: some would have none",
            f"at most {batch} ranks",
            "--scaling weak, or a larger batch: sampler.batch=…",
        )
    notes = []
    if len(possible) < len(requested):
        notes.append(
            f"strong scaling ends at {batch} ranks, which have one sample each of a batch of {batch}: nothing is predicted "
            f"for {len(requested) - len(possible)} larger numbers (--scaling weak, or sampler.batch=…)"
        )
    return possible, notes


def _patterns(
    question: ScalingQuestion, scheme: TracedScheme, ranks: Sequence[int], advance: Advance
) -> dict[bool, Pattern]:
    patterns = {}
    for uneven in sorted({question.uneven(count) for count in ranks}):
        words = ", with different numbers of samples" if uneven else ""
        patterns[uneven] = learned_pattern(
            question.recipe, question.on, scheme, uneven=uneven, steps=question.steps,
            advance=lambda count, words=words: advance(f"traced {count} ranks{words}"),  # type: ignore[misc]
        )  # fmt: skip
    return patterns


def _times(
    question: ScalingQuestion,
    scheme: TracedScheme,
    ranks: Sequence[int],
    runs: Sequence[MeasuredRun],
    notes: list[str],
    advance: Advance,
) -> list[TimesRecord]:
    """How long a rank computes, for each number of samples that is asked for."""
    batches = {question.batch(count) for count in [1, *ranks]} | {run.batch for run in runs}
    of_file = [] if question.times is None else [run.run for run in runs_in(question.times, question.on, scheme)]
    times = []
    for batch in sorted(batches, reverse=True):
        matches = []
        for run in of_file:
            try:
                matches.append(of_record(run, batch))
            except InvalidArgument:
                continue
        if matches:
            times.append(matches[0])
            continue
        if of_file:
            notes.append(f"{question.times} has no steps with {batch} samples of a rank: they were measured here")
        advance(f"measuring one rank with {batch} samples")
        times.append(measured_times(question.recipe, question.on, scheme, batch, question.budget / len(batches)))
    return times


def _times_of(times: Sequence[TimesRecord], batch: int) -> TimesRecord:
    return next(entry for entry in times if entry.batch == batch)


def _replayed(prediction: Prediction, advance: Advance) -> simulators.Simulator | None:
    """Let the simulator replay what it can; returns it if it is there."""
    question, record = prediction.question, prediction.record
    if question.replay_up_to < 2:
        record.simulator = "no simulator was asked for: closed formulas only"
        return None
    advance("looking for SimGrid")
    simulator = simulators.find_simulator()
    if isinstance(simulator, str):
        record.simulator = f"{simulator}: closed formulas only"
        return None
    record.network = question.network
    record.simulator = f"SimGrid {simulator.version}"
    for point in record.points:
        if point.ranks > question.replay_up_to:
            record.notes.append(f"more than {question.replay_up_to} ranks were not replayed (--replay-up-to)")
            break
        advance(f"SimGrid with {point.ranks} ranks")
        try:
            reason = _replay(prediction, simulator, point)
        except simulators.SimulatorFailed as error:
            reason = str(error).replace("\n", "; ")
        if reason:
            record.notes.append(f"{point.ranks} ranks and more were not replayed: {reason}")
            break
        words = NETWORKS[question.network](point.ranks).words
        record.simulator = f"SimGrid {simulator.version}, up to {point.ranks} ranks on {words}"
    return simulator


def _replay(prediction: Prediction, simulator: simulators.Simulator, point: RanksPointRecord) -> str:
    question = prediction.question
    period = prediction.patterns[point.uneven].period
    few, many = _REPLAYED_STEPS
    in_a_step = max(simulators.replayed_messages(prediction.program(point.ranks, period)), 1)
    program = prediction.program(point.ranks, period * min(max(_MESSAGES // in_a_step, few), many))
    network = NETWORKS[question.network](point.ranks)
    done = simulators.replay(simulator, program, network, question.link)
    if isinstance(done, str):
        return done
    point.replayed, point.replayed_messages = done.expected(point.computing), done.messages
    return ""


def _compared(prediction: Prediction, run: MeasuredRun, simulator: simulators.Simulator | None) -> MeasuredRecord:
    """A measured run beside both predictions for as many ranks with as many samples."""
    question = prediction.question
    pattern = prediction.patterns.get(False) or next(iter(prediction.patterns.values()))
    times = _times_of(prediction.record.times, run.batch)
    point = predicted(pattern, run.ranks, times, prediction.rules, seed=question.seed)
    replayed = None
    if simulator is not None:
        program = Program(pattern, run.ranks, times, prediction.rules, _REPLAYED_STEPS[1] * pattern.period, question.seed)
        done = simulators.replay(simulator, program, NETWORKS[question.network](run.ranks), question.link)
        replayed = None if isinstance(done, str) else done.expected(point.computing)
    own_prediction = predicted(pattern, run.ranks, of_record(run.run, run.batch), prediction.rules, seed=question.seed)
    return compared_run(run, point, own_prediction, pattern, replayed)

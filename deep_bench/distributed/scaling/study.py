"""``scale``: trace, generalise, measure one rank, predict, replay."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Literal

from deep_bench import __version__
from deep_bench.distributed.machine.model import Link
from deep_bench.distributed.scaling import simgrid
from deep_bench.distributed.scaling.assumptions import assumptions
from deep_bench.distributed.scaling.compute import measured_times, of_record
from deep_bench.distributed.scaling.formulas import Rules, predicted
from deep_bench.distributed.scaling.learn import learned
from deep_bench.distributed.scaling.measured import Run, beside, runs_in
from deep_bench.distributed.scaling.networks import NETWORKS
from deep_bench.distributed.scaling.pattern import Pattern
from deep_bench.distributed.scaling.program import Program
from deep_bench.distributed.scaling.record import MeasuredRecord, PointRecord, ScalingRecord, TimesRecord
from deep_bench.distributed.scaling.trace import Scheme, scheme_to_trace
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.measure.environment import capture
from deep_bench.training.recipes import Recipe

_REPLAYED_STEPS = (4, 40)
"""As few, and as many where they have no more than"""
_MESSAGES = 100_000

Advance = Callable[[str], None]


@dataclass(frozen=True)
class Question:
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

    question: Question
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


def scale(question: Question, advance: Advance = lambda _: None) -> Prediction:
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
        deep_bench=__version__, command=sys.argv, environment=capture(), recipe=dict(question.recipe.fields.model_dump()),
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


def _possible(question: Question) -> tuple[list[int], list[str]]:
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


def _patterns(question: Question, scheme: Scheme, ranks: Sequence[int], advance: Advance) -> dict[bool, Pattern]:
    patterns = {}
    for uneven in sorted({question.uneven(count) for count in ranks}):
        words = ", with different numbers of samples" if uneven else ""
        patterns[uneven] = learned(
            question.recipe, question.on, scheme, uneven=uneven, steps=question.steps,
            advance=lambda count, words=words: advance(f"traced {count} ranks{words}"),  # type: ignore[misc]
        )  # fmt: skip
    return patterns


def _times(
    question: Question, scheme: Scheme, ranks: Sequence[int], runs: Sequence[Run], notes: list[str], advance: Advance
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


def _replayed(prediction: Prediction, advance: Advance) -> simgrid.Simulator | None:
    """Let the simulator replay what it can; returns it if it is there."""
    question, record = prediction.question, prediction.record
    if question.replay_up_to < 2:
        record.simulator = "no simulator was asked for: closed formulas only"
        return None
    advance("looking for SimGrid")
    simulator = simgrid.found()
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
        except simgrid.SimulatorFailed as error:
            reason = str(error).replace("\n", "; ")
        if reason:
            record.notes.append(f"{point.ranks} ranks and more were not replayed: {reason}")
            break
        words = NETWORKS[question.network](point.ranks).words
        record.simulator = f"SimGrid {simulator.version}, up to {point.ranks} ranks on {words}"
    return simulator


def _replay(prediction: Prediction, simulator: simgrid.Simulator, point: PointRecord) -> str:
    question = prediction.question
    period = prediction.patterns[point.uneven].period
    few, many = _REPLAYED_STEPS
    in_a_step = max(simgrid.messages(prediction.program(point.ranks, period)), 1)
    program = prediction.program(point.ranks, period * min(max(_MESSAGES // in_a_step, few), many))
    network = NETWORKS[question.network](point.ranks)
    done = simgrid.replay(simulator, program, network, question.link)
    if isinstance(done, str):
        return done
    point.replayed, point.replayed_messages = done.expected(point.computing), done.messages
    return ""


def _compared(prediction: Prediction, run: Run, simulator: simgrid.Simulator | None) -> MeasuredRecord:
    """A measured run beside both predictions for as many ranks with as many samples."""
    question = prediction.question
    pattern = prediction.patterns.get(False) or next(iter(prediction.patterns.values()))
    times = _times_of(prediction.record.times, run.batch)
    point = predicted(pattern, run.ranks, times, prediction.rules, seed=question.seed)
    replayed = None
    if simulator is not None:
        program = Program(pattern, run.ranks, times, prediction.rules, _REPLAYED_STEPS[1] * pattern.period, question.seed)
        done = simgrid.replay(simulator, program, NETWORKS[question.network](run.ranks), question.link)
        replayed = None if isinstance(done, str) else done.expected(point.computing)
    own_prediction = predicted(pattern, run.ranks, of_record(run.run, run.batch), prediction.rules, seed=question.seed)
    return beside(run, point, own_prediction, pattern, replayed)

"""The record of a prediction, and what follows from it: speed-up, efficiency, and where it stops scaling."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue

from deep_bench.distributed.machine import Segment
from deep_bench.measure.environment import Environment
from deep_bench.records.fields import Count, Date, NotNegative, Positive, RecordModel, listed
from deep_bench.records.store import read_model, replace
from deep_bench.training.record import floats


def _times(value: Any) -> NDArray[np.float64]:
    """A row of times in seconds."""
    times = floats(value)
    wrong = np.flatnonzero(~(np.isfinite(times) & (times >= 0)))
    if len(wrong):
        raise ValueError(f"number {wrong[0]} is {times[wrong[0]]:g}: a time of at least 0 seconds expected")
    return times


Times = Annotated[NDArray[np.float64], *listed(_times, {"type": "number", "minimum": 0})]
AtLeastOne = Annotated[int, Field(ge=1)]


class TimesRecord(RecordModel):
    """How long one rank computes in steps with so many samples, in seconds; one sample for each step.

    Attributes:
        batch: Samples of a rank in a step.
        source: Where the times come from.
        before: Loading what the step needs.
        gradients: From the agreement on the step to its gradients.
        update: From there to its end, without messages.
        ready: When each bucket of gradients is complete, as a share of the time of gradients; where messages overlap.
    """

    batch: AtLeastOne
    source: str
    before: Times = Field(default_factory=lambda: np.zeros(0))
    gradients: Times = Field(default_factory=lambda: np.zeros(0))
    update: Times = Field(default_factory=lambda: np.zeros(0))
    ready: list[NotNegative] = Field(default_factory=list)

    @property
    def alone(self) -> float:
        """The mean step of a rank that is alone, in seconds."""
        return float(np.mean(self.before + self.gradients + self.update))


class CostRecord(RecordModel):
    """One call in the formulas.

    Attributes:
        what: The call, in words.
        algorithm: The algorithm that is taken.
        seconds: How long it takes.
        hidden: How much of it passes while gradients are computed.
    """

    what: str
    algorithm: str
    seconds: NotNegative
    hidden: NotNegative = 0.0


class RanksPointRecord(RecordModel):
    """What is predicted for one number of ranks; all times in seconds, of one step.

    Attributes:
        ranks: How many.
        batch: Samples of a rank in a step, of the one that has the most.
        mean: The mean step.
        low, high: 95 % interval of the mean, by drawing the measured samples again.
        least, most: 90 % of all steps lie between.
        computing: Of the mean, the slowest rank's computing.
        communicating: Of the mean, messages that nothing hides.
        costs: Each call.
        sent_least, sent_most: Bytes that a rank sends in a step.
        uneven: Whether ranks have different numbers of samples.
        beyond: Whether there are more ranks than measured samples.
        replayed: The mean step of the simulator; ``None`` where it was not asked.
        replayed_messages: How many messages it replayed.
    """

    ranks: AtLeastOne
    batch: AtLeastOne
    mean: Positive
    low: Positive
    high: Positive
    least: Positive
    most: Positive
    computing: NotNegative
    communicating: NotNegative
    costs: list[CostRecord] = Field(default_factory=list)
    sent_least: NotNegative
    sent_most: NotNegative
    uneven: bool = False
    beyond: bool = False
    replayed: Positive | None = None
    replayed_messages: Count = 0


class MeasuredRecord(RecordModel):
    """A measured run beside what is predicted for as many ranks; times in seconds, of one step.

    Attributes:
        file: The record.
        ranks: How many.
        batch: Samples of a rank in a step.
        hosts: On how many hosts.
        steps: Each step, of the rank that took longest.
        mean, median: Of these.
        least, most: 90 % of them lie between.
        computing: Of the mean step, what the slowest rank computed itself: all but messages and waiting.
        predicted: The mean step by the formulas.
        predicted_computing: Of it, the slowest rank's computing.
        predicted_own: The mean step by the formulas, from the run's own computing: what is left is messages and waiting.
        replayed: By the simulator.
        calls: Operation to calls in a step of rank 0: measured, and of the pattern.
        payload: The same for the bytes that it handed over.
    """

    file: str
    ranks: AtLeastOne
    batch: AtLeastOne
    hosts: AtLeastOne
    steps: Times
    mean: Positive
    median: Positive
    least: Positive
    most: Positive
    computing: NotNegative
    predicted: Positive
    predicted_computing: NotNegative
    predicted_own: Positive
    replayed: Positive | None = None
    calls: dict[str, tuple[NotNegative, NotNegative]] = Field(default_factory=dict)
    payload: dict[str, tuple[NotNegative, NotNegative]] = Field(default_factory=dict)


class ScalingRecord(RecordModel):
    """A prediction.

    Attributes:
        recipe: What is trained, as it was written.
        scheme: What keeps ranks together.
        framework: What computes.
        scaling: Whether the batch is that of all ranks together, or of each.
        whole_batch: The recipe's.
        machine: What messages cost, in words.
        segments: The parameters.
        network: The network of the simulator; ``None``: no simulator.
        simulator: What replayed the pattern, or why nothing did.
        pattern: In words.
        fitted, checked: Numbers of ranks whose traces the pattern was made from, and compared with.
        times: How long ranks compute.
        alone: The mean step of one rank, measured, in seconds.
        points: What is predicted.
        measured: What was measured.
        assumptions: All that is taken for granted.
        notes: What else a reader should know.
    """

    schema_version: Literal[1] = 1
    kind: Literal["scaling"] = "scaling"
    created: Date = Field(default_factory=lambda: datetime.now(UTC))
    deep_bench: str
    command: list[str] = Field(default_factory=list)
    environment: Environment
    recipe: dict[str, JsonValue] = Field(default_factory=dict)
    title: str = ""
    scheme: str
    framework: str
    scaling: Literal["strong", "weak"]
    whole_batch: AtLeastOne
    machine: str
    segments: list[Segment] = Field(default_factory=list)
    network: str | None = None
    simulator: str = ""
    pattern: list[str] = Field(default_factory=list)
    fitted: list[AtLeastOne] = Field(default_factory=list)
    checked: list[AtLeastOne] = Field(default_factory=list)
    times: list[TimesRecord] = Field(default_factory=list)
    alone: Positive
    points: list[RanksPointRecord] = Field(default_factory=list)
    measured: list[MeasuredRecord] = Field(default_factory=list)
    assumptions: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)

    def save(self, folder: Path) -> Path:
        """Write it into a folder, under a name of its own; returns the file."""
        stem = f"scaling-{self.created:%Y%m%dT%H%M%S}"
        names = (f"{stem}{'' if number == 0 else f'-{number}'}.json" for number in range(10_000))
        path = next(folder / name for name in names if not (folder / name).exists())
        text = self.model_dump_json(indent=1) + "\n"
        replace(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
        return path


def load_scaling(path: str | Path) -> ScalingRecord:
    """Read what `ScalingRecord.save` wrote.

    Raises:
        InvalidRecord: It cannot be read, or is no such file; the message names the field.
    """
    return read_model(Path(path), ScalingRecord, "a prediction that `deep-bench scale` wrote, of schema version 1")


HALF = 0.5


def speed_up(record: ScalingRecord, point: RanksPointRecord) -> float:
    r"""How many times as many samples a second as one rank alone: :math:`T_1 / T_p`, times :math:`p` in weak scaling."""
    times = point.ranks if record.scaling == "weak" else 1
    return times * record.alone / point.mean


def efficiency(record: ScalingRecord, point: RanksPointRecord) -> float:
    """The speed-up over the number of ranks."""
    return speed_up(record, point) / point.ranks


def fastest(record: ScalingRecord) -> RanksPointRecord:
    """Of the points, the one with the most samples a second."""
    return max(record.points, key=lambda point: speed_up(record, point))


def where_it_stops(record: ScalingRecord) -> list[str]:
    """In sentences: beyond how many ranks nothing is gained, and where less than half of it is."""
    points: Sequence[RanksPointRecord] = record.points
    best, half = fastest(record), next((p for p in points if efficiency(record, p) < HALF), None)
    first, last = points[0].ranks, points[-1].ranks
    if speed_up(record, best) <= 1:
        sentences = ["predicted: one rank alone trains as many samples a second as any of these numbers of ranks, or more"]
    elif best is points[-1]:
        sentences = [f"predicted: up to {last} ranks, the most that were asked for, more ranks train more samples a second"]
    else:
        sentences = [f"predicted: it stops scaling at {best.ranks} ranks; more train no more samples a second"]
    if half is None:
        sentences.append(f"predicted: the efficiency is at least 50 % from {first} to {last} ranks")
    else:
        sentences.append(f"predicted: the efficiency falls below 50 % at {half.ranks} ranks")
    return sentences


def relative_deviation(record: ScalingRecord) -> list[float]:
    """How many times as long messages that nothing hides take by the simulator as by the formulas, where both are there."""
    return [
        max(point.replayed - point.computing, 0.0) / point.communicating
        for point in record.points
        if point.replayed is not None and point.communicating > 0
    ]

"""The record of a prediction: everything that its tables and pictures are computed from."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, JsonValue, PlainSerializer, WithJsonSchema

from deep_bench.distributed.machine.model import Segment
from deep_bench.measure.amounts import Count, Date, NotNegative, Positive
from deep_bench.measure.environment import Environment
from deep_bench.measure.record import Model
from deep_bench.measure.storage import read_model, replace
from deep_bench.training.record import floats


def _times(value: Any) -> NDArray[np.float64]:
    """A row of times in seconds."""
    times = floats(value)
    wrong = np.flatnonzero(~(np.isfinite(times) & (times >= 0)))
    if len(wrong):
        raise ValueError(f"number {wrong[0]} is {times[wrong[0]]:g}: a time of at least 0 seconds expected")
    return times


Times = Annotated[
    NDArray[np.float64],
    BeforeValidator(_times),
    PlainSerializer(np.ndarray.tolist, return_type=list),
    WithJsonSchema({"type": "array", "items": {"type": "number", "minimum": 0}}),
]
AtLeastOne = Annotated[int, Field(ge=1)]


class TimesRecord(Model):
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


class CostRecord(Model):
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


class PointRecord(Model):
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


class MeasuredRecord(Model):
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


class ScalingRecord(Model):
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
    points: list[PointRecord] = Field(default_factory=list)
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

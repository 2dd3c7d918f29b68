"""The record of training runs: what is kept of them, as pydantic models. All that is printed can be computed from it."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, JsonValue, PlainSerializer, WithJsonSchema

from deep_bench.measure.amounts import Count, Date, Nanoseconds, NotNegative, Share, Time
from deep_bench.measure.environment import Environment
from deep_bench.measure.metric import MetricRecord
from deep_bench.measure.record import ArrayFile, ErrorRecord, Model, NetworkFacts, Recipe
from deep_bench.training.history import Evaluated, History
from deep_bench.training.scores import Direction

SCHEMA_VERSION = 1


def floats(value: Any) -> NDArray[np.float64]:
    """A row of numbers; NaN and infinity may be among them.

    Raises:
        ValueError: It is none.
    """
    row = np.asarray(value, np.float64)  # NaN and infinity are words in JSON, which NumPy reads
    if row.ndim != 1:
        raise ValueError("a list of numbers expected")
    return row


def _listed(values: NDArray[np.float64]) -> list[float | str]:
    words = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    return [value if np.isfinite(value) else words[str(value)] for value in values.tolist()]


Floats = Annotated[
    NDArray[np.float64],
    BeforeValidator(floats),
    PlainSerializer(_listed, return_type=list),
    WithJsonSchema({"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "string"}]}}),
]


class ScoreFacts(Model):
    """What a score is."""

    unit: str = ""
    direction: Direction


class EvaluationRecord(Model):
    """See `deep_bench.training.history.Evaluated`."""

    step: Count
    epoch: Count
    samples: Count
    time_ns: Time
    cost_ns: Time
    figures: dict[str, float]


class TargetRecord(Model):
    """The score that a run was to reach, and the value."""

    score: str
    value: float = Field(allow_inf_nan=False)
    direction: Direction = "higher"


class DeterminismRecord(Model):
    """What was seeded, and what may differ when the same run is made again.

    Attributes:
        seeds: What was seeded, to its seed.
        same_again: Whether the same command on the same machine gives the same bits.
        remarks: What is not deterministic, or only under conditions, and why.
    """

    seeds: dict[str, int] = Field(default_factory=dict)
    same_again: Literal["bitwise", "not promised"] = "not promised"
    remarks: list[str] = Field(default_factory=list)


class MessagesRecord(Model):
    """The messages of one kind that a rank sent or took part in.

    Attributes:
        operation: What was called.
        calls: How often.
        payload_bytes: What was handed over.
        moved_bytes: What the usual algorithm has a rank send for them.
        spent_ns: The time in these calls, waiting included.
    """

    operation: str
    calls: Count
    payload_bytes: Count
    moved_bytes: NotNegative
    spent_ns: Time


class RankRecord(Model):
    """One rank of a run.

    Attributes:
        rank: Its number.
        local: Where it ran: host, process, device, processors.
        samples: Its own in each step.
        agreeing: Nanoseconds of each step in which ranks agreed that there is one, before it.
        computing: From then to the end of its gradients.
        updating: From there to its end.
        communicating: In calls of the communicator that began after the agreement.
        exposed: The part of these after the gradients: with nothing computed meanwhile.
        stamps: As `RunRecord.stamps`, on this rank's own clock.
        messages: By operation.
    """

    rank: Count
    local: dict[str, JsonValue] = Field(default_factory=dict)
    samples: Nanoseconds = Field(default_factory=lambda: np.zeros(0, np.int64))
    agreeing: Nanoseconds = Field(default_factory=lambda: np.zeros(0, np.int64))
    computing: Nanoseconds = Field(default_factory=lambda: np.zeros(0, np.int64))
    updating: Nanoseconds = Field(default_factory=lambda: np.zeros(0, np.int64))
    communicating: Nanoseconds = Field(default_factory=lambda: np.zeros(0, np.int64))
    exposed: Nanoseconds = Field(default_factory=lambda: np.zeros(0, np.int64))
    stamps: Nanoseconds = Field(default_factory=lambda: np.zeros(0, np.int64))
    messages: list[MessagesRecord] = Field(default_factory=list)


RANK_COLUMNS = ("samples", "agreeing", "computing", "updating", "communicating", "exposed", "stamps")
"""The arrays of a `RankRecord`."""


class RanksRecord(Model):
    """The ranks of a run that several processes made together.

    Attributes:
        scheme: How they did, as it was made.
        promise: What it says of the parameters of different ranks.
        communicator: The facts that it tells.
        job: What started them.
        remarks: What is not as in a run of one process.
        ranks: In their order; steps before a run was resumed with another number of ranks are missing.
    """

    scheme: str
    promise: str
    communicator: dict[str, str] = Field(default_factory=dict)
    job: dict[str, JsonValue] = Field(default_factory=dict)
    remarks: list[str] = Field(default_factory=list)
    ranks: list[RankRecord] = Field(default_factory=list)


class RunRecord(Model):
    """One training run.

    Attributes:
        label: What it ran on.
        seed: Its own.
        framework: The facts that the framework tells.
        network: What was trained, where the trainer knows it.
        data: Which data it was trained (``"train"``) and evaluated (``"held out"``) on, and in which order (``"sampler"``).
        optimizer: As it was made.
        loss: Name of the loss.
        scores: What was evaluated,
        every: after so many samples; ``None`` where it was not by samples.
        setup_ns: Everything before the first touch of the data: making data sets, network and trainer.
        process: Whether it had a process of its own.
        stopped_because: Why it ended; empty if an error ended it.
        lost_from: The first step, counted from 0, from which on no loss is finite any more; ``None`` where the last is.
        losses: Of each step.
        untold: Steps whose loss is not known, since the rank that took them was lost.
        sizes: The number of samples in each step.
        stamps: See `deep_bench.training.history.History`.
        metrics: What callbacks measured.
        ranks: The ranks that made it together; ``None`` of a single process.
    """

    label: str = ""
    seed: int = 0
    framework: dict[str, JsonValue] = Field(default_factory=dict)
    network: NetworkFacts | None = None
    data: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)
    optimizer: str = ""
    loss: str = "loss"
    scores: dict[str, ScoreFacts] = Field(default_factory=dict)
    every: Count | None = None
    determinism: DeterminismRecord = Field(default_factory=DeterminismRecord)
    setup_ns: Time = 0
    process: bool = False
    stopped_because: str = ""
    lost_from: Count | None = None
    steps: Count = 0
    evaluations: list[EvaluationRecord] = Field(default_factory=list)
    losses: Floats = Field(default_factory=lambda: np.zeros(0))
    untold: list[Count] = Field(default_factory=list)
    sizes: Nanoseconds = Field(default_factory=lambda: np.zeros(0, np.int64))
    stamps: Nanoseconds = Field(default_factory=lambda: np.zeros(0, np.int64))
    metrics: list[MetricRecord] = Field(default_factory=list)
    error: ErrorRecord | None = None
    ranks: RanksRecord | None = None

    def history(self) -> History:
        """The run, as its figures are computed from it."""
        return History(
            losses=array("d", self.losses.tolist()),
            sizes=array("q", self.sizes.tolist()),
            stamps=array("q", self.stamps.tolist()),
            evaluations=[Evaluated(**e.model_dump()) for e in self.evaluations],
            setup_ns=self.setup_ns,
            stopped_because=self.stopped_because,
            untold=list(self.untold),
        )

    def keep(self, history: History) -> None:
        """Take over what a history has."""
        self.steps, self.untold = history.steps, list(history.untold)
        self.losses, self.sizes = np.array(history.losses), np.array(history.sizes)
        self.stamps = np.array(history.stamps)
        self.evaluations = [EvaluationRecord(**{**vars(e), "figures": dict(e.figures)}) for e in history.evaluations]
        self.stopped_because, self.lost_from = history.stopped_because, history.lost_from


class TrainingRecord(Model):
    """One or several training runs of one recipe. Times count from the first touch of the data.

    Attributes:
        arrays: The HDF5 file beside the record that holds the arrays of its runs, if they are long.
    """

    schema_version: Literal[1] = 1
    kind: Literal["training"] = "training"
    created: Date = Field(default_factory=lambda: datetime.now(UTC))
    deep_bench: str
    command: list[str] = Field(default_factory=list)
    recipe: Recipe = Recipe()
    environment: Environment
    steal: Share | None = None
    load_after: NotNegative | None = None
    target: TargetRecord | None = None
    runs: list[RunRecord] = Field(default_factory=list)
    interrupted: bool = False
    complete: bool = False
    notes: list[str] = Field(default_factory=list)
    arrays: ArrayFile | None = None

    def labels(self) -> Sequence[str]:
        """What it ran on, each once."""
        return list(dict.fromkeys(run.label for run in self.runs))

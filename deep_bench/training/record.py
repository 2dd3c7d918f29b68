"""The record of training runs, as pydantic models, and its files: written whole or not at all, checked when they are read.

All that is printed can be computed from it.
"""

from __future__ import annotations

import re
import secrets
from array import array
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue

from deep_bench.arrays import grown, leaves
from deep_bench.errors import InvalidRecord
from deep_bench.measure.environment import Environment
from deep_bench.measure.metrics import MetricRecord
from deep_bench.records.fields import Count, Date, Nanoseconds, NotNegative, RecordModel, Share, Time, listed, nanoseconds
from deep_bench.records.folders import output_folder
from deep_bench.records.model import ArrayFile, ErrorRecord, NetworkFacts, OptionsRecord
from deep_bench.records.store import INLINE_SAMPLES, arrays_beside, digest, file_beside, read_model, written
from deep_bench.training.checkpoint import read_checkpoint, write_checkpoint
from deep_bench.training.dataset import facts
from deep_bench.training.run_state import PHASES, EvaluationResult, History
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


def _words_or_numbers(values: NDArray[np.float64]) -> list[float | str]:
    words = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    return [value if np.isfinite(value) else words[str(value)] for value in values.tolist()]


Floats = Annotated[
    NDArray[np.float64], *listed(floats, {"anyOf": [{"type": "number"}, {"type": "string"}]}, _words_or_numbers)
]


class ScoreFacts(RecordModel):
    """What a score is."""

    unit: str = ""
    direction: Direction


class EvaluationRecord(RecordModel):
    """See `deep_bench.training.run_state.EvaluationResult`."""

    step: Count
    epoch: Count
    samples: Count
    time_ns: Time
    cost_ns: Time
    figures: dict[str, float]


class TargetRecord(RecordModel):
    """The score that a run was to reach, and the value."""

    score: str
    value: float = Field(allow_inf_nan=False)
    direction: Direction = "higher"


class DeterminismRecord(RecordModel):
    """What was seeded, and what may differ when the same run is made again.

    Attributes:
        seeds: What was seeded, to its seed.
        same_again: Whether the same command on the same machine gives the same bits.
        remarks: What is not deterministic, or only under conditions, and why.
    """

    seeds: dict[str, int] = Field(default_factory=dict)
    same_again: Literal["bitwise", "not promised"] = "not promised"
    remarks: list[str] = Field(default_factory=list)


class MessagesRecord(RecordModel):
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


class RankRecord(RecordModel):
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


class RanksRecord(RecordModel):
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


class RunRecord(RecordModel):
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
        stamps: See `deep_bench.training.run_state.History`.
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
            evaluations=[EvaluationResult(**e.model_dump()) for e in self.evaluations],
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


class TrainingRecord(RecordModel):
    """One or several training runs of one recipe. Times count from the first touch of the data.

    Attributes:
        arrays: The HDF5 file beside the record that holds the arrays of its runs, if they are long.
    """

    schema_version: Literal[1] = 1
    kind: Literal["training"] = "training"
    created: Date = Field(default_factory=lambda: datetime.now(UTC))
    deep_bench: str
    command: list[str] = Field(default_factory=list)
    recipe: OptionsRecord = OptionsRecord()
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


def data_facts(trainer: Any) -> dict[str, dict[str, JsonValue]]:
    """Which data a trainer has, as far as they tell; their contents are not read.

    Args:
        trainer: The `Trainer`.
    """
    by_part: dict[str, dict[str, JsonValue]] = {}
    if (dataset := getattr(trainer.loader, "dataset", None)) is not None:
        by_part["train"] = facts(dataset, contents=False)
    if trainer.evaluation is not None:
        by_part["held out"] = facts(trainer.evaluation.dataset, contents=False)
    sampler: Any = getattr(trainer.loader, "sampler", None)
    if hasattr(sampler, "facts"):
        by_part["sampler"] = sampler.facts()
    return by_part


_COLUMNS = ("losses", "sizes", "stamps")


def new_training_file(folder: str | Path, record: TrainingRecord) -> Path:
    """A path for a record in a folder, which is made if it is not there; named for its time and label.

    Raises:
        InvalidArgument: The folder cannot be made or written.
    """
    name = re.sub(r"[^\w.-]+", "_", f"training_{record.recipe.options.get('label') or ''}".rstrip("_"))[:60]
    file_name = f"{record.created.astimezone(UTC):%Y-%m-%dT%H-%M-%S}_{name}_{secrets.token_hex(4)}.json"
    return output_folder(folder) / file_name


def write_training(record: TrainingRecord, path: Path) -> Path:
    """Write a record, the arrays of its runs to an HDF5 file beside it where they are long.

    What ``path`` held before is replaced when all is written.

    Raises:
        InvalidArgument: The folder cannot be written.
    """
    before = arrays_beside(path)
    arrays: ArrayFile | None = None
    outside: dict[str, Any] = {}
    if sum(array.size for run in record.runs for array in _arrays(run).values()) > INLINE_SAMPLES:
        tree = {str(i): grown(_arrays(run)) for i, run in enumerate(record.runs)}
        file = write_checkpoint(path.with_name(f"{path.stem}_{secrets.token_hex(4)}.h5"), tree)
        arrays = ArrayFile(name=file.name, sha256=digest(file))
        outside = {**dict.fromkeys(_COLUMNS, True), "ranks": {"ranks": {"__all__": set(RANK_COLUMNS)}}}
    whole = record.model_copy(update={"arrays": arrays})
    text = whole.model_dump_json(exclude={"runs": {"__all__": outside}}) + "\n"
    written(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    if before is not None:
        before.unlink(missing_ok=True)
    return path


def load_training(path: str | Path) -> TrainingRecord:
    """Read a record, with the arrays from the HDF5 file beside it.

    Raises:
        InvalidRecord: No record of training, of another schema version, truncated, or too large; or the file beside it is
            missing or was altered.
    """
    path = Path(path)
    record = read_model(path, TrainingRecord, "a training record's JSON file")
    if record.arrays is not None:
        _fill(record, path, record.arrays)
        record.arrays = None
    for number, run in enumerate(record.runs):
        lengths = (len(run.losses), len(run.sizes), len(run.stamps))
        if lengths != (run.steps, run.steps, run.steps * (len(PHASES) + 1)):
            raise InvalidRecord(f"{path}: run {number} of {run.steps} steps has arrays of {lengths}")
        back = np.flatnonzero(np.diff(run.stamps) < 0)
        if len(back):
            raise InvalidRecord(
                f"{path}: runs.{number}.stamps: number {back[0] + 1} is {run.stamps[back[0] + 1]}",
                f"no earlier moment than the one before, {run.stamps[back[0]]}",
            )
    return record


def _fill(record: TrainingRecord, path: Path, arrays: ArrayFile) -> None:
    file = file_beside(path, arrays, "the file")
    tree = read_checkpoint(file)
    for number, run in enumerate(record.runs):
        columns = leaves(tree.get(str(number), {}))
        for at in _arrays(run):
            if at not in columns:
                raise InvalidRecord(f"{file} has no {'/'.join(at)} of run {number}")
            owner: Any = run if len(at) == 1 or run.ranks is None else run.ranks.ranks[int(at[1])]
            try:
                values = floats(columns[at]) if at == ("losses",) else nanoseconds(columns[at])
            except ValueError as error:
                raise InvalidRecord(f"{file}: {'/'.join(at)} of run {number}: {error}", "what a run noted") from error
            setattr(owner, at[-1], values)


def _arrays(run: RunRecord) -> dict[tuple[str, ...], np.ndarray]:
    """The arrays of a run by where they are in the file: its own, and those of its ranks."""
    ranks = [] if run.ranks is None else run.ranks.ranks
    arrays: dict[tuple[str, ...], np.ndarray] = {(name,): getattr(run, name) for name in _COLUMNS}
    return arrays | {("ranks", str(i), name): getattr(rank, name) for i, rank in enumerate(ranks) for name in RANK_COLUMNS}

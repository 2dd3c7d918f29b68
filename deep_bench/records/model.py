"""The record of one run: what is kept, as pydantic models with a published JSON schema.

``python -m deep_bench.records.model`` prints the schema.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue, model_validator

from deep_bench.measure.environment import Environment
from deep_bench.measure.session import Series
from deep_bench.measure.timing import Block
from deep_bench.records.fields import Bits, Count, Date, Flags, Nanoseconds, NotNegative, RecordModel, Share, Time
from deep_bench.tensor import TensorSpec

if TYPE_CHECKING:
    from deep_bench.graph import Network

SCHEMA_VERSION = 1

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


LEAST_RIGHT_BITS = -32.0
"""A result that rounding explains only as magnified 2^32 times and more holds no information: it is never *right*."""


def _not_below_zero(value: float) -> float:
    """An error's norm; it may be infinite or no number where a result is."""
    if value < 0:
        raise ValueError(f"an error of {value:g}: at least 0 expected")
    return value


ErrorNorm = Annotated[float, AfterValidator(_not_below_zero)]


class Tensor(RecordModel):
    """A network's input or output; a string in ``shape`` names a dynamic dimension."""

    name: str
    shape: list[Count | str]
    dtype: str

    @classmethod
    def of(cls, spec: TensorSpec) -> Tensor:
        """A tensor's description, as it is recorded."""
        return cls(name=spec.name, shape=list(spec.shape), dtype="string" if spec.dtype == object else spec.dtype.name)


class NetworkFacts(RecordModel):
    """What was run. ``opset`` maps a domain to its version, ``sizes`` a dynamic dimension to the size it was given."""

    name: str
    sha256: Sha256
    opset: dict[str, Count] = {}
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    sizes: dict[str, Count] = {}
    nodes: Count | None = None
    parameters: Count | None = None

    @classmethod
    def of(cls, network: Network, source: Network | None = None, sizes: dict[str, int] | None = None) -> NetworkFacts:
        """A network's description, as it is recorded.

        Args:
            network: What was run.
            source: What it was made from, which has the name; by default itself.
            sizes: Those of its dynamic dimensions.
        """
        source = source or network
        return cls(
            name=source.name,
            sha256=source.sha256,
            opset=dict(network.opsets),
            inputs=[Tensor.of(spec) for spec in network.inputs],
            outputs=[Tensor.of(spec) for spec in network.outputs],
            sizes=sizes or {},
            nodes=sum(1 for _ in network.all_nodes()),
            parameters=sum(array.size for array in network.parameters.values()),
        )


class DataFacts(RecordModel):
    """What it was run on: each input's digest, and where it comes from (a file, or a generator and its seed)."""

    source: str
    seed: int | None = None
    sha256: dict[str, Sha256] = {}


class BlockRecord(RecordModel):
    """Samples taken in one go (see `deep_bench.measure.timing.Block`); ``n`` of them, wherever they lie."""

    start_ns: Time
    batch: int = Field(ge=1)
    n: Count
    resume_ns: Time | None = None
    ns: Nanoseconds
    preempted: Flags
    cpu_ns: Nanoseconds | None = None


class WarmUpRecord(RecordModel):
    """See `deep_bench.measure.timing.WarmUp`."""

    steady: bool | None
    first_call_ns: Time
    cost_ns: Time
    calls: Count
    medians_ns: list[NotNegative]
    batch: int = Field(ge=1)
    reason: str


class SampleSet(RecordModel):
    """All samples of one quantity in one launch of a system; ``dataset`` is the group in the HDF5 file that holds them."""

    quantity: str
    unit: Literal["ns"] = "ns"
    launch: Count = 0
    warm_up: WarmUpRecord | None = None
    blocks: list[BlockRecord] = []
    stopped_because: str | None = None
    dataset: str | None = None

    @classmethod
    def of(cls, series: Series) -> SampleSet:
        """What a session measured, as it is recorded."""
        warm_up = WarmUpRecord.model_validate(vars(series.warm_up)) if series.warm_up else None
        blocks = [BlockRecord(n=len(block.ns), **vars(block)) for block in series.blocks]
        reason = series.stopped_because
        return cls(quantity=series.quantity, launch=series.launch, warm_up=warm_up, blocks=blocks, stopped_because=reason)

    def times(self) -> list[Block]:
        """The blocks as `deep_bench.measure.statistics` takes them."""
        return [Block(b.start_ns, b.batch, b.ns, b.preempted, b.resume_ns, b.cpu_ns) for b in self.blocks]


class Forms(RecordModel):
    """How each node of the network was run; ``fallback`` maps a name to its reason."""

    native: list[str] = []
    decomposed: list[str] = []
    fallback: dict[str, str] = {}


class FaultRecord(RecordModel):
    """A known fault of the framework that some nodes of the network may meet."""

    name: str
    severity: str
    reason: str
    nodes: list[str] = []


_NORMS = ("max_abs_error", "max_rel_error", "max_ulp", "l1_error", "l2_rel_error", "mismatches")
_OF_OUTPUTS = {**dict.fromkeys(_NORMS, 0.0), "bits": -2_200.0}
"""The least that facts of an output can be, where they are known."""


class VerdictRecord(RecordModel):
    """Whether the result was right, why, how precise it was, and how hard it was looked at (``effort``)."""

    verdict: str
    reason: str
    significant_bits: Bits | None = None
    end_to_end_bits: Bits | None = None
    max_abs_error: ErrorNorm | None = None
    max_rel_error: ErrorNorm | None = None
    max_ulp: ErrorNorm | None = None
    outputs: dict[str, dict[str, JsonValue]] = {}
    worst_nodes: list[dict[str, JsonValue]] = []
    replayed: Count | None = None
    refused: Count | None = None
    repeatability: dict[str, JsonValue] = {}
    effort: str = ""
    seconds: NotNegative | None = None
    findings: list[str] = []

    @model_validator(mode="after")
    def _check_bits(self) -> VerdictRecord:
        bits = self.significant_bits
        if self.verdict == "right" and bits is not None and bits < LEAST_RIGHT_BITS:
            raise ValueError(f"right with {bits:g} significant bits: at least {LEAST_RIGHT_BITS:g} expected")
        for name, output in self.outputs.items():
            for fact, least in _OF_OUTPUTS.items():
                value = output.get(fact)
                if isinstance(value, int | float) and not least <= value <= sys.float_info.max:
                    raise ValueError(f"outputs.{name}.{fact}: {value:g}: a number of at least {least:g} expected")
        return self


class ErrorRecord(RecordModel):
    """Why a system failed: the class of the error, its message, and a traceback or the end of its log."""

    kind: str
    message: str
    details: str = ""

    @classmethod
    def of(cls, error: Exception) -> ErrorRecord:
        """An error as it is recorded."""
        details = getattr(error, "details", "") or "\n".join(getattr(error, "__notes__", []))
        return cls(kind=type(error).__name__, message=str(error), details=details)


class CaseFacts(RecordModel):
    """One problem for kernels: what it asks for, how often it occurs, and what it must compute and move at least."""

    label: str
    operator: str
    attributes: dict[str, JsonValue] = {}
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    dtype: str = ""
    tags: list[str] = []
    count: int = Field(default=1, ge=1)
    source: str = ""
    flops: Count | None = None
    special: Count | None = None
    comparisons: Count | None = None
    read_bytes: Count | None = None
    written_bytes: Count | None = None


class SuiteFacts(RecordModel):
    """The problems of a study, and where they are from."""

    name: str
    source: str = ""
    licence: str = ""
    notes: list[str] = []
    cases: list[CaseFacts] = []


class TrialRecord(RecordModel):
    """One system on one problem of a suite; ``unavailable`` maps what was not timed to why."""

    case: str
    forms: Forms | None = None
    known_faults: list[FaultRecord] = []
    setup_ns: Time | None = None
    first_call_ns: Time | None = None
    samples: list[SampleSet] = []
    verdict: VerdictRecord | None = None
    gradients: VerdictRecord | None = None
    metrics: list[dict[str, JsonValue]] = []
    unavailable: dict[str, str] = {}
    error: ErrorRecord | None = None

    def launches(self, quantity: str) -> list[list[Block]]:
        """The blocks of one quantity, launch by launch; launches without samples are left out."""
        return [s.times() for s in self.samples if s.quantity == quantity and s.blocks]


class SystemRecord(RecordModel):
    """One system under test: what it is, what it took, what it gave."""

    label: str
    framework: str
    options: dict[str, JsonValue] = {}
    twin_of: str | None = None
    facts: dict[str, JsonValue] = {}
    forms: Forms | None = None
    known_faults: list[FaultRecord] = []
    threaded: bool | None = None
    cpus: list[Count] | None = None
    prepare_ns: Time | None = None
    first_call_ns: Time | None = None
    peak_memory_bytes: Count | None = None
    stamp_overhead_ns: Time | None = None
    samples: list[SampleSet] = []
    trials: list[TrialRecord] = []
    verdict: VerdictRecord | None = None
    error: ErrorRecord | None = None

    def launches(self, quantity: str) -> list[list[Block]]:
        """The blocks of one quantity, launch by launch; launches without samples are left out."""
        return [s.times() for s in self.samples if s.quantity == quantity and s.blocks]


class OptionsRecord(RecordModel):
    """The options that were in force, defaults included, and all seeds."""

    options: dict[str, JsonValue] = {}
    seeds: dict[str, int] = {}


class ArrayFile(RecordModel):
    """The HDF5 file beside the record that holds its samples."""

    name: str = Field(pattern=r"^[^/\\]+$")
    sha256: Sha256


class Record(RecordModel):
    """One run. Whatever is printed about it can be computed from this."""

    schema_version: Literal[1] = 1
    created: Date = Field(default_factory=lambda: datetime.now(UTC))
    deep_bench: str
    command: list[str] = []
    recipe: OptionsRecord = OptionsRecord()
    network: NetworkFacts | None = None
    suite: SuiteFacts | None = None
    data: DataFacts | None = None
    roofline: dict[str, JsonValue] | None = None
    environment: Environment
    steal: Share | None = Field(
        default=None, description="Share of CPU time that the hypervisor gave to others during the run"
    )
    load_after: NotNegative | None = Field(default=None, description="One-minute load average at the end of the run")
    systems: list[SystemRecord] = []
    in_process: bool = False
    interrupted: bool = False
    complete: bool = Field(default=False, description="False while the run goes on, and for ever if it was killed")
    notes: list[str] = []
    arrays: ArrayFile | None = None

    @model_validator(mode="after")
    def _check_labels(self) -> Record:
        labels = [s.label for s in self.systems]
        if len(set(labels)) < len(labels):
            raise ValueError("two systems have the same label")
        first = [system.label for system in self.systems if system.twin_of is None]
        for place, system in enumerate(self.systems):
            if system.twin_of is not None and system.twin_of not in first:
                raise ValueError(f"systems.{place}.twin_of: {system.twin_of!r}: one of {', '.join(first)} expected")
        return self

    @model_validator(mode="after")
    def _check_cases(self) -> Record:
        cases = {case.label for case in self.suite.cases} if self.suite is not None else set()
        for place, system in enumerate(self.systems):
            for number, trial in enumerate(system.trials):
                begun = bool(trial.samples or trial.verdict)  # an interrupt may come before a case is noted
                if begun and trial.case not in cases:
                    where = f"systems.{place}.trials.{number}.case"
                    raise ValueError(f"{where}: {trial.case!r} is no case of this record's suite")
        return self

    def __getitem__(self, label: str) -> SystemRecord:
        """One system by its label.

        Raises:
            KeyError: There is none.
        """
        for system in self.systems:
            if system.label == label:
                return system
        raise KeyError(label)


def schema() -> str:
    """The JSON schema of a record, as published in ``docs/record.schema.json``."""
    return json.dumps(Record.model_json_schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema())

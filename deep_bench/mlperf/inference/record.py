"""The record of a run under LoadGen: all that its report is computed from, beside LoadGen's own logs.

It says what comes of a run, whatever LoadGen's summary says; what keeps a VALID one from being a submission; and whether
LoadGen's figures are those that follow from its own trace, exactly. In files it is written whole, and judged again when it
is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from math import floor
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue, model_validator

from deep_bench.errors import InvalidRecord
from deep_bench.measure.environment import Environment
from deep_bench.mlperf.inference.logs import SHARES, early_stopping
from deep_bench.mlperf.inference.settings import (
    IN_MEMORY,
    SCENARIOS,
    TARGET_SHARE,
    Mode,
    Scenario,
    ScenarioName,
    too_few_samples,
    too_short,
)
from deep_bench.records.fields import Date, Nanoseconds, RecordModel, WholeNumbers
from deep_bench.records.model import ArrayFile, ErrorRecord, Forms, NetworkFacts, OptionsRecord, Sha256, VerdictRecord
from deep_bench.records.store import INLINE_SAMPLES, digest, file_beside, fill_columns, read_columns, read_model, written

OWN_COLUMNS = ("index", "query", "issued_ns", "done_ns")
TRACED_COLUMNS = ("traced_query", "delay_ns", "latency_ns")
_SUMMARY_RESULT = re.compile(r"^Result is *: *(VALID|INVALID) *$", re.MULTILINE)


def _none() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


class LatencyRecord(RecordModel):
    """What is known of each sample, in the order of issue.

    Attributes:
        n: How many; the columns are as long, or empty.
        index: Of the library.
        query: The query that it came in.
        issued_ns, done_ns: On this process's monotonic clock: when LoadGen's query arrived, and when the answer was ready to
            be handed over. Both phases of a submission run are in here.
        traced_query, delay_ns, latency_ns: Of LoadGen's own trace, of each sample of the performance phase: its query, from
            the scheduled time to the issue, and from the scheduled time to the answer. Empty where there is no trace.
    """

    n: int = Field(default=0, ge=0)
    index: Nanoseconds = Field(default_factory=_none)
    query: Nanoseconds = Field(default_factory=_none)
    issued_ns: Nanoseconds = Field(default_factory=_none)
    done_ns: Nanoseconds = Field(default_factory=_none)
    delay_ns: WholeNumbers = Field(default_factory=_none)
    latency_ns: Nanoseconds = Field(default_factory=_none)
    traced_query: Nanoseconds = Field(default_factory=_none)


class LoadgenRecord(RecordModel):
    """What LoadGen says.

    Attributes:
        version: Of its package.
        validity: ``"VALID"``, ``"INVALID"``, or empty where it gives none.
        errors, warnings: Of its detailed log.
        values: Settings in force and results, by LoadGen's keys.
        summary: Its summary, as it printed it.
        logs: File to checksum: of LoadGen's logs, and of all that was written beside them of the answers.
    """

    version: str = ""
    validity: str = ""
    errors: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    values: dict[str, JsonValue] = Field(default_factory=dict)
    summary: str = ""
    logs: dict[str, Sha256] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_agreement(self) -> LoadgenRecord:
        validities = {self.validity, str(self.values.get("result_validity", "")), *_SUMMARY_RESULT.findall(self.summary)}
        if self.validity and len(validities) > 1:
            raise ValueError(f"LoadGen's validity is {' and '.join(sorted(validities))} at once")
        if self.values.get("num_errors") and not self.errors:
            raise ValueError(f"LoadGen counts {self.values['num_errors']} errors, and none is here")
        return self


class AccuracyRecord(RecordModel):
    """How many samples were classified rightly.

    Attributes:
        of: Which answers: of accuracy mode, as LoadGen logged them, or the last ones in performance mode.
        correct, total: Samples.
        reference: The reference executor's accuracy on the same samples, or what was stated.
        reference_from: Which of the two.
        share: Of the reference's that is asked for.
        differing: Answers that are another class than the reference's; ``None`` where it was not asked.
        unclassed: Answers that are no class at all.
        constant: The accuracy of the best answer that is the same whatever the sample; ``None`` where it is not known.
    """

    of: Literal["accuracy mode", "performance mode"]
    correct: int = Field(ge=0)
    total: int = Field(gt=0)
    reference: float = Field(ge=0, le=1)
    reference_from: Literal["measured", "stated"]
    share: float = Field(gt=0, le=1)
    differing: int | None = Field(default=None, ge=0)
    unclassed: int = Field(default=0, ge=0)
    constant: float | None = Field(default=None, ge=0, le=1)

    @model_validator(mode="after")
    def _check_counts(self) -> AccuracyRecord:
        if self.correct + self.unclassed > self.total or (self.differing or 0) > self.total:
            raise ValueError(
                f"{self.correct} right, {self.unclassed} no class and {self.differing} differing of {self.total}"
            )
        apart = abs(self.correct - self.reference * self.total)
        if self.reference_from == "measured" and self.differing is not None and apart > self.differing + 0.5:
            raise ValueError(
                f"{self.correct} right, where the reference has {self.reference * self.total:g} and differs in "
                f"{self.differing}"
            )
        return self

    @property
    def accuracy(self) -> float:
        """Of all samples that were answered."""
        return self.correct / self.total

    @property
    def target(self) -> float:
        """What is asked for."""
        return self.share * self.reference

    @property
    def met(self) -> bool:
        """Whether it is reached."""
        return self.accuracy >= self.target


class AuditRecord(RecordModel):
    """An audit, compared with the runs that it is about.

    Attributes:
        name: Such as ``"TEST01"``.
        checks: What was checked, to whether it passed and with which figures.
        passed: Whether all did.
        against: The folders of those runs.
    """

    name: Literal["TEST01", "TEST04"]
    checks: dict[str, tuple[bool, str]] = Field(default_factory=dict)
    passed: bool = False
    against: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_passed(self) -> AuditRecord:
        if self.passed != all(good for good, _ in self.checks.values()):
            raise ValueError(f"passed is {self.passed}, which its checks do not bear out")
        return self


class JudgementRecord(RecordModel):
    """What comes of it.

    Attributes:
        word: VALID: LoadGen says so, there were no errors, and the answers are right. INVALID: not all of that. FAILED: the
            run did not come to its end.
        reasons: Why it is not VALID.
    """

    word: Literal["VALID", "INVALID", "FAILED"]
    reasons: list[str] = Field(default_factory=list)


class InferenceRecord(RecordModel):
    """A run.

    Attributes:
        network: What was run.
        data: On what; see `deep_bench.training.dataset.facts`.
        framework: In which, with its options.
        system: Import path of the system under test; empty for an executor.
        facts: What the framework says of itself.
        forms: How it ran each node.
        scenario, mode: Of the run.
        settings: As they were given.
        pilot: What the pilot told LoadGen to expect; ``None`` where it was stated.
        remarks: Why this is no run that could be submitted, whatever the judgement.
        loadgen: What LoadGen says.
        latencies: Of each sample.
        accuracy: Of accuracy mode, and of the answers given in performance mode.
        outputs: Whether the network's outputs are right, on some samples.
        audit: The audit, if it was one.
        judgement: What comes of it.
        error: What ended the run, if it did not come to its end.
        complete: False while it goes on, and for ever if it was killed.
    """

    schema_version: Literal[1] = 1
    kind: Literal["mlperf"] = "mlperf"
    suite: Literal["inference"] = "inference"
    created: Date = Field(default_factory=lambda: datetime.now(UTC))
    deep_bench: str
    command: list[str] = Field(default_factory=list)
    recipe: OptionsRecord = OptionsRecord()
    environment: Environment
    network: NetworkFacts
    data: dict[str, JsonValue] = Field(default_factory=dict)
    framework: str
    system: str = ""
    facts: dict[str, JsonValue] = Field(default_factory=dict)
    forms: Forms | None = None
    scenario: ScenarioName
    mode: Mode
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    pilot: float | None = None
    remarks: list[str] = Field(default_factory=list)
    loadgen: LoadgenRecord = LoadgenRecord()
    latencies: LatencyRecord = LatencyRecord()
    accuracy: list[AccuracyRecord] = Field(default_factory=list)
    outputs: VerdictRecord | None = None
    audit: AuditRecord | None = None
    judgement: JudgementRecord | None = None
    error: ErrorRecord | None = None
    steal: float | None = None
    interrupted: bool = False
    complete: bool = False
    notes: list[str] = Field(default_factory=list)
    arrays: ArrayFile | None = None

    @property
    def rules(self) -> Scenario:
        """What the rules say of the scenario."""
        return SCENARIOS[self.scenario]

    @property
    def samples(self) -> int:
        """In the data set; 0 where that is not known."""
        count = self.data.get("samples")
        return count if isinstance(count, int) else 0

    @property
    def percentile(self) -> float:
        """The share of latencies that LoadGen looked at, by its log; 0 where the scenario looks at none.

        Computed as LoadGen does, of percent: its log rounds.
        """
        used = self.loadgen.values.get("effective_target_latency_percentile")
        if not self.rules.percentile or not isinstance(used, int | float):
            return self.rules.percentile
        return round(100 * used, 4) * 0.01

    @property
    def metric(self) -> str:
        """What counts, in words."""
        samples = self.loadgen.values.get("effective_samples_per_query", self.rules.samples)
        return self.rules.metric.format(percentile=ordinal(100 * self.percentile), samples=samples)

    @property
    def bound(self) -> float | None:
        """The latency in seconds that the percentile may have at most, in Server; ``None`` elsewhere, and before a run."""
        limit = self.loadgen.values.get("effective_target_latency_ns")
        return float(limit) * 1e-9 if self.scenario == "Server" and isinstance(limit, int | float) else None

    @property
    def result(self) -> float | None:
        """The scenario's metric as LoadGen gives it, in its unit; ``None`` without one."""
        from deep_bench.mlperf.inference.logs import Detail

        return Detail(self.loadgen.values).result if self.loadgen.values.get("effective_scenario") else None

    @property
    def valid(self) -> bool:
        """Whether the judgement is VALID."""
        return self.judgement is not None and self.judgement.word == "VALID"

    def query_latencies(self) -> NDArray[np.int64]:
        """The latency of each query of the performance phase, in nanoseconds, by LoadGen's trace: of its slowest sample.

        Empty where there is no trace.
        """
        latencies = self.latencies
        return _slowest(latencies.traced_query, latencies.latency_ns)

    def own_latencies(self) -> NDArray[np.int64]:
        """The same by this process's own stamps, from the arrival of a query; both phases of a submission run."""
        latencies = self.latencies
        done = latencies.done_ns > 0
        return _slowest(latencies.query[done], (latencies.done_ns - latencies.issued_ns)[done])

    @model_validator(mode="after")
    def _check_lengths(self) -> InferenceRecord:
        latencies = self.latencies
        lengths = {len(getattr(latencies, name)) for name in OWN_COLUMNS} - {0}
        if lengths and lengths != {latencies.n}:
            raise ValueError(f"columns of {sorted(lengths)} latencies, where there are {latencies.n}")
        if len({len(getattr(latencies, name)) for name in TRACED_COLUMNS}) > 1:
            raise ValueError("columns of the trace that are not equally long")
        return self

    @model_validator(mode="after")
    def _check_samples(self) -> InferenceRecord:
        count = self.samples
        for entry in self.accuracy if count else ():
            if entry.total > count or (entry.of == "accuracy mode" and entry.total != count):
                raise ValueError(f"the accuracy of {entry.of} is of {entry.total} samples, where the data set has {count}")
        return self


def ordinal(number: float) -> str:
    """A number as it counts.

    Example:
        >>> ordinal(90.0), ordinal(51.0), ordinal(13.0), ordinal(99.9)
        ('90th', '51st', '13th', '99.9th')
    """
    text = f"{number:.8g}"
    teen = text[-2:-1] == "1"
    return text + ("th" if "." in text or teen else {"1": "st", "2": "nd", "3": "rd"}.get(text[-1], "th"))


def _slowest(query: NDArray[np.int64], latency: NDArray[np.int64]) -> NDArray[np.int64]:
    """The largest latency of each query."""
    if not len(query):
        return _none()
    order = np.argsort(query, kind="stable")
    starts = np.flatnonzero(np.diff(query[order], prepend=query[order][0] - 1))
    return np.maximum.reduceat(latency[order], starts)


_SUMMARY_PERCENTILE = re.compile(r"^[\d.]+th percentile latency \(ns\) : (-?\d+)$", re.MULTILINE)


def disagreements(record: InferenceRecord) -> list[str]:
    """What LoadGen reports and its trace does not bear out; nothing without a trace.

    Compared are the extremes, each percentile, the percentile of the scenario (which LoadGen computes even where there is
    no such percentile), and the early-stopping estimate.
    """
    latencies = record.query_latencies() if record.scenario == "MultiStream" else record.latencies.latency_ns
    if not len(latencies):
        return []
    findings = []
    for figure, loadgen, ours in _figures(record, np.sort(latencies)):
        if loadgen is not None and loadgen != ours:
            shown = "none" if ours is None else f"{ours:.0f}"
            findings.append(f"{figure}: LoadGen reports {loadgen}, its trace gives {shown}")
    return findings


def _figures(record: InferenceRecord, ordered: NDArray[np.int64]) -> Iterator[tuple[str, object, float | None]]:
    """Name, LoadGen's and ours of each figure."""
    values, n = record.loadgen.values, len(ordered)
    query, per_query = ("query_", "per_query_") if record.scenario == "MultiStream" else ("", "")
    yield "the least latency in ns", values.get(f"result_min_{query}latency_ns"), int(ordered[0])
    yield "the largest latency in ns", values.get(f"result_max_{query}latency_ns"), int(ordered[-1])
    for share in SHARES:
        key = f"result_{100 * share:.2f}_percentile_{per_query}latency_ns"
        yield f"p{100 * share:g} in ns", values.get(key), int(ordered[floor(n * share)])
    if record.bound is not None:
        late = int(np.sum(ordered > round(record.bound * 1e9)))
        yield "queries above the bound", values.get("result_overlatency_query_count"), late
    share = record.percentile
    if not share or record.bound is not None:
        return
    if match := _SUMMARY_PERCENTILE.search(record.loadgen.summary):
        place = floor(n * share)
        yield f"p{100 * share:.8g} of the summary, in ns", int(match[1]), int(ordered[place]) if 0 <= place < n else None
    if values.get("early_stopping_met"):
        yield "the early-stopping estimate in ns", values.get(record.rules.result), early_stopping(ordered, share)


def judged(record: InferenceRecord) -> JudgementRecord:
    """VALID only if LoadGen says so, reports no error and figures that its trace bears out, and the answers are right.

    FAILED if the run ended before that.

    Args:
        record: All but its judgement.
    """
    if record.error is not None:
        return JudgementRecord(word="FAILED", reasons=[record.error.message])
    if record.interrupted:
        return JudgementRecord(word="FAILED", reasons=["interrupted"])
    loadgen, done, reasons = record.loadgen, record.latencies.done_ns, []
    if record.mode != "accuracy" and loadgen.validity != "VALID":
        because = str(loadgen.values.get("result_invalid_reason", "")).strip()
        if not loadgen.values.get("early_stopping_met", True):
            because = f"{because} {' '.join(str(loadgen.values.get('early_stopping_result', '')).split())}".strip()
        reasons.append(f"LoadGen says {loadgen.validity or 'nothing of validity'}{f': {because}' if because else ''}")
    if loadgen.errors:
        reasons.append(f"LoadGen reports {len(loadgen.errors)} errors, the first: {loadgen.errors[0]}")
    reasons += disagreements(record)
    if len(done) and (missing := int((done == 0).sum())):
        reasons.append(f"{missing} of {len(done)} samples have no answer")
    reasons += [
        f"{entry.unclassed} of {entry.total} answers of {entry.of} are no class (a whole number from 0, in 8 bytes)"
        for entry in record.accuracy
        if entry.unclassed
    ]
    reasons += [
        f"accuracy of {entry.of}: {entry.accuracy:.4f}, below the target of {entry.target:.4f}, which is "
        f"{100 * entry.share:g} % of the reference's {entry.reference:.4f} ({entry.reference_from})"
        for entry in record.accuracy
        if not entry.met
    ]
    if record.outputs is not None and record.outputs.verdict == "wrong":
        reasons.append(f"the network's outputs are wrong: {record.outputs.reason}")
    if record.audit is not None and not record.audit.passed:
        failed = [f"{name}: {text}" for name, (passed, text) in record.audit.checks.items() if not passed]
        reasons.append(f"audit {record.audit.name} failed: {'; '.join(failed)}")
    return JudgementRecord(word="INVALID" if reasons else "VALID", reasons=reasons)


def caveats(record: InferenceRecord) -> list[str]:
    """Why a run is no submission even if it is VALID, as far as its record tells.

    Args:
        record: Of a run that came to its end.
    """
    if record.error is not None or record.interrupted:
        return []
    values, remarks = record.loadgen.values, list[str]()
    duration, count, loaded = (
        values.get(key)
        for key in ("effective_min_duration_ms", "requested_min_query_count", "effective_performance_sample_count")
    )
    if isinstance(duration, int | float):
        remarks += too_short(duration / 1e3)
    if record.scenario == "Offline" and isinstance(count, int):
        remarks += too_few_samples(count)
    refusal = "not a valid submission"
    needed = min(IN_MEMORY, record.samples)
    if isinstance(loaded, int) and loaded < needed and record.mode != "accuracy":
        remarks.append(
            f"{refusal}: queries are of {loaded} of {record.samples} samples, most benchmarks of the rules ask "
            f"for {needed} at least"
        )
    for entry in record.accuracy:
        if entry.share < TARGET_SHARE:
            remarks.append(
                f"{refusal}: the target is {100 * entry.share:g} % of the reference's accuracy, the rules "
                f"ask for {100 * TARGET_SHARE:g} %"
            )
        if entry.reference_from == "stated":
            remarks.append(f"{refusal}: the reference's accuracy, {entry.reference:g}, was stated and not measured")
        if entry.constant is not None and entry.target <= entry.constant:
            remarks.append(
                f"{refusal}: the target of accuracy, {entry.target:.4f}, is no more than one class for all "
                f"samples gives, {entry.constant:.4f}"
            )
    if record.outputs is None and not record.system:
        remarks.append(f"{refusal}: the network's outputs were not checked")
    elif record.outputs is None and not record.accuracy:
        remarks.append(f"{refusal}: nothing tells whether the answers are right")
    return list(dict.fromkeys(remarks))


FILE, ARRAYS = "mlperf.json", "mlperf.h5"
_LARGEST_ARRAYS_BYTES = 4 * 2**30


def save(record: InferenceRecord, folder: Path) -> Path:
    """Write a record into the folder of its run, with columns that are long in an HDF5 file beside it.

    Raises:
        InvalidArgument: It cannot be written.
    """
    columns = {name: getattr(record.latencies, name) for name in (*OWN_COLUMNS, *TRACED_COLUMNS)}
    if sum(map(len, columns.values())) <= INLINE_SAMPLES:
        content = record.model_copy(update={"arrays": None})
    else:
        file = written(folder / ARRAYS, lambda temporary: fill_columns(temporary, columns))
        content = record.model_copy(
            update={
                "arrays": ArrayFile(name=file.name, sha256=digest(file)),
                "latencies": LatencyRecord(n=record.latencies.n),
            }
        )
    text = content.model_dump_json(indent=1) + "\n"
    return written(folder / FILE, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def load_inference(path: str | Path) -> InferenceRecord:
    """Read what `save` wrote.

    Args:
        path: The file, or the folder of the run.

    Returns:
        The record, its judgement and its remarks derived again from all else that is in it.

    Raises:
        InvalidRecord: It cannot be read, is no such record, its judgement does not follow from the rest, or its arrays are
            missing or were altered.
    """
    path = Path(path)
    path = path / FILE if path.is_dir() else path
    record = read_model(path, InferenceRecord, "the record of a run under LoadGen, of schema version 1")
    if record.arrays is not None:
        beside = file_beside(path, record.arrays, "its latencies' file", _LARGEST_ARRAYS_BYTES)
        types = dict.fromkeys((*OWN_COLUMNS, *TRACED_COLUMNS), (np.int64, None))
        columns = read_columns(beside, types, f"the latencies of {path.name}")
        try:
            latencies = LatencyRecord(n=record.latencies.n, **columns)
            record = InferenceRecord.model_validate({**dict(record), "arrays": None, "latencies": latencies})
        except ValueError as error:
            raise InvalidRecord(f"{beside}: {error}", f"{record.latencies.n} latencies") from error
    if record.judgement is None and not record.complete:
        return record
    try:
        again, new_remarks = judged(record), caveats(record)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise InvalidRecord(f"{path} cannot be judged: {error}", "figures as LoadGen gives them") from error
    verdict = record.judgement.word if record.judgement is not None else "not judged"
    if verdict != again.word:
        reasons = f" because {'; '.join(again.reasons)}" if again.reasons else ""
        raise InvalidRecord(f"{path} says {verdict}", f"{again.word}{reasons}: that follows from the rest of it")
    if record.complete != (again.word != "FAILED"):
        raise InvalidRecord(f"{path} is of a run that is {again.word}, and complete={record.complete}", "one of the two")
    remarks = list(dict.fromkeys([*record.remarks, *new_remarks]))
    return record.model_copy(update={"judgement": again, "remarks": remarks})

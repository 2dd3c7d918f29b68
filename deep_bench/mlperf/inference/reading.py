"""Records of runs under LoadGen as results, beside those of all other kinds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deep_bench.measure.record import VerdictRecord
from deep_bench.mlperf.inference.record import InferenceRecord
from deep_bench.mlperf.inference.scenario import TARGET_SHARE, UNVERIFIED
from deep_bench.mlperf.inference.storage import load_inference
from deep_bench.results.reading.figures import SECOND, named, single
from deep_bench.results.reading.labels import cell_labels, labels, prefixed
from deep_bench.results.result import Figure, Result

_SHOWN = ("batch", "workers", "max_delay", "min_duration", "short", "target_qps", "target_latency", "audit")


def read(path: Path) -> list[Result]:
    """What a run gave.

    Raises:
        InvalidRecord: The file cannot be read, or holds no such record.
    """
    record = load_inference(path)
    settings = {name: record.settings.get(name) for name in _SHOWN}
    if record.bound is not None:
        settings |= {"target_latency": record.bound, "percentile": f"{100 * record.percentile:.8g}"}
    about = labels(
        kind="mlperf",
        network=record.network.name,
        data=record.data.get("name"),
        framework=record.framework.partition(":")[0],
        system=record.system or record.framework,
        scenario=record.scenario,
        mode=record.mode,
        host=record.environment.hostname,
    )
    return [
        Result(
            kind="mlperf",
            file=path,
            created=record.created,
            labels=about | prefixed("option", settings) | cell_labels(record.recipe.options),
            figures=named([_metric(record), _latency(record), *_accuracies(record)]),
            verdict=_verdict(record),
            errors=(record.error,) if record.error is not None else (),
            environment=record.environment,
            complete=record.complete,
            notes=(UNVERIFIED, *record.remarks, *record.notes),
        )
    ]


def _metric(record: InferenceRecord) -> Figure | None:
    rules = record.rules
    return single(record.metric, rules.unit, rules.direction, record.result, "by LoadGen; unverified")


def _latency(record: InferenceRecord) -> Figure | None:
    """Of each query, by LoadGen's trace, or else by the stamps of its process."""
    traced = record.query_latencies()
    local_latencies = record.own_latencies()
    if not len(traced) and not len(local_latencies):
        return None
    remark = "from the scheduled time, by LoadGen" if len(traced) else "from the arrival of the query, by its process"
    samples = traced if len(traced) else local_latencies
    return Figure("query latency", "s", "lower", ((samples.astype(np.float64) / SECOND,),), remark)


def _accuracies(record: InferenceRecord) -> list[Figure | None]:
    return [
        single(f"accuracy in {entry.of}", "", "higher", entry.accuracy, f"target {entry.target:.4f}")
        for entry in record.accuracy
    ]


def _verdict(record: InferenceRecord) -> VerdictRecord | None:
    """Whether the answers were right. That a run is INVALID for other reasons is no fault of theirs."""
    if record.judgement is None:
        return None
    word = record.judgement.word
    wrong = (record.outputs is not None and record.outputs.verdict == "wrong") or any(
        not entry.met for entry in record.accuracy
    )
    has_evidence = record.outputs is not None or any(entry.share >= TARGET_SHARE for entry in record.accuracy)
    valid = "right" if has_evidence else "cannot tell"
    verdict = "wrong" if wrong else {"VALID": valid, "INVALID": "cannot tell", "FAILED": "no information"}[word]
    answers = "the answers are right" if has_evidence else "nothing tells whether the answers are right"
    reason = "; ".join(record.judgement.reasons) or f"LoadGen says VALID, without errors, and {answers}"
    bits = record.outputs.significant_bits if record.outputs else None
    return VerdictRecord(verdict=verdict, reason=f"{word}: {reason}", significant_bits=bits)

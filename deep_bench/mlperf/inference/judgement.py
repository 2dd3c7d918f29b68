"""What comes of a run, whatever LoadGen's summary says; and what keeps a VALID one from being a submission."""

from __future__ import annotations

from deep_bench.mlperf.inference.agreement import disagreements
from deep_bench.mlperf.inference.record import AccuracyRecord, InferenceRecord, JudgementRecord
from deep_bench.mlperf.inference.scenario import (
    IN_MEMORY,
    TARGET_SHARE,
    too_few_samples,
    too_short,
)


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
    reasons = [*_of_loadgen(record), *disagreements(record), *_of_answers(record)]
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
    return [*_of_length(record), *_of_targets(record), *_of_checks(record)]


def _of_length(record: InferenceRecord) -> list[str]:
    values = record.loadgen.values
    remarks = []
    duration, count, loaded = (
        values.get(key)
        for key in ("effective_min_duration_ms", "requested_min_query_count", "effective_performance_sample_count")
    )
    if isinstance(duration, int | float):
        remarks += too_short(duration / 1e3)
    if record.scenario == "Offline" and isinstance(count, int):
        remarks += too_few_samples(count)
    needed = min(IN_MEMORY, record.samples)
    if isinstance(loaded, int) and loaded < needed and record.mode != "accuracy":
        remarks.append(
            f"not a valid submission: queries are of {loaded} of {record.samples} samples, most benchmarks of the rules ask "
            f"for {needed} at least"
        )
    return remarks


def _of_targets(record: InferenceRecord) -> list[str]:
    remarks = []
    for entry in record.accuracy:
        if entry.share < TARGET_SHARE:
            remarks.append(
                f"not a valid submission: the target is {100 * entry.share:g} % of the reference's accuracy, the rules "
                f"ask for {100 * TARGET_SHARE:g} %"
            )
        if entry.reference_from == "stated":
            remarks.append(
                f"not a valid submission: the reference's accuracy, {entry.reference:g}, was stated and not measured"
            )
        if entry.constant is not None and entry.target <= entry.constant:
            remarks.append(
                f"not a valid submission: the target of accuracy, {entry.target:.4f}, is no more than one class for all "
                f"samples gives, {entry.constant:.4f}"
            )
    return list(dict.fromkeys(remarks))


def _of_checks(record: InferenceRecord) -> list[str]:
    if record.outputs is None and not record.system:
        return ["not a valid submission: the network's outputs were not checked"]
    if record.outputs is None and not record.accuracy:
        return ["not a valid submission: nothing tells whether the answers are right"]
    return []


def _of_loadgen(record: InferenceRecord) -> list[str]:
    loadgen = record.loadgen
    reasons = []
    if record.mode != "accuracy" and loadgen.validity != "VALID":
        because = str(loadgen.values.get("result_invalid_reason", "")).strip()
        if not loadgen.values.get("early_stopping_met", True):
            because = f"{because} {' '.join(str(loadgen.values.get('early_stopping_result', '')).split())}".strip()
        reasons.append(f"LoadGen says {loadgen.validity or 'nothing of validity'}{f': {because}' if because else ''}")
    if loadgen.errors:
        reasons.append(f"LoadGen reports {len(loadgen.errors)} errors, the first: {loadgen.errors[0]}")
    return reasons


def _of_answers(record: InferenceRecord) -> list[str]:
    reasons = []
    done = record.latencies.done_ns
    if len(done) and (missing := int((done == 0).sum())):
        reasons.append(f"{missing} of {len(done)} samples have no answer")
    reasons += [
        f"{entry.unclassed} of {entry.total} answers of {entry.of} are no class (a whole number from 0, in 8 bytes)"
        for entry in record.accuracy
        if entry.unclassed
    ]
    reasons += [_below(entry) for entry in record.accuracy if not entry.met]
    if record.outputs is not None and record.outputs.verdict == "wrong":
        reasons.append(f"the network's outputs are wrong: {record.outputs.reason}")
    return reasons


def _below(entry: AccuracyRecord) -> str:
    return (
        f"accuracy of {entry.of}: {entry.accuracy:.4f}, below the target of {entry.target:.4f}, which is "
        f"{100 * entry.share:g} % of "
        f"the reference's {entry.reference:.4f} ({entry.reference_from})"
    )

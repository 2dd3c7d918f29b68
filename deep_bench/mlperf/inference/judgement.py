"""What comes of a run, whatever LoadGen's summary says."""

from __future__ import annotations

from deep_bench.mlperf.inference.agreement import disagreements
from deep_bench.mlperf.inference.record import AccuracyRecord, InferenceRecord, JudgementRecord


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


def _of_loadgen(record: InferenceRecord) -> list[str]:
    found = record.loadgen
    reasons = []
    if record.mode != "accuracy" and found.validity != "VALID":
        because = str(found.values.get("result_invalid_reason", "")).strip()
        if not found.values.get("early_stopping_met", True):
            because = f"{because} {' '.join(str(found.values.get('early_stopping_result', '')).split())}".strip()
        reasons.append(f"LoadGen says {found.validity or 'nothing of validity'}{f': {because}' if because else ''}")
    if found.errors:
        reasons.append(f"LoadGen reports {len(found.errors)} errors, the first: {found.errors[0]}")
    return reasons


def _of_answers(record: InferenceRecord) -> list[str]:
    reasons = []
    done = record.latencies.done_ns
    if len(done) and (missing := int((done == 0).sum())):
        reasons.append(f"{missing} of {len(done)} samples have no answer")
    reasons += [_below(one) for one in record.accuracy if not one.met]
    if record.outputs is not None and record.outputs.verdict == "wrong":
        reasons.append(f"the network's outputs are wrong: {record.outputs.reason}")
    return reasons


def _below(one: AccuracyRecord) -> str:
    return (
        f"accuracy of {one.of}: {one.accuracy:.4f}, below the target of {one.target:.4f}, which is {100 * one.share:g} % of "
        f"the reference's {one.reference:.4f} ({one.reference_from})"
    )

"""A study as plain values: for JSON, and for data frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deep_bench.operators.studies.quantities import QUANTITIES
from deep_bench.operators.studies.trial import Trial

if TYPE_CHECKING:
    from deep_bench.measure.comparison import Comparison
    from deep_bench.operators.studies.result import Study


def rows(study: Study) -> list[dict[str, Any]]:
    """One mapping for each contestant on each case; times in seconds, ``None`` where there is no value."""
    return [_row(study, trial) for trial in study.trials]


def as_json(study: Study) -> dict[str, Any]:
    """The derived figures of a study."""
    record = study.record
    assert record.suite is not None
    return {
        "record": str(study.path) if study.path is not None else None,
        "suite": record.suite.name,
        "ok": study.ok,
        "interrupted": study.interrupted,
        "base": study.base,
        "common_cases": list(study.common),
        "contestants": {label: _summary(study, label) for label in study.contestants},
        "launches": study.launches,
        "twins": _twins(study),
        "trials": [
            {**row, "findings": trial.findings, "unavailable": trial.record.unavailable, "metrics": trial.record.metrics}
            for row, trial in zip(rows(study), study.trials, strict=True)
        ],
        "notes": record.notes,
    }


def _row(study: Study, trial: Trial) -> dict[str, Any]:
    facts, cost, share = trial.case.facts, trial.case.cost, trial.share
    compared = study.compare(trial.label, trial.case.label)
    row: dict[str, Any] = {
        "case": trial.case.label,
        "operator": facts.operator,
        "count": facts.count,
        "contestant": trial.label,
        "verdict": trial.verdict,
        "reason": trial.reason if trial.verdict not in ("right", "unchecked") else "",
        "significant_bits": trial.significant_bits,
        "max_error": trial.max_error,
    }
    for quantity in QUANTITIES:
        summaries, interval = trial.summaries(quantity), trial.interval(quantity)
        if not summaries:
            continue
        row |= {
            quantity: trial.median(quantity),
            f"{quantity} low": None if interval is None else interval.low,
            f"{quantity} high": None if interval is None else interval.high,
            f"{quantity} basis": None if interval is None else interval.basis,
            f"{quantity} n": sum(summary.n for summary in summaries),
            f"{quantity} launches": len(summaries),
        }
    return row | {
        "setup": _seconds(trial.record.setup_ns),
        "first_call": _seconds(trial.record.first_call_ns),
        "flops": None if cost is None else cost.flops,
        "bytes": None if cost is None else cost.bytes,
        "flop_rate": trial.flop_rate,
        "byte_rate": trial.byte_rate,
        "roof_share": None if share is None else share.roof,
        "bound": None if share is None else share.bound,
        "base": study.base,
        "ratio": None if compared is None else compared.ratio.value,
        "ratio_interval": None if compared is None else compared.ratio.interval,
        "word": None if compared is None else compared.word,
        "stopped_because": list(dict.fromkeys(s.stopped_because for s in trial.record.samples if s.stopped_because)),
    }


def twin_word(found: Comparison) -> str:
    """What the A/A pair shows on a case: nothing is faster than itself, but two processes of it may differ.

    Example:
        >>> from deep_bench.measure.comparison import Comparison, Ratio
        >>> ratio = Ratio(0.8, (0.7, 0.9), (0.72, 0.88), 8.0, 10.0, "blocks")
        >>> twin_word(Comparison("faster", ratio, 0.02)), twin_word(Comparison("equivalent", ratio, 0.5))
        ('differs', 'equivalent')
    """
    return "differs" if found.word in ("faster", "slower") else found.word


def _twins(study: Study) -> dict[str, Any] | None:
    """The A/A pair: its ratio over all common cases, and on each case."""
    if study.twin is None:
        return None
    cases = {case: study.compare_twins(case) for case in study.cases}
    whole = study.twins
    return {
        "contestant": study.twin.twin_of,
        "ratio": None if whole is None else whole.value,
        "ratio_interval": None if whole is None else whole.interval,
        "cases": {
            case: {
                "ratio": comparison.ratio.value,
                "ratio_interval": comparison.ratio.interval,
                "word": twin_word(comparison),
            }
            for case, comparison in cases.items()
            if comparison is not None
        },
    }


def _summary(study: Study, label: str) -> dict[str, Any]:
    system, total, speed = study.record[label], study.total(label), study.speed(label)
    verdicts: Sequence[str] = [trial.verdict for trial in study[label].values()]
    return {
        "framework": system.framework,
        "options": system.options,
        "facts": system.facts,
        "verdicts": {word: verdicts.count(word) for word in dict.fromkeys(verdicts)},
        "error": None if system.error is None else system.error.message,
        "total": None if total is None else total.value / 1e9,
        "total_basis": None if total is None else total.basis,
        "total_interval": None if total is None or total.interval is None else [end / 1e9 for end in total.interval],
        "flop_rate": study.flop_rate(label),
        "ratio": None if speed is None else speed.value,
        "ratio_interval": None if speed is None else speed.interval,
        "peak_memory_bytes": system.peak_memory_bytes,
    }


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9

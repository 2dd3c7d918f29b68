"""From what the checker and the adapters say to what a record keeps."""

from __future__ import annotations

from deep_bench import framework
from deep_bench.check.verdict import Verdict
from deep_bench.measure.record import Forms, VerdictRecord


def verdict_record(verdict: Verdict) -> VerdictRecord:
    """A verdict as it is recorded."""
    facts = verdict.as_dict()
    outputs = {output.pop("name"): output for output in facts.pop("outputs")}
    return VerdictRecord(verdict=facts.pop("word"), outputs=outputs, **facts)


def forms_record(forms: framework.Forms) -> Forms:
    """How an adapter runs each node, as it is recorded."""
    return Forms(native=list(forms.native), decomposed=list(forms.decomposed), fallback=dict(forms.fallback))

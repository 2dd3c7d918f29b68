"""From what the checker and the adapters say to what a record keeps."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from deep_bench import framework
from deep_bench.arrays import digest
from deep_bench.check.verdict import Verdict
from deep_bench.measure.record import Forms, VerdictRecord


def verdict_record(verdict: Verdict, answers: Mapping[str, Any] = MappingProxyType({})) -> VerdictRecord:
    """A verdict as it is recorded.

    Args:
        verdict: What was said.
        answers: The outputs that it was said of: their digests tell later whether others are the same to the last bit.
    """
    facts = verdict.as_dict()
    outputs = {output.pop("name"): output for output in facts.pop("outputs")}
    for name, answer in answers.items():
        if isinstance(answer, np.ndarray):
            outputs.setdefault(name, {})["sha256"] = digest(answer)
    return VerdictRecord(verdict=facts.pop("word"), outputs=outputs, **facts)


def forms_record(forms: framework.Forms) -> Forms:
    """How an adapter runs each node, as it is recorded."""
    return Forms(native=list(forms.native), decomposed=list(forms.decomposed), fallback=dict(forms.fallback))

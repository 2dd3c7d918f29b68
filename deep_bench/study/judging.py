"""A system in its worker as the checker sees it, and what the checker and the adapters say as a record keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from deep_bench import framework
from deep_bench.arrays import digest
from deep_bench.check.subject import SubjectCalls
from deep_bench.check.verdict import Verdict
from deep_bench.graph import Network
from deep_bench.records.model import Forms, VerdictRecord
from deep_bench.workers.fleet import StartedSystems


def fleet_subject(fleet: StartedSystems, label: str) -> SubjectCalls:
    """One system of a fleet as the checker sees it; only it runs while it is asked something.

    Its outputs are those of the very call that is timed, computed anew. Of kernels only the names of their nodes are sent:
    the system has them.

    Args:
        fleet: The started systems.
        label: Which one.
    """

    def run(network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        serialized = network.without_kernels().to_proto().SerializeToString()
        kernels = {"kernels": list(network.kernels)} if network.kernels else {}
        return dict(fleet.call(label, "run", serialized, dict(inputs), **kernels))

    upgrades = bool(fleet.prepared[label]["facts"]["upgrades"])
    return SubjectCalls(lambda: dict(fleet.call(label, "outputs")), run, upgrades)


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

"""How a system in its worker is judged: how hard to look, what the checker sees of it, and what is kept of the verdict."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from types import MappingProxyType
from typing import Any

import numpy as np

from deep_bench import framework
from deep_bench.arrays import digest
from deep_bench.check.oracle import Effort
from deep_bench.check.subject import SubjectCalls
from deep_bench.check.verdict import Verdict
from deep_bench.errors import DeepBenchError, InvalidInput
from deep_bench.graph import Network
from deep_bench.records.model import Forms, VerdictRecord
from deep_bench.study.settings import Checking
from deep_bench.workers.fleet import StartedSystems


@contextmanager
def quiet() -> Iterator[None]:
    """NumPy's remarks on overflow and empty arrays are no news to the user where results are judged anyway."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@contextmanager
def suitable(
    name: str, advice: str = "give some with --input, or other sizes with --size", kind: str = "network"
) -> Iterator[None]:
    """What the reference raises inside: it cannot run a network or an operator on inputs that do not suit it.

    Args:
        name: Its name.
        advice: What to do then.
        kind: What it is.

    Raises:
        InvalidInput: Anything but an error of deep_bench's was raised.
    """
    try:
        yield
    except DeepBenchError:
        raise
    except Exception as error:  # NumPy raises whatever fits
        where = " ".join(getattr(error, "__notes__", []))
        raise InvalidInput(
            f"the reference cannot run {name} on these inputs: {error} {where}".strip(),
            f"inputs of values and sizes that suit the {kind}",
            advice,
        ) from error


def chosen_effort(check: Checking, full_below_s: float, evaluate: Callable[[], object]) -> Effort:
    """How many evaluations to make; the reference is run once, whose time tells where nobody else does.

    Args:
        check: How hard to look.
        full_below_s: The most seconds that an evaluation may take for ``full`` to be chosen.
        evaluate: Runs the reference, and raises where it cannot run.
    """
    begin = perf_counter()
    evaluate()
    seconds = perf_counter() - begin
    if check in ("quick", "full"):
        return check
    return "full" if seconds < full_below_s else "quick"


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

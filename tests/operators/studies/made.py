"""Studies made from numbers, without measuring anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from deep_bench.measure.environment import capture
from deep_bench.operators.studies.result import Study
from deep_bench.operators.studies.settings import FORWARD
from deep_bench.records.model import (
    BlockRecord,
    CaseFacts,
    Record,
    SampleSet,
    SuiteFacts,
    SystemRecord,
    Tensor,
    TrialRecord,
    VerdictRecord,
)
from deep_bench.workers.fleet import TWIN


def samples(seconds: float, seed: int, blocks: int = 8, spread: float = 0.02, launch: int = 0) -> SampleSet:
    """Blocks of thirty samples around a time."""
    random = np.random.default_rng(seed)
    made = [
        BlockRecord(
            start_ns=i, batch=1, n=30, ns=(seconds * 1e9 * (1 + spread * random.random(30))).astype(np.int64),
            preempted=np.zeros(30, bool),
        )
        for i in range(blocks)
    ]  # fmt: skip
    return SampleSet(quantity=FORWARD, launch=launch, blocks=made, stopped_because="width reached")


def study_of(
    times: Mapping[str, Sequence[float]],
    sizes: Sequence[int],
    *,
    bits: float = 24.0,
    roofline: dict | None = None,
    launches: Sequence[float] = (1.0,),
) -> Study:
    """A study of contestants with these times on cases of these sizes; a contestant called ``wrong`` is.

    One called ``x (A/A)`` is the twin of ``x``. ``launches`` are factors of the times, one for each launch.
    """
    cases = [
        CaseFacts(
            label=str(n), operator="Gelu", dtype="float32", flops=n, read_bytes=4 * n, written_bytes=4 * n,
            inputs=[Tensor(name="X", shape=[n], dtype="float32")],
        )
        for n in sizes
    ]  # fmt: skip
    systems = []
    for number, (label, seconds) in enumerate(times.items()):
        verdict = VerdictRecord(verdict="wrong" if label == "wrong" else "right", reason="made", significant_bits=bits)
        trials = [
            TrialRecord(
                case=str(n), verdict=verdict, setup_ns=1, first_call_ns=1,
                samples=[samples(s * f, 100 * number + i, launch=k) for k, f in enumerate(launches)],
            )
            for i, (n, s) in enumerate(zip(sizes, seconds, strict=True))
        ]  # fmt: skip
        twin_of = label.removesuffix(TWIN) if label.endswith(TWIN) else None
        systems.append(SystemRecord(label=label, framework="operator", trials=trials, twin_of=twin_of))
    suite = SuiteFacts(name="made", cases=cases)
    return Study(Record(deep_bench="0", environment=capture(), suite=suite, systems=systems, roofline=roofline))

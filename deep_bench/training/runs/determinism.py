"""What of a run would be the same if it were made again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deep_bench.training.callbacks import TimeLimit
from deep_bench.training.record import DeterminismRecord

_BITWISE = frozenset({"reference", "torch"})
"""Frameworks that give the same bits again on a CPU; `tests/training/runs` holds them to it."""


def determinism(trainer: Any, label: str) -> DeterminismRecord:
    """What was seeded, and what is not deterministic here, as far as the framework and the run tell.

    Args:
        trainer: The run's `Trainer`.
        label: What it runs on, beginning with the framework's name.
    """
    device = trainer.taker.device
    facts: Mapping[str, str] = device.describe() if hasattr(device, "describe") else {}
    seeds, remarks = {"draws": int(trainer.seed)}, []
    sampler: Any = getattr(trainer.loader, "sampler", None)
    sampler_facts = sampler.facts() if hasattr(sampler, "facts") else {}
    while "of" in sampler_facts:  # a sampler of another one
        sampler_facts = sampler_facts["of"]
    if "seed" in sampler_facts:
        seeds["sampler"] = int(sampler_facts["seed"])
    elif not sampler_facts:
        remarks.append("the order of the samples: its source names no seed")
    if any(isinstance(callback, TimeLimit) for callback in trainer.callbacks):
        remarks.append("where a time limit ends the run, the number of steps is the machine's")
    if not trainer.ranks.lockstep:
        remarks.append("ranks take steps each on their own: their order is the machine's")
    where, framework = facts.get("device", "unknown"), label.partition(":")[0]
    if remark := facts.get("determinism"):
        remarks.append(remark)
    elif not on_cpu(where):
        remarks.append(f"sums on {where}: nothing is known of their order, and the last bits may differ from run to run")
    elif framework not in _BITWISE:
        remarks.append(f"{framework or 'this framework'}: it does not promise to add in the same order each time")
    bitwise = on_cpu(where) and framework in _BITWISE and not remarks
    if threads := facts.get("threads"):
        remarks.append(f"with another number of threads than {threads}, the last bits may differ")
    return DeterminismRecord(seeds=seeds, same_again="bitwise" if bitwise else "not promised", remarks=remarks)


def on_cpu(device: str) -> bool:
    """Whether a framework's name of a device means the CPU.

    Example:
        >>> on_cpu("cpu"), on_cpu("CPU:0"), on_cpu("cuda:0")
        (True, True, False)
    """
    return device.lower().partition(":")[0] == "cpu"

"""Everything that a prediction takes for granted, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from deep_bench.distributed.machine.model import Link
from deep_bench.distributed.scaling.pattern import Pattern
from deep_bench.distributed.scaling.record import ScalingRecord
from deep_bench.distributed.scaling.trace import Scheme
from deep_bench.measure.units import significant

SHARED = (
    "ranks that share the memory of one machine validate the pattern of messages, and not a network: they compete for its "
    "cores and caches, and no message crosses a wire"
)


def assumptions(
    record: ScalingRecord, link: Link, pattern: Pattern, scheme: Scheme, algorithms: Mapping[str, str]
) -> list[str]:
    """All of them, for what was predicted."""
    fitted, checked = (", ".join(map(str, numbers)) for numbers in (record.fitted, record.checked))
    statements = [
        f"messages: the pattern of {fitted} local ranks, which {checked} ranks were found to have too, holds for any "
        "number; the steps that were traced repeat themselves, and messages do not depend on how many samples a rank has",
        *_computing(record),
        "a step: all ranks wait for the slowest at its agreement and after its gradients; a step ends when all have updated",
        "each rank has a node of its own, and each message costs the same between any two (formulas); nothing else uses the "
        "network",
        *_messages(link, algorithms),
        "what comes in a message is added up once, at the machine's cost a byte; all else that a scheme computes is that of "
        "one rank",
        "evaluations, checkpoints, starting and the data's storage, which all ranks share, are not in it",
    ]
    if pattern.uneven:
        worst = max(pattern.uneven.items())
        statements.append(
            f"blocks of an allgather are taken as equal: in the trace of {worst[0]} ranks the largest was "
            f"{significant(worst[1])} times the mean, which costs more"
        )
    if scheme.overlaps:
        statements.append(
            "overlap: messages were traced without it, since local ranks are of one thread; a bucket leaves when its "
            "gradients were measured to be there, and costs computing nothing"
        )
    return statements + _replay(record, scheme)


def _computing(record: ScalingRecord) -> list[str]:
    sources = "; ".join(f"{len(entry.gradients)} steps with {entry.batch} samples {entry.source}" for entry in record.times)
    statements = [
        f"computing: {sources}; every rank and step takes one of these times, independently of all others: noise that hits "
        "all ranks at once, and nodes that are always slow, are not in it",
    ]
    beyond = [point.ranks for point in record.points if point.beyond]
    if beyond:
        statements.append(
            f"with {beyond[0]} ranks and more there are more ranks than measured steps: each step is about as slow as the "
            "slowest that was observed, and slower ones, which so many ranks would see, are not in it"
        )
    return statements


def _messages(link: Link, algorithms: Mapping[str, str]) -> list[str]:
    declared = ", ".join(f"{name} by {algorithm}" for name, algorithm in algorithms.items())
    statements = [
        f"algorithms: {declared + '; others ' if declared else ''}the cheapest known one under LogGP for "
        "each size and number "
        "of ranks; the library may take another"
    ]
    if link.between == "one node" and link.system != "stated":
        statements.append(f"messages were measured within one node, over {link.system}: {SHARED}")
    if link.system == "stated":
        statements.append("latency and bandwidth are as they were stated: processors are busy with no message, at any rate")
    return statements


def _replay(record: ScalingRecord, scheme: Scheme) -> list[str]:
    if record.network is None:
        return []
    overlap = "; without overlap" if scheme.overlaps else ""
    return [
        f"SimGrid: the same pattern and algorithms message by message on a network of kind {record.network}, a rank on each "
        "node, in their order; links share their bandwidth fairly; two nodes next to each other have the machine's latency, "
        "every link its bandwidth, both for the size that has most of the bytes; each rank and step has a measured step's "
        f"times; of a few steps, in which the mean computing of the slowest takes the place of what was drawn{overlap}"
    ]

"""Judging every node of a network alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deep_bench.check.examine import Settled, as_decisions, first_opinions, node_verdict, relative_loss, settle
from deep_bench.check.replay import Replayed, replay
from deep_bench.check.subject import Subject
from deep_bench.check.truth import Truth
from deep_bench.check.verdict import NodeVerdict

_EXAMINED = 64


@dataclass(frozen=True, slots=True, eq=False)
class JudgedNodes:
    """What the replay of all nodes said.

    Args:
        verdicts: One for each node that ran alone; those that were clear at once come first.
        refusals: The nodes that did not run alone, each with the reason.
        findings: Remarks that do not decide.
    """

    verdicts: Sequence[NodeVerdict]
    refusals: Sequence[Replayed]
    findings: Sequence[str]


def judge_nodes(
    truth: Truth,
    subject: Subject,
    norm_wise: Collection[str] = (),
    told: Callable[[NodeVerdict], object] | None = None,
) -> JudgedNodes:
    """Replay all nodes; examine those that are not clear, the worst first.

    Args:
        truth: Of the network.
        subject: The system under test.
        norm_wise: Operators that are judged relative to the largest elements of their results.
        told: Called with each verdict as soon as it is there, for who may be interrupted; for a node that must be examined
            first with *cannot tell*, and again later.
    """
    tell = told or (lambda _: None)
    verdicts: list[NodeVerdict] = []
    doubted: list[tuple[Replayed, Any]] = []
    remarks: dict[str, str] = {}
    refusals: list[Replayed] = []
    for replayed in replay(truth, subject):
        if replayed.refused:
            refusals.append(replayed)
            continue
        replayed = as_decisions(replayed)
        if replayed.operator in norm_wise:
            replayed = replayed.norm_wise()
        opinions = first_opinions(replayed)
        if remark := relative_loss(replayed):
            remarks.setdefault(replayed.operator, remark)
        if all(o.level == "clear" for o in opinions.values()):
            verdicts.append(node_verdict(replayed, opinions, Settled("right")))
            tell(verdicts[-1])
        else:
            doubted.append((replayed, opinions))
            tell(node_verdict(replayed, opinions, _doubted(opinions, "not examined yet")))
    doubted.sort(key=lambda pair: -max(o.deficit for o in pair[1].values()))
    for number, (replayed, opinions) in enumerate(doubted):
        examined = number < _EXAMINED
        unexamined = _doubted(opinions, f"{_EXAMINED} worse nodes were examined")
        settled = settle(truth, subject, replayed, opinions) if examined else unexamined
        verdicts.append(node_verdict(replayed, opinions, settled))
        tell(verdicts[-1])
    findings = list(remarks.values())
    if refusals:
        first = refusals[0]
        findings.append(
            f"{len(refusals)} nodes did not run alone, first {first.node.name!r} ({first.operator}): {first.refused}"
        )
    return JudgedNodes(verdicts, refusals, findings)


def _doubted(opinions: Mapping[str, Any], reason: str) -> Settled:
    worst = max(opinions.values(), key=lambda o: o.deficit)
    return Settled("cannot tell", f"{worst.reason}; {reason}", worst)

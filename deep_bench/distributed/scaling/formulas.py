r"""A step's time by closed formulas.

All ranks agree before a step and, in most schemes, wait for each other after their gradients. With :math:`A_i` what a rank
does between its gradients' exchange and the next agreement (update, loading), :math:`B_i` its gradients, and :math:`C` the
messages,

.. math:: T = \max_i A_i + C_\text{agree} + \max_i B_i + C_\text{exposed}.

The maxima are over as many independent draws from the measured times as there are ranks. Where messages overlap with
gradients, bucket :math:`j` leaves when its share :math:`s_j` of the slowest rank's gradients is done and the one before it
is through: :math:`f_j = \max(f_{j-1}, s_j B) + c_j`, and :math:`C_\text{exposed} = \max(f - B, 0)`.

Source:
    Order statistics: David and Nagaraja, *Order statistics*, 3rd ed. 2003, section 2.1. Messages: LogGP, by the formulas of
    `deep_bench.distributed.machine.predict`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.distributed.machine.loggp import Costs, send_gap
from deep_bench.distributed.machine.predict import ALGORITHMS, predictions
from deep_bench.distributed.machine.symmetric import posted_exchange
from deep_bench.distributed.scaling.calls import MESSAGES, Call, Phase
from deep_bench.distributed.scaling.compute import Seconds, expected_slowest, resampled, slowest
from deep_bench.distributed.scaling.pattern import Pattern
from deep_bench.distributed.scaling.record import CostRecord, PointRecord, TimesRecord
from deep_bench.errors import InvalidArgument, UnknownName

DRAWS = 4000
RESAMPLES = 200
_INTERVAL, _MOST = (2.5, 97.5), (5.0, 95.0)


@dataclass(frozen=True)
class Rules:
    """How messages are costed.

    Args:
        machine: What they cost.
        algorithms: Collective to the algorithm that is taken; the cheapest where none is named.
        overlap_from: Bytes of gradients from which on their sums overlap with computing; ``None``: they never do.
    """

    machine: Costs
    algorithms: Mapping[str, str]
    overlap_from: int | None = None

    def __post_init__(self) -> None:
        for collective, name in self.algorithms.items():
            if collective not in ALGORITHMS:
                raise UnknownName("collective", collective, ALGORITHMS)
            if name not in ALGORITHMS[collective]:
                raise UnknownName(f"algorithm of {collective}", name, ALGORITHMS[collective])


@dataclass(frozen=True)
class Cost:
    """What a call takes.

    Args:
        call: Which.
        seconds: How long.
        algorithm: By which algorithm.
    """

    call: Call
    seconds: float
    algorithm: str


def collective_of(call: Call) -> tuple[str, float]:
    """Name and bytes of a collective call as the formulas have them."""
    name = call.operation.replace("_", "-")
    return name, call.size / len(call.group) if name in ("allgather", "alltoall") else call.size


def cost(call: Call, rules: Rules) -> Cost:
    """What one call takes.

    Raises:
        InvalidArgument: The algorithm that was named does not work for so many ranks.
    """
    m = rules.machine
    if call.operation in MESSAGES:
        return _messages(call, m)
    ranks = len(call.group)
    if ranks < 2:
        return Cost(call, 0.0, "alone")
    name, size = collective_of(call)
    candidates = predictions(name, ranks, size, m)  # type: ignore[arg-type]  # parts of arrays need not be whole bytes
    requested = rules.algorithms.get(name)
    chosen = next((candidate for candidate in candidates if requested in (None, candidate.algorithm)), None)
    if chosen is None:
        raise InvalidArgument(f"{requested} of {name} among {ranks} ranks", "a power of two", "leave the algorithm out")
    return Cost(call, chosen.seconds, chosen.algorithm)


def _messages(call: Call, m: Costs) -> Cost:
    """Messages one after the other, or at once; what comes is added up once."""
    n, out, come = call.size, len(call.to), len(call.sources)
    if call.operation == "exchange":
        return Cost(call, posted_exchange(max(out, come), n, m) + come * m.combining(n), "posted")
    count = out + come
    if count == 0:
        return Cost(call, 0.0, "one after the other")
    adding = m.combining(n) if come else 0.0
    between = max(m.overhead(n) + adding, m.gap(n)) if come else send_gap(m, n)
    return Cost(call, m.message(n) + adding + (count - 1) * between, "one after the other")


def step_costs(pattern: Pattern, ranks: int, number: int, rules: Rules) -> list[Cost]:
    """The calls of a step, of the role whose calls take longest."""
    of_roles = [[cost(call, rules) for call in pattern.step(ranks, r, number)] for r in pattern.representatives(ranks)]
    return max(of_roles, key=lambda costs: sum(term.seconds for term in costs))


class Messages:
    """The messages of one kind of step.

    Args:
        costs: Each call.
        ready: When each bucket is complete, as a share of gradients.
        overlap_from: See `Rules`.
    """

    def __init__(self, costs: Sequence[Cost], ready: Sequence[float], overlap_from: int | None) -> None:
        self.costs = list(costs)
        by_phase = {phase: [cost for cost in costs if cost.call.phase is phase] for phase in Phase}
        self.agreeing = sum(cost.seconds for cost in by_phase[Phase.AGREEING])
        self._beside = sum(cost.seconds for cost in by_phase[Phase.COMPUTING])
        updating = by_phase[Phase.UPDATING]
        self._sums = [cost for cost in updating if cost.call.operation == "allreduce"][: len(ready)]
        large = overlap_from is not None and sum(cost.call.size for cost in self._sums) >= overlap_from
        self._ready = list(ready) if large and len(self._sums) == len(ready) else []
        self._after = sum(cost.seconds for cost in updating if not self._ready or cost not in self._sums)

    def exposed(self, gradients: Any) -> Any:
        """What gradients that take so long do not hide; arrays as well."""
        begun = np.maximum(gradients, self._beside)
        end = begun
        sent = 0.0
        for cost, ready in zip(self._sums, self._ready, strict=False):
            sent = np.maximum(sent, np.maximum(ready * gradients, self._beside)) + cost.seconds
        return np.maximum(end, sent) + self._after - gradients


def messages_of(pattern: Pattern, ranks: int, rules: Rules, ready: Sequence[float]) -> list[Messages]:
    """Those of each kind of step. Where a step talks to other ranks in turn, one that is typical."""
    return [
        Messages(step_costs(pattern, ranks, number, rules), ready, rules.overlap_from)
        for number in range(1, pattern.period + 1)
    ]


def predicted(
    pattern: Pattern, ranks: int, times: TimesRecord, rules: Rules, *, uneven: bool = False, seed: int = 0
) -> PointRecord:
    """The time of a step on so many ranks.

    Args:
        pattern: What they say.
        ranks: How many.
        times: How long each computes.
        rules: What messages cost.
        uneven: Whether they have different numbers of samples; for the record.
        seed: Of the draws.
    """
    rng = np.random.default_rng([seed, ranks])
    kinds = messages_of(pattern, ranks, rules, times.ready)
    apart, gradients = times.before + times.update, times.gradients
    mean, computing = _mean(apart, gradients, ranks, kinds)
    again = [_mean(a, b, ranks, kinds)[0] for a, b in resampled(times, RESAMPLES, rng)]
    low, high = np.percentile(again, _INTERVAL)
    drawn = slowest(gradients, ranks, DRAWS, rng)
    steps = [slowest(apart, ranks, DRAWS, rng) + kind.agreeing + drawn + kind.exposed(drawn) for kind in kinds]
    least, most = np.percentile(np.concatenate(steps), _MOST)
    slow = expected_slowest(gradients, ranks)
    sent_least, sent_most = pattern.volume(ranks)
    return PointRecord(
        ranks=ranks, batch=times.batch, mean=mean, low=min(float(low), mean), high=max(float(high), mean),
        least=min(float(least), mean), most=max(float(most), mean), computing=computing, communicating=mean - computing,
        costs=_costs(kinds, slow), sent_least=sent_least, sent_most=sent_most, uneven=uneven, beyond=ranks > len(gradients),
    )  # fmt: skip


def _mean(apart: Seconds, gradients: Seconds, ranks: int, kinds: Sequence[Messages]) -> tuple[float, float]:
    """The mean step over the kinds, and the computing in it."""
    slow = expected_slowest(gradients, ranks)
    computing = expected_slowest(apart, ranks) + slow
    return computing + float(np.mean([kind.agreeing + float(kind.exposed(slow)) for kind in kinds])), computing


def _costs(kinds: Sequence[Messages], slow: float) -> list[CostRecord]:
    records = []
    for number, kind in enumerate(kinds, 1):
        when = f"step {number} of {len(kinds)}: " if len(kinds) > 1 else ""
        total = sum(cost.seconds for cost in kind.costs if cost.call.phase is not Phase.AGREEING)
        hidden = total - float(kind.exposed(slow))
        hidden = hidden if hidden > 1e-6 * total else 0.0  # what is left of a difference of equal numbers is nothing
        for cost in kind.costs:
            description = f"{when}{cost.call.operation} of {cost.call.size} bytes"
            share = hidden * cost.seconds / total if total and cost.call.phase is not Phase.AGREEING else 0.0
            records.append(CostRecord(what=description, algorithm=cost.algorithm, seconds=cost.seconds, hidden=share))
    return records

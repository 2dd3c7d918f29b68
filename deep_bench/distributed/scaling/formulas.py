r"""A step's time by closed formulas: how long one rank computes, and what its messages cost.

All ranks agree before a step and, in most schemes, wait for each other after their gradients. With :math:`A_i` what a rank
does between its gradients' exchange and the next agreement (update, loading), :math:`B_i` its gradients, and :math:`C` the
messages,

.. math:: T = \max_i A_i + C_\text{agree} + \max_i B_i + C_\text{exposed}.

The maxima are over as many independent draws from the measured times as there are ranks. Where messages overlap with
gradients, bucket :math:`j` leaves when its share :math:`s_j` of the slowest rank's gradients is done and the one before it
is through: :math:`f_j = \max(f_{j-1}, s_j B) + c_j`, and :math:`C_\text{exposed} = \max(f - B, 0)`.

Source:
    Order statistics: David and Nagaraja, *Order statistics*, 3rd ed. 2003, section 2.1. Messages: LogGP, by the formulas
    of `deep_bench.distributed.loggp`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.arrays import NUMPY
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.communicators.local import LocalCommunicator
from deep_bench.distributed.flat import FlatLayout
from deep_bench.distributed.loggp import ALGORITHMS, Costs, posted_exchange, predictions, send_gap
from deep_bench.distributed.optimizer import DistributedOptimizer
from deep_bench.distributed.scaling.pattern import Pattern
from deep_bench.distributed.scaling.record import CostRecord, RanksPointRecord, TimesRecord
from deep_bench.distributed.scaling.trace import MESSAGES, CallPhase, TracedCall, TracedScheme, end_if_interrupted
from deep_bench.distributed.training.train import scheme_of, train
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.events import Moment
from deep_bench.training.optimizer import Optimizer
from deep_bench.training.recipes import Recipe
from deep_bench.training.record import RankRecord, RunRecord

Seconds = NDArray[np.float64]

LEAST = 30
"""Steps that are measured at least, besides those of the warm-up."""


_FEWEST = LEAST // 2
"""Of them with the batch that is asked for; in epochs of one whole batch every other step has another"""


_WARM = 5
_NEVER = 2**62


def measured_times(recipe: Recipe, on: str, scheme: TracedScheme, batch: int, budget: float) -> TimesRecord:
    """Train on one rank with batches of one size, and keep how long each step took.

    What the scheme does besides its messages (packing, its own arithmetic on one rank) is part of it.

    Args:
        recipe: What is trained.
        on: A framework.
        scheme: What keeps ranks together.
        batch: Samples of a rank in a step.
        budget: Seconds for measuring, as far as `LEAST` steps do not take longer.

    Raises:
        InvalidArgument: Too few steps had so many samples, of which no prediction is made.
        KeyboardInterrupt: Ctrl-C or SIGTERM ended the run.
    """
    stop = _Stop(budget)
    stamps: list[dict[str, int]] = []
    trainer = train(
        recipe.changed(f"sampler.batch={batch}", "evaluation.every=0"),
        on=on,
        over=LocalCommunicator(),
        scheme=_stamped(scheme, stamps) if scheme.overlaps else scheme.traced,
        callbacks=[stop],
        stop_at_target=False,
    )
    trainer.every = _NEVER
    trainer.run(epochs=_NEVER)
    end_if_interrupted(trainer)
    facts = trainer.ranks.facts()
    assert facts is not None
    times = _of_rank(facts.ranks[0], np.array(trainer.history.stamps), batch, skipped=_WARM)
    if len(times.gradients) < _FEWEST:
        raise InvalidArgument(
            f"{len(times.gradients)} of {trainer.history.steps} steps had {batch} samples ({trainer.ending})",
            f"at least {_FEWEST}: from fewer nobody knows the slowest of many",
            "a smaller batch (sampler.batch=…), or more samples: the last batch of an epoch is shorter and does not count",
        )
    times.source = f"measured on one rank, {trainer.history.steps} steps with {on}"
    if scheme.overlaps:
        arrays = {name: NUMPY.host(trainer.taker.device.to_numpy(x)) for name, x in trainer.taker.parameters.items()}
        times.ready = _ready(scheme, arrays, stamps)
    return times


class _Stop:
    """Ends a run after some time."""

    moments = (Moment.AFTER_STEP,)

    def __init__(self, budget: float) -> None:
        self._budget, self._begun = budget, 0

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> bool:
        """Whether it is time."""
        del moment, data
        if index == _WARM:
            self._begun = time_ns
        return index >= LEAST + _WARM and time_ns - self._begun > self._budget * 1e9


def of_record(run: RunRecord, batch: int) -> TimesRecord:
    """The times of steps with so many samples of a rank, in a record of `deep-bench train --distributed`.

    Of several ranks all samples count, without what they spent in messages.

    Raises:
        InvalidArgument: The record has none.
    """
    ranks = [] if run.ranks is None else run.ranks.ranks
    parts = [_of_rank(rank, np.asarray(rank.stamps), batch, skipped=_WARM) for rank in ranks]
    parts = [part for part in parts if len(part.gradients)]
    if not parts:
        sizes = sorted({int(size) for rank in ranks for size in rank.samples})
        raise InvalidArgument(
            f"no steps with {batch} samples of a rank in the record (it has {sizes or 'no ranks'})",
            "a record of deep-bench train --distributed … with such batches",
            "leave the record out: they are measured then",
        )
    return TimesRecord(
        batch=batch, source=f"from a record of {len(ranks)} ranks", before=np.concatenate([part.before for part in parts]),
        gradients=np.concatenate([part.gradients for part in parts]), update=np.concatenate([part.update for part in parts]),
    )  # fmt: skip


def _of_rank(rank: RankRecord, stamps: NDArray[Any], batch: int, skipped: int) -> TimesRecord:
    """Loading, gradients and update of each step with so many samples, without messages."""
    overlapped = np.maximum(rank.communicating - rank.exposed, 0)
    gradients, update = rank.computing - overlapped, np.maximum(rank.updating - rank.exposed, 0)
    rows = stamps.reshape(-1, 5)[-len(gradients) :] if len(gradients) else np.zeros((0, 5))
    mask = (np.asarray(rank.samples) == batch) & (np.arange(len(gradients)) >= skipped)
    before = (rows[:, 1] - rows[:, 0]) if len(rows) == len(gradients) else np.zeros(len(gradients))
    seconds = [np.asarray(x, np.float64)[mask] / 1e9 for x in (before, gradients, update)]
    return TimesRecord(batch=batch, source="", before=seconds[0], gradients=seconds[1], update=seconds[2])


def _stamped(scheme: TracedScheme, into: list[dict[str, int]]) -> Callable[[Optimizer[Any, Any], Communicator], Any]:
    """The scheme, which notes when each gradient is there."""
    around = scheme_of(scheme.traced)

    def make(inner: Optimizer[Any, Any], comm: Communicator) -> DistributedOptimizer[Any, Any]:
        optimizer = around(inner, comm)
        begin = optimizer.begin

        def noting(samples: int | None) -> Callable[[str, Any], None]:
            begin(samples)
            into.append({"": perf_counter_ns()})
            return lambda name, _: into[-1].__setitem__(name, perf_counter_ns())

        object.__setattr__(optimizer, "begin", noting)
        return optimizer

    return make


def _ready(scheme: TracedScheme, arrays: Mapping[str, Any], stamps: Sequence[Mapping[str, int]]) -> list[float]:
    """When each bucket is complete, as a share of the time of gradients: the median over the steps."""
    layout = FlatLayout.of(arrays, NUMPY)
    names = [bucket.names for bucket in layout.buckets(getattr(scheme.made, "bucket", None))]
    rows = []
    for step in stamps[_WARM:]:
        if all(name in step for bucket in names for name in bucket):
            begin = step[""]
            last = max(step.values()) - begin
            rows.append([max(step[name] - begin for name in bucket) / max(last, 1) for bucket in names])
    return [float(value) for value in np.median(rows, axis=0)] if rows else [1.0] * len(names)


# The slowest of many
def slowest(samples: Seconds, ranks: int, draws: int, rng: np.random.Generator) -> Seconds:
    r"""Draws of the largest of so many independent draws from the samples: :math:`F^{-1}(U^{1/p})`, with :math:`F` that of
    the samples.

    Example:
        >>> found = slowest(np.array([1.0, 1.0, 1.0, 9.0]), 100, 1000, np.random.default_rng(0))
        >>> float(found.min()), float(slowest(np.array([1.0, 3.0]), 1, 10_000, np.random.default_rng(0)).mean().round(1))
        (9.0, 2.0)
    """
    ordered = np.sort(samples)
    at = np.ceil(rng.random(draws) ** (1 / ranks) * len(ordered)).astype(int) - 1
    return ordered[np.maximum(at, 0)]


def expected_slowest(samples: Seconds, ranks: int) -> float:
    r"""The mean of the largest of :math:`p` draws: :math:`\sum_k x_{(k)} [(k / n)^p - ((k - 1) / n)^p]`.

    Example:
        >>> expected_slowest(np.array([1.0, 3.0]), 1), expected_slowest(np.array([1.0, 3.0]), 2)
        (2.0, 2.5)
    """
    ordered = np.sort(samples)
    steps = (np.arange(len(ordered) + 1) / len(ordered)) ** ranks
    return float(ordered @ np.diff(steps))


def resampled(times: TimesRecord, count: int, rng: np.random.Generator) -> list[tuple[Seconds, Seconds]]:
    """Loading with update, and gradients, of as many steps drawn with replacement: so many times."""
    n = len(times.gradients)
    apart = times.before + times.update
    rows = rng.integers(n, size=(count, n))
    return [(apart[row], times.gradients[row]) for row in rows]


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
class CallCost:
    """What a call takes.

    Args:
        call: Which.
        seconds: How long.
        algorithm: By which algorithm.
    """

    call: TracedCall
    seconds: float
    algorithm: str


def collective_of(call: TracedCall) -> tuple[str, float]:
    """Name and bytes of a collective call as the formulas have them."""
    name = call.operation.replace("_", "-")
    return name, call.size / len(call.group) if name in ("allgather", "alltoall") else call.size


def cost(call: TracedCall, rules: Rules) -> CallCost:
    """What one call takes.

    Raises:
        InvalidArgument: The algorithm that was named does not work for so many ranks.
    """
    m = rules.machine
    if call.operation in MESSAGES:
        # messages one after the other, or at once; what comes is added up once
        n, out, come = call.size, len(call.to), len(call.sources)
        if call.operation == "exchange":
            return CallCost(call, posted_exchange(max(out, come), n, m) + come * m.combining(n), "posted")
        count = out + come
        if count == 0:
            return CallCost(call, 0.0, "one after the other")
        adding = m.combining(n) if come else 0.0
        between = max(m.overhead(n) + adding, m.gap(n)) if come else send_gap(m, n)
        return CallCost(call, m.message(n) + adding + (count - 1) * between, "one after the other")
    ranks = len(call.group)
    if ranks < 2:
        return CallCost(call, 0.0, "alone")
    name, size = collective_of(call)
    candidates = predictions(name, ranks, size, m)  # type: ignore[arg-type]  # parts of arrays need not be whole bytes
    requested = rules.algorithms.get(name)
    chosen = next((candidate for candidate in candidates if requested in (None, candidate.algorithm)), None)
    if chosen is None:
        raise InvalidArgument(f"{requested} of {name} among {ranks} ranks", "a power of two", "leave the algorithm out")
    return CallCost(call, chosen.seconds, chosen.algorithm)


def step_costs(pattern: Pattern, ranks: int, number: int, rules: Rules) -> list[CallCost]:
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

    def __init__(self, costs: Sequence[CallCost], ready: Sequence[float], overlap_from: int | None) -> None:
        self.costs = list(costs)
        by_phase = {phase: [cost for cost in costs if cost.call.phase is phase] for phase in CallPhase}
        self.agreeing = sum(cost.seconds for cost in by_phase[CallPhase.AGREEING])
        self._beside = sum(cost.seconds for cost in by_phase[CallPhase.COMPUTING])
        updating = by_phase[CallPhase.UPDATING]
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
) -> RanksPointRecord:
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
    records = []
    for number, kind in enumerate(kinds, 1):
        when = f"step {number} of {len(kinds)}: " if len(kinds) > 1 else ""
        total = sum(cost.seconds for cost in kind.costs if cost.call.phase is not CallPhase.AGREEING)
        hidden = total - float(kind.exposed(slow))
        hidden = hidden if hidden > 1e-6 * total else 0.0  # what is left of a difference of equal numbers is nothing
        for cost in kind.costs:
            description = f"{when}{cost.call.operation} of {cost.call.size} bytes"
            share = hidden * cost.seconds / total if total and cost.call.phase is not CallPhase.AGREEING else 0.0
            records.append(CostRecord(what=description, algorithm=cost.algorithm, seconds=cost.seconds, hidden=share))
    return RanksPointRecord(
        ranks=ranks, batch=times.batch, mean=mean, low=min(float(low), mean), high=max(float(high), mean),
        least=min(float(least), mean), most=max(float(most), mean), computing=computing, communicating=mean - computing,
        costs=records, sent_least=sent_least, sent_most=sent_most, uneven=uneven, beyond=ranks > len(gradients),
    )  # fmt: skip


def _mean(apart: Seconds, gradients: Seconds, ranks: int, kinds: Sequence[Messages]) -> tuple[float, float]:
    """The mean step over the kinds, and the computing in it."""
    slow = expected_slowest(gradients, ranks)
    computing = expected_slowest(apart, ranks) + slow
    return computing + float(np.mean([kind.agreeing + float(kind.exposed(slow)) for kind in kinds])), computing

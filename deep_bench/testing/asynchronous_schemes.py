"""Anyone's asynchronous distributed optimizer, whose recorded course is repeated by the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from deep_bench.arrays import NUMPY
from deep_bench.check.arithmetic import Rounding, as_plain
from deep_bench.check.estimate import assess, pooled
from deep_bench.check.oracle import SAMPLES
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.optimizer import DistributedOptimizer
from deep_bench.errors import CommunicationFailed, InvalidArgument
from deep_bench.reference.distributed.neighbours import Gossip
from deep_bench.reference.distributed.server import Asynchronous, StaleSynchronous
from deep_bench.testing.schemes import (
    Arrays,
    SchemeFinding,
    SchemeProblem,
    SchemeReport,
    Unusable,
    drawn_problem,
    joined,
    located,
    pair_of,
    wide,
)

Record: TypeAlias = "list[tuple[int, int]]"
Make: TypeAlias = "Callable[[Communicator, Record], DistributedOptimizer[Any, Any]]"
Held: TypeAlias = "dict[tuple[int, int | None], Arrays]"
"""Parameters by rank and number of its step, from 0; ``None`` for those after ``finish``."""

_PULL = 0.5


def check_asynchronous(
    make: Make,
    reference: Asynchronous | StaleSynchronous | Gossip,
    *,
    ranks: Sequence[int] = (1, 2, 3, 4),
    steps: int = 4,
    orders: Sequence[int] = (0, 1, 2),
) -> SchemeReport:
    """Run an asynchronous optimizer on ranks that are threads, in orders that are drawn, and repeat each by the reference.

    Ranks take ``steps`` steps each, odd ones one more, and ``finish``; rank 0 serves where the scheme has a server. A
    gradient depends on the parameters it is computed at, so that staleness shows. Whoever knows the order of events records
    it: workers with the versions they had read, or pairs. The reference must allow that record; repeated by it, every rank
    must have held the same parameters after each of its steps, up to rounding (see `check_scheme`).

    Args:
        make: From a communicator and a list to the optimizer under test, which records into the list.
        reference: The scheme as it should be.
        ranks: Numbers of ranks.
        steps: Steps of each rank.
        orders: Seeds of the orders in which ranks go on.

    Raises:
        InvalidArgument: No ranks, no steps or no orders.

    Example:
        >>> import deep_bench as db
        >>> sgd = db.optimizers["sgd"](lr=0.1)
        >>> scheme = db.distributed_optimizers["asynchronous"]
        >>> check_asynchronous(lambda comm, log: scheme(sgd, comm, record=log), Asynchronous(sgd), ranks=(3,)).ok
        True
    """
    if not ranks or min(ranks) < 1 or steps < 1 or not orders:
        raise InvalidArgument(
            f"{list(ranks)} ranks, {steps} steps, {list(orders)} orders", "numbers of at least 1, an order"
        )
    findings: list[SchemeFinding] = []
    fewest, names = float("inf"), set[str]()
    for size in ranks:
        problem = drawn_problem(size, steps + 1, 0, np.dtype(np.float32), 0, contracts=False)
        for order in orders:
            record: Record = []
            try:
                runs = run_local(size, partial(_run, make, problem, record, steps, names), order=order)
            except (CommunicationFailed, Unusable) as error:
                message = "; ".join([str(error), *getattr(error, "__notes__", [])])
                findings.append(SchemeFinding(size, None, None, message))
                break
            held = {key: x for _, mine in runs for key, x in mine.items()}
            faults, bits = _judged(reference, problem, record, held)
            fewest = min(fewest, bits)
            if runs[0][0] != reference.promise:
                faults.insert(0, f"promises {runs[0][0]!r}; the reference {reference.promise!r}")
            findings += [SchemeFinding(size, None, None, f"order {order}: {fault}") for fault in faults[:1]]
            if faults:
                break
    return SchemeReport(", ".join(names), type(reference).__name__, tuple(ranks), steps, tuple(findings), fewest)


def _run(
    make: Make, problem: SchemeProblem, record: Record, steps: int, names: set[str], comm: LocalCommunicator
) -> tuple[str, Held]:
    """What the scheme promises, and what one rank held; the scheme's name is noted."""
    optimizer, rank = make(comm, record), comm.rank
    names.add(type(optimizer).__name__)
    snapshots: Held = {}
    held: Any = {name: x.copy() for name, x in problem.parameters.items()}
    if optimizer.dedicated and comm.size > 1 and rank == 0:
        held, _ = optimizer.serve(held, NUMPY)
    else:
        state = optimizer.init(held, NUMPY)
        for step in range(steps + rank % 2):
            gradients = {n: np.asarray(g) for n, g in _slopes(problem.gradients[step][rank], held).items()}
            held, state = pair_of(optimizer.update(gradients, state, held, NUMPY), step)
            snapshots[rank, step] = {name: np.array(x) for name, x in held.items()}
        held, _ = optimizer.finish(state, held, NUMPY)
    snapshots[rank, None] = {name: np.array(x) for name, x in held.items()}
    return optimizer.promise, snapshots


def _slopes(drawn: Arrays, at: Arrays) -> Arrays:
    return {name: g + _PULL * at[name] for name, g in drawn.items()}


def _judged(reference: Any, problem: SchemeProblem, record: Record, held: Held) -> tuple[list[str], float]:
    """What is wrong with a run, and the fewest bits."""
    took = Counter(rank for rank, step in held if step is not None)
    if (step_counts := Counter(rank for rank, _ in record)) != took:
        return [f"steps recorded by rank: {dict(sorted(step_counts.items()))}; taken: {dict(sorted(took.items()))}"], 0.0
    try:
        plain = _replayed(reference, problem, record, None)
    except InvalidArgument as error:
        return [f"the record {record}: {error.came}"], 0.0
    samples = [_replayed(reference, problem, record, np.random.default_rng(n)) for n in range(SAMPLES["quick"])]
    fewest = float("inf")
    for (rank, step), expected in plain.items():
        expectation = pooled(joined(expected), [joined(s[rank, step]) for s in samples], problem.dtype)
        opinion = assess(joined(held[rank, step]), expectation)
        fewest = min(fewest, opinion.bits)
        if opinion.level != "clear":
            when = "after finish" if step is None else f"after its step {step + 1}"
            return [f"rank {rank} {when}: {located(held[rank, step], opinion, expectation)}"], fewest
    return [], fewest


def _replayed(reference: Any, problem: SchemeProblem, record: Record, rng: np.random.Generator | None) -> Held:
    """What ranks hold where the record is repeated in float64, with rounding errors if they can be drawn.

    What a worker got from a server after its last gradient is not recorded, and not here.
    """
    rounding = Rounding(problem.dtype, rng)

    def gradients_of(worker: int, parameters: Arrays, count: int) -> Arrays:
        return _slopes(wide(problem.gradients[count][worker], rounding), parameters)

    start, clocks = wide(problem.parameters, rounding), Counter[int]()
    snapshots: Held = {}
    if isinstance(reference, Gossip):
        events = reference.run(record, gradients_of, [start] * problem.size).parameters
        for event, (rank, _) in enumerate(record):
            snapshots[rank, clocks[rank]] = events[event + 1][rank]
            clocks[rank] += 1
        snapshots |= {(rank, None): x for rank, x in enumerate(events[-1])}
    else:
        versions = reference.run(record, gradients_of, start).versions
        for worker, version in record:
            if clocks[worker]:
                snapshots[worker, clocks[worker] - 1] = versions[version]
            clocks[worker] += 1
        snapshots |= {(rank, None): versions[-1] for rank in range(problem.size)}
    return {key: {name: np.asarray(as_plain(x)) for name, x in arrays.items()} for key, arrays in snapshots.items()}

"""What the ranks of a few small runs say to each other: the recipe and the scheme as they are, over local ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.communicators.counting import OPERATIONS, Counting
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.optimizer import DistributedOptimizer
from deep_bench.distributed.training.train import scheme_of, train
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.events import Moment
from deep_bench.training.recipes import Recipe
from deep_bench.training.trainer import INTERRUPTED, Trainer
from deep_bench.training.workload import workload


class CallPhase(IntEnum):
    """When in a step a call begins."""

    AGREEING = 0
    """Before it: ranks agree that there is one."""
    COMPUTING = 1
    """Before its gradients are there; it is waited for afterwards."""
    UPDATING = 2
    """After its gradients."""


COLLECTIVE = ("allgather", "allreduce", "alltoall", "barrier", "broadcast", "gather", "reduce", "reduce_scatter", "scatter")
MESSAGES = ("send", "recv", "exchange")


@dataclass(frozen=True, slots=True)
class TracedCall:
    """One call of a communicator, or several messages of one kind that follow each other.

    Args:
        operation: One of `COLLECTIVE` or `MESSAGES`. An exchange sends to some and receives from some at once.
        size: Bytes: of the array that the operation is about (`deep_bench.distributed.communicators.counting.moved`); of one
            message.
        phase: When it begins.
        group: The ranks that call it together; empty for messages.
        root: The rank it goes to or comes from.
        to: The ranks that messages go to.
        sources: The ranks that messages come from.
        share: Bytes that this rank gave to an allgather; 0 elsewhere.
    """

    operation: str
    size: int
    phase: CallPhase
    group: tuple[int, ...] = ()
    root: int | None = None
    to: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()
    share: int = 0

    @property
    def sent(self) -> float:
        """Bytes that this rank sends; of collective operations the mean over its ranks, by the usual algorithms."""
        from deep_bench.distributed.communicators.counting import moved

        if self.operation in MESSAGES:
            return float(self.size * len(self.to))
        return float(moved(self.operation, self.size, max(len(self.group), 1)))


TracedStep: TypeAlias = tuple[TracedCall, ...]


def joined(calls: Sequence[TracedCall]) -> TracedStep:
    """Calls with messages of one kind and size that follow each other as one.

    Example:
        >>> both = [TracedCall("recv", 8, CallPhase.UPDATING, sources=(rank,)) for rank in (1, 2)]
        >>> [(call.operation, call.sources) for call in joined(both)]
        [('recv', (1, 2))]
    """
    merged_calls: list[TracedCall] = []
    for call in calls:
        last = merged_calls[-1] if merged_calls else None
        if last is not None and call.operation in ("send", "recv") and _alike(last, call):
            merged_calls[-1] = replace(last, to=last.to + call.to, sources=last.sources + call.sources)
        else:
            merged_calls.append(call)
    return tuple(merged_calls)


def _alike(first: TracedCall, second: TracedCall) -> bool:
    return (first.operation, first.size, first.phase) == (second.operation, second.size, second.phase)


_PER_RANK = 2
"""Samples of a rank in a step that is traced: messages do not depend on them."""


_NEVER = 2**62
_LEAST_STEPS = 8
_MOST_EVERY = 64
_MOST_PER_NODE = 16


class Tracing(Counting):
    """Counts calls, and knows of every group that is split from it which ranks it has."""

    def __init__(self, comm: Communicator) -> None:
        super().__init__(comm)
        self._world, self.groups = comm.rank, {0: tuple(range(comm.size))}

    def split(self, color: int | None, key: int = 0) -> Tracing | None:
        """See `Communicator.split`."""
        group = super().split(color, key)
        if group is None:
            return None
        member = Tracing.__new__(Tracing)
        member.__dict__.update(vars(group))
        member._world, member.groups = self._world, self.groups
        ranks = group.inner.allgather(np.array([self._world], np.int64)).reshape(-1)
        self.groups[group._group] = tuple(ranks.tolist())
        return member


@dataclass(frozen=True)
class RunTrace:
    """A run on a few ranks.

    Args:
        ranks: How many.
        steps: Of each rank, its steps, from the second on; in the first one groups are made.
    """

    ranks: int
    steps: tuple[tuple[TracedStep, ...], ...]


@dataclass(frozen=True)
class TracedScheme:
    """A scheme as it is asked for, and as it is traced.

    Args:
        text: As it was written.
        traced: The same without overlap: local ranks are of one thread each. The messages are the same.
        made: An instance of one rank.
        network: The name of what is trained.
    """

    text: str
    traced: str
    made: DistributedOptimizer[Any, Any]
    network: str = ""

    @property
    def overlaps(self) -> bool:
        """Whether messages go while gradients are computed."""
        return self.text != self.traced

    @property
    def steps(self) -> int:
        """So many must be traced until it has repeated itself."""
        every = getattr(self.made, "every", 1)
        if not isinstance(every, int) or every > _MOST_EVERY:
            raise Unsupported(f"every={every} of {self.text}", f"at most {_MOST_EVERY}: all steps in between are traced")
        return max(2 * every, _LEAST_STEPS) + 1


def scheme_to_trace(text: str, recipe: Recipe) -> TracedScheme:
    """A scheme of the command line.

    Raises:
        InvalidArgument: Its nodes are those that ranks run on, have one rank, or are too large to trace several.
        Unsupported: Its ranks have no step in common.
        UnknownName: As `scheme_of`.

    Example:
        >>> from deep_bench.training.recipes import load_recipe
        >>> scheme_to_trace("allreduce:overlap=true,bucket=1000", load_recipe("digits")).traced
        'allreduce:bucket=1000'
    """
    name, _, tail = text.partition(":")
    settings = [part for part in tail.split(",") if part]
    remaining = [
        part for part in settings if part.replace(" ", "").lower() not in ("overlap=true", "overlap=yes", "overlap=on")
    ]
    traced = f"{name}:{','.join(remaining)}" if remaining else name
    work = workload(recipe)
    optimizer = scheme_of(traced)(work.optimizer, LocalCommunicator())
    if not optimizer.lockstep:
        raise Unsupported(
            f"{name}: its ranks take steps each on their own, so that who says what to whom, and when, depends on who is "
            "faster: a pattern of few ranks says nothing about many",
            "a scheme whose ranks take each step together: allreduce, parameter-server, averaging, decentralised, …",
        )
    if getattr(optimizer, "until", 0):
        raise Unsupported(
            f"{text}, whose first steps are another scheme than those after them",
            "each by itself: allreduce, and averaging:every=…",
        )
    per_node = getattr(optimizer, "per_node", 2)
    if per_node is None or not 2 <= per_node <= _MOST_PER_NODE:
        came = "ranks on a host of the same name are a node" if per_node is None else f"nodes have so many ranks: {per_node}"
        raise InvalidArgument(
            f"{text}, whose {came}: ranks are traced on this host alone, and at most {3 * _MOST_PER_NODE} of them",
            f"how many ranks a node has, 2 to {_MOST_PER_NODE}",
            f"--distributed {name}:per_node=4",
        )
    return TracedScheme(text, traced if len(remaining) < len(settings) else text, optimizer, work.network.name)


def traced(
    recipe: Recipe, on: str, scheme: TracedScheme, ranks: int, *, steps: int | None = None, uneven: bool = False
) -> RunTrace:
    """Train a little on so many local ranks, and write down what they say.

    Args:
        recipe: What is trained.
        on: A framework.
        scheme: What keeps ranks together.
        ranks: How many.
        steps: How many of them; as many as the scheme needs by default.
        uneven: Whether one rank has a sample more than another.

    Example:
        >>> from deep_bench.training.recipes import load_recipe
        >>> recipe = load_recipe("digits", "network.name=mlp")
        >>> trace = traced(recipe, "reference", scheme_to_trace("allreduce", recipe), 2, steps=2)
        >>> [(call.operation, call.size, call.phase.name) for call in trace.steps[1][0]]
        [('allreduce', 40, 'AGREEING'), ('allreduce', 68904, 'UPDATING')]
    """
    small = recipe.changed(f"sampler.batch={_PER_RANK * ranks + uneven}", "evaluation.every=0")
    take = partial(_on_rank, small, on, scheme, steps or scheme.steps)
    return RunTrace(ranks, tuple(tuple(rank_steps) for rank_steps in run_local(ranks, take)))


def _on_rank(recipe: Recipe, on: str, scheme: TracedScheme, steps: int, comm: Communicator) -> list[TracedStep]:
    tracing, marks = Tracing(comm), _Marks()
    trainer = train(recipe, on=on, over=tracing, scheme=scheme.traced, callbacks=[marks], stop_at_target=False)
    trainer.every = _NEVER
    trainer.run(steps=steps)
    end_if_interrupted(trainer)
    if trainer.history.steps < steps:
        raise InvalidArgument(f"a trace that ended in step {trainer.history.steps}: {trainer.ending}", f"{steps} steps")
    calls, log = tracing.calls, tracing.log
    rows = [{name: int(column[i]) for name, column in calls.items()} for i in range(len(calls["start_ns"]))]
    traced_steps = []
    for (_, _, begin), (agreed, computed, end) in zip(marks.found[:-1], marks.found[1:], strict=True):
        step_rows = [row for row in rows if begin <= row["start_ns"] < end]
        traced_steps.append(_step(step_rows, agreed, computed, tracing.groups, log))
    return traced_steps


def end_if_interrupted(trainer: Trainer[Any]) -> None:
    """End what a run was a part of, where Ctrl-C or SIGTERM ended the run after a step: it would look complete.

    Raises:
        KeyboardInterrupt: So it was.
    """
    if trainer.ending == INTERRUPTED:
        raise KeyboardInterrupt


class _Marks:
    """When each step was agreed on, had its gradients, and ended."""

    moments = (Moment.BEFORE_STEP, Moment.AFTER_STEP)

    def __init__(self) -> None:
        self.found: list[tuple[int, int, int]] = []
        self._agreed = 0

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> None:
        """Note a moment."""
        del index
        if moment is Moment.BEFORE_STEP:
            self._agreed = time_ns
        else:
            self.found.append((self._agreed, data.trainer.taker.update_ns, time_ns))


def _step(
    rows: Sequence[Mapping[str, int]], agreed: int, computed: int, groups: Mapping[int, tuple[int, ...]], log: Any
) -> TracedStep:
    """The calls of one rank in one step."""
    calls: list[TracedCall] = []
    for row in rows:
        phase = CallPhase.AGREEING if row["start_ns"] < agreed else CallPhase(1 + (row["start_ns"] >= computed))
        name, group = OPERATIONS[row["operation"]], groups[row["group"]]
        peers = log.peers(row["peer"])
        if name == "recv" and row["whole"] == 0 and calls and calls[-1].operation == "exchange":
            last = calls[-1]  # what came with it has lines of its own
            sources = (*last.sources, *(group[peer] for peer in peers))
            calls[-1] = TracedCall("exchange", last.size, last.phase, to=last.to, sources=sources)
        else:
            calls.append(_call(name, row, phase, group, tuple(group[peer] for peer in peers)))
    return joined(calls)


def _call(name: str, row: Mapping[str, int], phase: CallPhase, group: tuple[int, ...], peers: tuple[int, ...]) -> TracedCall:
    if name in ("isend", "irecv", "split"):
        raise Unsupported(
            f"a step with {name}, of which a trace does not say what waits for it",
            "a scheme with exchange, sendrecv, send and recv, which makes its groups in the first step",
        )
    if name in ("sendrecv", "exchange"):
        return TracedCall("exchange", row["payload"] // max(len(peers), 1), phase, to=peers)
    if name == "send":
        return TracedCall("send", row["payload"], phase, to=peers)
    if name == "recv":
        return TracedCall("recv", row["payload"], phase, sources=peers)
    operation = "allreduce" if name == "iallreduce" else name
    assert operation in COLLECTIVE
    share = row["payload"] if operation == "allgather" else 0
    return TracedCall(operation, row["whole"], phase, group=group, root=peers[0] if peers else None, share=share)

"""A message pattern for any number of ranks, fitted to traces of few and checked against others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

from deep_bench.distributed.scaling.calls import MESSAGES, Call, Phase, Step
from deep_bench.distributed.scaling.forms import PEERS, Form, Who, differing, fitted, groups, roles
from deep_bench.distributed.scaling.trace import Trace
from deep_bench.errors import DeepBenchError

FIRST_STEP = 1
"""The number of the first step that a trace has."""

Shape = tuple[tuple[str, Phase], ...]


class DoesNotGeneralise(DeepBenchError):
    """What few ranks say does not tell what many would."""


@dataclass(frozen=True)
class Slot:
    """One call of a role in a step.

    Args:
        operation: See `Call`.
        phase: See `Call`.
        size: Bytes by the number of ranks.
        group: Name and function of the ranks that call it together; ``None`` for messages.
        root: The root's place in the group.
        to: Name and function of the ranks that are sent to.
        sources: Of those that are received from.
    """

    operation: str
    phase: Phase
    size: Form
    group: tuple[str, Who] | None = None
    root: int | None = None
    to: tuple[str, Who] = ("none", PEERS["none"])
    sources: tuple[str, Who] = ("none", PEERS["none"])

    def at(self, ranks: int, rank: int, step: int) -> Call:
        """The call."""
        size = self.size.at(ranks)
        if self.group is None:
            to, sources = self.to[1](ranks, rank, step), self.sources[1](ranks, rank, step)
            return Call(self.operation, size, self.phase, to=to, sources=sources)
        members = self.group[1](ranks, rank, step)
        return Call(self.operation, size, self.phase, members, None if self.root is None else members[self.root])

    def __str__(self) -> str:
        size = f"{self.size.name} bytes"
        if self.group is not None:
            return f"{self.operation} of {size} among {self.group[0]}"
        ends = [f"{way} {form[0]}" for way, form in (("to", self.to), ("from", self.sources)) if form[0] != "none"]
        return f"{self.operation} of {size} {', '.join(ends)}"


@dataclass(frozen=True)
class Pattern:
    """What ranks say in a step, for any number of them.

    Args:
        steps: Kinds of steps, which follow each other in turn; of each, what a rank of each role calls.
        roles: Name of the roles, and the function from a rank to its own.
        fitted: The numbers of ranks that it was fitted to.
        checked: Those of traces that it was compared with afterwards.
        uneven: The largest share of a rank in an allgather over the mean one, by the number of ranks; where not 1.
    """

    steps: tuple[tuple[tuple[Slot, ...], ...], ...]
    roles: tuple[str, Callable[[int], int]]
    fitted: tuple[int, ...]
    checked: tuple[int, ...] = ()
    uneven: Mapping[int, float] = field(default_factory=dict)

    @property
    def period(self) -> int:
        """How many kinds of steps there are."""
        return len(self.steps)

    def step(self, ranks: int, rank: int, number: int) -> Step:
        """What a rank calls in a step."""
        of_role = self.steps[number % self.period]
        return tuple(slot.at(ranks, rank, number) for slot in of_role[self.roles[1](rank)])

    def representatives(self, ranks: int) -> list[int]:
        """A rank of each role that there is."""
        by_role: dict[int, int] = {}
        for rank in range(min(ranks, 16)):
            by_role.setdefault(self.roles[1](rank), rank)
        return list(by_role.values())

    def volume(self, ranks: int) -> tuple[float, float]:
        """Bytes that a rank sends in a step, on average over the kinds of steps: of the role with the least and the most."""
        means = []
        for rank in self.representatives(ranks):
            total = sum(call.sent for number in range(self.period) for call in self.step(ranks, rank, number))
            means.append(total / self.period)
        return min(means), max(means)

    def lines(self) -> list[str]:
        """In words."""
        lines = []
        for number, of_role in enumerate(self.steps):
            when = f"step {number} of {self.period}: " if self.period > 1 else ""
            for role, slots in enumerate(of_role):
                prefix = "" if len(of_role) == 1 else f"{self.roles[0]}, {('the first', 'the others')[role]}: "
                lines.append(f"{when}{prefix}{'; '.join(map(str, slots)) or 'nothing'}")
        return lines


def generalised(traces: Sequence[Trace]) -> Pattern:
    """The simplest pattern that all traces have.

    Args:
        traces: Of different numbers of ranks.

    Raises:
        DoesNotGeneralise: None of the known forms has them; says which call, and what it did.
    """
    period = _period(traces)
    role = _roles(traces, period)
    count = 1 + max(role[1](rank) for trace in traces for rank in range(trace.ranks))
    steps = tuple(tuple(_slots(traces, period, kind, role, number) for number in range(count)) for kind in range(period))
    return Pattern(steps, role, tuple(trace.ranks for trace in traces), uneven=_uneven(traces))


def check(pattern: Pattern, trace: Trace) -> None:
    """Compare a pattern with a trace, call by call.

    Raises:
        DoesNotGeneralise: It has something else.
    """
    for rank, steps in enumerate(trace.steps):
        for number, step in enumerate(steps, FIRST_STEP):
            expected = pattern.step(trace.ranks, rank, number)
            of_role = pattern.steps[number % pattern.period][pattern.roles[1](rank)]
            identical = len(expected) == len(step) and all(
                _plain(expected_call) == _plain(actual_call) and not differing(slot.size, {trace.ranks: actual_call.size})
                for expected_call, actual_call, slot in zip(expected, step, of_role, strict=True)
            )
            if not identical:
                raise DoesNotGeneralise(
                    f"rank {rank} of {trace.ranks} in step {number}: {_told(step)}",
                    f"{_told(expected)}, which is what {', '.join(map(str, pattern.fitted))} ranks do",
                )


def _plain(call: Call) -> tuple[object, ...]:
    return call.operation, call.phase, call.group, call.root, sorted(call.to), sorted(call.sources)


def _told(step: Step) -> str:
    words = []
    for call in step:
        where = f" among {len(call.group)}" if call.group else ""
        where += f" to {list(call.to)}" if call.to else ""
        where += f" from {list(call.sources)}" if call.sources else ""
        words.append(f"{call.operation} of {call.size} bytes{where}")
    return "; ".join(words) or "nothing"


def _shape(step: Step) -> Shape:
    return tuple((call.operation, call.phase) for call in step)


def _sized(step: Step) -> tuple[tuple[str, Phase, int], ...]:
    return tuple((call.operation, call.phase, call.size) for call in step)


def _period(traces: Sequence[Trace]) -> int:
    """After how many steps all ranks of all traces do the same again, but for whom they talk to."""
    shortest = min(len(trace.steps[0]) for trace in traces)
    rows = [[_sized(step) for step in steps[:shortest]] for trace in traces for steps in trace.steps]
    for period in range(1, shortest // 2 + 1):
        if all(row[i] == row[i + period] for row in rows for i in range(shortest - period)):
            return period
    trace, rank, first, second = next(
        (trace, rank, current, following)
        for trace in traces
        for rank, steps in enumerate(trace.steps)
        for current, following in pairwise(steps)
        if _sized(current) != _sized(following)
    )
    raise DoesNotGeneralise(
        f"steps that do not repeat themselves within {shortest}: of {trace.ranks} ranks, rank {rank} had "
        f"{_told(first)}; then "
        f"{_told(second)}",
        "steps with the same messages again and again",
        "trace more steps, if they do after some time; messages whose size depends on the data cannot be predicted",
    )


def _roles(traces: Sequence[Trace], period: int) -> tuple[str, Callable[[int], int]]:
    largest = max(trace.ranks for trace in traces) // 2
    for name, role in roles(max(largest, 2)).items():
        if all(_consistent(trace, role, kind) for trace in traces for kind in range(period)):
            return name, role
    trace = traces[-1]
    message = "; ".join(f"rank {rank}: {_told(steps[0])}" for rank, steps in enumerate(trace.steps))
    raise DoesNotGeneralise(
        f"ranks with roles of no known kind: of {trace.ranks}, {message}", "all alike, or one in k another"
    )


def _consistent(trace: Trace, role: Callable[[int], int], kind: int) -> bool:
    by_role: dict[int, object] = {}
    return all(
        by_role.setdefault(role(rank), _sized(steps[kind])) == _sized(steps[kind]) for rank, steps in enumerate(trace.steps)
    )


def _slots(
    traces: Sequence[Trace], period: int, kind: int, role: tuple[str, Callable[[int], int]], number: int
) -> tuple[Slot, ...]:
    """What a role calls in one kind of step; steps count from `FIRST_STEP`."""
    rows = [
        (trace.ranks, rank, step, calls)
        for trace in traces
        for rank, steps in enumerate(trace.steps)
        for step, calls in enumerate(steps, FIRST_STEP)
        if role[1](rank) == number and step % period == kind
    ]
    shapes = {_shape(calls) for *_, calls in rows}
    if len(shapes) > 1:
        first_calls, second_calls = (
            next(calls for *_, calls in rows if _shape(calls) == shape) for shape in list(shapes)[:2]
        )
        raise DoesNotGeneralise(
            f"calls that change with the number of ranks: {_told(first_calls)}; and {_told(second_calls)}", "the same"
        )
    slots = []
    for place in range(len(next(iter(shapes)))):
        slots.append(_slot([(p, rank, step, calls[place]) for p, rank, step, calls in rows]))
    return tuple(slots)


def _slot(rows: Sequence[tuple[int, int, int, Call]]) -> Slot:
    """The forms of one call, given all that was seen of it."""
    first = rows[0][3]
    sizes = {p: call.size for p, _, _, call in rows}
    size = fitted(sizes)
    if size is None:
        message = ", ".join(f"{value} at {p}" for p, value in sizes.items())
        raise DoesNotGeneralise(f"the bytes of {first.operation} by the number of ranks: {message}", "a known form")
    if first.operation in MESSAGES:
        return Slot(first.operation, first.phase, size, to=_who(rows, "to"), sources=_who(rows, "sources"))
    roots = {None if call.root is None else call.group.index(call.root) for *_, call in rows}
    if len(roots) > 1:
        raise DoesNotGeneralise(f"roots of {first.operation} that change: {sorted(map(str, roots))}", "one and the same")
    return Slot(first.operation, first.phase, size, _who(rows, "group"), roots.pop())


@cache
def _group_forms(largest: int) -> Mapping[str, Who]:
    return groups(largest)


def _who(rows: Sequence[tuple[int, int, int, Call]], part: str) -> tuple[str, Who]:
    """The first form that has the ranks of a call in all traces."""
    forms = PEERS if part != "group" else _group_forms(max(max(p for p, *_ in rows) // 2, 2))
    for name, form in forms.items():
        if all(tuple(sorted(form(p, rank, step))) == tuple(sorted(getattr(call, part))) for p, rank, step, call in rows):
            return name, form
    p, rank, step, call = rows[-1]
    raise DoesNotGeneralise(
        f"ranks of no known form: in {call.operation}, rank {rank} of {p} in step {step} with {list(getattr(call, part))}",
        f"one of: {'; '.join(forms)}",
    )


def _uneven(traces: Sequence[Trace]) -> dict[int, float]:
    ratios = {}
    for trace in traces:
        calls = [call for steps in trace.steps for step in steps for call in step if call.share]
        ratio = max((call.share * len(call.group) / call.size for call in calls), default=1.0)
        if ratio > 1.01:
            ratios[trace.ranks] = ratio
    return ratios

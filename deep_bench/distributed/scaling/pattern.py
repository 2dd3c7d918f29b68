"""A message pattern for any number of ranks, fitted to traces of few and checked against others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import pairwise
from math import isqrt
from typing import TypeAlias

from deep_bench.distributed.scaling.trace import MESSAGES, CallPhase, RunTrace, TracedCall, TracedScheme, TracedStep, traced
from deep_bench.errors import DeepBenchError
from deep_bench.training.recipes import Recipe

Value: TypeAlias = Callable[[int], float]
Who: TypeAlias = Callable[[int, int, int], tuple[int, ...]]
"""Number of ranks, rank, number of the step to ranks."""


_ROUNDED = 8
"""Bytes by which a part may differ from the exact one, as parts are whole elements; but by no more than"""


_OF_IT = 0.01


@dataclass(frozen=True)
class Form:
    """A number as a function of the number of ranks.

    Args:
        name: In words, with ``p`` for the number of ranks.
        value: The function.
    """

    name: str
    value: Value

    def at(self, ranks: int) -> int:
        """The number, for so many ranks."""
        return round(self.value(ranks))


def logarithm(p: int) -> int:
    r""":math:`\lceil \log_2 p \rceil`."""
    return (p - 1).bit_length()


def fitted_form(points: Mapping[int, int]) -> Form | None:
    """The first form, from the simplest to the richest, that has all the points; ``None`` where none has.

    Args:
        points: Number of ranks to number.

    Example:
        >>> fitted_form({2: 8, 3: 16, 4: 24}).name, fitted_form({2: 60, 3: 40, 4: 30}).name, fitted_form({2: 1, 3: 5, 4: 2})
        ('8 (p - 1)', '120 / p', None)
    """
    (p, first), *_ = points.items()
    candidates = [
        Form(f"{first}", lambda _: first),
        Form(f"{first / p:g} p", lambda r: first / p * r),
        Form(f"{first / (p - 1):g} (p - 1)", lambda r: first / (p - 1) * (r - 1)),
        Form(f"{first * p:g} / p", lambda r: first * p / r),
    ]
    if logarithm(p):
        candidates.append(Form(f"{first / logarithm(p):g} ceil(log2 p)", lambda r: first / logarithm(p) * logarithm(r)))
    if len(points) > 2:  # a line goes through any two points
        (q, second) = list(points.items())[-1]
        slope = (second - first) / (q - p)
        start = first - slope * p
        candidates.append(Form(f"{start:g} + {slope:g} p", lambda r: start + slope * r))
    return next((form for form in candidates if not differing(form, points)), None)


def differing(form: Form, points: Mapping[int, int]) -> list[int]:
    """The numbers of ranks at which a form does not have the point."""
    parts = form.name.endswith("/ p")
    return [
        p
        for p, value in points.items()
        if abs(form.value(p) - value) > (min(_ROUNDED, _OF_IT * value) if parts else 1e-9 * max(value, 1))
    ]


def _offsets(p: int) -> list[int]:
    """How much further the ranks of an exponential graph are, each once, the nearest first."""
    return sorted({2**k % p for k in range(logarithm(p))} - {0})


def _torus(p: int, rank: int) -> tuple[int, ...]:
    rows = next(rows for rows in range(isqrt(p), 0, -1) if p % rows == 0)
    columns = p // rows
    row, column = divmod(rank, columns)
    beside = [row * columns + (column + by) % columns for by in (-1, 1)]
    beside += [(row + by) % rows * columns + column for by in (-1, 1)]
    return tuple(sorted(set(beside) - {rank}))


def _beside(*by: int) -> Who:
    return lambda p, r, _: tuple(sorted({(r + offset) % p for offset in by} - {r}))


def _exponential(sign: int) -> Who:
    return lambda p, r, _: tuple(sorted({(r + sign * by) % p for by in _offsets(p)} - {r}))


def _in_turn(offsets: Callable[[int], list[int]], sign: int) -> Who:
    def peers(p: int, r: int, step: int) -> tuple[int, ...]:
        shifts = offsets(p)
        return ((r + sign * shifts[step % len(shifts)]) % p,) if shifts else ()

    return peers


def _of_ring(p: int) -> list[int]:
    return sorted({1 % p, (p - 1) % p} - {0})


def _of_all(p: int) -> list[int]:
    return list(range(1, p))


PEERS: Mapping[str, Who] = {
    "none": lambda _p, _r, _t: (),
    "rank 0": lambda _p, _r, _t: (0,),
    "all others": lambda p, r, _t: tuple(other for other in range(p) if other != r),
    "the next on a ring": _beside(1),
    "the one before on a ring": _beside(-1),
    "both beside on a ring": _beside(-1, 1),
    "those 1, 2, 4 … further": _exponential(1),
    "those 1, 2, 4 … before": _exponential(-1),
    "the four beside on a torus": lambda p, r, _t: _torus(p, r),
    "one of those 1, 2, 4 … further, in turn": _in_turn(_offsets, 1),
    "one of those 1, 2, 4 … before, in turn": _in_turn(_offsets, -1),
    "one of both on a ring, in turn": _in_turn(_of_ring, 1),
    "one of both on a ring, in turn, that sends here": _in_turn(_of_ring, -1),
    "one of all, in turn": _in_turn(_of_all, 1),
    "one of all, in turn, that sends here": _in_turn(_of_all, -1),
}
"""Name to the ranks that one talks to."""


@cache
def _all(p: int) -> tuple[int, ...]:
    return tuple(range(p))


def _runs(k: int) -> Who:
    return lambda p, r, _: tuple(range(r // k * k, min(r // k * k + k, p)))


def _strides(k: int) -> Who:
    return lambda p, r, _: tuple(range(r % k, p, k))


def groups(largest: int) -> dict[str, Who]:
    """Name to the ranks that call something together, for groups of up to so many ranks that follow each other."""
    by_name: dict[str, Who] = {"all ranks": lambda p, _r, _t: _all(p)}
    for k in range(2, largest + 1):
        by_name[f"runs of {k} ranks"] = _runs(k)
        by_name[f"every rank number {k}"] = _strides(k)
    return by_name


def roles(largest: int) -> dict[str, Callable[[int], int]]:
    """Name to the role of a rank, 0 or 1."""
    by_name: dict[str, Callable[[int], int]] = {"all ranks alike": lambda _: 0}
    by_name["rank 0, and the others"] = lambda r: int(r > 0)
    for k in range(2, largest + 1):
        by_name[f"every rank number {k}, and the others"] = _every(k)
    return by_name


def _every(k: int) -> Callable[[int], int]:
    return lambda r: int(r % k > 0)


FIRST_STEP = 1
"""The number of the first step that a trace has."""


Shape = tuple[tuple[str, CallPhase], ...]


class DoesNotGeneralise(DeepBenchError):
    """What few ranks say does not tell what many would."""


@dataclass(frozen=True)
class CallSlot:
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
    phase: CallPhase
    size: Form
    group: tuple[str, Who] | None = None
    root: int | None = None
    to: tuple[str, Who] = ("none", PEERS["none"])
    sources: tuple[str, Who] = ("none", PEERS["none"])

    def at(self, ranks: int, rank: int, step: int) -> TracedCall:
        """The call."""
        size = self.size.at(ranks)
        if self.group is None:
            to, sources = self.to[1](ranks, rank, step), self.sources[1](ranks, rank, step)
            return TracedCall(self.operation, size, self.phase, to=to, sources=sources)
        members = self.group[1](ranks, rank, step)
        return TracedCall(self.operation, size, self.phase, members, None if self.root is None else members[self.root])

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

    steps: tuple[tuple[tuple[CallSlot, ...], ...], ...]
    roles: tuple[str, Callable[[int], int]]
    fitted: tuple[int, ...]
    checked: tuple[int, ...] = ()
    uneven: Mapping[int, float] = field(default_factory=dict)

    @property
    def period(self) -> int:
        """How many kinds of steps there are."""
        return len(self.steps)

    def step(self, ranks: int, rank: int, number: int) -> TracedStep:
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


def generalised(traces: Sequence[RunTrace]) -> Pattern:
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
    ratios = {}
    for trace in traces:
        calls = [call for steps in trace.steps for step in steps for call in step if call.share]
        ratio = max((call.share * len(call.group) / call.size for call in calls), default=1.0)
        if ratio > 1.01:
            ratios[trace.ranks] = ratio
    return Pattern(steps, role, tuple(trace.ranks for trace in traces), uneven=ratios)


def check_pattern(pattern: Pattern, trace: RunTrace) -> None:
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
                    f"rank {rank} of {trace.ranks} in step {number}: {_words(step)}",
                    f"{_words(expected)}, which is what {', '.join(map(str, pattern.fitted))} ranks do",
                )


def _plain(call: TracedCall) -> tuple[object, ...]:
    return call.operation, call.phase, call.group, call.root, sorted(call.to), sorted(call.sources)


def _words(step: TracedStep) -> str:
    words = []
    for call in step:
        where = f" among {len(call.group)}" if call.group else ""
        where += f" to {list(call.to)}" if call.to else ""
        where += f" from {list(call.sources)}" if call.sources else ""
        words.append(f"{call.operation} of {call.size} bytes{where}")
    return "; ".join(words) or "nothing"


def _shape(step: TracedStep) -> Shape:
    return tuple((call.operation, call.phase) for call in step)


def _sized(step: TracedStep) -> tuple[tuple[str, CallPhase, int], ...]:
    return tuple((call.operation, call.phase, call.size) for call in step)


def _period(traces: Sequence[RunTrace]) -> int:
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
        f"{_words(first)}; then "
        f"{_words(second)}",
        "steps with the same messages again and again",
        "trace more steps, if they do after some time; messages whose size depends on the data cannot be predicted",
    )


def _roles(traces: Sequence[RunTrace], period: int) -> tuple[str, Callable[[int], int]]:
    largest = max(trace.ranks for trace in traces) // 2
    for name, role in roles(max(largest, 2)).items():
        if all(_consistent(trace, role, kind) for trace in traces for kind in range(period)):
            return name, role
    trace = traces[-1]
    message = "; ".join(f"rank {rank}: {_words(steps[0])}" for rank, steps in enumerate(trace.steps))
    raise DoesNotGeneralise(
        f"ranks with roles of no known kind: of {trace.ranks}, {message}", "all alike, or one in k another"
    )


def _consistent(trace: RunTrace, role: Callable[[int], int], kind: int) -> bool:
    by_role: dict[int, object] = {}
    return all(
        by_role.setdefault(role(rank), _sized(steps[kind])) == _sized(steps[kind]) for rank, steps in enumerate(trace.steps)
    )


def _slots(
    traces: Sequence[RunTrace], period: int, kind: int, role: tuple[str, Callable[[int], int]], number: int
) -> tuple[CallSlot, ...]:
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
            f"calls that change with the number of ranks: {_words(first_calls)}; and {_words(second_calls)}", "the same"
        )
    slots = []
    for place in range(len(next(iter(shapes)))):
        slots.append(_slot([(p, rank, step, calls[place]) for p, rank, step, calls in rows]))
    return tuple(slots)


def _slot(rows: Sequence[tuple[int, int, int, TracedCall]]) -> CallSlot:
    """The forms of one call, given all that was seen of it."""
    first = rows[0][3]
    sizes = {p: call.size for p, _, _, call in rows}
    size = fitted_form(sizes)
    if size is None:
        message = ", ".join(f"{value} at {p}" for p, value in sizes.items())
        raise DoesNotGeneralise(f"the bytes of {first.operation} by the number of ranks: {message}", "a known form")
    if first.operation in MESSAGES:
        return CallSlot(first.operation, first.phase, size, to=_peers_form(rows, "to"), sources=_peers_form(rows, "sources"))
    roots = {None if call.root is None else call.group.index(call.root) for *_, call in rows}
    if len(roots) > 1:
        raise DoesNotGeneralise(f"roots of {first.operation} that change: {sorted(map(str, roots))}", "one and the same")
    return CallSlot(first.operation, first.phase, size, _peers_form(rows, "group"), roots.pop())


@cache
def _group_forms(largest: int) -> Mapping[str, Who]:
    return groups(largest)


def _peers_form(rows: Sequence[tuple[int, int, int, TracedCall]], part: str) -> tuple[str, Who]:
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


FIRST = (2, 3, 4)
CHECKS = ((5, 8), (6, 12))
"""Numbers of ranks whose traces are compared with the pattern. If those of a round differ, they are used for the fit, and
the next ones are compared."""


def learned_pattern(
    recipe: Recipe,
    on: str,
    scheme: TracedScheme,
    *,
    uneven: bool = False,
    steps: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Pattern:
    """The pattern of a scheme.

    Args:
        recipe: What is trained.
        on: A framework, for the traces.
        scheme: What keeps ranks together.
        uneven: Of steps in which ranks have different numbers of samples.
        steps: How many to trace; as many as the scheme needs by default.
        advance: Told of each number of ranks that was traced.

    Raises:
        DoesNotGeneralise: No known form has the traces, or those that were not used for it differ.
    """
    take = partial(_trace_of, recipe, on, scheme, steps, uneven, advance)
    first, *rounds = _rounds(scheme)
    traces = [take(ranks) for ranks in first]
    for number, round_ in enumerate(rounds):
        new_traces = [take(ranks) for ranks in round_]
        try:
            pattern = generalised(traces)
            for trace in new_traces:
                check_pattern(pattern, trace)
        except DoesNotGeneralise:
            if number == len(rounds) - 1:
                raise
            traces += new_traces
        else:
            return replace(pattern, checked=tuple(round_))
    raise AssertionError("there is at least one round")


def _rounds(scheme: TracedScheme) -> tuple[tuple[int, ...], ...]:
    """Numbers of ranks to fit, and to compare; of nodes larger than a few ranks, those that make one node to three."""
    node = getattr(scheme.made, "per_node", None) or 1
    if node <= FIRST[-1]:
        return FIRST, *CHECKS
    return (node + 1, node + 2, 2 * node), (2 * node + 1, 3 * node)


def _trace_of(
    recipe: Recipe,
    on: str,
    scheme: TracedScheme,
    steps: int | None,
    uneven: bool,
    advance: Callable[[int], None],
    ranks: int,
) -> RunTrace:
    trace = traced(recipe, on, scheme, ranks, steps=steps, uneven=uneven)
    advance(ranks)
    return trace

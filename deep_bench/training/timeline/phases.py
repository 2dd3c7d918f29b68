"""From events to spans, and from spans to the steps of a phase and how their time is split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deep_bench.measure.statistics import Summary, summarize
from deep_bench.measure.timing import Block
from deep_bench.training.timeline.stamps import DONE, EMPTY, LEFT, RAISED, SAMPLES, Name

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Spans:
    """All spans of a timeline, in order of their begin within each thread; one entry of each column is one span.

    Args:
        names: The names of the timeline.
        paths: Where spans lie: each path is the numbers of the names from the outermost span inwards.
        number: The span's name's number.
        path: The index of its path.
        parent: The index of the span it lies in; -1 for the outermost.
        thread: The index of its thread.
        begin: In nanoseconds, on the clock of ``perf_counter_ns``.
        duration: In nanoseconds.
        own: Its duration without the spans directly in it.
        ending: See `deep_bench.training.timeline.stamps`.
        straddling: Whether it ends after the span it lies in: then ``own`` of that one is too small.
        open: How many spans had not ended.
        counters: Counter number to two columns: the span it was noted in, and its value.
    """

    names: Sequence[Name]
    paths: list[tuple[int, ...]]
    number: Ints
    path: Ints
    parent: Ints
    thread: Ints
    begin: Ints
    duration: Ints
    own: Ints
    ending: Ints
    straddling: NDArray[np.bool_]
    open: int
    counters: dict[int, tuple[Ints, Ints]]

    def of_kind(self, kind: str) -> NDArray[np.bool_]:
        """Which spans are epochs, steps or regions."""
        return np.array([name.kind == kind for name in self.names], dtype=bool)[self.number]

    @cached_property
    def idle(self) -> NDArray[np.bool_]:
        """Which spans are, or lie in, a step that found its loader at the end: they took time, and are no step of any."""
        return self.within(self.of_kind("step") & (self.ending == EMPTY)) >= 0

    def within(self, marked: NDArray[np.bool_], *, nearest: bool = False) -> Ints:
        """For each span, the outermost (or nearest) of the marked spans that it lies in or is; -1 for none."""
        enclosing = np.where(marked, np.arange(len(marked)), -1)
        depth = np.array([len(p) for p in self.paths] or [0])[self.path] if len(self.path) else self.path
        for level in range(2, int(depth.max(initial=0)) + 1):
            level_spans = np.flatnonzero(depth == level)
            above, inner = enclosing[self.parent[level_spans]], enclosing[level_spans]
            enclosing[level_spans] = np.where(inner >= 0, inner, above) if nearest else np.where(above >= 0, above, inner)
        return enclosing


@dataclass(frozen=True)
class _Thread:
    """The spans of one thread; ``parent`` counts within them."""

    number: Ints
    parent: Ints
    begin: Ints
    end: Ints
    ending: Ints
    open: int
    counters: tuple[Ints, Ints, Ints]


def spans_of(names: Sequence[Name], threads: Sequence[tuple[NDArray[np.int32], Ints]]) -> Spans:
    """All spans of several threads' events (codes and values)."""
    parts = [_thread(names, codes.astype(np.int64), values) for codes, values in threads]
    offsets = np.cumsum([0, *(len(p.number) for p in parts)])
    parent = _joined([np.where(p.parent >= 0, p.parent + o, -1) for p, o in zip(parts, offsets, strict=False)])
    number, begin, end = (_joined([getattr(p, c) for p in parts]) for c in ("number", "begin", "end"))
    duration = end - begin
    inner = parent >= 0
    children = np.bincount(parent[inner], duration[inner], len(parent)).astype(np.int64)
    paths, path = _paths(number, parent)
    straddling = np.zeros(len(parent), dtype=bool)
    straddling[inner] = end[inner] > end[parent[inner]]
    noted = [
        _joined([np.where(p.counters[i] >= 0, p.counters[i] + o, -1) if i == 1 else p.counters[i]
                 for p, o in zip(parts, offsets, strict=False)]) for i in range(3)
    ]  # fmt: skip
    return Spans(
        names=names,
        paths=paths,
        number=number,
        path=path,
        parent=parent,
        thread=np.repeat(np.arange(len(parts)), [len(p.number) for p in parts]),
        begin=begin,
        duration=duration,
        own=duration - children,
        ending=_joined([p.ending for p in parts]),
        straddling=straddling,
        open=sum(p.open for p in parts),
        counters={int(c): (noted[1][noted[0] == c], noted[2][noted[0] == c]) for c in np.unique(noted[0])},
    )


def _thread(names: Sequence[Name], codes: Ints, values: Ints) -> _Thread:
    """The spans of one thread.

    The k-th deepest begin of a name belongs to its k-th deepest end: names are paired apart from each other, so that spans
    that overlap without nesting (a generator that is suspended inside one) still get their own ends.
    """
    counter = np.array([name.kind == "counter" for name in names], dtype=bool)
    begins = (codes >= 0) & ~counter[np.maximum(codes, 0) // 4]
    ends = codes < 0
    number = np.where(ends, ~codes, codes) // 4
    begin, end = _pairs(number, begins, ends)
    change = np.zeros(len(codes), dtype=np.int64)
    change[begin], change[end] = 1, -1
    depth = np.cumsum(change)
    noted = np.flatnonzero((codes >= 0) & ~begins)
    return _Thread(
        number=number[begin],
        parent=_enclosing(begin, depth[begin], begin, depth[begin] - 1),
        begin=values[begin],
        end=values[end],
        ending=~codes[end] % 4,
        open=int(begins.sum()) - len(begin),
        counters=(number[noted], _enclosing(begin, depth[begin], noted, depth[noted]), values[noted]),
    )


def _pairs(number: Ints, begins: NDArray[np.bool_], ends: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """The events that begin and end each span that has both, in order of the begins."""
    events = np.flatnonzero(begins | ends)
    events = events[np.argsort(number[events], kind="stable")]
    change = np.where(begins[events], 1, -1)
    level = np.cumsum(change)
    firsts = np.flatnonzero(np.diff(number[events], prepend=-1))
    before = np.repeat(level[firsts] - change[firsts], np.diff(firsts, append=len(events)))
    level = level - before + (change < 0)  # a begin's level is counted with it, an end's with what it ends
    order = np.lexsort((events, level, number[events]))
    events, level = events[order], level[order]
    first, second = events[:-1], events[1:]
    paired = begins[first] & ends[second] & (number[first] == number[second]) & (level[:-1] == level[1:])
    begin, end = first[paired], second[paired]
    order = np.argsort(begin)
    return begin[order], end[order]


def _enclosing(begin: Ints, depth: Ints, events: Ints, target_depth: Ints) -> Ints:
    """For each event, the last span that began before it at the wanted depth; -1 for none."""
    enclosing = np.full(len(events), -1, dtype=np.int64)
    for level in np.unique(target_depth[target_depth > 0]):
        spans, level_events = np.flatnonzero(depth == level), np.flatnonzero(target_depth == level)
        if len(spans):
            place = np.searchsorted(begin[spans], events[level_events]) - 1
            enclosing[level_events] = np.where(place >= 0, spans[place], -1)
    return enclosing


def _paths(number: Ints, parent: Ints) -> tuple[list[tuple[int, ...]], Ints]:
    """All paths in order of first appearance on their level, and the index of each span's path."""
    paths: list[tuple[int, ...]] = []
    index = np.full(len(number), -1, dtype=np.int64)
    level_spans = np.flatnonzero(parent < 0)
    while len(level_spans):
        above = np.where(parent[level_spans] >= 0, index[parent[level_spans]], -1)
        keys, first, which = np.unique(
            np.stack([above, number[level_spans]], axis=1), axis=0, return_index=True, return_inverse=True
        )
        rank = np.argsort(np.argsort(first))
        index[level_spans] = len(paths) + rank[which.ravel()]
        for k in np.argsort(first):
            outer, innermost = keys[k]
            paths.append(((*paths[outer],) if outer >= 0 else ()) + (int(innermost),))
        waiting = np.flatnonzero((index < 0) & (parent >= 0))
        level_spans = waiting[index[parent[waiting]] >= 0]
    return paths, index


def _joined(columns: list[Ints]) -> Ints:
    return np.concatenate(columns) if columns else np.empty(0, dtype=np.int64)


REST = "not in any region"
_LEAST_BLOCK, _MOST_BLOCKS = 10, 20


@dataclass(frozen=True)
class SpanRow:
    """The spans of one name in one place.

    Args:
        name: The region's name; ``"step"``, or `REST`.
        path: The names of what it lies in, without the step, and its own.
        n: How many spans ended by themselves.
        raised: How many were ended by an exception; they count nowhere else.
        per_step: How often it was entered in a step, on average; None outside of steps.
        summary: Of the durations, in nanoseconds; None where no span ended by itself. Blocks are spans in a row.
        share: Of all steps' time.
        own_share: The same, without the regions within it.
        threads: In how many threads it was entered.
    """

    name: str
    path: tuple[str, ...]
    n: int
    raised: int
    per_step: float | None
    summary: Summary | None
    share: float
    own_share: float
    threads: int = 1


@dataclass(frozen=True)
class Epoch:
    """One pass over the loader.

    Args:
        n_steps: Its steps that ended by themselves.
        seconds: Its duration.
        ending: How it ended; see `deep_bench.training.timeline.stamps`.
        samples: How many samples its steps had; None if a step did not say.
        first_step: Its first step, in seconds; None if it had none.
    """

    n_steps: int
    seconds: float
    ending: int
    samples: int | None
    first_step: float | None


class Phase:
    """The epochs and steps of one name.

    A step inside another of the same name is a part of that one, and none of its own. One inside a step of another name
    (an evaluation amid the training) counts in both: here for itself, there as a part.

    Args:
        spans: All spans of the timeline.
        number: The number of the steps' name.
        warm_up: How many first steps are kept apart.
        synchronized: Whether something waited for a device at the ends of spans.
    """

    def __init__(self, spans: Spans, number: int, warm_up: int, synchronized: bool) -> None:
        self.name = spans.names[number].name
        self.synchronized = synchronized
        self._spans = spans
        self._number = number
        outermost = spans.within(spans.number == number)
        members = np.flatnonzero((spans.number == number) & (outermost == np.arange(len(spans.number))))
        members = members[np.argsort(spans.begin[members], kind="stable")]
        self._all = members[spans.ending[members] == DONE]
        self.left, self.raised, self.ends = (int(np.sum(spans.ending[members] == e)) for e in (LEFT, RAISED, EMPTY))
        self.warm_up: list[float] = [float(t) for t in spans.duration[self._all[:warm_up]] / 1e9]
        """The steps kept apart, in seconds."""
        self._steps = self._all[warm_up:]
        counted = np.zeros(len(spans.number), dtype=bool)
        counted[self._steps] = True
        self._inside = np.flatnonzero((outermost >= 0) & counted[outermost] & ~counted)
        self._outermost = outermost

    @property
    def n_steps(self) -> int:
        """The steps that count: those that ended by themselves, without the ones kept apart."""
        return len(self._steps)

    @property
    def durations_ns(self) -> Ints:
        """Of the steps that count, in order of their begin."""
        return self._spans.duration[self._steps]

    @cached_property
    def rows(self) -> list[SpanRow]:
        """The step, its regions (each followed by those within it), and what is in no region."""
        if not len(self._steps):
            return []
        spans, total = self._spans, int(self.durations_ns.sum())
        step = _row(spans, self._steps, ("step",), total, None)
        regions = _tree(spans, self._inside, total, self.n_steps, self._number)
        remainder = spans.own[self._steps]
        share = float(remainder.sum()) / max(total, 1)
        left_over = SpanRow(REST, (REST,), len(remainder), 0, 1.0, _summary(remainder), share, share)
        return [step, *regions, left_over]

    def split_ns(self) -> dict[str, NDArray[np.int64]]:
        """For each region directly in a step, its time in each step that counts; and what is in no region."""
        spans, order = self._spans, np.full(len(self._spans.number), -1)
        order[self._steps] = np.arange(self.n_steps)
        durations = {}
        for row in self.rows[1:-1]:
            if len(row.path) == 1:
                members = self._of(row)
                times = np.bincount(order[spans.parent[members]], spans.duration[members], self.n_steps)
                durations[row.name] = times.astype(np.int64)
        return {**durations, REST: spans.own[self._steps]}

    def durations_of(self, row: SpanRow) -> Ints:
        """The raw durations behind a row, in nanoseconds."""
        if row.name == REST and row.path == (REST,):
            return self._spans.own[self._steps]
        if row.path == ("step",):
            return self.durations_ns
        members = self._of(row)
        return self._spans.duration[members[(self._spans.ending[members] == DONE) & ~self._spans.idle[members]]]

    def _of(self, row: SpanRow) -> Ints:
        """The spans of a row, those that raised too."""
        paths = [i for i, path in enumerate(_relative(self._spans, self._number)) if path == row.path]
        return self._inside[np.isin(self._spans.path[self._inside], paths)]

    @property
    def samples(self) -> Ints | None:
        """How many samples each step that counts had; None if a step did not say."""
        return self._samples_of(self._steps)

    def noted(self, counter: str) -> Ints:
        """What a counter showed, in order of the steps: those kept apart too, and not each step was asked.

        Args:
            counter: See `deep_bench.training.timeline.stamps`.
        """
        values = self._values(counter)[self._all]
        return values[values >= 0]

    def _samples_of(self, steps: Ints) -> Ints | None:
        values = self._values(SAMPLES)[steps]
        return values if len(steps) and (values >= 0).all() else None

    def _values(self, counter: str) -> Ints:
        """What a counter showed in each span; -1 where it was not asked."""
        readings = np.full(len(self._spans.number), -1, dtype=np.int64)
        for number, (places, values) in self._spans.counters.items():
            if self._spans.names[number].name == counter:
                readings[places[places >= 0]] = values[places >= 0]
        return readings

    @property
    def throughput(self) -> float | None:
        """Samples a second: all samples over all time of the steps that count; None if a step did not say how many."""
        samples = self.samples
        return None if samples is None else float(samples.sum()) / (float(self.durations_ns.sum()) / 1e9)

    @cached_property
    def epochs(self) -> list[Epoch]:
        """All epochs, in order; steps that are kept apart count here."""
        spans = self._spans
        name = Name("epoch", self.name)
        if name not in spans.names:
            return []
        members = np.flatnonzero(spans.number == list(spans.names).index(name))
        members = members[self._outermost[members] < 0]
        members = members[np.argsort(spans.begin[members], kind="stable")]
        samples = self._samples_of(self._all)
        epochs = []
        for epoch in members:
            mine = spans.parent[self._all] == epoch
            steps = self._all[mine]
            epochs.append(
                Epoch(
                    len(steps),
                    float(spans.duration[epoch]) / 1e9,
                    int(spans.ending[epoch]),
                    None if samples is None else int(samples[mine].sum()),
                    float(spans.duration[steps[0]]) / 1e9 if len(steps) else None,
                )
            )
        return epochs


def outside_rows(spans: Spans, total_ns: int) -> list[SpanRow]:
    """The regions that lie in no step; shares are of ``total_ns``."""
    free = np.flatnonzero(spans.of_kind("region") & (spans.within(spans.of_kind("step")) < 0))
    return _tree(spans, free, total_ns, None, None)


def _tree(spans: Spans, members: Ints, total: int, steps: int | None, number: int | None) -> list[SpanRow]:
    """A row for each path below a step of this name, depth first, in order of first appearance."""
    paths = _relative(spans, number)
    groups: dict[tuple[str, ...], list[int]] = {}
    for path in dict.fromkeys(spans.path[members].tolist()):
        groups.setdefault(paths[path], []).append(path)
    first = {path: i for i, path in enumerate(groups)}

    def depth_first(path: tuple[str, ...]) -> list[int]:
        """By where each region on the way to it came first."""
        return [first.get(path[: depth + 1], -1) for depth in range(len(path))]

    return [
        _row(spans, members[np.isin(spans.path[members], groups[path])], path, total, steps)
        for path in sorted(groups, key=depth_first)
    ]


def _relative(spans: Spans, number: int | None) -> list[tuple[str, ...]]:
    """Each path as names: of what lies below the outermost step of this name, or without the epochs where there is none."""
    relative_paths = []
    for path in spans.paths:
        names = [spans.names[n] for n in path]
        below = names[path.index(number) + 1 :] if number in path else [name for name in names if name.kind == "region"]
        relative_paths.append(tuple(name.name if name.kind == "region" else f"{name.kind} of {name.name}" for name in below))
    return relative_paths


def _row(spans: Spans, members: Ints, path: tuple[str, ...], total: int, steps: int | None) -> SpanRow:
    counted = members[~spans.idle[members]]
    whole = counted[spans.ending[counted] == DONE]
    ordered = whole[np.argsort(spans.begin[whole], kind="stable")]
    inner = np.isin(spans.parent[members], members)  # entered again within itself: its time counts once
    return SpanRow(
        name=path[-1],
        path=path,
        n=len(whole),
        raised=int(np.sum(spans.ending[members] == RAISED)),
        per_step=1.0 if path == ("step",) else None if steps is None else len(counted) / steps,
        summary=_summary(spans.duration[ordered]),
        share=float(spans.duration[members[~inner]].sum()) / max(total, 1),
        own_share=float(spans.own[members].sum()) / max(total, 1),
        threads=len(np.unique(spans.thread[members])),
    )


def _summary(durations: Ints) -> Summary | None:
    """The statistics of level 0; its blocks are spans in a row, so that drift and correlation are seen."""
    if not len(durations):
        return None
    parts = np.array_split(durations, min(max(len(durations) // _LEAST_BLOCK, 1), _MOST_BLOCKS))
    return summarize([Block(0, 1, part, np.zeros(len(part), dtype=bool)) for part in parts])

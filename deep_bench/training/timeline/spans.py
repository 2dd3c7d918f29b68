"""From events to spans: which begin belongs to which end, what lies in what, and what of a span is its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deep_bench.training.timeline.codes import EMPTY, Name

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
        ending: See `deep_bench.training.timeline.codes`.
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

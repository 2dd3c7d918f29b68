"""Pairing of events against a stack that a person can read, on random programs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deep_bench.training.timeline.phases import spans_of
from deep_bench.training.timeline.stamps import DONE, Name

NAMES = [Name("step", "training"), Name("region", "a"), Name("region", "b"), Name("counter", "samples")]
MOVES = st.lists(st.sampled_from(["enter 0", "enter 1", "enter 2", "count", "leave"]), max_size=60)

Span = tuple[int, tuple[int, ...], int, int, int]


def program(moves: list[str]) -> tuple[list[tuple[int, int]], list[Span], int, list[tuple[int, int]]]:
    """The events of a program; and its spans (number, path, begin, duration, own time), how many stay open, its counts."""
    events, spans, counts = [], [], []
    stack: list[list[int]] = []
    for time, move in enumerate(moves):
        if move.startswith("enter"):
            number = int(move[-1])
            events.append((4 * number, time))
            stack.append([number, time, 0])
        elif move == "count":
            events.append((4 * 3, time))
            if stack:
                counts.append((stack[-1][1], time))
        elif stack:
            number, begin, inner = stack.pop()
            events.append((~(4 * number + DONE), time))
            if stack:
                stack[-1][2] += time - begin
            spans.append((number, (*(s[0] for s in stack), number), begin, time - begin, time - begin - inner))
    return events, spans, len(stack), counts


@given(MOVES)
def test_nested_programs(moves: list[str]) -> None:
    moves = [*moves, *["leave"] * len(moves)]
    events, expected, unfinished, counts = program(moves)
    assert unfinished == 0
    table = np.array(events, dtype=np.int64).reshape(-1, 2)
    found = spans_of(NAMES, [(table[:, 0].astype(np.int32), table[:, 1])])
    columns = (found.number, found.path, found.begin, found.duration, found.own)
    spans = [(n, found.paths[p], b, d, o) for n, p, b, d, o in zip(*(c.tolist() for c in columns), strict=True)]
    assert sorted(spans) == sorted(expected)
    assert not found.straddling.any()
    assert found.open == 0
    places, values = found.counters.get(3, (np.empty(0, int), np.empty(0, int)))
    inside = places >= 0
    assert list(zip(found.begin[places[inside]], values[inside], strict=True)) == counts


@given(MOVES)
def test_programs_that_were_cut_off(moves: list[str]) -> None:
    events, expected, unfinished, _ = program(moves)
    table = np.array(events, dtype=np.int64).reshape(-1, 2)
    found = spans_of(NAMES, [(table[:, 0].astype(np.int32), table[:, 1])])
    assert found.open == unfinished
    assert sorted(zip(found.number, found.begin, found.duration, strict=True)) == sorted(
        (number, begin, duration) for number, _, begin, duration, _ in expected
    )


def test_an_end_without_a_begin_is_no_span() -> None:
    codes = np.array([~(4 * 1), 4 * 1, ~(4 * 1), ~(4 * 2)], dtype=np.int32)
    found = spans_of(NAMES, [(codes, np.arange(4))])
    assert (found.number.tolist(), found.begin.tolist(), found.duration.tolist()) == ([1], [1], [1])


def test_threads_are_paired_apart() -> None:
    one = np.array([4, ~4], dtype=np.int32)
    found = spans_of(NAMES, [(one, np.array([0, 10])), (one, np.array([5, 7]))])
    assert (found.thread.tolist(), found.duration.tolist(), found.parent.tolist()) == ([0, 1], [10, 2], [-1, -1])

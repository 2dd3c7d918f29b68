"""Calls timed in turn."""

from __future__ import annotations

import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.events import Stopwatch, in_turn
from deep_bench.measure.metrics import forget_peak, resident_bytes
from deep_bench.workers.evidence import peak_memory_bytes


def test_calls_are_made_in_turn_and_neither_is_always_first() -> None:
    made: list[str] = []
    found = in_turn({n: lambda n=n: made.append(n) for n in "ab"}, lambda: made.append("."), 4, warm_up=1)
    assert {name: len(ns) for name, ns in found.items()} == {"a": 4, "b": 4}
    assert "".join(made) == "a.b.b.a." * 2 + "a.b."


def test_no_call_at_all_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="repeat=0"):
        in_turn({"a": lambda: None}, lambda: None, 0)


def test_a_stopwatch_keeps_the_last_calls_and_fills_up_with_zeros() -> None:
    watch: Stopwatch[str] = Stopwatch()
    for call in ({"warm-up": 9}, {"a": 1}, {"a": 2, "b": 5}):
        watch.begin()
        for key, ns in call.items():
            watch.add(key, ns)
    assert {key: ns.tolist() for key, ns in watch.samples(2).items()} == {"a": [1, 2], "b": [0, 5]}


def test_a_timed_function_returns_its_result() -> None:
    watch: Stopwatch[str] = Stopwatch()
    watch.begin()
    assert watch.timed("sum", sum, [1, 2]) == 3
    assert watch.samples(1)["sum"][0] > 0


def test_a_peak_that_was_forgotten_is_that_of_what_follows() -> None:
    held = bytearray(b"x" * 200_000_000)
    before = peak_memory_bytes()
    del held
    if not forget_peak():
        pytest.skip("this system does not let a process reset its peak memory")
    assert peak_memory_bytes() < before - 100_000_000
    assert 0 < resident_bytes() <= peak_memory_bytes() + 50_000_000

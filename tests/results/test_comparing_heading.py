"""What stands above the table: which sides, how many of each, and what became of the results' bits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.records.model import VerdictRecord
from deep_bench.results import Result
from deep_bench.results.comparing import Condition, compare, compare_within, failures
from tests.results.made import result, times


def test_a_base_by_its_framework_where_only_one_system_is_of_it() -> None:
    def of(framework: str, *systems: str) -> list[Result]:
        return [result(times(1.0 + i), framework=framework, system=name) for i, name in enumerate(systems)]

    found = compare_within([*of("torch", "torch:threads=1"), *of("jax", "jax")], "torch")
    assert found.pairings[0].values == ("torch:threads=1", "jax")
    with pytest.raises(InvalidArgument, match="one of torch:threads=1, torch:threads=2"):
        compare_within([*of("torch", "torch:threads=1", "torch:threads=2"), *of("jax", "jax")], "torch")
    exact = compare_within([*of("torch", "torch", "torch:threads=2")], "torch")
    assert exact.pairings[0].values == ("torch", "torch:threads=2")


def test_the_heading_says_how_many_there_are() -> None:
    def side(name: str, *versions: str) -> list[Result]:
        return [
            result(times(1.0, i), case=str(i), file=f"{name}/{i}.json", **({"version": v} if v else {}))
            for i, v in enumerate(versions)
        ]

    assert compare(side("a", *[""] * 3), side("b", *[""] * 2)).table(80).startswith("3 records of a → 2 records of b\n")
    found = compare(side("a", "1", "2", "3"), side("b", "1.1", "2.1", "3.1"))
    assert found.table(80).startswith("version 1 → 1.1, and 2 more such pairs\n")
    assert found.as_json()["further"] == 2


def test_a_loss_of_bits_is_told_though_it_is_still_right() -> None:
    def side(*bits: float | None) -> list[Result]:
        return [
            result(times(1.0, i), file=f"{i}.json", verdict=None)
            if bit is None
            else replace(
                result(times(1.0, i), file=f"{i}.json"),
                verdict=VerdictRecord(verdict="right", reason="", significant_bits=bit),
            )
            for i, bit in enumerate(bits)
        ]

    found = compare(side(23.6), side(24, 2, 23))
    assert found.table(80).startswith("  still right: 23.6 → 2 significant bits\n")
    assert failures(found, [Condition.parse("wrong")]) == []
    assert not compare(side(23.6), side(23.1)).changes
    assert "bits" not in str(compare(side(23.6), side(None)).changes)

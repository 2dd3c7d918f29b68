"""Sizes in bytes are read at a glance in tables, and told apart; exact values are in files for programs."""

from __future__ import annotations

import json
from pathlib import Path

from deep_bench.distributed.collectives.result import CommunicationResult as Communication
from deep_bench.measure.compare import Estimate
from deep_bench.measure.units import in_bytes
from deep_bench.records import store
from deep_bench.results import Results
from deep_bench.results.change import Comparison
from deep_bench.results.comparisons import medians_text
from tests.results.made import result, runs


def test_a_table_scales_bytes_and_rates_and_a_file_has_them_exactly(tmp_path: Path) -> None:
    made = Results([result(runs(345_200_001.0, name="peak memory", unit="B"))])
    assert "345.2 MB" in made.table()
    assert "345200001" in made.export(tmp_path / "a.csv").read_text()
    assert "67.11 MB/s" in Results([result(runs(67_108_868.0, name="bandwidth", unit="B/s"))]).table()


def test_both_sides_of_a_comparison_are_scaled() -> None:
    change = Estimate("ratio", 345_200_000.0, 360_000_000.0, 1.04, None, None, None, "blocks", (1, 1))
    assert (
        medians_text(Comparison("", {}, "peak memory", "B", "lower", change, "cannot tell", "cannot tell"))
        == "345.2 → 360.0 MB"
    )


def test_sizes_of_messages_are_never_taken_for_each_other(records: Path) -> None:
    (file,) = (path for path in (records / "communication").glob("2*.json"))
    record = store.load(file)
    assert record.suite is not None
    for case, size in zip(record.suite.cases, (67_108_868, 67_108_872, 0), strict=True):
        case.attributes["bytes"] = size
    shown = Communication(record).table()
    assert "67.108868 MB" in shown
    assert "67.108872 MB" in shown
    assert json.loads(json.dumps(Communication(record).as_json()))[0]["bytes"] == 67_108_868


def test_round_numbers_are_binary_and_others_decimal() -> None:
    assert [in_bytes(count) for count in (0, 1000, 1024, 1536, 9_999, 12_390_400, 2**30 + 1)] == [
        "0 B", "1000 B", "1 KiB", "1.5 KiB", "9999 B", "12.39 MB", "1.074 GB",
    ]  # fmt: skip

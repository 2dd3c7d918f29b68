from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.measure.environment import capture
from deep_bench.measure.roofline import Rate, Roofline, latest_roofline
from deep_bench.records.folders import user_cache


def write(folder: Path, name: str, year: int, **changes: object) -> None:
    machine = {**capture().model_dump(mode="json"), **changes}
    kept = Roofline(machine=machine, created=datetime(year, 1, 1, tzinfo=UTC), rates=[
        Rate(kind="copy", by="numpy", dtype="float64", value=float(year))
    ])  # fmt: skip
    (folder / f"{name}.json").write_text(kept.model_dump_json(), encoding="utf-8")


def test_the_newest_of_this_machine_is_taken(tmp_path: Path) -> None:
    assert latest_roofline(tmp_path / "absent") is None
    assert latest_roofline(tmp_path) is None
    assert latest_roofline(tmp_path / "d.json" / "below a file") is None
    write(tmp_path, "a", 2024)
    write(tmp_path, "b", 2025)
    write(tmp_path, "c", 2026, cpu_model="another")
    (tmp_path / "d.json").write_text("{", encoding="utf-8")
    found = latest_roofline(tmp_path)
    assert found is not None
    assert found.bandwidth().value == 2025.0


def test_without_a_home_nothing_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEEP_BENCH_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", homeless)
    assert latest_roofline() is None
    with pytest.raises(InvalidArgument, match=r"no home folder\n.*DEEP_BENCH_CACHE"):
        user_cache()


def homeless(path: Path) -> Path:
    raise RuntimeError("Could not determine home directory.")

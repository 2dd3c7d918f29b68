"""Energy, from counters in folders that a test makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from deep_bench.measure import metrics
from deep_bench.measure.metrics import EnergyMeter, RaplSource, rapl_sources


def domain(powercap: Path, folder: str, name: str, joules: float, wrap: float | None = 100.0) -> Path:
    """One domain of RAPL, as the kernel shows it."""
    made = powercap / folder
    made.mkdir(parents=True)
    (made / "name").write_text(name + "\n")
    set_counter(made, joules)
    if wrap is not None:
        (made / "max_energy_range_uj").write_text(f"{wrap * 1e6:.0f}\n")
    return made


def set_counter(folder: Path, joules: float) -> None:
    (folder / "energy_uj").write_text(f"{joules * 1e6:.0f}\n")


def test_packages_and_memories_are_added_up_and_their_parts_are_not(tmp_path: Path) -> None:
    package = domain(tmp_path, "intel-rapl:0", "package-0", 10)
    core = domain(tmp_path, "intel-rapl:0:0", "core", 5)
    memory = domain(tmp_path, "intel-rapl:0:1", "dram", 1)
    other = domain(tmp_path, "intel-rapl:1", "package-1", 20)
    domain(tmp_path, "intel-rapl:2", "psys", 50)
    sources, reason = rapl_sources(tmp_path)
    assert [source.name for source in sources] == ["package-0", "dram-0", "package-1"]
    assert reason == ""
    with EnergyMeter(sources) as meter:
        for folder, joules in ((package, 12.5), (core, 7), (memory, 1.25), (other, 24)):
            set_counter(folder, joules)
    assert meter.by_source == pytest.approx({"package-0": 2.5, "dram-0": 0.25, "package-1": 4})
    assert meter.joules == pytest.approx(6.75)
    assert meter.reason == ""


def test_a_counter_that_begins_anew_goes_on(tmp_path: Path) -> None:
    package = domain(tmp_path, "intel-rapl:0", "package-0", 98, wrap=100)
    meter = EnergyMeter(rapl_sources(tmp_path)[0])
    meter.start()
    set_counter(package, 3)
    meter.update()
    assert meter.joules == pytest.approx(5)
    set_counter(package, 90)
    meter.update()
    set_counter(package, 1)  # a second time: noticed, since it was read in between
    meter.update()
    assert meter.joules == pytest.approx(5 + 87 + 11)
    meter.start()
    assert meter.joules == 0


def test_a_counter_that_falls_without_a_range_is_not_believed(tmp_path: Path) -> None:
    package = domain(tmp_path, "intel-rapl:0", "package-0", 98, wrap=None)
    with EnergyMeter(rapl_sources(tmp_path)[0]) as meter:
        set_counter(package, 3)
    assert meter.joules is None
    assert meter.reason == "not available: the counter of package-0 fell from 98 to 3 J"


def test_why_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rapl_sources(tmp_path / "nowhere")[1].endswith(
        "nowhere does not exist: the kernel shows no RAPL counters (most virtual machines have none)"
    )
    assert rapl_sources(tmp_path) == ([], f"{tmp_path} has no RAPL counters")

    def refuse(self: RaplSource) -> float:
        raise PermissionError(13, "Permission denied", str(self.folder / "energy_uj"))

    folder = domain(tmp_path, "intel-rapl:0", "package-0", 1)
    monkeypatch.setattr(RaplSource, "read", refuse)
    assert rapl_sources(tmp_path) == ([], f"{folder / 'energy_uj'} may be read by root only")
    with EnergyMeter([], "no reason at all") as meter:
        pass
    assert meter.joules is None
    assert meter.reason == "not available: no reason at all"


def test_a_counter_that_goes_away_says_so(tmp_path: Path) -> None:
    package = domain(tmp_path, "intel-rapl:0", "package-0", 1)
    with EnergyMeter(rapl_sources(tmp_path)[0]) as meter:
        (package / "energy_uj").unlink()
    assert meter.joules is None
    assert "package-0 cannot be read any more" in meter.reason


def test_this_machine_has_energy_or_a_reason() -> None:
    with EnergyMeter() as meter:
        sum(range(10**5))
    assert (meter.joules is None) == bool(meter.reason)
    if meter.joules is None:
        assert meter.reason.startswith("not available: ")


def test_nvml_counts_millijoules(monkeypatch: pytest.MonkeyPatch) -> None:
    pynvml = pytest.importorskip("pynvml")
    counts = iter([5_000, 5_000, 7_500])  # found, begun, ended
    for name, value in {
        "nvmlInit": None,
        "nvmlDeviceGetCount": 1,
        "nvmlDeviceGetHandleByIndex": "handle",
    }.items():
        monkeypatch.setattr(pynvml, name, lambda *_, value=value: value)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption", lambda handle: next(counts))
    sources, reason = metrics.nvml_sources()
    assert ([source.name for source in sources], reason) == (["gpu-0"], "")
    meter = EnergyMeter(sources)
    meter.start()
    meter.update()
    assert meter.by_source == {"gpu-0": pytest.approx(2.5)}

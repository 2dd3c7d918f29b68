"""Parts of a machine, from what a system tells of itself: here from folders and drivers that stand for others' machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pynvml
import pytest

from deep_bench.measure import environment
from deep_bench.measure.environment import Cache, Disk, Environment, Gpu, MemoryModule, NetworkCard, capture


def tell(root: Path, **files: object) -> Path:
    """A machine that tells these; ``__`` stands for a slash."""
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def test_processors_and_their_caches(tmp_path: Path) -> None:
    for cpu in range(4):
        base = f"devices__system__cpu__cpu{cpu}__"
        tell(tmp_path, **{f"{base}topology__physical_package_id": cpu // 2})
        for index, (level, kind, size, shared) in enumerate(
            [
                (1, "Data", "48K", cpu),
                (1, "Instruction", "32K", cpu),
                (3, "Unified", "16M", f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}"),
            ]
        ):
            place = f"{base}cache__index{index}__"
            tell(
                tmp_path,
                **{place + "level": level, place + "type": kind, place + "size": size, place + "shared_cpu_list": shared},
            )
    tell(tmp_path, devices__system__cpu__cpu0__cpufreq__cpuinfo_max_freq=3500000)
    assert environment.sockets(tmp_path) == 2
    assert environment.processor_mhz(tmp_path) == 3500
    assert environment.caches(tmp_path) == [
        Cache(level=1, kind="Data", size_bytes=49152, count=4),
        Cache(level=1, kind="Instruction", size_bytes=32768, count=4),
        Cache(level=3, kind="Unified", size_bytes=2**24, count=2),
    ]


def test_disks_are_those_that_hold_something(tmp_path: Path) -> None:
    for name, size, rotational in (
        ("nvme0n1", 2048, 0),
        ("sda", 4096, 1),
        ("sdb", 4096, 0),
        ("loop0", 8, 0),
        ("vda", 8, 1),
        ("sdc", 0, 0),
    ):
        tell(tmp_path, **{f"block__{name}__size": size, f"block__{name}__queue__rotational": rotational})
    tell(tmp_path, block__sda__device__model="A disk  ")
    assert environment.disks(tmp_path) == [
        Disk(name="nvme0n1", kind="NVMe", size_bytes=2**20),
        Disk(name="sda", kind="HDD", size_bytes=2**21, model="A disk"),
        Disk(name="sdb", kind="SSD", size_bytes=2**21),
        Disk(name="vda", kind="virtual", size_bytes=4096),
    ]


def test_network_cards_have_a_device(tmp_path: Path) -> None:
    for name, kind, speed in (("eth0", 1, 100000), ("eth1", 1, -1), ("ib0", 32, 200000), ("lo", 772, 0)):
        tell(tmp_path, **{f"class__net__{name}__type": kind, f"class__net__{name}__speed": speed})
        if name != "lo":
            tell(tmp_path, **{f"class__net__{name}__device__vendor": "0x15b3"})
    (tmp_path / "drivers/mlx5_core").mkdir(parents=True)
    (tmp_path / "class/net/ib0/device/driver").symlink_to(tmp_path / "drivers/mlx5_core")
    (tmp_path / "class/net/eth1/speed").unlink()
    assert environment.network_cards(tmp_path) == [
        NetworkCard(name="eth0", kind="Ethernet", speed_mbit=100000),
        NetworkCard(name="eth1", kind="Ethernet"),
        NetworkCard(name="ib0", kind="InfiniBand", speed_mbit=200000, driver="mlx5_core"),
    ]


def test_memory_modules_that_are_alike_are_counted(tmp_path: Path) -> None:
    for number in range(4):
        place = f"devices__system__edac__mc__mc{number % 2}__dimm{number}__"
        tell(tmp_path, **{place + "dimm_mem_type": "Registered-DDR4", place + "size": 32768})
    assert environment.memory_modules(tmp_path) == [MemoryModule(kind="Registered-DDR4", size_mib=32768, count=4)]


def test_what_a_system_does_not_tell_is_an_error_that_capture_keeps(tmp_path: Path) -> None:
    for find in (environment.sockets, environment.caches, environment.memory_modules):
        with pytest.raises(LookupError):
            find(tmp_path)
    for find in (environment.disks, environment.network_cards, environment.processor_mhz):
        with pytest.raises(OSError, match="No such file"):
            find(tmp_path)
    found = capture()
    for name in ("sockets", "caches", "disks", "network_cards", "memory_modules", "processor_mhz"):
        assert (getattr(found, name) is None) == (name in found.unknown)


def test_graphics_processors_as_nvml_tells_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    for name, answer in {
        "nvmlInit": None,
        "nvmlShutdown": None,
        "nvmlSystemGetDriverVersion": "550.54",
        "nvmlDeviceGetCount": 1,
        "nvmlDeviceGetHandleByIndex": "handle",
        "nvmlDeviceGetName": "H200",
        "nvmlDeviceGetMemoryInfo": type("Memory", (), {"total": 2**37}),
        "nvmlDeviceGetMaxClockInfo": 1980,
        "nvmlDeviceGetMaxPcieLinkGeneration": 5,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetNvLinkVersion": 4,
    }.items():
        monkeypatch.setattr(pynvml, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryBusWidth", refused)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetNvLinkState", lambda _, link: int(link < 16))
    wanted = Gpu(name="H200", memory_bytes=2**37, driver="550.54", clock_mhz=1980, bus="PCIe 5.0 x16", links="16x NVLink 4")
    assert environment.gpus() == [wanted]
    monkeypatch.setattr(pynvml, "nvmlDeviceGetNvLinkState", refused)
    assert environment.gpus()[0].links == "none"


def test_without_a_driver_there_are_no_graphics_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(code: int) -> None:
        raise pynvml.NVMLError(code)

    monkeypatch.setattr(pynvml, "nvmlInit", lambda: fail(pynvml.NVML_ERROR_DRIVER_NOT_LOADED))
    assert environment.gpus() == []
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: fail(pynvml.NVML_ERROR_UNKNOWN))
    with pytest.raises(pynvml.NVMLError):
        environment.gpus()


def test_records_from_before_can_be_read() -> None:
    before = {"cpu_model": "old", "gpus": [{"name": "V100", "memory_bytes": 2**34, "driver": "450"}], "unknown": {}}
    found = Environment.model_validate(before)
    assert (found.disks, found.gpus[0].bus) == (None, None)

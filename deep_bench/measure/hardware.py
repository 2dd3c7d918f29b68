"""Parts of a machine that a system description names: caches, disks, network cards, memory, graphics processors."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from deep_bench.measure.amounts import Count

_SYS = Path("/sys")
_SECTOR_BYTES = 512
_PASSED_OVER = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)\d*")
"""Block devices that are no disk of their own."""

_LINKS = 18
"""More NVLinks than this no processor has had."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Cache(_Part):
    """Caches that are alike.

    Attributes:
        level: 1 for the nearest.
        kind: ``Data``, ``Instruction`` or ``Unified``.
        size_bytes: Of each.
        count: How many there are.
    """

    level: Count
    kind: str
    size_bytes: Count
    count: Count


class Disk(_Part):
    """One block device.

    Attributes:
        kind: ``NVMe``, ``SSD``, ``HDD``, or ``virtual``, where what lies behind it cannot be seen.
    """

    name: str
    kind: str
    size_bytes: Count
    model: str | None = None


class NetworkCard(_Part):
    """One network interface that has a device behind it.

    Attributes:
        kind: ``Ethernet`` or ``InfiniBand``.
        speed_mbit: As the link is now; ``None`` where it does not tell.
        driver: Of the system.
    """

    name: str
    kind: str
    speed_mbit: Count | None = None
    driver: str | None = None


class MemoryModule(_Part):
    """Modules of memory that are alike.

    Attributes:
        kind: Such as ``Registered-DDR4``.
        size_mib: Of each.
        count: How many there are.
    """

    kind: str
    size_mib: Count
    count: Count


class Gpu(_Part):
    """One graphics processor, as the driver names it.

    Attributes:
        clock_mhz: The highest of its multiprocessors.
        bus: How it is connected to the host, at most.
        memory_bus_bits: The width of its memory's bus.
        links: How it is connected to others: ``none``, or number and version of its NVLinks that are up.
    """

    name: str
    memory_bytes: Count | None = None
    driver: str | None = None
    clock_mhz: Count | None = None
    bus: str | None = None
    memory_bus_bits: Count | None = None
    links: str | None = None


def caches(root: Path = _SYS) -> list[Cache]:
    """The caches of all processors.

    Args:
        root: Where the system tells of itself.

    Raises:
        LookupError: The system does not tell.
    """
    entries: dict[tuple[int, str, int, str], None] = {}
    for folder in root.glob("devices/system/cpu/cpu[0-9]*/cache/index[0-9]*"):
        level, kind, size, shared = (_text(folder / name) for name in ("level", "type", "size", "shared_cpu_list"))
        entries[int(level), kind, _amount(size), shared] = None
    if not entries:
        raise LookupError("the system does not tell of caches")
    alike = Counter((level, kind, size) for level, kind, size, _ in entries)
    return [Cache(level=a[0], kind=a[1], size_bytes=a[2], count=count) for a, count in sorted(alike.items())]


def sockets(root: Path = _SYS) -> int:
    """The number of processor packages.

    Raises:
        LookupError: The system does not tell.
    """
    package_ids = {_text(f) for f in root.glob("devices/system/cpu/cpu[0-9]*/topology/physical_package_id")} - {"-1"}
    if not package_ids:
        raise LookupError("the system does not tell of processor packages")
    return len(package_ids)


def processor_mhz(root: Path = _SYS) -> float:
    """The highest clock of the first processor, in MHz.

    Raises:
        OSError: The system does not tell, as in most virtual machines.
    """
    return int(_text(root / "devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")) / 1000


def disks(root: Path = _SYS) -> list[Disk]:
    """The disks of this machine; not what is mounted from others.

    Raises:
        OSError: The system does not tell.
    """
    entries = []
    for folder in sorted((root / "block").iterdir()):
        size = int(_text(folder / "size")) * _SECTOR_BYTES
        if size and not _PASSED_OVER.match(folder.name):
            model = folder / "device/model"
            entries.append(
                Disk(
                    name=folder.name,
                    kind=_disk_kind(folder),
                    size_bytes=size,
                    model=_text(model) if model.is_file() else None,
                )
            )
    return entries


def _disk_kind(folder: Path) -> str:
    if folder.name.startswith(("vd", "xvd")):
        return "virtual"
    if folder.name.startswith("nvme"):
        return "NVMe"
    return "HDD" if _text(folder / "queue/rotational") == "1" else "SSD"


def network_cards(root: Path = _SYS) -> list[NetworkCard]:
    """The network interfaces that have a device behind them.

    Raises:
        OSError: The system does not tell.
    """
    kinds, cards = {"1": "Ethernet", "32": "InfiniBand"}, []
    for folder in sorted((root / "class/net").iterdir()):
        if (folder / "device").exists():
            driver = folder / "device/driver"
            cards.append(
                NetworkCard(
                    name=folder.name,
                    kind=kinds.get(_text(folder / "type"), "other"),
                    speed_mbit=_speed(folder / "speed"),
                    driver=driver.resolve().name if driver.exists() else None,
                )
            )
    return cards


def _speed(file: Path) -> int | None:
    try:
        speed = int(_text(file))
    except (OSError, ValueError):  # a link that is down has none
        return None
    return speed if speed > 0 else None


def memory_modules(root: Path = _SYS) -> list[MemoryModule]:
    """The modules of memory, as the kernel's error detection sees them.

    Raises:
        LookupError: It sees none: no such driver is loaded, or this is a virtual machine.
    """
    counts = Counter(
        (_text(folder / "dimm_mem_type"), int(_text(folder / "size")))
        for folder in root.glob("devices/system/edac/mc/mc*/dimm*")
        if (folder / "size").is_file()
    )
    if not counts:
        raise LookupError("no driver of the kernel tells of memory modules (EDAC)")
    return [MemoryModule(kind=kind, size_mib=size, count=count) for (kind, size), count in sorted(counts.items())]


def gpus() -> list[Gpu]:
    """The graphics processors that NVML knows; none without a driver.

    Raises:
        NVMLError: The driver is there, and fails.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value in (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED):
            return []
        raise
    try:
        driver = pynvml.nvmlSystemGetDriverVersion()
        return [_gpu(pynvml, pynvml.nvmlDeviceGetHandleByIndex(i), driver) for i in range(pynvml.nvmlDeviceGetCount())]
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: Any, handle: Any, driver: str) -> Gpu:
    return Gpu(
        name=nvml.nvmlDeviceGetName(handle),
        memory_bytes=nvml.nvmlDeviceGetMemoryInfo(handle).total,
        driver=driver,
        clock_mhz=_asked(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
        bus=_bus(nvml, handle),
        memory_bus_bits=_asked(nvml, nvml.nvmlDeviceGetMemoryBusWidth, handle),
        links=_links(nvml, handle),
    )


def _asked(nvml: Any, function: Any, *arguments: Any) -> Any:
    """What the driver says; ``None`` where this processor does not have it, or the driver does not know the question."""
    try:
        return function(*arguments)
    except nvml.NVMLError as error:
        if error.value in (
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_INVALID_ARGUMENT,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        ):
            return None
        raise


def _bus(nvml: Any, handle: Any) -> str | None:
    generation = _asked(nvml, nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle)
    width = _asked(nvml, nvml.nvmlDeviceGetMaxPcieLinkWidth, handle)
    return f"PCIe {generation}.0 x{width}" if generation and width else None


def _links(nvml: Any, handle: Any) -> str:
    up = [link for link in range(_LINKS) if _asked(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link) == 1]
    if not up:
        return "none"
    version = _asked(nvml, nvml.nvmlDeviceGetNvLinkVersion, handle, up[0])
    return f"{len(up)}x NVLink {version or ''}".rstrip()


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace").strip()


def _amount(text: str) -> int:
    """A size such as ``48K``, in bytes."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    return int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text)

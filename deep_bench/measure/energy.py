"""Energy, where the machine tells it: processors by RAPL, graphics processors by NVML. Else not available, never zero."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

POWERCAP = Path("/sys/class/powercap")
"""Where Linux has the counters of RAPL."""


class Source(Protocol):
    """A counter of energy."""

    @property
    def name(self) -> str:
        """What it measures: ``"package-0"``, ``"dram-1"``, ``"gpu-0"``."""

    @property
    def wrap(self) -> float | None:
        """The number of joules after which it begins anew; ``None`` if it never does."""

    def read(self) -> float:
        """Joules since some moment in the past.

        Raises:
            OSError: It cannot be read.
        """


@dataclass(frozen=True)
class RaplSource:
    """A domain of RAPL in ``sysfs``.

    Args:
        name: What it measures.
        folder: The folder with its ``energy_uj``.
        wrap: The joules after which its counter begins anew.

    Source:
        Linux, Documentation/power/powercap/powercap.rst.
    """

    name: str
    folder: Path
    wrap: float | None

    def read(self) -> float:
        """The counter in joules."""
        return int((self.folder / "energy_uj").read_text(encoding="ascii")) / 1e6


@dataclass(frozen=True)
class NvmlSource:
    """A graphics processor, as its driver counts.

    Args:
        name: What it measures.
        handle: The device's handle.
        wrap: Never.

    Source:
        NVML API reference, ``nvmlDeviceGetTotalEnergyConsumption``.
    """

    name: str
    handle: Any
    wrap: float | None = None

    def read(self) -> float:
        """The counter in joules."""
        import pynvml

        try:
            return pynvml.nvmlDeviceGetTotalEnergyConsumption(self.handle) / 1e3
        except pynvml.NVMLError as error:
            raise OSError(f"NVML: {error}") from error


def rapl_sources(powercap: Path = POWERCAP) -> tuple[list[RaplSource], str]:
    """The packages and memories that RAPL counts, and why there are none.

    Cores and graphics are parts of their package, and ``psys`` is the whole machine: they would be counted twice.

    Args:
        powercap: The folder of ``sysfs``.
    """
    if not powercap.is_dir():
        return [], f"{powercap} does not exist: the kernel shows no RAPL counters (most virtual machines have none)"
    sources: list[RaplSource] = []
    reason = f"{powercap} has no RAPL counters"
    for folder in sorted(powercap.glob("*-rapl:*")):
        try:
            kind = (folder / "name").read_text(encoding="ascii").strip()
            if not (kind.startswith("package") or kind == "dram"):
                continue
            package = re.findall(r":(\d+)", folder.name)[0]
            source = RaplSource(f"{kind}-{package}" if kind == "dram" else kind, folder, _range(folder))
            source.read()
        except PermissionError as error:
            reason = f"{error.filename} may be read by root only"
        except (OSError, ValueError) as error:
            reason = f"{folder}: {error}"
        else:
            sources.append(source)
    return sources, "" if sources else reason


def _range(folder: Path) -> float | None:
    with suppress(OSError, ValueError):
        return int((folder / "max_energy_range_uj").read_text(encoding="ascii")) / 1e6
    return None


def nvml_sources() -> tuple[list[NvmlSource], str]:
    """The graphics processors whose driver counts energy, and why there are none."""
    try:
        import pynvml
    except ImportError:
        return [], "nvidia-ml-py is not installed"
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        return [], f"NVML: {error}"
    sources, reason = [], "there is no NVIDIA graphics processor"
    for number, handle in enumerate(handles):
        source = NvmlSource(f"gpu-{number}", handle)
        try:
            source.read()
        except OSError as error:
            reason = str(error)
        else:
            sources.append(source)
    return sources, "" if sources else reason


class EnergyMeter:
    """The energy that the machine takes while a block runs.

    The counters are those of whole packages and graphics processors: whatever else runs there is counted too. RAPL's are
    updated about every millisecond, so a block should take many of them.

    Args:
        sources: What to read; by default all that the machine has.
        reason: Why there is nothing to read.

    Attributes:
        by_source: Name of each source to its joules; empty where none can be read.
        reason: Why energy is not available; empty where it is.

    Example:
        >>> with EnergyMeter() as meter:
        ...     _ = sum(range(1000))
        >>> meter.joules is None or meter.joules >= 0
        True
        >>> (meter.joules is None) == meter.reason.startswith("not available: ")
        True

    Source:
        Khan et al., RAPL in action, ACM TOMPECS 3 (2018), on what the counters are worth.
    """

    def __init__(self, sources: Sequence[Source] | None = None, reason: str = "") -> None:
        if sources is None:
            (rapl, no_rapl), (nvml, no_nvml) = rapl_sources(), nvml_sources()
            sources, reason = [*rapl, *nvml], f"{no_rapl}; {no_nvml}"
        self._sources = list(sources)
        self._last: dict[str, float] = {}
        self.by_source: dict[str, float] = {}
        self.reason = "" if self._sources else f"not available: {reason or 'there is nothing to read'}"

    @property
    def joules(self) -> float | None:
        """The energy of all sources together; ``None`` where it is not available."""
        return sum(self.by_source.values()) if self.by_source and not self.reason else None

    def start(self) -> None:
        """Begin at zero."""
        self.by_source = {source.name: 0.0 for source in self._sources}
        self._last = {}
        self.update()

    def update(self) -> None:
        """Read the counters.

        One that begins anew is noticed once: in a block so long that it may do so twice (at full load after ten minutes at
        the earliest), call this now and then.
        """
        for source in self._sources:
            try:
                reading = source.read()
            except (OSError, ValueError) as error:
                self.reason = f"not available: {source.name} cannot be read any more: {error}"
                continue
            before = self._last.get(source.name, reading)
            self.by_source[source.name] += self._difference(source, before, reading)
            self._last[source.name] = reading

    def _difference(self, source: Source, before: float, reading: float) -> float:
        if reading >= before:
            return reading - before
        if source.wrap is None:
            self.reason = f"not available: the counter of {source.name} fell from {before:g} to {reading:g} J"
            return 0.0
        return reading + source.wrap - before

    def __enter__(self) -> EnergyMeter:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.update()

"""A description of a system from its environment, and from what a user states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.measure.environment import Environment
from deep_bench.mlperf.system.facts import checked, status_of
from deep_bench.mlperf.system.fields import UNKNOWN, Field, Kind, fields_of

_NONE = "N/A"
"""The value of a field that does not apply."""

_SPEED = 1000


@dataclass(frozen=True)
class Missing:
    """A field that nobody tells.

    Args:
        field: The field.
        reason: Why it is not known.
    """

    field: Field
    reason: str

    def __str__(self) -> str:
        need = "" if self.field.meaningful else " (may stay so)"
        return f"{self.field.name}{need}: {self.reason}; state it in the facts: {self.field.how}"


def describe(environment: Environment, facts: Mapping[str, Any] | None = None, kind: Kind = "training") -> dict[str, str]:
    """MLPerf's description of a system: all fields that its programs ask for. What nobody tells has the value ``unknown``.

    The environment is that of one machine; ``number_of_nodes`` is 1 unless ``facts`` say otherwise.

    Args:
        environment: What `deep_bench.measure.environment.capture` found.
        facts: Name of a field to what a user states; it goes before what the environment tells.
        kind: ``"training"`` or ``"inference"``.

    Raises:
        InvalidArgument: Another kind, or facts that there are not.

    Example:
        >>> from deep_bench.measure.environment import capture
        >>> found = describe(capture(), {"submitter": "A lab", "cooling": "air"}, "training")
        >>> found["submitter"], found["cooling"], found["status"], found["number_of_nodes"]
        ('A lab', 'air', 'unknown', '1')
    """
    declared = checked(facts or {})
    if kind not in ("inference", "training"):
        raise InvalidArgument(f"a description of kind {kind!r}", "'inference' or 'training'")
    if "status" in declared:
        declared["status"] = status_of(declared["status"], kind)
    return {field.name: declared.get(field.name) or _told(environment, field)[0] for field in fields_of(kind)}


def missing(environment: Environment, facts: Mapping[str, Any] | None = None, kind: Kind = "training") -> list[Missing]:
    """The fields that a description does not know, each with the reason and how to give it; those that matter first.

    Args:
        environment, facts, kind: Of `describe`.

    Example:
        >>> from deep_bench.measure.environment import capture
        >>> [found.field.name for found in missing(capture(), {"submitter": "A lab", "division": "open"})][0]
        'status'
    """
    description = describe(environment, facts, kind)
    entries = [
        Missing(field, _told(environment, field)[1]) for field in fields_of(kind) if description[field.name] == UNKNOWN
    ]
    return sorted(entries, key=lambda entry: not entry.field.meaningful)


def _told(environment: Environment, field: Field) -> tuple[str, str]:
    """What the environment tells of a field; or `UNKNOWN`, and why."""
    if field.name not in _FROM:
        return UNKNOWN, "no program can know it"
    facts, find = _FROM[field.name]
    for fact in facts:
        if getattr(environment, fact) is None:
            return UNKNOWN, environment.unknown.get(fact, "the environment was captured without it")
    return find(environment) or UNKNOWN, "this machine does not tell"


def _cores(of: Environment) -> str:
    assert of.cores is not None
    assert of.sockets is not None
    return str(of.cores // of.sockets) if of.cores % of.sockets == 0 else ""


def _caches(of: Environment) -> str:
    kinds = {"Data": "d", "Instruction": "i"}
    return ", ".join(f"L{c.level}{kinds.get(c.kind, '')}: {c.count}x {_amount(c.size_bytes)}" for c in of.caches or ())


def _memory_modules(of: Environment) -> str:
    return " + ".join(f"{m.count} x {_amount(m.size_mib * 2**20)} {m.kind}" for m in of.memory_modules or ())


def _disk_kinds(of: Environment) -> str:
    kinds = sorted({disk.kind for disk in of.disks or ()})
    return "" if kinds == ["virtual"] else ", ".join(kinds)


def _disk_sizes(of: Environment) -> str:
    return _counted(f"{_amount(disk.size_bytes)} {disk.kind}" for disk in of.disks or ())


def _networking(of: Environment) -> str:
    cards = of.network_cards or ()
    if any(card.speed_mbit is None for card in cards):
        return ""
    return ", ".join(sorted({f"{_speed(card.speed_mbit or 0)} {card.kind}" for card in cards})) if cards else "none"


def _cards(of: Environment) -> str:
    return _counted(card.kind for card in of.network_cards or ()) or "0"


def _of_gpus(part: Callable[[Any], str | None]) -> Callable[[Environment], str]:
    """What all graphics processors have alike; ``N/A`` without any."""

    def find(of: Environment) -> str:
        values = list(dict.fromkeys(part(gpu) or "" for gpu in of.gpus or ()))
        return _NONE if not values else "" if "" in values else ", ".join(values)

    return find


def _topology(of: Environment) -> str:
    return _NONE if len(of.gpus or ()) < 2 else ""


def _memory_kind(of: Environment) -> str:
    return "" if of.gpus else _NONE


def _software(of: Environment) -> str:
    drivers = {f"NVIDIA driver {gpu.driver}" for gpu in of.gpus or () if gpu.driver}
    packages = [f"{name} {version}" for name, version in of.packages.items()]
    return ", ".join([of.python or "", *sorted(drivers), *packages])


_Found = tuple[tuple[str, ...], Callable[[Environment], str]]

_FROM: Mapping[str, _Found] = {
    "number_of_nodes": ((), lambda _: "1"),
    "host_processors_per_node": (("sockets",), lambda of: str(of.sockets)),
    "host_processor_model_name": (("cpu_model",), lambda of: of.cpu_model or ""),
    "host_processor_core_count": (("cores", "sockets"), _cores),
    "host_processor_vcpu_count": (("logical_cpus",), lambda of: str(of.logical_cpus)),
    "host_processor_frequency": (("processor_mhz",), lambda of: f"{of.processor_mhz:.0f}MHz"),
    "host_processor_caches": (("caches",), _caches),
    "host_processor_interconnect": (("sockets",), lambda of: _NONE if of.sockets == 1 else ""),
    "host_memory_capacity": (("memory_bytes",), lambda of: _amount(of.memory_bytes or 0)),
    "host_memory_configuration": (("memory_modules",), _memory_modules),
    "host_storage_type": (("disks",), _disk_kinds),
    "host_storage_capacity": (("disks",), _disk_sizes),
    "host_networking": (("network_cards",), _networking),
    "host_network_card_count": (("network_cards",), _cards),
    "accelerators_per_node": (("gpus",), lambda of: str(len(of.gpus or ()))),
    "accelerator_model_name": (("gpus",), _of_gpus(lambda gpu: gpu.name)),
    "accelerator_host_interconnect": (("gpus",), _of_gpus(lambda gpu: gpu.bus)),
    "accelerator_frequency": (("gpus",), _of_gpus(lambda gpu: gpu.clock_mhz and f"{gpu.clock_mhz}MHz")),
    "accelerator_on-chip_memories": (("gpus",), _memory_kind),
    "accelerator_memory_configuration": (("gpus",), _memory_kind),
    "accelerator_memory_capacity": (("gpus",), _of_gpus(lambda gpu: gpu.memory_bytes and _amount(gpu.memory_bytes))),
    "accelerator_interconnect": (("gpus",), _of_gpus(lambda gpu: gpu.links)),
    "accelerator_interconnect_topology": (("gpus",), _topology),
    "hw_notes": ((), lambda of: "virtual machine" if of.virtual_machine else "none"),
    "sw_notes": ((), lambda of: f"container: {of.container}" if of.container else "none"),
    "other_software_stack": (("python",), _software),
    "operating_system": (("system", "kernel"), lambda of: f"{of.system}, kernel {of.kernel}"),
}
"""Name of a field to the facts of the environment that tell it, and how."""


def _counted(names: Iterable[str]) -> str:
    return " + ".join(f"{count}x {name}" for name, count in Counter(names).items())


def _amount(size_bytes: float) -> str:
    """An amount of memory with its unit.

    Example:
        >>> _amount(49152), _amount(2**36)
        ('48 KiB', '64 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.4g} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.4g} TiB"


def _speed(mbit: int) -> str:
    return f"{mbit / _SPEED:g} Gbit/s" if mbit >= _SPEED else f"{mbit} Mbit/s"

"""MLPerf's description of a system: what its programs ask for, filled from the environment and from what a user states.

The fields are those of training and of inference. A user states some of them in a small YAML file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from deep_bench.errors import InvalidArgument, nearest
from deep_bench.measure.environment import Environment
from deep_bench.yaml_text import parsed

__all__ = ["FIELDS", "UNKNOWN", "Field", "Kind", "Missing", "describe", "load_facts", "missing"]

Kind: TypeAlias = Literal["inference", "training"]

UNKNOWN = "unknown"
"""The value of a field that neither the machine nor the user tells."""


_BOTH: tuple[Kind, ...] = ("inference", "training")


@dataclass(frozen=True)
class Field:
    """One field.

    Args:
        name: As in the JSON file.
        how: How to give it where the machine does not tell.
        meaningful: Whether the rules want more in it than an empty text.
        kinds: The descriptions that must have it.
    """

    name: str
    how: str
    meaningful: bool = True
    kinds: tuple[Kind, ...] = _BOTH


_ALL = (
    Field("submitter", "the organization that submits"),
    Field("division", "open or closed"),
    Field("status", "on-premise, cloud, preview or rdi (research, development or internal)"),
    Field("system_type", "datacenter or edge", kinds=("inference",)),
    Field("system_type_detail", "such as cloud, on-premise, edge-server", meaningful=False, kinds=("inference",)),
    Field("system_name", "what you call the system"),
    Field("number_of_nodes", "how many machines ran it together"),
    Field("host_processors_per_node", "processor packages of a machine"),
    Field("host_processor_model_name", "as its vendor calls it"),
    Field("host_processor_core_count", "cores of one processor package"),
    Field(
        "host_processor_vcpu_count",
        "hardware threads of a machine",
        meaningful=False,
        kinds=("training",),
    ),
    Field("host_processor_frequency", "such as 2000MHz, from its data sheet", meaningful=False),
    Field("host_processor_caches", "such as L2: 1MB per core", meaningful=False),
    Field("host_processor_interconnect", "between processor packages, such as 3x 10.6GT/s UPI", meaningful=False),
    Field("host_memory_capacity", "such as 384GB"),
    Field("host_storage_type", "such as NVMe SSD; that of the data where they lie elsewhere"),
    Field("host_storage_capacity", "such as 800GB"),
    Field("host_networking", "such as 100Gb Ethernet, HDR InfiniBand"),
    Field("host_network_card_count", "such as 1 100Gb + 1 10Gb", kinds=("inference",)),
    Field("host_networking_topology", "such as fat tree; N/A for one machine"),
    Field("host_memory_configuration", "such as 12 x 32GB 2Rx4 PC4-2666V-R: dmidecode -t memory, as root"),
    Field("accelerators_per_node", "a number; 0 for none"),
    Field("accelerator_model_name", "as its vendor calls it; N/A for none"),
    Field("accelerator_host_interconnect", "such as PCIe 5.0 x16"),
    Field("accelerator_frequency", "such as 1980MHz", meaningful=False),
    Field("accelerator_on-chip_memories", "caches and such, from its data sheet", meaningful=False),
    Field("accelerator_memory_configuration", "such as HBM3, from its data sheet"),
    Field("accelerator_memory_capacity", "such as 141GB"),
    Field("accelerator_interconnect", "such as 18x 26.6GB/s NVLink"),
    Field("accelerator_interconnect_topology", "such as mesh; N/A for one", meaningful=False),
    Field("cooling", "such as air or liquid"),
    Field("hw_notes", "anything else of the machine; may be empty", meaningful=False),
    Field("framework", "name and version of what trains or runs the network"),
    Field("other_software_stack", "versions of what matters beside it"),
    Field("operating_system", "name and version"),
    Field("sw_notes", "anything else of the software; may be empty", meaningful=False),
)

FIELDS = MappingProxyType({field.name: field for field in _ALL})
"""Name to field, in the order of the rules.

Source:
    MLCommons, *General MLPerf submission rules*, section on ``<system_desc_id>.json``, from which ``meaningful`` is; the
    names that must be there: for training those of ``mlperf_logging.system_desc_checker`` 4.1.68, for inference those of
    the submission checker of MLPerf Inference v6.0.
"""


def fields_of(kind: Kind) -> tuple[Field, ...]:
    """The fields that a description of this kind must have.

    Example:
        >>> len(fields_of("inference")), len(fields_of("training"))
        (35, 33)
    """
    return tuple(field for field in _ALL if kind in field.kinds)


_LARGEST_BYTES = 2**16
_LONGEST = 2000

STATUSES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "on-premise": ("Available on-premise", "available"),
        "cloud": ("Available cloud", "available"),
        "preview": ("Preview", "preview"),
        "rdi": ("Research, Development, or Internal (RDI)", "rdi"),
    }
)
"""Name of each status to how descriptions of training and of inference write it."""


_DIVISIONS = ("open", "closed")


def load_facts(path: str | Path) -> dict[str, str]:
    """Read what a user states of a system.

    Args:
        path: A YAML file of fields of `FIELDS`, each a text or a number.

    Raises:
        InvalidArgument: It cannot be read, is too large, or has what `checked` refuses.
    """
    path = Path(path)
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise InvalidArgument(f"{path} has {path.stat().st_size} bytes", f"at most {_LARGEST_BYTES}")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidArgument(f"the facts {path} cannot be read: {reason}", "a YAML file in UTF-8") from error
    content = parsed(text, f"the facts {path}")
    if not isinstance(content, Mapping):
        raise InvalidArgument(f"the facts {path} are no mapping", "lines such as submitter: My Group")
    return checked(content)


def checked(facts: Mapping[Any, Any]) -> dict[str, str]:
    """What a user states, as texts.

    Args:
        facts: Name of a field to its value.

    Raises:
        InvalidArgument: A field that there is not, the nearest one named; or a value that it does not take.

    Example:
        >>> checked({"submitter": "A lab", "number_of_nodes": 2})
        {'submitter': 'A lab', 'number_of_nodes': '2'}
    """
    texts = {}
    for name, value in facts.items():
        if name not in FIELDS:
            shown = str(name)[:100]
            raise InvalidArgument(f"a fact {shown!r}", f"one of {', '.join(FIELDS)}", nearest(str(name), FIELDS))
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InvalidArgument(f"{name}: {type(value).__name__}", "a text or a number")
        if len(str(value)) > _LONGEST:
            raise InvalidArgument(f"{name} of {len(str(value))} characters", f"at most {_LONGEST}")
        texts[str(name)] = str(value)
    for name, candidates in (("division", _DIVISIONS), ("status", STATUSES)):
        if name in texts and texts[name] not in candidates:
            text = texts[name]
            raise InvalidArgument(f"{name}: {text}", f"one of {', '.join(candidates)}", nearest(text, candidates))
    for name in ("number_of_nodes", "accelerators_per_node"):
        least = int(name == "number_of_nodes")
        if name in texts and not (texts[name].isdecimal() and int(texts[name]) >= least):
            raise InvalidArgument(f"{name}: {texts[name]}", f"a whole number of at least {least}")
    return texts


def status_of(status: str, kind: Kind) -> str:
    """A status as a description writes it.

    Example:
        >>> status_of("on-premise", "training"), status_of("rdi", "inference")
        ('Available on-premise', 'rdi')
    """
    return STATUSES[status][kind == "inference"]


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
    return {field.name: declared.get(field.name) or _from_environment(environment, field)[0] for field in fields_of(kind)}


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
        Missing(field, _from_environment(environment, field)[1])
        for field in fields_of(kind)
        if description[field.name] == UNKNOWN
    ]
    return sorted(entries, key=lambda entry: not entry.field.meaningful)


def _from_environment(environment: Environment, field: Field) -> tuple[str, str]:
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


def _networking(of: Environment) -> str:
    cards = of.network_cards or ()
    if any(card.speed_mbit is None for card in cards):
        return ""
    return ", ".join(sorted({f"{_speed(card.speed_mbit or 0)} {card.kind}" for card in cards})) if cards else "none"


def _of_gpus(part: Callable[[Any], str | None]) -> Callable[[Environment], str]:
    """What all graphics processors have alike; ``N/A`` without any."""

    def find(of: Environment) -> str:
        values = list(dict.fromkeys(part(gpu) or "" for gpu in of.gpus or ()))
        return _NONE if not values else "" if "" in values else ", ".join(values)

    return find


def _software(of: Environment) -> str:
    drivers = {f"NVIDIA driver {gpu.driver}" for gpu in of.gpus or () if gpu.driver}
    packages = [f"{name} {version}" for name, version in of.packages.items()]
    return ", ".join([of.python or "", *sorted(drivers), *packages])


_FactFinder = tuple[tuple[str, ...], Callable[[Environment], str]]


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


_FROM: Mapping[str, _FactFinder] = {
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
    "host_storage_capacity": (("disks",), lambda of: _counted(f"{_amount(d.size_bytes)} {d.kind}" for d in of.disks or ())),
    "host_networking": (("network_cards",), _networking),
    "host_network_card_count": (
        ("network_cards",),
        lambda of: _counted(card.kind for card in of.network_cards or ()) or "0",
    ),
    "accelerators_per_node": (("gpus",), lambda of: str(len(of.gpus or ()))),
    "accelerator_model_name": (("gpus",), _of_gpus(lambda gpu: gpu.name)),
    "accelerator_host_interconnect": (("gpus",), _of_gpus(lambda gpu: gpu.bus)),
    "accelerator_frequency": (("gpus",), _of_gpus(lambda gpu: gpu.clock_mhz and f"{gpu.clock_mhz}MHz")),
    "accelerator_on-chip_memories": (("gpus",), lambda of: "" if of.gpus else _NONE),
    "accelerator_memory_configuration": (("gpus",), lambda of: "" if of.gpus else _NONE),
    "accelerator_memory_capacity": (("gpus",), _of_gpus(lambda gpu: gpu.memory_bytes and _amount(gpu.memory_bytes))),
    "accelerator_interconnect": (("gpus",), _of_gpus(lambda gpu: gpu.links)),
    "accelerator_interconnect_topology": (("gpus",), lambda of: _NONE if len(of.gpus or ()) < 2 else ""),
    "hw_notes": ((), lambda of: "virtual machine" if of.virtual_machine else "none"),
    "sw_notes": ((), lambda of: f"container: {of.container}" if of.container else "none"),
    "other_software_stack": (("python",), _software),
    "operating_system": (("system", "kernel"), lambda of: f"{of.system}, kernel {of.kernel}"),
}
"""Name of a field to the facts of the environment that tell it, and how."""


def _counted(names: Iterable[str]) -> str:
    return " + ".join(f"{count}x {name}" for name, count in Counter(names).items())


def _speed(mbit: int) -> str:
    return f"{mbit / _SPEED:g} Gbit/s" if mbit >= _SPEED else f"{mbit} Mbit/s"

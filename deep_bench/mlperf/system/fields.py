"""The fields of MLPerf's description of a system, for training and for inference."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

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

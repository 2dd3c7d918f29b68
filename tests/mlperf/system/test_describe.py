"""Descriptions of systems: all fields that MLPerf's programs ask for; what nobody tells is said to be unknown."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.measure.environment import Cache, Disk, Environment, Gpu, MemoryModule, NetworkCard, capture
from deep_bench.mlperf.system import FIELDS, UNKNOWN, describe, fields_of, load_facts, missing
from deep_bench.mlperf.training.check import check_system

FACTS = {"submitter": "A lab", "division": "open", "status": "rdi", "system_name": "Box", "framework": "torch 2"}

SERVER = Environment(
    cpu_model="A processor",
    cores=64,
    sockets=2,
    logical_cpus=128,
    processor_mhz=3500.0,
    memory_bytes=2**39,
    caches=[
        Cache(level=1, kind="Data", size_bytes=49152, count=64),
        Cache(level=3, kind="Unified", size_bytes=2**25, count=2),
    ],
    disks=[Disk(name="nvme0n1", kind="NVMe", size_bytes=2**40), Disk(name="nvme1n1", kind="NVMe", size_bytes=2**40)],
    network_cards=[NetworkCard(name="ib0", kind="InfiniBand", speed_mbit=200_000, driver="mlx5_core")],
    memory_modules=[MemoryModule(kind="Registered-DDR5", size_mib=32768, count=16)],
    gpus=[
        Gpu(name="H", memory_bytes=80 * 2**30, driver="550", clock_mhz=1980, bus="PCIe 5.0 x16", links="18x NVLink 4")
        for _ in range(4)
    ],
    python="CPython 3.11",
    packages={"torch": "2.6"},
    system="Linux",
    kernel="6",
)


def test_the_fields_of_training_are_those_that_mlperfs_checker_asks_for() -> None:
    module = pytest.importorskip("mlperf_logging.system_desc_checker.system_desc_checker")
    source = inspect.getsource(module.check_system_desc)
    begin = source.index("required_fields = [")
    wanted = re.findall(r'"([\w-]+)"', source[begin : source.index("]\n", begin)])
    assert sorted(describe(SERVER, {}, "training")) == sorted(wanted)


def test_the_fields_of_inference_are_those_of_its_submission_checker() -> None:
    """As listed in the submission checker of MLPerf Inference v6.0, which is in no package."""
    only = {"system_type", "system_type_detail", "host_network_card_count"}
    training, inference = set(describe(SERVER, {}, "training")), set(describe(SERVER, {}, "inference"))
    assert inference - training == only
    assert training - inference == {"host_processor_vcpu_count"}
    assert {field.name for field in fields_of("inference") if not field.meaningful} == {
        "system_type_detail",
        "host_processor_frequency",
        "host_processor_caches",
        "host_processor_interconnect",
        "accelerator_frequency",
        "accelerator_on-chip_memories",
        "accelerator_interconnect_topology",
        "hw_notes",
        "sw_notes",
    }


def test_what_a_machine_tells_is_in_its_description() -> None:
    found = describe(SERVER, FACTS, "training")
    wanted = {
        "submitter": "A lab",
        "status": "Research, Development, or Internal (RDI)",
        "host_processors_per_node": "2",
        "host_processor_core_count": "32",
        "host_processor_frequency": "3500MHz",
        "host_processor_caches": "L1d: 64x 48 KiB, L3: 2x 32 MiB",
        "host_memory_capacity": "512 GiB",
        "host_memory_configuration": "16 x 32 GiB Registered-DDR5",
        "host_storage_type": "NVMe",
        "host_storage_capacity": "2x 1 TiB NVMe",
        "host_networking": "200 Gbit/s InfiniBand",
        "accelerators_per_node": "4",
        "accelerator_model_name": "H",
        "accelerator_memory_capacity": "80 GiB",
        "accelerator_interconnect": "18x NVLink 4",
        "accelerator_host_interconnect": "PCIe 5.0 x16",
        "other_software_stack": "CPython 3.11, NVIDIA driver 550, torch 2.6",
    }
    assert {name: found[name] for name in wanted} == wanted
    assert describe(SERVER, FACTS, "inference")["status"] == "rdi"
    assert describe(SERVER, FACTS, "inference")["host_network_card_count"] == "1x InfiniBand"


def test_what_nobody_tells_is_unknown_with_its_reason() -> None:
    unknown = {one.field.name: str(one) for one in missing(SERVER, FACTS, "training")}
    assert set(unknown) == {
        "host_networking_topology",
        "accelerator_memory_configuration",
        "cooling",
        "host_processor_interconnect",
        "accelerator_on-chip_memories",
        "accelerator_interconnect_topology",
    }
    assert unknown["cooling"] == "cooling: no program can know it; state it in the facts: such as air or liquid"
    assert "(may stay so)" in unknown["accelerator_on-chip_memories"]
    nothing = Environment(unknown={"cpu_model": "PermissionError: no"})
    found = describe(nothing, {}, "training")
    assert {name for name, value in found.items() if value != UNKNOWN} == {"number_of_nodes", "hw_notes", "sw_notes"}
    reasons = {one.field.name: one.reason for one in missing(nothing)}
    assert reasons["host_processor_model_name"] == "PermissionError: no"
    assert reasons["host_storage_type"] == "the environment was captured without it"


def test_a_machine_without_accelerators_says_so_and_passes_mlperfs_checker(tmp_path: Path) -> None:
    found = describe(SERVER.model_copy(update={"gpus": []}), FACTS)
    assert found["accelerators_per_node"] == "0"
    assert {value for name, value in found.items() if name.startswith("accelerator_")} == {"N/A"}
    path = tmp_path / "box.json"
    path.write_text(json.dumps(found))
    assert check_system(path).passed


def test_this_machine_can_be_described() -> None:
    found = describe(capture(), FACTS)
    assert int(found["host_processors_per_node"]) >= 1
    assert found["host_memory_capacity"].endswith("GiB")
    assert list(found) == [field.name for field in fields_of("training")]


def test_facts_go_before_what_a_machine_tells(tmp_path: Path) -> None:
    path = tmp_path / "facts.yaml"
    path.write_text("host_memory_capacity: 384GB\nnumber_of_nodes: 4\naccelerators_per_node: 0\n")
    found = describe(SERVER, load_facts(path))
    assert (found["host_memory_capacity"], found["number_of_nodes"], found["accelerators_per_node"]) == ("384GB", "4", "0")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("colling: air", "did you mean 'cooling'"),
        ("status: available", "one of on-premise, cloud, preview, rdi"),
        ("division: opne", "did you mean 'open'"),
        ("number_of_nodes: 0", "at least 1"),
        ("number_of_nodes: -3", "at least 1"),
        ("cooling: [air]", "a text or a number"),
        ("cooling: true", "a text or a number"),
        ("cooling: " + "x" * 2001, "at most 2000"),
        ("- air", "no mapping"),
        ("cooling: !!python/object/apply:os.system ['touch sprung']", "facts"),
        ("submitter: a\nsubmitter: b", "comes twice"),
        ("x" * 70_000, "at most 65536"),
    ],
)
def test_facts_that_cannot_be_are_refused(text: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "facts.yaml"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=why):
        load_facts(path)
    assert not (tmp_path / "sprung").exists()


def test_facts_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot be read"):
        load_facts(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgument, match="cannot be read"):
        load_facts(tmp_path / "bad.yaml")
    with pytest.raises(InvalidArgument, match="'inference' or 'training'"):
        describe(SERVER, {}, "hpc")  # type: ignore[arg-type]
    assert "cooling" in FIELDS

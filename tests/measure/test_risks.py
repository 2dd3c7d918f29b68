from __future__ import annotations

import pytest

from deep_bench.measure.environment import Environment, capture, risks, usable_cpus

CALM = Environment(
    governor="performance", smt=False, turbo=False, virtual_machine=False, load=[0.1, 0.1, 0.1], swap_used_bytes=0,
    logical_cpus=4, cpus_allowed=[0, 1, 2, 3], numa_nodes=1, memory_available_bytes=2**34, packages={"mpi4py": "4"},
    variables={"OMP_NUM_THREADS": "4"},
)  # fmt: skip


def test_a_calm_machine_has_no_risk() -> None:
    assert risks(CALM, steal=0.0) == []


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        ({"governor": "powersave"}, "governor", "powersave"),
        ({"governor": None}, "governor", "cannot be read"),
        ({"smt": True}, "SMT", "share a core"),
        ({"turbo": True}, "turbo", "above its base"),
        ({"load": [3.0, 1.0, 1.0]}, "load", "3.0"),
        ({"variables": {}}, "threads", "OMP_NUM_THREADS=4"),
        ({"variables": {"MKL_NUM_THREADS": "8"}}, "threads", "MKL_NUM_THREADS=8"),
        ({"cpu_limit": 2.0, "variables": {"OMP_NUM_THREADS": "2"}}, "CPU limit", "2 CPUs"),
        ({"cpus_allowed": [0, 1], "variables": {"OMP_NUM_THREADS": "2"}}, "affinity", "2 of 4"),
        ({"swap_used_bytes": 2**31}, "swap", "2 GiB"),
        ({"memory_available_bytes": 2**28}, "memory", "256 MiB"),
        ({"numa_nodes": 2}, "NUMA", "2 memory nodes"),
        ({"packages": {}}, "MPI", "mpi4py"),
    ],
)
def test_each_risk_is_named_with_advice(change: dict[str, object], name: str, words: str) -> None:
    (risk,) = risks(CALM.model_copy(update=change))
    assert risk.name == name
    assert words in str(risk)
    assert risk.advice
    assert "\n" not in str(risk)


def test_a_virtual_machine_is_a_risk_of_its_own() -> None:
    assert {r.name for r in risks(CALM.model_copy(update={"virtual_machine": True}))} == {"SMT", "virtual machine"}


def test_stolen_time_is_a_risk() -> None:
    (risk,) = risks(CALM, steal=0.2)
    assert "20.0%" in str(risk)


def test_unknown_facts_break_nothing() -> None:
    assert risks(Environment())
    assert usable_cpus(Environment()) == 1
    assert risks(capture()) is not None


def test_usable_cpus_are_the_allowed_or_the_granted() -> None:
    assert usable_cpus(CALM) == 4
    assert usable_cpus(CALM.model_copy(update={"cpu_limit": 2.5})) == 2
    assert usable_cpus(CALM.model_copy(update={"cpu_limit": 0.5})) == 1

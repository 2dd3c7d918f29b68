from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deep_bench.measure.environment import Environment
from deep_bench.measure.rules import RULES, RuleCheck, RuleFacts, check, judged
from deep_bench.measure.session import Series
from deep_bench.measure.timing import Block
from deep_bench.records.model import DataFacts, ErrorRecord, NetworkFacts, OptionsRecord, Record, SampleSet, SystemRecord

Make = Callable[..., list[Block]]
KNOWN = Environment(
    cpu_model="x", memory_bytes=1, kernel="k", python="p", packages={"numpy": "2"}, logical_cpus=2, cpus_allowed=[0, 1]
)


def system(label: str, launches: list[list[Block]], **more: object) -> SystemRecord:
    samples = [SampleSet.of(Series(label, "native", i, None, blocks)) for i, blocks in enumerate(launches)]
    return SystemRecord(label=label, framework="tiny", samples=samples, **more)


def whole(*systems: SystemRecord, **changes: object) -> Record:
    digest = "0" * 64
    content = {
        "deep_bench": "0", "command": ["run"], "recipe": OptionsRecord(seeds={"data": 0}),
        "network": NetworkFacts(name="n", sha256=digest),
        "data": DataFacts(source="generated"), "environment": KNOWN, "systems": list(systems),
    }  # fmt: skip
    return Record(**{**content, **changes})


def by_number(record: Record, **options: bool) -> dict[int, RuleCheck]:
    return {c.number: c for c in check(record, **options)}


def test_all_twelve_are_judged_with_a_reason(blocks: Make) -> None:
    random = np.random.default_rng(0)
    found = check(whole(system("a", [blocks(random)]), system("b", [blocks(random)], threaded=True)))
    assert [c.number for c in found] == list(range(1, 13))
    assert [c.rule for c in found] == list(RULES)
    assert all(c.reason for c in found)
    assert {c.number for c in found if c.state == "fails"} == {11}
    assert {c.number for c in found if c.state == "does not apply"} == {12}


def test_a_single_system_is_compared_with_nothing(blocks: Make) -> None:
    random = np.random.default_rng(0)
    twin = system("a (A/A)", [blocks(random)], twin_of="a")
    found = by_number(whole(system("a", [blocks(random)]), twin))
    assert {n for n in (1, 4, 7) if found[n].state == "does not apply"} == {1, 4, 7}


def test_too_few_samples_break_the_rules_on_intervals(blocks: Make) -> None:
    random = np.random.default_rng(0)
    found = by_number(whole(system("a", [blocks(random, 1, 3)]), system("b", [blocks(random)])))
    assert found[5].state == found[7].state == "fails"
    assert "a" in found[5].reason


def test_the_basis_of_the_intervals_is_said(blocks: Make) -> None:
    random = np.random.default_rng(0)
    assert "within one launch" in by_number(whole(system("a", [blocks(random)])))[5].reason
    several = whole(system("a", [blocks(random, 2) for _ in range(6)]))
    assert "over launches" in by_number(several)[5].reason


def test_several_modes_break_the_rule_on_medians(blocks: Make) -> None:
    random = np.random.default_rng(0)
    both = blocks(random, level=1e6, within=0.01) + blocks(random, level=2e6, within=0.01)
    assert by_number(whole(system("a", [both])))[8].state == "fails"


def test_an_incomplete_setup_is_named(blocks: Make) -> None:
    record = whole(system("a", [blocks(np.random.default_rng(0))]), network=None, environment=Environment())
    found = by_number(record)[9]
    assert found.state == "fails"
    assert "network" in found.reason
    assert "processor" in found.reason


def test_a_subset_of_the_machine_needs_a_note(blocks: Make) -> None:
    part = KNOWN.model_copy(update={"cpus_allowed": [0]})
    timed = system("a", [blocks(np.random.default_rng(0))])
    assert by_number(whole(timed, environment=part))[2].state == "fails"
    assert "1 of 2" in by_number(whole(timed, environment=part))[2].reason
    assert by_number(whole(timed, environment=part, notes=["load: the load is 3.0"]))[2].state == "fails"
    found = by_number(whole(timed, environment=part, notes=["bound to one core on purpose"]))[2]
    assert found.state == "holds"
    assert "on purpose" in found.reason
    job = part.model_copy(update={"variables": {"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "1"}})
    assert by_number(whole(timed, environment=job))[2].state == "holds"
    wide = part.model_copy(update={"variables": {"SLURM_CPUS_ON_NODE": "2"}})
    assert by_number(whole(timed, environment=wide))[2].state == "fails"


def test_ranks_that_are_bound_apart_use_the_machine_together() -> None:
    part = KNOWN.model_copy(update={"cpus_allowed": [0]})
    assert judged(RuleFacts(1, part))[1].state == "fails"
    assert judged(RuleFacts(1, part, cpus=[0, 1]))[1].state == "holds"


def test_failed_systems_are_named(blocks: Make) -> None:
    broken = SystemRecord(label="broken", framework="x", error=ErrorRecord(kind="WorkerDied", message="m"))
    assert "broken" in by_number(whole(system("a", [blocks(np.random.default_rng(0))]), broken))[2].reason


def test_a_record_without_samples_can_be_judged() -> None:
    assert by_number(whole(), plotted=True)[5].state == "does not apply"
    assert by_number(whole(), plotted=True)[12].state == "holds"

"""A seeded sample of the corpus; the whole of it, with the rates that it must reach, in the full tests."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from .entry import Entry
from .faults import faults
from .gradients import gradient_faults, gradient_variants
from .groups import GROUPS
from .known import KNOWN
from .measure import Judged, measure, rates
from .mutation.held_out import mutants, rule_mutants
from .problems import family_of, problem
from .subjects import Patched
from .tolerances import TOLERANCES, close
from .variants import variants

_SEED = 5
_FOUND, _ACCUSED = 0.99, 0.01
_OWN = [v for v in (*variants(), *gradient_variants()) if not v.native]
_FAULTS = [*faults(), *gradient_faults()]


def sample(entries: Iterable[Entry], each: int) -> list[Entry]:
    """A few of each family, drawn by a seed."""
    rng = random.Random(_SEED)
    families: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        families[family_of(entry.problem)].append(entry)
    return [e for members in families.values() for e in rng.sample(members, min(each, len(members)))]


def marked(entry: Entry) -> Any:
    """A test of an entry; of one that is known to be misjudged, a test that must fail."""
    known = [pytest.mark.xfail(reason=KNOWN[entry.name], strict=True)] if entry.name in KNOWN else []
    return pytest.param(entry, id=entry.name, marks=known)


@pytest.mark.parametrize("entry", [marked(e) for e in sample(_FAULTS, 2)])
def test_fault_is_found(entry: Entry) -> None:
    (judged,) = measure([entry], fault=True)
    assert judged.judged_rightly, (judged.verdict.word, judged.verdict.reason)


@pytest.mark.parametrize("entry", [marked(e) for e in sample(_OWN, 2)])
def test_correct_variant_is_right(entry: Entry) -> None:
    (judged,) = measure([entry], fault=False)
    assert judged.judged_rightly, (judged.verdict.word, judged.verdict.reason)


@pytest.mark.parametrize("where", ["Gemm square", "ReduceL2", "Softmax masked", "QLinearMatMul by column", "RNN"])
def test_mutant_is_found(where: str) -> None:
    found = random.Random(_SEED).sample(mutants([where]), 4)
    missed = [j for j in measure(found, fault=True) if not j.judged_rightly]
    assert not missed, described(missed)


def test_mutant_of_a_gradient_rule_is_found() -> None:
    found = random.Random(_SEED).sample(rule_mutants(["Gemm"], apart=False), 4)
    missed = [j for j in measure(found, fault=True) if not j.judged_rightly]
    assert not missed, described(missed)


def test_applying_a_mutation_leaves_no_trace() -> None:
    before = Patched(problem("ReduceL2"), {}).outputs()["y0"]
    for entry in mutants(["ReduceL2"]):
        assert not np.array_equal(entry.subject().outputs()["y0"], before), entry.name
        np.testing.assert_array_equal(Patched(problem("ReduceL2"), {}).outputs()["y0"], before)


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name, group in GROUPS.items() if not group.real])
def test_rates_of_the_whole_corpus(name: str) -> None:
    group = GROUPS[name]
    judged = list(measure(group.entries(), fault=group.fault))
    wrong = [j for j in judged if not j.judged_rightly]
    right, total = rates(judged)["deep_bench"]
    assert right / total >= _FOUND if group.fault else (total - right) / total < _ACCUSED, described(wrong)


def test_corpus_is_large_enough() -> None:
    assert len(_FAULTS) >= 200
    assert len(_OWN) >= 200
    names = Counter(e.name for e in (*_FAULTS, *variants(), *gradient_variants()))
    assert [name for name, count in names.items() if count > 1] == []


def test_what_is_known_to_be_misjudged_is_in_the_corpus() -> None:
    assert set(KNOWN) <= {e.name for e in (*_FAULTS, *_OWN)}


def test_every_family_has_faults_and_correct_variants() -> None:
    assert {family_of(e.problem) for e in _FAULTS} == {family_of(e.problem) for e in _OWN}


@pytest.mark.parametrize(
    ("name", "relative", "said"),
    [
        ("`numpy.allclose`", 2e-5, False),
        ("`torch.testing.assert_close`, tritonbench", 1.2e-6, True),
        ("KernelBench, 1e-4", 9e-5, True),
        ("KernelBench, 1e-4", 3e-4, False),
        ("KernelBench at first, 1e-2", 1e-2, True),
    ],
)
def test_tolerances_are_those_of_their_source(name: str, relative: float, said: bool) -> None:
    expected = np.ones(3)
    actual = np.array([1, 1 + relative, 1], np.float32)
    assert close(actual, expected, np.dtype(np.float32), TOLERANCES[name]) is said


def described(judged: Sequence[Judged]) -> str:
    """What was misjudged, one line each."""
    return "\n".join(f"{j.entry.name}: {j.verdict.word}: {j.verdict.reason}" for j in judged)

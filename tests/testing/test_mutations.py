"""Operators that are wrong on purpose: the standard's cases catch every one."""

from __future__ import annotations

from functools import cache

import pytest

from deep_bench.reference import operators
from deep_bench.reference.network import ReferenceAdapter, executor
from deep_bench.testing import Case, run_case, standard_cases
from tests.testing.mutations import MUTATIONS, Mutation, mutated

ALL = [mutation for family in MUTATIONS.values() for mutation in family]


@cache
def cases(operator: str) -> tuple[Case, ...]:
    found = [c for kind in ("node", "simple") for c in standard_cases(kind) if operator in c.operators]
    return tuple(sorted(found, key=lambda c: sum(getattr(x, "nbytes", 0) for x in c.inputs)))


def use(monkeypatch: pytest.MonkeyPatch, mutation: Mutation) -> None:
    """Have the reference compute with the wrong operator."""
    right = executor.find

    def find(domain: str, op_type: str):
        function = right(domain, op_type)
        return mutated(mutation, function) if op_type == mutation.operator else function

    monkeypatch.setattr(executor, "find", find)


def words(operator: str) -> set[str]:
    """How the operator's cases end; no further than the first that catches it."""
    found = set()
    for case in cases(operator):
        found.add(run_case(ReferenceAdapter(), case).word)
        if found & {"wrong", "failed"}:
            break
    return found


@pytest.mark.parametrize("mutation", ALL, ids=str)
def test_it_is_caught(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, mutation)
    assert words(mutation.operator) & {"wrong", "failed"}


@pytest.mark.parametrize("operator", sorted({m.operator for m in ALL}))
def test_unchanged_it_passes(operator: str) -> None:
    assert words(operator) <= {"passed", "skipped"}


def test_every_family_has_a_mutation() -> None:
    families = {
        function.__module__.rpartition(".")[2] for (domain, _), function in operators.OPERATORS.items() if not domain
    }
    assert families == set(MUTATIONS)


def test_every_mutation_is_of_its_family() -> None:
    for family, mutations in MUTATIONS.items():
        for mutation in mutations:
            assert operators.OPERATORS["", mutation.operator].__module__.endswith(f".{family}")

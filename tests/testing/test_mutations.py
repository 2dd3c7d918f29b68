"""Operators that are wrong on purpose: the standard's cases, and those drawn here, catch every one."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx
import pytest

from deep_bench.framework import Adapter, Executor
from deep_bench.graph import Network
from deep_bench.reference import network as executor
from deep_bench.reference import operators
from deep_bench.reference.network import ReferenceAdapter
from deep_bench.testing import Case, run_case, standard_cases
from deep_bench.testing.generated import GENERATORS, generated_cases
from tests.testing.mutations import MUTATIONS, Mutation, mutated

ALL = [mutation for family in MUTATIONS.values() for mutation in family]


@cache
def cases(operator: str) -> tuple[Case, ...]:
    found = [c for kind in ("node", "simple") for c in standard_cases(kind) if operator in c.operators]
    smallest_first = sorted(found, key=lambda c: sum(getattr(x, "nbytes", 0) for x in c.inputs))
    return (*smallest_first, *(generated_cases([operator]) if operator in GENERATORS else ()))


class Wrong(ReferenceAdapter):
    """The reference with one wrong operator; whoever judges it still has the right one."""

    def __init__(self, mutation: Mutation) -> None:
        super().__init__()
        self._mutation = mutation

    def prepare(self, network: Network, **options: Any) -> Executor:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(executor, "find", self._find)
            return super().prepare(network, **options)

    def _find(self, domain: str, op_type: str) -> Any:
        function = operators.find(domain, op_type)
        return mutated(self._mutation, function) if op_type == self._mutation.operator else function


def words(adapter: Adapter, operator: str) -> set[str]:
    """How the operator's cases end; no further than the first that catches it."""
    found = set()
    for case in cases(operator):
        found.add(run_case(adapter, case).word)
        if found & {"wrong", "failed"}:
            break
    return found


@pytest.mark.long
@pytest.mark.parametrize("mutation", ALL, ids=str)
def test_it_is_caught(mutation: Mutation) -> None:
    assert words(Wrong(mutation), mutation.operator) & {"wrong", "failed"}


@pytest.mark.long
@pytest.mark.parametrize("operator", sorted({m.operator for m in ALL}))
def test_unchanged_it_passes(operator: str) -> None:
    assert words(ReferenceAdapter(), operator) <= {"passed", "skipped"}


def test_every_family_has_a_mutation() -> None:
    families = {
        function.__module__.rpartition(".")[2]
        for (domain, name), function in operators.OPERATORS.items()
        if not domain and onnx.defs.has(name)
    }
    assert families == set(MUTATIONS)


def test_every_mutation_is_of_its_family() -> None:
    for family, mutations in MUTATIONS.items():
        for mutation in mutations:
            assert operators.OPERATORS["", mutation.operator].__module__.endswith(f".{family}")

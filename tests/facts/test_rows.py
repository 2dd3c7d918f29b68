"""Every operator that has a reference has a row of facts, in the family of the same name, and no row is of any other."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from pathlib import Path

import onnx
import pytest

import deep_bench.facts
from deep_bench.facts import OPERATORS, OperatorFacts, facts_of
from deep_bench.reference import operators as reference

REPLACED = {"Scatter", "Upsample"}
"""Operators that networks in older operator sets have, and newer ones in their place: the reference needs none of them."""


def spelled(domain: str, op_type: str) -> str:
    return f"{domain}::{op_type}" if domain else op_type


REFERENCES = {spelled(domain, name): function for (domain, name), function in reference.OPERATORS.items()}


def test_each_operator_of_the_reference_has_a_row() -> None:
    assert set(REFERENCES) - set(OPERATORS) == set()


def test_each_row_is_of_an_operator_of_the_reference_or_of_an_older_set() -> None:
    assert set(OPERATORS) - set(REFERENCES) == REPLACED
    assert all(onnx.defs.get_schema(name).deprecated for name in REPLACED)


@pytest.mark.parametrize("family", deep_bench.facts._FAMILIES.split())
def test_a_row_stands_in_the_family_of_its_reference(family: str) -> None:
    rows = import_module(f"deep_bench.facts.{family}").OPERATORS
    families = {name: REFERENCES[name].__module__.split(".")[3] for name in set(rows) - REPLACED}
    assert set(families.values()) == {family}


def test_no_row_is_hidden_by_that_of_another_family() -> None:
    families = [import_module(f"deep_bench.facts.{family}").OPERATORS for family in deep_bench.facts._FAMILIES.split()]
    assert sum(map(len, families)) == len(OPERATORS)


def test_each_file_is_a_family_or_what_families_share() -> None:
    files = {file.stem for file in Path(deep_bench.facts.__file__).parent.glob("*.py")}
    assert files == {*deep_bench.facts._FAMILIES.split(), "__init__", "row", "rules"}


@pytest.mark.parametrize("name", [field.name for field in fields(OperatorFacts)])
def test_each_column_is_documented_and_differs_somewhere(name: str) -> None:
    assert f"        {name}: " in str(OperatorFacts.__doc__)
    assert any(getattr(row, name) != getattr(OperatorFacts(), name) for row in OPERATORS.values())


@pytest.mark.parametrize("operator", sorted(name for name, row in OPERATORS.items() if "::" not in name and row.choices))
def test_choices_are_of_attributes_that_the_operator_has(operator: str) -> None:
    attributes = onnx.defs.get_schema(operator).attributes
    for name, texts in facts_of(operator).choices.items():
        default = attributes[name].default_value
        assert not default.name or default.s.decode() in texts.split()


def test_inputs_are_of_positions_that_the_operator_has() -> None:
    for operator, row in OPERATORS.items():
        domain, _, name = operator.rpartition("::")
        if onnx.defs.has(name, domain):
            positions = {*row.settings, *row.initializer_settings, *row.learnt, *row.roles, *row.weights}
            assert max(positions, default=0) < max(onnx.defs.get_schema(name, domain=domain).max_input, 1), operator


def test_an_operator_without_a_row_has_the_defaults() -> None:
    assert facts_of("Gemm", "com.example") == facts_of("NoSuchOperator") == OperatorFacts()
    assert facts_of("Gemm", "ai.onnx") is facts_of("Gemm") is OPERATORS["Gemm"]

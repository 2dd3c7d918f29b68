"""The reference against the ONNX standard: its own test cases, and what its schemas say of every operator."""

from __future__ import annotations

import inspect
import re

import onnx
import pytest
from onnx import defs

from deep_bench.reference.network import ReferenceAdapter
from deep_bench.reference.operators import OPERATORS, find
from deep_bench.testing import Case, run_case, standard_cases
from deep_bench.testing.case import KINDS

OPTIONAL = defs.OpSchema.FormalParameterOption.Optional
SCHEMAS = {s.name: s for s in defs.get_all_schemas() if s.domain == "" and not s.deprecated}


CASES = [case for kind in KINDS for case in standard_cases(kind)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    outcome = run_case(ReferenceAdapter(), case)
    assert outcome.word == ("skipped" if "bernoulli" in case.name else "passed"), outcome.detail


def test_every_operator_of_the_default_domain_has_a_reference() -> None:
    assert {name for domain, name in OPERATORS if domain == ""} >= set(SCHEMAS)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_signature_is_that_of_the_schema(name: str) -> None:
    schema, parameters = SCHEMAS[name], inspect.signature(find("", name)).parameters.values()
    keywords = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "n_outputs"}
    positional = [p.default is not p.empty for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    if not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        assert positional == [i.option == OPTIONAL for i in schema.inputs]
        assert set(keywords) == set(schema.attributes)
    for attribute, default in keywords.items():
        stated = schema.attributes[attribute].default_value
        if stated.name:
            expected = onnx.helper.get_attribute_value(stated)
            expected = expected.decode() if isinstance(expected, bytes) else expected
            expected = tuple(_text(v) for v in expected) if isinstance(expected, list) else expected
            assert default == expected, attribute


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_docstring_names_the_newest_version(name: str) -> None:
    source = re.search(r"ONNX (\w+), opset (\d+)", find("", name).__doc__)
    assert source is not None
    assert source.groups() == (name, str(SCHEMAS[name].since_version))

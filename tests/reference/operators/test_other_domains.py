"""The reference against the ONNX standard outside of the default domain: its test cases, and what its schemas say."""

from __future__ import annotations

import inspect
import re

import onnx
import pytest
from onnx import defs

from deep_bench.reference.network import ReferenceAdapter
from deep_bench.reference.operators import OPERATORS, find
from deep_bench.testing import freeze, run_case, standard_cases
from deep_bench.testing.case import Case

DOMAINS = ("ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
SCHEMAS = {(s.domain, s.name): s for s in defs.get_all_schemas() if s.domain in DOMAINS}
CASES = [
    case
    for kind in ("node", "simple")
    for case in standard_cases(kind)
    if any(node.domain in DOMAINS for node in case.proto.graph.node)
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_network(case: Case) -> None:
    assert run_case(ReferenceAdapter(), case).word == "passed"
    assert run_case(ReferenceAdapter(), freeze(case)).word == "passed"


def test_every_operator_has_a_reference() -> None:
    assert {key for key in OPERATORS if key[0] in DOMAINS} == set(SCHEMAS)


@pytest.mark.parametrize(("domain", "name"), SCHEMAS)
def test_attributes_are_those_of_the_schema(domain: str, name: str) -> None:
    parameters = inspect.signature(find(domain, name)).parameters.values()
    keywords = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    stated = {n: a for n, a in SCHEMAS[domain, name].attributes.items() if not n.startswith("nodes_") or n in keywords}
    assert set(stated) <= set(keywords)
    for attribute, value in stated.items():
        if value.default_value.name:
            expected = onnx.helper.get_attribute_value(value.default_value)
            assert keywords[attribute] == (expected.decode() if isinstance(expected, bytes) else expected), attribute
        else:
            assert keywords[attribute] in ((inspect.Parameter.empty,) if value.required else (None, ())), attribute


@pytest.mark.parametrize(("domain", "name"), SCHEMAS)
def test_docstring_names_the_newest_version(domain: str, name: str) -> None:
    source = re.search(r"ONNX (\w+), ([\w.]+) (\d+)", find(domain, name).__doc__)
    assert source is not None
    assert source.groups() == (name, domain, str(SCHEMAS[domain, name].since_version))

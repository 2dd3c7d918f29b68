"""The reference against the ONNX standard: its own test cases, and what its schemas say of every operator."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import defs

from deep_bench.graph.node import attributes
from deep_bench.reference.network import ReferenceAdapter
from deep_bench.reference.operators import OPERATORS, find
from deep_bench.testing import Case, run_case, standard_cases

OPTIONAL = defs.OpSchema.FormalParameterOption.Optional
SCHEMAS = {s.name: s for s in defs.get_all_schemas() if s.domain == "" and not s.deprecated}


def standard_domain(case: Case) -> bool:
    return all(node.domain in ("", "ai.onnx") for node in case.proto.graph.node)


def deterministic(case: Case) -> bool:
    return not case.name.startswith("test_bernoulli")  # no seed is said to give the numbers of the case


def only_tensors(case: Case) -> bool:
    values = (*case.proto.graph.input, *case.proto.graph.output)
    return all(v.type.HasField("tensor_type") for v in values)


def one_plain_node(case: Case) -> bool:
    return len(case.proto.graph.node) == 1 and not any(a.HasField("g") for a in case.proto.graph.node[0].attribute)


def runs_as_network(case: Case) -> bool:
    return only_tensors(case) and all(o.version >= 7 for o in case.proto.opset_import)


CASES = [case for case in standard_cases("node") if standard_domain(case) and deterministic(case)]
NETWORKS = [case for case in CASES if runs_as_network(case) or not one_plain_node(case)]
FUNCTIONS = [case for case in CASES if not runs_as_network(case) and one_plain_node(case)]
NOT_TENSORS = "inputs and outputs of a network are tensors, not sequences or optional values"
UNROUNDED_LENGTH = "the case takes the stretch from the length before rounding; the standard's formula, from the output's"
KNOWN = {
    "test_resize_downsample_scales_cubic_align_corners": UNROUNDED_LENGTH,
    "test_resize_downsample_scales_linear_align_corners": UNROUNDED_LENGTH,
}


# Where the right result is zero these cases ask for what rounding in float32 left of it.
COARSE = {"test_dft_inverse": 1e-6, "test_dft_inverse_opset19": 1e-6}


def parameter(case: Case):
    reason = KNOWN.get(case.name) or (None if only_tensors(case) else NOT_TENSORS)
    return pytest.param(case, id=case.name, marks=pytest.mark.xfail(reason=reason, strict=True) if reason else ())


@pytest.mark.parametrize("case", [parameter(case) for case in NETWORKS])
def test_network(case: Case) -> None:
    outcome = run_case(ReferenceAdapter(), replace(case, atol=COARSE.get(case.name, case.atol)))
    assert outcome.word == "passed", outcome.detail


@pytest.mark.parametrize("case", FUNCTIONS, ids=lambda case: case.name)
def test_function(case: Case) -> None:
    node = ir.from_proto(case.proto).graph[0]
    result = find("", node.op_type)(*case.inputs, **attributes(node))
    for got, want in zip(result if isinstance(result, tuple) else (result,), case.outputs, strict=True):
        assert_same(got, want)


def assert_same(got, want) -> None:
    assert isinstance(got, list) == isinstance(want, list)
    if isinstance(want, list):
        for g, w in zip(got, want, strict=True):
            assert_same(g, w)
    else:
        np.testing.assert_array_equal(got, want, strict=want is not None)


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

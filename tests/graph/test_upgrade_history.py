"""Every operator's schemas, one version after the other: each change has a rule, or is known to need none."""

from __future__ import annotations

import itertools
from typing import Any

import onnx
from onnx import helper

from deep_bench.graph import OPSET
from deep_bench.graph.upgrade import RULES

ADDITIONS = {
    "ArgMax": {12},
    "ArgMin": {12},
    "Attention": {24, 25},
    "AveragePool": {7, 10, 19},
    "Cast": {19, 24},
    "CastLike": {19, 24},
    "Constant": {11, 12},
    "DepthToSpace": {11},
    "DequantizeLinear": {13, 21, 23},
    "GRU": {14},
    "GatherND": {12},
    "Gemm": {11},
    "LSTM": {14},
    "LpPool": {18},
    "MaxPool": {8, 10},
    "OptionalHasElement": {18},
    "Pad": {18},
    "QuantizeLinear": {13, 19, 21, 23},
    "RNN": {14},
    "Range": {27},  # stash_type is for the element types that are new in this version
    "Reshape": {14},
    "Resize": {18},
    "ScatterElements": {16},
    "ScatterND": {16},
    "Shape": {15},
    "SpaceToDepth": {28},
    "TopK": {11},
}
"""Versions with new optional arguments, whose default says what held before."""

COVERED = {("Upsample", 9)}
"""A rule for a later version leads from either form to the newest."""


def default(attribute: Any) -> Any:
    stated = attribute.default_value
    return helper.get_attribute_value(stated) if stated.name else None


def arguments(schema: Any) -> dict[str, tuple[Any, ...]]:
    """Attributes, inputs and outputs by name, with all that decides how a node states them."""
    found: dict[str, tuple[Any, ...]] = {
        f"attribute {name}": (a.type, a.required, default(a)) for name, a in schema.attributes.items()
    }
    for kind, formal in (("input", schema.inputs), ("output", schema.outputs)):
        found |= {f"{kind} {i}": (f.name, f.option) for i, f in enumerate(formal)}
    return found | {"deprecated": (schema.deprecated,)}


def changes() -> dict[tuple[str, int], set[str]]:
    """For each version of an operator of the default domain: what differs from the version before."""
    schemas = sorted(
        (s for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""), key=lambda s: (s.name, s.since_version)
    )
    found = {}
    for old, new in itertools.pairwise(schemas):
        if old.name == new.name and new.since_version <= OPSET:
            before, after = arguments(old), arguments(new)
            differs = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
            if differs:
                found[new.name, new.since_version] = differs
    return found


def test_every_change_has_a_rule_or_needs_none() -> None:
    ruled = {(name, version) for name, rules in RULES.items() for version, _ in rules}
    added = {(name, version) for name, versions in ADDITIONS.items() for version in versions}
    assert changes().keys() - ruled == added | COVERED


def test_additions_are_optional() -> None:
    """What a version added must not be asked of a node that was written before."""
    schemas = {(s.name, s.since_version): s for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    for (name, version), differs in changes().items():
        if version not in ADDITIONS.get(name, ()):
            continue
        now = arguments(schemas[name, version])
        for argument in differs:
            kind = argument.split()[0]
            assert argument in now, (name, version, argument)
            assert now[argument][1] == (False if kind == "attribute" else optional), (name, version, argument)


def test_rules_are_in_ascending_order() -> None:
    for name, rules in RULES.items():
        versions = [version for version, _ in rules]
        assert versions == sorted(set(versions)), name


def test_every_rule_is_for_a_version_of_its_operator() -> None:
    known = {(s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history()}
    assert {(n, v) for n, rules in RULES.items() for v, _ in rules} <= known

"""The reference beside ``onnx.reference``: equal, or different for a reason that the table states."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest

from .second_opinion.__main__ import PAGE, written
from .second_opinion.opinion import difference, questions
from .second_opinion.table import DIFFERENCES, Difference, expected

_EVERY = 16
_KNOWN = frozenset(expected())
_ALL = {case.name: case for case in questions()}
_OWN = [name for name, case in _ALL.items() if case.kind == "one node"]
_STANDARD = [name for name in _ALL if name not in _OWN]


@pytest.mark.parametrize("name", [*_OWN, *(n for n in _STANDARD if n in _KNOWN), *_STANDARD[::_EVERY]])
def test_opinions_agree_or_the_table_says_why(name: str) -> None:
    _check(name)


@pytest.mark.full
@pytest.mark.parametrize("name", _STANDARD)
def test_opinions_agree_on_every_standard_case(name: str) -> None:
    _check(name)


def _check(name: str) -> None:
    said = difference(_ALL[name])
    if name in _KNOWN:
        assert said, "they no longer differ: take it out of the table"
    else:
        assert not said, said


def test_table_names_networks_that_exist_once() -> None:
    counts = Counter(expected())
    assert {n for n, count in counts.items() if count > 1} == set()
    assert set(counts) <= set(_ALL)
    assert len(_ALL) == len(list(questions()))


@pytest.mark.parametrize("entry", DIFFERENCES, ids=lambda d: f"{d.operator}: {d.networks[0]}")
def test_quotes_are_in_the_specification(entry: Difference) -> None:
    schema = onnx.defs.get_schema(entry.operator, entry.version)
    texts = [schema.doc, *(a.description for a in schema.attributes.values())]
    texts += [value.description for value in (*schema.inputs, *schema.outputs)]
    assert any(_plain(entry.quote) in _plain(text) for text in texts)


def _plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    "network",
    [
        "BatchNormalization-9",
        "Softmax-11, axis 1 of 3",
        "GlobalMaxPool, one axis",
        "GatherElements, fewer indices",
        "MaxPool, Indices, no strides",
    ],
)
def test_known_faults_are_listed(network: str) -> None:
    assert network in _KNOWN


def test_page_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written(page) == page, "run python -m tests.reference.second_opinion --write"

"""Cases drawn per operator: the generators hold, and no framework is wrong on them without saying so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.errors import DeepBenchError, FrameworkMissing, InvalidArgument, UnknownName
from deep_bench.fault import exposures
from deep_bench.framework import Adapter
from deep_bench.graph import Network
from deep_bench.testing import Case, run_case
from deep_bench.testing.generated import GENERATORS, Draw, generated_cases

FRAMEWORKS = ("onnxruntime", "tensorflow", "torch")
EXAMPLES = 2
# TensorFlow takes a quarter of a second to trace a network.
MORE_EXAMPLES = {"onnxruntime": 60, "tensorflow": 15, "torch": 60}
QUIET = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large)

OPERATORS = sorted(GENERATORS)
SAMPLE = [(o, f) for f in FRAMEWORKS for i, o in enumerate(OPERATORS) if f != "tensorflow" or i % 4 == 0]

each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)
each_operator = pytest.mark.parametrize("operator", OPERATORS)


class Shrinking(Draw):
    """Choices that hypothesis makes simpler as long as a case fails."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def integer(self, low: int, high: int) -> int:
        return self._data.draw(st.integers(low, high))


@pytest.fixture(scope="module")
def adapters() -> dict[str, Adapter]:
    return {}


def adapter_of(name: str, adapters: dict[str, Adapter]) -> Adapter:
    if name not in adapters:
        try:
            adapters[name] = db.frameworks[name]()
        except FrameworkMissing as missing:
            pytest.skip(str(missing))
    return adapters[name]


def check(adapter: Adapter, case: Case) -> None:
    """A case passes or is refused, or meets a fault that is known: of its node (some end the process), or of any NaN."""
    if exposures(Network.from_proto(case.proto), adapter.known_faults):
        return
    loses_nan = any(f.name.endswith("_nan") and set(f.operators) & set(case.operators) for f in adapter.known_faults)
    if loses_nan and any(np.isnan(output).any() for output in case.outputs):
        return
    outcome = run_case(adapter, case)
    assert outcome.word not in ("wrong", "failed"), outcome.detail


def drawn(operator: str, examples: int):
    """Runs a function of a case on the cases that hypothesis draws."""

    def run(function):
        @settings(max_examples=examples, deadline=None, database=None, derandomize=True, suppress_health_check=QUIET)
        @given(st.data())
        def once(data: st.DataObject) -> None:
            function(GENERATORS[operator](Shrinking(data)).case(operator))

        once()

    return run


@pytest.mark.parametrize(("operator", "framework"), SAMPLE)
def test_a_framework_agrees_or_says_so(operator: str, framework: str, adapters: dict[str, Adapter]) -> None:
    adapter = adapter_of(framework, adapters)
    drawn(operator, EXAMPLES)(lambda case: check(adapter, case))


@pytest.mark.full
@each_framework
@each_operator
def test_a_framework_agrees_on_many_or_says_so(operator: str, framework: str, adapters: dict[str, Adapter]) -> None:
    adapter = adapter_of(framework, adapters)
    drawn(operator, MORE_EXAMPLES[framework])(lambda case: check(adapter, case))


@each_operator
def test_cases_can_be_made(operator: str) -> None:
    for case in generated_cases([operator], count=20, seed=5):
        assert case.operators == (operator,)
        assert len(case.inputs) == len(case.proto.graph.input)
        assert len(case.outputs) == len(case.proto.graph.output)


def test_a_seed_names_the_cases() -> None:
    first, again, other = (generated_cases(["Conv"], count=5, seed=seed) for seed in (1, 1, 2))
    assert [c.proto for c in first] == [c.proto for c in again]
    assert all(
        np.array_equal(x, y) for a, b in zip(first, again, strict=True) for x, y in zip(a.inputs, b.inputs, strict=True)
    )
    assert [c.proto for c in first] != [c.proto for c in other]


def test_cases_of_an_operator_do_not_change_with_the_others() -> None:
    alone = generated_cases(["Conv"], count=3)
    among = [c for c in generated_cases(["Add", "Conv"], count=3) if c.operators == ("Conv",)]
    assert [c.proto for c in alone] == [c.proto for c in among]


@pytest.mark.parametrize(
    ("operator", "attribute"), [("Conv", "auto_pad"), ("LSTM", "activations"), ("ReduceSum", "noop_with_empty_axes")]
)
def test_attributes_are_drawn_and_left_out(operator: str, attribute: str) -> None:
    found = {
        attribute in [a.name for a in case.proto.graph.node[0].attribute] for case in generated_cases([operator], count=20)
    }
    assert found == {True, False}


@pytest.mark.parametrize(
    ("operators", "options", "kind", "message"),
    [
        ("Add", {}, InvalidArgument, r"several names, such as \['Add'\]"),
        (["Matmul"], {}, UnknownName, "unknown operator 'Matmul'(.|\n)*did you mean 'MatMul'"),
        (["Add"], {"count": 0}, InvalidArgument, "count=0\nExpected: at least 1"),
        (["Add"], {"seed": -1}, InvalidArgument, "seed=-1\nExpected: at least 0"),
    ],
)
def test_what_cannot_be_made_is_refused(
    operators, options: dict[str, int], kind: type[DeepBenchError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        generated_cases(operators, **options)

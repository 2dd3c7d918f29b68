"""A sample of the standard's cases: lowering changes no result, and what slots claim is true, also for open sizes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest

from deep_bench.errors import DeepBenchError
from deep_bench.graph import Network
from deep_bench.graph.network import newest_schema
from deep_bench.reference.network import ReferenceAdapter
from deep_bench.tensor import is_float
from deep_bench.testing import Case, freeze, standard_cases

from . import numpy_adapter as adapter

RANDOM = ("bernoulli", "multinomial", "randomnormal", "randomuniform", "dropout")
STEP = 12


@functools.cache
def composite(operator: str) -> bool:
    schema: Any = newest_schema(operator)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


BASIC = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == "" and not composite(s.name)}


def sample() -> Iterator[Case]:
    """Every twelfth case, and all of operators whose shapes the standard infers wrongly somewhere."""
    for index, case in enumerate(standard_cases("node")):
        chosen = index % STEP == 0 or case.name.startswith(("test_stft", "test_attention_3d", "test_loop", "test_scan"))
        if chosen and not any(word in case.name.lower() for word in RANDOM):
            yield case


def opened(case: Case) -> Network:
    """The case's network, with no size stated anywhere."""
    proto = onnx.ModelProto()
    proto.CopyFrom(case.proto)
    for index, value in enumerate(proto.graph.input):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ()):
            dim.dim_param = f"size_{index}_{axis}"
    for value in proto.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return Network.from_proto(proto)


def feeds(network: Network, case: Case) -> dict[str, Any]:
    fed = (a if a is None or isinstance(a, list | tuple) else np.asarray(a) for a in case.inputs)
    return {spec.name: a for spec, a in zip(network.inputs, fed, strict=True)}


def arrays(value: Any) -> list[np.ndarray]:
    return [np.asarray(a) for v in value for a in arrays(v)] if isinstance(value, list | tuple) else [np.asarray(value)]


def expected(network: Network, case: Case) -> list[Any]:
    return list(ReferenceAdapter().prepare(network)(feeds(network, case)).values())


def assert_same(got: Any, want: Any, name: str) -> None:
    if isinstance(want, list | tuple):
        assert len(got) == len(want), name
        for g, w in zip(got, want, strict=True):
            assert_same(g, w, name)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), name
    if is_float(want.dtype):
        got, want = got.astype(np.float64), want.astype(np.float64)  # NaNs of the narrow types equal nothing
    np.testing.assert_array_equal(got, want, err_msg=name)


FORMS = ("stated", "frozen", "opened")


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_lowering_changes_no_result(form: str) -> None:
    checked = 0
    for case in sample():
        try:
            given = freeze(case) if form == "frozen" else case
            network = opened(given) if form == "opened" else Network.from_proto(given.proto)
            wanted = expected(network, given)
        except DeepBenchError:
            continue  # the reference refuses it: see its own conformance tests
        found = adapter.run(adapter.lowered(network).plan, feeds(network, given))
        for got, want in zip(found, wanted, strict=True):
            assert_same(got, want, case.name)
        checked += 1
    assert checked > 100


@pytest.mark.long
def test_decomposing_changes_no_result_but_for_rounding() -> None:
    checked = 0
    for case in sample():
        if not any(composite(operator) for operator in case.operators):
            continue
        try:
            network = Network.from_proto(case.proto)
            wanted = expected(network, case)
        except DeepBenchError:
            continue
        lowered = adapter.lowered(network, BASIC)
        found = adapter.run(lowered.plan, feeds(network, case))
        for got, want in zip(arrays(found), arrays(wanted), strict=True):
            coarse = 0.02 if want.dtype.itemsize < 4 else 1e-4
            np.testing.assert_allclose(
                np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=coarse, atol=coarse, err_msg=case.name
            )
        assert not lowered.forms.fallback
        checked += bool(lowered.forms.decomposed)
    assert checked > 20

"""ONNX Runtime as the judge of the operators that it defines."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from deep_bench.adapters.lowering.infer import bound
from deep_bench.reference.operators import find

onnxruntime = pytest.importorskip("onnxruntime")

Judge = Callable[..., None]


def run(
    op_type: str,
    inputs: list[Any],
    attributes: dict[str, Any],
    n_outputs: int,
    domain: str,
    frozen: Collection[int],
    out: Any,
) -> list[Any]:
    """The outputs of one node in ONNX Runtime; the inputs whose numbers are in ``frozen`` are initializers."""
    names = [f"i{i}" if x is not None else "" for i, x in enumerate(inputs)]
    outputs = [f"o{i}" for i in range(n_outputs)]
    node = helper.make_node(op_type, names, outputs, domain=domain, **attributes)
    given = {n: x for n, x in zip(names, inputs, strict=True) if x is not None}
    fixed = [onnx.numpy_helper.from_array(given.pop(f"i{i}"), f"i{i}") for i in frozen]
    values = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in given.items()]
    wanted = [onnx.ValueInfoProto(name=n) for n in outputs]
    if out is not None:
        wanted = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(out)), None) for n in outputs]
    graph = helper.make_graph([node], "one node", values, wanted, fixed)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, given)


@pytest.fixture
def runtime() -> Callable[..., list[Any]]:
    """The outputs of one node in ONNX Runtime, for comparing parts of them."""
    return run


@pytest.fixture
def judge() -> Judge:
    """Compares the reference of one node with ONNX Runtime: ``judge("Gelu", [x], n_outputs=1, **attributes)``.

    Integers may be one apart, in one of thirty or a single one: a product of scales that is rounded once more, or once
    less, moves what lies halfway between two integers. ``out`` is the dtype of the outputs where the runtime cannot tell.
    """

    def compare(
        op_type: str,
        inputs: list[Any],
        *,
        n_outputs: int = 1,
        domain: str = "com.microsoft",
        rtol: float = 1e-5,
        atol: float = 1e-5,
        frozen: Collection[int] = (),
        out: Any = None,
        **attributes: Any,
    ) -> None:
        expected = run(op_type, inputs, attributes, n_outputs, domain, frozen, out)
        function = find(domain, op_type)
        assert function is not None
        result = bound(function, attributes, n_outputs)(*inputs)
        results = result if isinstance(result, tuple) else (result,)
        assert len(results) == n_outputs
        for ours, theirs in zip(results, expected, strict=True):
            assert ours.shape == theirs.shape
            assert ours.dtype == theirs.dtype
            if theirs.dtype.kind in "iu" and theirs.dtype.itemsize == 1:
                apart = np.abs(ours.astype(np.int64) - theirs)
                assert np.max(apart, initial=0) <= 1
                assert np.count_nonzero(apart) <= max(1, theirs.size // 30)
            else:
                unit = 2**-10 if theirs.dtype == np.float16 else 0
                np.testing.assert_allclose(ours, theirs, rtol=max(rtol, unit), atol=max(atol, unit))

    return compare

"""Recognising arithmetic in a narrower format than the network states: TF32, bfloat16, float16."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.check.assess import assess
from deep_bench.check.estimate import Expectation, compare
from deep_bench.check.isolate import Isolated
from deep_bench.check.thresholds import GREY_BITS, ROUNDING_BITS
from deep_bench.graph import Network, operator_name
from deep_bench.tensor import significand_bits

_PRODUCTS = frozenset(["Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum", "DeformConv"])


def _to_tf32(x: np.ndarray, *, nearest: bool) -> np.ndarray:
    bits = x.astype(np.float32).view(np.uint32)
    if nearest:
        bits = bits + np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


_FORMATS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "TF32": lambda x: _to_tf32(x, nearest=True),
    "truncated TF32": lambda x: _to_tf32(x, nearest=False),
    "bfloat16": lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float32),
    "float16": lambda x: x.astype(np.float16).astype(np.float32),
}

_STORED = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}


def recognise(isolated: Isolated, actual: Mapping[str, np.ndarray], expected: Mapping[str, Any]) -> str:
    """The narrower format that a single float32 node was computed in, or ``""``.

    Either its result is what float32 arithmetic gives on factors rounded to that format, or it is itself representable
    there and right for that format.
    """
    rounded = {n: e for n, e in expected.items() if isinstance(e, Expectation) and e.form == np.float32 and e.value.size > 1}
    if not rounded or any(actual[n].shape != e.value.shape for n, e in rounded.items()):
        return ""
    for name, form in _STORED.items():
        if all(_stored_in(actual[n], e, form) for n, e in rounded.items()):
            return name
    if operator_name(isolated.nodes[0]) not in _PRODUCTS:
        return ""
    return next((name for name in _FORMATS if _explains(name, isolated, actual, rounded)), "")


def _stored_in(actual: np.ndarray, expected: Expectation, form: np.dtype) -> bool:
    with np.errstate(all="ignore"):
        if not np.array_equal(actual.astype(form).astype(np.float32), actual, equal_nan=True):
            return False
    factor = 2.0 ** (significand_bits(expected.form) - significand_bits(form))
    wider = Expectation(expected.value, expected.spread * factor, expected.settled, form)
    return assess(actual.astype(form), wider).level == "clear"


def _explains(name: str, isolated: Isolated, actual: Mapping[str, np.ndarray], expected: Mapping[str, Expectation]) -> bool:
    from deep_bench import frameworks

    network, inputs = _rounded(isolated, _FORMATS[name])
    from deep_bench.check.ladder import in_float64

    outputs = (
        frameworks["reference"]()
        .prepare(in_float64(network.without_kernels(), {})[0])
        .evaluate({n: x.astype(np.float64) if x.dtype == np.float32 else x for n, x in inputs.items()})
    )
    for output, e in expected.items():
        before = compare(actual[output], e)
        after = compare(actual[output], Expectation(outputs[output], e.spread, e.settled, e.form))
        near = after.bits >= significand_bits(e.form) - GREY_BITS + ROUNDING_BITS
        if not near or after.misplaced or after.bits < before.bits + 2:
            return False
    return True


@np.errstate(over="ignore")  # what is too large for the narrow format is infinite there, and explains nothing
def _rounded(isolated: Isolated, to: Callable[[np.ndarray], np.ndarray]) -> tuple[Network, dict[str, np.ndarray]]:
    """The isolated node with its two factors rounded; what is only added stays."""
    import onnx_ir as ir

    changed = isolated.network.copy()
    inputs = dict(isolated.inputs)
    for value in changed.nodes[0].inputs[:2]:
        if value is None:
            continue
        name = str(value.name)
        if name in inputs and inputs[name].dtype == np.float32:
            inputs[name] = to(inputs[name])
        elif value.const_value is not None and value.const_value.dtype == ir.DataType.FLOAT:
            value.const_value = ir.tensor(to(value.const_value.numpy()), name=name)
    return changed, inputs

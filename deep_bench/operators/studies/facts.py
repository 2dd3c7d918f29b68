"""Cases as a record keeps them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from pydantic import JsonValue

from deep_bench.measure.record import CaseFacts, Tensor
from deep_bench.operators.case import Case
from deep_bench.operators.cost import cost_of_case
from deep_bench.tensor import TensorSpec, is_float


def case_facts(case: Case) -> CaseFacts:
    """What a case asks for, and what it must compute and move at least.

    Raises:
        InvalidArgument: Its shapes, element types or attributes do not fit each other.
    """
    outputs = case.results
    cost = cost_of_case(case)
    arguments = [a for a in case.arguments if a is not None]
    floats = [spec.dtype for spec in (*(a.spec for a in arguments), *outputs) if is_float(spec.dtype)]
    counted: dict[str, Any] = {}
    if cost is not None:
        names = ("flops", "special", "comparisons", "read_bytes", "written_bytes")
        counted = {name: int(getattr(cost, name)) for name in names}
    fields = {"outputs": [_tensor(spec) for spec in outputs], "dtype": str(floats[0]) if floats else "", **counted}
    return bare_facts(case).model_copy(update=fields)


def bare_facts(case: Case) -> CaseFacts:
    """What a case asks for, as it is stated."""
    return CaseFacts(
        label=case.label,
        operator=f"{case.domain}::{case.op_type}" if case.domain else case.op_type,
        attributes={name: _plain(value) for name, value in case.attributes.items()},
        inputs=[_tensor(a.spec) for a in case.arguments if a is not None],
        tags=sorted(case.tags),
        count=case.count,
        source=case.source,
    )


def signature(case: Case) -> tuple[Any, ...]:
    """What the cost of calling depends on: the operator, its inputs and outputs without their sizes, and attributes."""
    kinds = tuple(None if a is None else (str(a.dtype), a.is_constant) for a in case.arguments)
    return (case.operator, kinds, tuple(case.attributes), case.outputs)


def _tensor(spec: TensorSpec) -> Tensor:
    return Tensor(name=spec.name, shape=list(spec.shape), dtype="string" if spec.dtype == object else spec.dtype.name)


def _plain(value: Any) -> JsonValue:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist() if value.size <= 64 else f"{value.dtype}{list(value.shape)}"
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return repr(value)
    return list(value) if isinstance(value, tuple) else value

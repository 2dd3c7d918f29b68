"""What shapes and element types an operator's results have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case
from deep_bench.operators.case_schema import Option, schema_of, split
from deep_bench.operators.native_code.arrays import spec_of
from deep_bench.tensor import TensorSpec, is_inexact, is_integer

_SETTING = 64
"""The most elements of an input that a result's shape may depend on, such as the shape of a Reshape."""


def setting(array: Any) -> bool:
    """Whether the contents of an input may decide the shape of a result: a few integers."""
    return isinstance(array, np.ndarray) and may_decide(array.shape, array.dtype)


def may_decide(shape: Sequence[int | str], dtype: np.dtype) -> bool:
    """The same, from shape and element type."""
    return len(shape) <= 1 and is_integer(dtype) and all(int(d) <= _SETTING for d in shape)


def case_for(
    computes: str | Callable[..., Any], inputs: Sequence[Any], attributes: Mapping[str, Any], outputs: int | None
) -> Case:
    """A case of these inputs.

    Args:
        computes: The operator or function.
        inputs: Arrays; ``None`` for omitted ones.
        attributes: The operator's.
        outputs: How many results are asked for; ``None`` for as few as the operator has.
    """
    if outputs is None:
        schema = schema_of(*split(computes)) if isinstance(computes, str) else None
        plain = 0 if schema is None else sum(o.option == Option.Single for o in schema.outputs)
        outputs = max(plain, 1)
    arguments = [None if x is None else Argument.constant(x) if setting(x) else Argument(spec_of(x, "")) for x in inputs]
    return Case(computes, tuple(arguments), attributes, outputs=outputs)


def results_of(case: Case) -> tuple[TensorSpec, ...]:
    """The results, all of whose dimensions must be known before the call.

    Raises:
        Unsupported: A dimension depends on the contents of the inputs.
    """
    for spec in case.results:
        if spec.open_dimensions:
            raise Unsupported(
                f"{case.op_type} gives {spec}, whose size only its contents decide",
                "results of a known size, for which memory can be allocated before the call",
                "write such an operator in Python",
            )
    return case.results


def gradients_of(inputs: Sequence[TensorSpec | None], names: Sequence[str] | None) -> tuple[TensorSpec | None, ...]:
    """The gradient of each input: ``None`` for integers, for omitted ones, and for those not in ``names``."""
    found = []
    for i, spec in enumerate(inputs):
        there = spec is not None and is_inexact(spec.dtype) and (names is None or (i < len(names) and bool(names[i])))
        found.append(TensorSpec(f"d{spec.name}", spec.shape, spec.dtype) if there and spec is not None else None)
    return tuple(found)

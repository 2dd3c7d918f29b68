"""What shapes and element types an operator's results have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case
from deep_bench.operators.case_schema import Option, schema_of, split
from deep_bench.tensor import TensorSpec, is_inexact, is_integer

_SETTING = 64
"""The most elements of an input that a result's shape may depend on, such as the shape of a Reshape."""


def setting(array: Any) -> bool:
    """Whether the contents of an input may decide the shape of a result: a few integers."""
    return isinstance(array, np.ndarray) and array.ndim <= 1 and array.size <= _SETTING and is_integer(array.dtype)


def infer(
    computes: str | Callable[..., Any],
    inputs: Sequence[TensorSpec | None],
    values: Sequence[np.ndarray | None],
    attributes: Mapping[str, Any],
    outputs: int | None,
) -> tuple[tuple[TensorSpec, ...], bool]:
    """The results, and whether their shapes depend on ``values``.

    Args:
        computes: The operator or function.
        inputs: In order; ``None`` for omitted ones.
        values: The contents of those whose contents may decide the shape of a result.
        attributes: The operator's.
        outputs: How many results are asked for; ``None`` for as few as the operator has.

    Raises:
        Unsupported: A dimension depends on other contents.
        InvalidArgument: The inputs and attributes do not fit the operator, or each other.
    """
    schema = schema_of(*split(computes)) if isinstance(computes, str) else None
    if outputs is None:
        outputs = max(1, sum(o.option == Option.Single for o in schema.outputs) if schema is not None else 0)
    arguments = tuple(None if spec is None else Argument(spec) for spec in inputs)
    if all(value is None for value in values):
        return results_of(Case(computes, arguments, attributes, outputs=outputs)), False
    if schema is not None:  # without one the operator is run, and may fail on other contents
        anyhow = Case(computes, arguments, attributes, outputs=outputs).results
        if not any(spec.open_dimensions for spec in anyhow):
            return anyhow, False
    pairs = zip(arguments, values, strict=True)
    fixed = tuple(a if value is None else Argument.constant(value) for a, value in pairs)
    return results_of(Case(computes, fixed, attributes, outputs=outputs)), True


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
    specs = []
    for i, spec in enumerate(inputs):
        differentiable = (
            spec is not None and is_inexact(spec.dtype) and (names is None or (i < len(names) and bool(names[i])))
        )
        specs.append(TensorSpec(f"d{spec.name}", spec.shape, spec.dtype) if differentiable and spec is not None else None)
    return tuple(specs)

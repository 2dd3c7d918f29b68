"""A case in another element type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from deep_bench.errors import InvalidArgument
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case
from deep_bench.operators.case_schema import allowed_types, formal_at, schema_of, signature
from deep_bench.operators.case_values import element_type
from deep_bench.tensor import is_float


def with_dtype(case: Case, dtype: str | np.dtype | type) -> Case:
    """A case whose floating-point inputs are of another type; those that the operator wants in a fixed one stay.

    Args:
        case: The case.
        dtype: The type.

    Raises:
        InvalidArgument: None of its inputs may be of that type.

    Example:
        >>> [str(a) for a in with_dtype(Case.of("Gather", (9, 4), (2,)), "float16").arguments]
        ['data: float16[9, 4]', 'indices: int64[2]']
    """
    target_dtype = element_type(dtype)
    schema = schema_of(case.domain, case.op_type) if isinstance(case.operator, str) else None
    arguments: list[Argument | None] = []
    for i, argument in enumerate(case.arguments):
        free = schema is None or (
            target_dtype in allowed_types(schema, i) and not formal_at(schema, i).type_str.startswith("tensor(")
        )
        if argument is None or not is_float(argument.dtype) or not free:
            arguments.append(argument)
            continue
        value = None if argument.value is None else argument.value.astype(target_dtype)
        arguments.append(Argument(replace(argument.spec, dtype=target_dtype), value, argument.draw))
    if not any(a is not None and a.dtype == target_dtype for a in arguments):
        raise InvalidArgument(f"{case.name} in {target_dtype}", f"a type that {signature(case.operator)} takes")
    return replace(case, arguments=tuple(arguments))

"""Cases beyond the standard's: drawn for each operator, with the reference's outputs.

Each family has one generator per operator, which draws a use of it: element types that its schema allows, shapes with
axes of 0 and 1, broadcasting, axes from either end, views with strides, ties, extreme values, NaN and infinities; never
what the standard leaves open.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import MappingProxyType

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.testing.case import Case
from deep_bench.testing.generated.problem import Draw, GeneratedProblem, Seeded

__all__ = ["COUNT", "GENERATORS", "Draw", "GeneratedProblem", "Seeded", "generated_cases"]

_FAMILIES = (
    "activation",
    "attention",
    "cast",
    "control",
    "convolution",
    "elementwise",
    "generate",
    "image",
    "indexing",
    "linear",
    "loss",
    "normalization",
    "pooling",
    "quantize",
    "recurrent",
    "reduction",
    "sequence",
    "shape",
    "signal",
    "text",
)

GENERATORS: Mapping[str, Callable[[Draw], GeneratedProblem]] = MappingProxyType(
    {
        operator: generator
        for family in _FAMILIES
        for operator, generator in import_module(f"{__name__}.{family}").GENERATORS.items()
    }
)
"""Operator to what draws a use of it."""

COUNT = 12
"""How many cases of an operator are made by default."""


def generated_cases(operators: Iterable[str] | None = None, *, count: int = COUNT, seed: int = 0) -> tuple[Case, ...]:
    """Cases of some or all operators; the same ones each time.

    Args:
        operators: Which; all that have a generator by default.
        count: How many of each, at least 1.
        seed: Other seeds give other cases; at least 0.

    Raises:
        InvalidArgument: One string instead of several, or a count or seed that is too small.
        UnknownName: An operator without a generator.

    Example:
        >>> [case.name for case in generated_cases(["Add"], count=2)]
        ['Add/0', 'Add/1']
    """
    if isinstance(operators, str):
        raise InvalidArgument(f"operators={operators!r}", f"several names, such as [{operators!r}]")
    for name, value, least in (("count", count, 1), ("seed", seed, 0)):
        if value < least:
            raise InvalidArgument(f"{name}={value}", f"at least {least}")
    chosen = sorted(GENERATORS) if operators is None else list(operators)
    for operator in chosen:
        if operator not in GENERATORS:
            raise UnknownName("operator", operator, GENERATORS)
    return tuple(_case(operator, number, seed) for operator in chosen for number in range(count))


def _case(operator: str, number: int, seed: int) -> Case:
    draw = Seeded(seed, number, zlib.crc32(operator.encode()))  # an operator's cases do not change with the others
    return GENERATORS[operator](draw).case(f"{operator}/{number}")

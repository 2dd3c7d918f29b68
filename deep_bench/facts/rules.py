"""Rules that rows of several families share: functions of a case, which is an operator on inputs of fixed shapes.

They say how an input is drawn, how large a result becomes, and along which axes samples lie that have nothing to do with
each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log, prod
from typing import Any, Protocol

import ml_dtypes

from deep_bench.tensor import is_integer


class ShapedCase(Protocol):
    """What a rule is asked about: a `deep_bench.operators.case.Case`."""

    @property
    def arguments(self) -> Sequence[Any]:
        """The inputs, each with ``spec.name``, ``shape``, ``dtype`` and ``value``; ``None`` for one that is absent."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """What is stated of the attributes, by name."""

    @property
    def results(self) -> Sequence[Any]:
        """The outputs, each with ``name``, ``shape`` and ``rank``."""


def named(case: ShapedCase, name: str) -> Any:
    """The input of a name."""
    return next(a for a in case.arguments if a is not None and a.spec.name == name)


def at(case: ShapedCase, index: int) -> Any:
    """The input at a position, ``None`` if it is absent."""
    return case.arguments[index] if index < len(case.arguments) else None


def shape_at(case: ShapedCase, index: int) -> tuple[int, ...]:
    """The shape of the input at a position, that of a number if it is absent."""
    argument = case.arguments[index]
    return () if argument is None else argument.shape


# How inputs are drawn

DrawRule = str | Callable[[ShapedCase], str]
"""A name from `deep_bench.operators.draws.DRAWS`, or a function of the case that gives one."""


def below(name: str, axis: int) -> DrawRule:
    """Numbers below the size of an input's axis."""
    return lambda case: f"below:{named(case, name).shape[axis]}"


def lengths(name: str, axis: int) -> DrawRule:
    """Lengths up to the size of an input's axis."""
    return lambda case: f"lengths:{named(case, name).shape[axis]}"


def codes(*names: str) -> dict[str, DrawRule]:
    """Quantised numbers use all of their type."""
    return {name: _code(name) for name in names}


def _code(name: str) -> DrawRule:
    def rule(case: ShapedCase) -> str:
        dtype = named(case, name).dtype
        if not is_integer(dtype) or dtype.itemsize > 2:
            return "normal"
        info = ml_dtypes.iinfo(dtype)
        return f"between:{info.min}:{info.max}"

    return rule


# How large results become

_MARGIN = 4.0
"""Kept free, for what rounding and the order of a sum add."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How a result grows: like ``terms`` times a product of ``degree`` elements, or like the exponential function."""

    terms: float = 1.0
    degree: float = 1.0
    exponential: bool = False

    def limit(self, top: float) -> float:
        """The largest elements for which a result stays below ``top``."""
        if self.exponential:
            return log(top) - 1
        return float((top / (_MARGIN * max(self.terms, 1.0))) ** (1.0 / max(self.degree, 1.0)))


GrowthRule = Callable[[ShapedCase], Growth]


def elements(case: ShapedCase) -> float:
    """How many the largest input has."""
    return float(max((prod(a.shape) if a is not None else 1 for a in case.arguments), default=1))


def squares(case: ShapedCase) -> Growth:
    """Everything is squared and added up: what an operator is taken for of which nothing else is stated."""
    return Growth(elements(case), 2)


def passing(_: ShapedCase) -> Growth:
    """A result is about as large as the inputs."""
    return Growth()


def summing(case: ShapedCase) -> Growth:
    """Elements are added up."""
    return Growth(elements(case))


def exponential(_: ShapedCase) -> Growth:
    """A result overflows where the exponential function does."""
    return Growth(exponential=True)


def products(terms: Callable[[ShapedCase], float]) -> GrowthRule:
    """So many products of two elements are added up, and scaled by ``alpha`` and ``beta``."""

    def rule(case: ShapedCase) -> Growth:
        factor = max(1.0, *(abs(float(case.attributes.get(name, 1.0))) for name in ("alpha", "beta")))
        return Growth(terms(case) * factor, 2)

    return rule


def powers(degree: Callable[[ShapedCase], float]) -> GrowthRule:
    """So many elements are multiplied."""
    return lambda case: Growth(elements(case), degree(case))


def all_elements(case: ShapedCase) -> float:
    """How many elements the first input has."""
    return prod(shape_at(case, 0))


def single(_: ShapedCase) -> float:
    """A single term."""
    return 1.0


def order(case: ShapedCase) -> float:
    """The order of a norm, at least 2."""
    return max(2, case.attributes.get("p", 2))


# Where samples lie

AxesRule = Callable[[ShapedCase], dict[str, int] | None]
"""From a case to the axis of each input along which its samples lie; ``None`` where they depend on each other."""


def first(case: ShapedCase) -> dict[str, int] | None:
    """The first input has the samples; the others are weights."""
    argument = at(case, 0)
    return {argument.spec.name: 0} if argument is not None and argument.shape else None


def aligned(case: ShapedCase) -> dict[str, int] | None:
    """Every input whose dimensions line up with the result's has samples; those that are broadcast along them have none."""
    rank = case.results[0].rank
    axes = {}
    for argument in case.arguments:
        if argument is None or len(argument.shape) < rank or not rank:
            continue
        if argument.shape[0] == case.results[0].shape[0]:
            axes[argument.spec.name] = 0
    return axes or None


def several(*indices: int) -> AxesRule:
    """The inputs at these positions have the samples."""

    def rule(case: ShapedCase) -> dict[str, int] | None:
        chosen = [a for i in indices if (a := at(case, i)) is not None]
        return {a.spec.name: 0 for a in chosen if a.shape}

    return rule


def off_axis(case: ShapedCase) -> dict[str, int] | None:
    """The first input has the samples, unless the operator works along the first axis; by default along the last."""
    argument = at(case, 0)
    if argument is None or not argument.shape:
        return None
    return None if case.attributes.get("axis", -1) % len(argument.shape) == 0 else {argument.spec.name: 0}


def in_inference(case: ShapedCase) -> dict[str, int] | None:
    """As `first`, but not in training, where statistics are those of the batch."""
    return None if case.attributes.get("training_mode", 0) else first(case)


SampleRule = Callable[[Mapping[str, Any], int], bool]
"""From the attributes of a node and the number of its outputs to whether it treats each sample of its batch by itself."""


def single_result(_: Mapping[str, Any], n_outputs: int) -> bool:
    """Whatever the attributes are; an operator with a second result is another one."""
    return n_outputs == 1


AUTO_PAD: Mapping[str, str] = {"auto_pad": "NOTSET SAME_LOWER SAME_UPPER VALID"}
"""How convolutions and pools may be padded."""

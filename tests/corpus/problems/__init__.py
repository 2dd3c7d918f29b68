"""The problems of the corpus, by operator family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from ..problem import Problem
from . import attention, convolution, functions, gemm, normalization, quantized, recurrent, reduction, softmax

if TYPE_CHECKING:
    from ..gradients.problem import GradientProblem

_FAMILIES: Mapping[str, ModuleType] = {
    "products of matrices": gemm,
    "convolutions": convolution,
    "softmax": softmax,
    "normalizations": normalization,
    "attention": attention,
    "reductions and pools": reduction,
    "recurrent layers": recurrent,
    "quantized operators": quantized,
    "other functions": functions,
}

BUILDERS: Mapping[str, Callable[[], Problem]] = {
    name: build for family in _FAMILIES.values() for name, build in family.PROBLEMS.items()
}
"""Name to problem."""

GRADIENTS = "gradients of "
"""Begins the names of the problems whose outputs are the gradients of another's."""

DERIVED = "derived network of "
"""Begins the names of the problems that are the derived network of another."""

_OF = {name: label for label, family in _FAMILIES.items() for name in family.PROBLEMS}


def family_of(name: str) -> str:
    """The label of the family that a problem belongs to; of a real network, and of gradients, a label of their own."""
    for begin in (GRADIENTS, DERIVED):
        if name.startswith(begin):
            return f"gradients: {_OF[name.removeprefix(begin)]}"
    return _OF.get(name, "real networks")


@cache
def problem(name: str) -> Problem | GradientProblem:
    """One of the problems, built once; also a real network, which is fetched.

    Raises:
        Unreachable: A real network cannot be fetched.
    """
    if name in BUILDERS:
        made = BUILDERS[name]()
        return Problem(name, made.network, made.inputs)
    from ..gradients.derived import derived_problem
    from ..gradients.problem import gradient_problem
    from ..real import real_problem

    if name.startswith(GRADIENTS):
        return gradient_problem(name.removeprefix(GRADIENTS))
    return derived_problem(name.removeprefix(DERIVED)) if name.startswith(DERIVED) else real_problem(name)

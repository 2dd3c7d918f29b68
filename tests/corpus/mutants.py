"""Faults nobody thought of: mutants of the reference's own source, held out from every threshold."""

from __future__ import annotations

import ast
import copy
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from deep_bench.check.ladder import in_float64
from deep_bench.reference.operators import find

from .problems import BUILDERS, problem
from .subjects import Patched
from .variants import Entry

_SMALLEST = 2.0**-17
"""A mutant counts as a fault if in float64 it changes the largest result by at least this share of the largest result.

Smaller changes are a few units in the last place of float32: no test can tell them from rounding, and no user would.
"""

_SWAPS: Mapping[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Gt: ast.Lt,
    ast.Lt: ast.Gt,
    ast.GtE: ast.LtE,
    ast.LtE: ast.GtE,
}


class _Mutator(ast.NodeTransformer):
    """Changes the ``target``-th place in a function that can be changed; counts all of them."""

    def __init__(self, target: int) -> None:
        self.target, self.seen, self.what = target, 0, ""

    def _hit(self, what: str) -> bool:
        self.seen += 1
        if self.seen - 1 != self.target:
            return False
        self.what = what
        return True

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            return node
        new = value * (1 + 2**-13) if isinstance(value, float) and value else value + 1
        return ast.copy_location(ast.Constant(new), node) if self._hit(f"{value} to {new}") else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        swap = _SWAPS.get(type(node.op))
        if swap and self._hit(f"{type(node.op).__name__} to {swap.__name__}"):
            return ast.copy_location(ast.BinOp(node.left, swap(), node.right), node)
        if swap and self._hit(f"right side of {type(node.op).__name__} dropped"):
            return node.left
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        swap = _SWAPS.get(type(node.ops[0]))
        if swap and self._hit(f"{type(node.ops[0]).__name__} to {swap.__name__}"):
            return ast.copy_location(ast.Compare(node.left, [swap(), *node.ops[1:]], node.comparators), node)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return node.operand if isinstance(node.op, ast.USub) and self._hit("sign dropped") else node


def _mutant(function: Callable[..., Any], number: int) -> tuple[Callable[..., Any], str] | None:
    """The ``number``-th mutant of a function and what was changed; ``None`` past the last."""
    original = inspect.unwrap(function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(original)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    mutator = _Mutator(number)
    definition.body = [mutator.visit(copy.deepcopy(s)) for s in definition.body]
    if not mutator.what:
        return None
    line = original.__code__.co_firstlineno
    scope = dict(vars(sys.modules[original.__module__]))
    exec(compile(ast.fix_missing_locations(tree), f"<mutant of line {line}>", "exec"), scope)
    return scope[definition.name], mutator.what


def _helpers(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """The function and the private ones of its module that it calls."""
    original = inspect.unwrap(function)
    module = vars(sys.modules[original.__module__])
    called = [n for n in original.__code__.co_names if n.startswith("_") and inspect.isfunction(module.get(n))]
    return [function, *(module[n] for n in called)]


def _patch(changed: Callable[..., Any], helper: str) -> Callable[..., Any]:
    """The operator with itself, or a helper of its module, exchanged."""

    def patch(f: Any, x: Any, a: Any) -> Any:
        if not helper:
            return changed(*x, **a)
        module = sys.modules[inspect.unwrap(f).__module__]
        original = getattr(module, helper)
        setattr(module, helper, changed)
        try:
            return f(*x, **a)
        finally:
            setattr(module, helper, original)

    return patch


@cache
def mutants() -> tuple[Entry, ...]:
    """Every mutant that runs and changes the result, with and without a ladder in turn."""
    found = [entry for where in BUILDERS for entry in _mutants_of(where)]
    return tuple(found)


def _mutants_of(where: str) -> Iterator[Entry]:
    posed = problem(where)
    operators = {n.op_type for n in posed.network.upgraded().nodes}
    if len(operators) > 1:
        return
    (operator,) = operators
    function = find("", operator)
    assert function is not None
    for part in _helpers(function):
        helper = "" if part is function else part.__name__
        number = 0
        while (made := _mutant(part, number)) is not None:
            patch = _patch(made[0], helper)
            if _changes(where, {operator: patch}):
                name = f"{operator}{f' ({helper})' if helper else ''}: {made[1]}, place {number} in {where}"
                yield Entry(name, where, _subject(where, operator, patch, number % 2 == 0), held_out=True)
            number += 1


def _subject(where: str, operator: str, patch: Callable[..., Any], ladder: bool) -> Callable[[], Patched]:
    return lambda: Patched(problem(where), {operator: patch}, ladder=ladder)


def _changes(where: str, patches: Mapping[str, Callable[..., Any]]) -> bool:
    """Whether a mutant runs, and changes in float64 what the reference gives."""
    posed = problem(where)
    network, inputs = in_float64(posed.network, posed.inputs)
    right = Patched(posed, {}).run(network, inputs)
    try:
        wrong = Patched(posed, patches).run(network, inputs)
        Patched(posed, patches).outputs()
    except Exception:  # a mutant that crashes is found by anyone
        return False
    return any(_differ(wrong[n], y) for n, y in right.items())


def _differ(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return True
    if a.dtype.kind != "f":
        return not np.array_equal(a, b)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return True
    with np.errstate(all="ignore"):
        largest = float(np.nanmax(np.abs(np.where(np.isfinite(b), b, 0)), initial=0.0)) or 1.0
        return float(np.nanmax(np.abs(np.where(np.isfinite(a - b), a - b, 0)), initial=0.0)) > _SMALLEST * largest

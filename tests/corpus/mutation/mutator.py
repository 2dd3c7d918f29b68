"""Mutants of a function: its source with one place changed, put in its place for a while."""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

_SWAPS: Mapping[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Gt: (ast.Lt, ast.GtE),
    ast.Lt: (ast.Gt, ast.LtE),
    ast.GtE: (ast.LtE, ast.Gt),
    ast.LtE: (ast.GtE, ast.Lt),
}
_NAMES: Mapping[str, str] = {
    "maximum": "minimum",
    "max": "min",
    "amax": "amin",
    "sum": "mean",
    "mean": "sum",
    "square": "absolute",
    "rint": "floor",
    "exp": "exp2",
    "sqrt": "cbrt",
    "tanh": "arctan",
    "all": "any",
    "Sqrt": "Abs",
    "Exp": "Tanh",
    "Sign": "Tanh",
}
"""What is called instead."""


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
        for swap in _SWAPS.get(type(node.op), ()):
            if self._hit(f"{type(node.op).__name__} to {swap.__name__}"):
                return ast.copy_location(ast.BinOp(node.left, swap(), node.right), node)
            if self._hit(f"right side of {type(node.op).__name__} dropped"):
                return node.left
        if isinstance(node.op, ast.Sub | ast.Div | ast.MatMult) and self._hit(
            f"sides of {type(node.op).__name__} exchanged"
        ):
            return ast.copy_location(ast.BinOp(node.right, node.op, node.left), node)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        for swap in _SWAPS.get(type(node.ops[0]), ()):
            if self._hit(f"{type(node.ops[0]).__name__} to {swap.__name__}"):
                return ast.copy_location(ast.Compare(node.left, [swap(), *node.ops[1:]], node.comparators), node)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return node.operand if isinstance(node.op, ast.USub) and self._hit("sign dropped") else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "T" and self._hit("transposition dropped"):
            return node.value
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if name in _NAMES and self._hit(f"{name} to {_NAMES[name]}"):
                other = ast.copy_location(ast.Attribute(node.func.value, _NAMES[name], node.func.ctx), node.func)
                return ast.copy_location(ast.Call(other, node.args, node.keywords), node)
            if name in ("matmul", "Gemm") and len(node.args) == 2 and self._hit("factors exchanged"):
                return ast.copy_location(ast.Call(node.func, node.args[::-1], node.keywords), node)
            if name == "swapaxes" and len(node.args) == 3 and self._hit("transposition dropped"):
                return node.args[0]
            if name in ("where", "Where") and len(node.args) == 3 and self._hit("branches exchanged"):
                args = [node.args[0], node.args[2], node.args[1]]
                return ast.copy_location(ast.Call(node.func, args, node.keywords), node)
        for position, keyword in enumerate(node.keywords):
            if keyword.arg and self._hit(f"{keyword.arg} left out"):
                rest = node.keywords[:position] + node.keywords[position + 1 :]
                return ast.copy_location(ast.Call(node.func, node.args, rest), node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if self._hit("always the first"):
            return node.body
        return node.orelse if self._hit("always the second") else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if self._hit("not accumulated"):
            return ast.copy_location(ast.Assign([node.target], node.value), node)
        return node


@dataclass(frozen=True, eq=False)
class Mutation:
    """One change of one function.

    Args:
        function: The function.
        code: What it does after the change.
        what: The change, in words.
        number: Its place among all in the function.
    """

    function: FunctionType
    code: CodeType
    what: str
    number: int

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The function changed, for whoever calls it."""
        before = self.function.__code__
        self.function.__code__ = self.code
        try:
            yield
        finally:
            self.function.__code__ = before

    def __str__(self) -> str:
        return f"{self.function.__qualname__}: {self.what}, place {self.number}"


def places(function: FunctionType) -> int:
    """In how many places a function can be changed."""
    mutator = _Mutator(-1)
    for statement in _parsed(function)[1].body:
        mutator.visit(statement)
    return mutator.seen


def mutation(function: FunctionType, number: int) -> Mutation:
    """The mutant of a function with one of its `places` changed."""
    tree, definition = _parsed(function)
    mutator = _Mutator(number)
    definition.body = [mutator.visit(s) for s in definition.body]
    scope = dict(vars(sys.modules[function.__module__]))
    name = f"<mutant {number} of {function.__qualname__}>"
    exec(compile(ast.fix_missing_locations(tree), name, "exec"), scope)
    return Mutation(function, scope[definition.name].__code__, mutator.what, number)


def _parsed(function: FunctionType) -> tuple[ast.Module, ast.FunctionDef]:
    """A module that holds nothing but the function, without what decorates it."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    tree.body.insert(0, ast.ImportFrom("__future__", [ast.alias("annotations")], 0))
    return tree, definition


def functions_in(prefix: str) -> dict[CodeType, FunctionType]:
    """The functions and methods of all modules whose names begin so, by their code; those that close over nothing."""
    found: dict[CodeType, FunctionType] = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith(prefix):
            continue
        members = list(vars(module).values())
        members += [m for c in members if inspect.isclass(c) and c.__module__ == name for m in vars(c).values()]
        for member in members:
            function: Any = inspect.unwrap(member) if callable(member) else member
            if not inspect.isfunction(function) or function.__module__ != name:
                continue
            code = function.__code__
            if not code.co_freevars and not code.co_filename.startswith("<"):  # methods of dataclasses have no source
                found[code] = function
    return found


@contextlib.contextmanager
def watched() -> Iterator[set[CodeType]]:
    """What ran meanwhile."""
    ran: set[CodeType] = set()

    def see(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            ran.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        yield ran
    finally:
        sys.setprofile(before)

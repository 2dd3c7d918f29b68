"""What to look for in a network: an operator, a node of a name, or a few connected operators."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidArgument
from deep_bench.graph.node import as_array, is_standard

_COMMUTATIVE = frozenset(["Add", "And", "Equal", "Max", "Mean", "Min", "Mul", "Or", "Sum", "Xor"])


@dataclass
class Found:
    """Where a pattern matches.

    Args:
        nodes: The nodes, from the last to the first.
        values: Variable of the pattern to value.
    """

    nodes: list[ir.Node] = field(default_factory=list)
    values: dict[str, ir.Value | None] = field(default_factory=dict)

    @property
    def node(self) -> ir.Node:
        """The last node, whose outputs are the pattern's."""
        return self.nodes[0]


Matcher: TypeAlias = Callable[[ir.Node], "Found | None"]


def matcher(match: str | Callable[[ir.Node], bool]) -> Matcher:
    """Read what to look for.

    Args:
        match: ``"Relu"``: every node of that operator. ``"Relu(Add(x, bias))"``: connected operators, with variables for
            what goes in; a variable in two places must be the same value there, ``_`` is any input, a number a constant of
            that value, and ``...`` as the last argument stands for further inputs. Operands of commutative operators match
            in any order. Operators outside the default domain are written with it: ``com.microsoft.Gelu(x)``. Or a function
            that is given each node.

    Raises:
        InvalidArgument: It cannot be read.

    Example:
        >>> import deep_bench as db
        >>> look = matcher("Relu(Add(x, y))")
        >>> sum(look(node) is not None for node in db.load("digits-cnn").nodes)
        1
    """
    if not isinstance(match, str):
        return lambda node: Found([node]) if match(node) else None
    try:
        tree = ast.parse(match.strip(), mode="eval").body
    except SyntaxError as error:
        raise _unreadable(match) from error
    if isinstance(tree, ast.Name | ast.Attribute):
        operator = _operator(tree, match)
        return lambda node: Found([node]) if _is(node, operator) else None
    if not isinstance(tree, ast.Call):
        raise _unreadable(match)
    _verify(tree, match)
    return lambda node: next(_matches(tree, node, Found()), None)


def by_name(name: str) -> Callable[[ir.Node], bool]:
    """Matches the node of a name.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> matcher(by_name(network.nodes[0].name))(network.nodes[0]) is not None
        True
    """
    return lambda node: node.name == name


def _unreadable(text: str) -> InvalidArgument:
    return InvalidArgument(
        f"the pattern {text!r}", "an operator (Relu), or connected ones: Relu(Add(x, bias)), with variables for inputs"
    )


def _operator(tree: ast.expr, text: str) -> tuple[str, str]:
    parts = ast.unparse(tree).rpartition(".")
    if not isinstance(tree, ast.Name | ast.Attribute):
        raise _unreadable(text)
    return parts[0], parts[2]


def _is(node: ir.Node, operator: tuple[str, str]) -> bool:
    return ("" if is_standard(node) else node.domain, node.op_type) == operator


def _verify(tree: ast.expr, text: str) -> None:
    """Every part is an operator applied to parts, a variable, a number, or a final ``...``."""
    if isinstance(tree, ast.Name):
        return
    if isinstance(tree, ast.UnaryOp) or (isinstance(tree, ast.Constant) and tree.value is not ...):
        if not isinstance(_number(tree), int | float):
            raise _unreadable(text)
        return
    if not isinstance(tree, ast.Call) or tree.keywords:
        raise _unreadable(text)
    _operator(tree.func, text)
    for argument in tree.args[:-1] if tree.args and _is_rest(tree.args[-1]) else tree.args:
        _verify(argument, text)


def _is_rest(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Constant) and tree.value is ...


def _number(tree: ast.expr) -> Any:
    try:
        return ast.literal_eval(tree)
    except ValueError:
        return None


def _matches(tree: ast.expr, node: ir.Node | None, so_far: Found) -> Iterator[Found]:
    """All ways in which a call matches a node."""
    assert isinstance(tree, ast.Call)
    if node is None or not _is(node, _operator(tree.func, "")):
        return
    patterns, inputs = list(tree.args), list(node.inputs)
    if patterns and _is_rest(patterns[-1]):
        patterns.pop()
        inputs = inputs[: len(patterns)]
    if len(patterns) != len(inputs):
        return
    orders = itertools.permutations(inputs) if node.op_type in _COMMUTATIVE and len(inputs) <= 3 else [tuple(inputs)]
    for order in orders:
        yield from _arguments(patterns, order, Found([*so_far.nodes, node], dict(so_far.values)))


def _arguments(patterns: list[ast.expr], inputs: tuple[ir.Value | None, ...], so_far: Found) -> Iterator[Found]:
    if not patterns:
        yield so_far
        return
    for first in _argument(patterns[0], inputs[0], so_far):
        yield from _arguments(patterns[1:], inputs[1:], first)


def _argument(tree: ast.expr, value: ir.Value | None, so_far: Found) -> Iterator[Found]:
    if isinstance(tree, ast.Call):
        if value is not None and (producer := value.producer()) is not None and value is producer.outputs[0]:
            yield from _matches(tree, producer, so_far)
    elif isinstance(tree, ast.Name):
        if tree.id == "_":
            yield so_far
        elif tree.id not in so_far.values:
            yield Found(so_far.nodes, {**so_far.values, tree.id: value})
        elif so_far.values[tree.id] is value:
            yield so_far
    elif value is not None and not value.is_graph_input():
        array = as_array(value)
        if array is not None and array.size == 1 and array.dtype != object and _same(array.item(), _number(tree)):
            yield so_far


def _same(stored: Any, written: float) -> bool:
    return bool(stored == written or np.float32(stored) == np.float32(written) or np.float16(stored) == np.float16(written))

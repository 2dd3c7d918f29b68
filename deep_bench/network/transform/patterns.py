"""``replace``: other nodes in the place of some.

What to look for in a network is an operator, a node of a name, or a pattern of a few connected operators.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network, NetworkLike, as_network
from deep_bench.graph.node import as_array, attributes, is_standard, operator_facts, operator_name
from deep_bench.network.gradient.tape import Symbol, Tape
from deep_bench.network.transform.draft import Draft

OLDEST_OPSET = 21
"""What new nodes are written in at least: every runtime of today has it, and all that the tape writes means the same."""


@dataclass(frozen=True)
class Match:
    """A place where the pattern was found.

    Args:
        node: The last of the nodes, whose outputs are replaced.
        nodes: All of them, from the last to the first.
        inputs: The inputs of ``node``; ``None`` where one is omitted.
        private: Whether the values between the nodes serve nothing else, so that the nodes go when they are replaced.
    """

    node: ir.Node
    nodes: tuple[ir.Node, ...]
    inputs: tuple[Symbol | None, ...]
    private: bool
    _values: Mapping[str, Symbol | None]

    def __getitem__(self, variable: str) -> Symbol:
        """What a variable of the pattern stands for.

        Raises:
            KeyError: The pattern has no such variable, or its input is omitted here.
        """
        value = self._values[variable]
        if value is None:
            raise KeyError(f"{variable}: this input is omitted here")
        return value

    def attributes(self, operator: str | None = None) -> dict[str, Any]:
        """The attributes that the last node states, or the last one of an operator."""
        node = self.node if operator is None else next(n for n in self.nodes if operator_name(n) == operator)
        return attributes(node)

    def contents(self, variable: str) -> np.ndarray | None:
        """The array that a variable stands for, if it is a constant."""
        return self[variable].known


Build: TypeAlias = Callable[[Tape, Match], "Symbol | tuple[Symbol, ...] | None"]


def replace(network: NetworkLike, match: str | Callable[[ir.Node], bool], build: Build, *, required: bool = True) -> Network:
    """The network with other nodes in the place of those that match.

    Values that the replaced nodes gave keep their names. Nodes in the bodies of ``If``, ``Loop`` and ``Scan`` stay.

    Args:
        network: Any network, or its file. It is brought to opset 21 if it is older.
        match: An operator (``"Relu"``), connected operators (``"Relu(Add(x, bias))"``, see `matcher`), ``by_name(…)``, or
            any function of a node.
        build: Called for each place with a tape, on which every ONNX operator is a method, and with what was found. Returns
            the symbol that takes the place of the last node's output (a tuple of them for several), or ``None`` to leave
            this place as it is.
        required: Whether it is an error if nothing matches.

    Raises:
        InvalidArgument: Nothing matches, or the pattern cannot be read; or ``build`` returned too few symbols.
        InvalidNetwork: The new nodes use what comes after them.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> clipped = replace(network, "Relu", lambda tape, found: tape.Max(found.inputs[0], 0.0))
        >>> {node.op_type for node in clipped.nodes} >= {"Max"}, any(node.op_type == "Relu" for node in clipped.nodes)
        (True, False)
    """
    network = as_network(network)
    look = matcher(match)
    draft = Draft(network, "replaced", OLDEST_OPSET)
    tape = draft.tape()
    places = 0
    for node in tuple(draft.graph):
        hit = look(node) if any(v.uses() or v.is_graph_output() for v in node.outputs) else None
        if hit is None:
            continue
        places += 1
        nodes = set(hit.nodes)
        inner = [v for n in hit.nodes[1:] for v in n.outputs]
        private = not any(v.is_graph_output() or any(use.node not in nodes for use in v.uses()) for v in inner)
        inputs = tuple(None if v is None else Symbol(tape, v) for v in hit.node.inputs)
        values = {k: None if v is None else Symbol(tape, v) for k, v in hit.values.items()}
        replacement = build(tape, Match(hit.node, tuple(hit.nodes), inputs, private, values))
        if replacement is not None:
            _put(draft, tape, node, replacement if isinstance(replacement, tuple) else (replacement,))
    if required and not places:
        raise InvalidArgument(
            f"nothing in {network.name} matches {match if isinstance(match, str) else 'the function given'!r}",
            f"one of its operators: {', '.join(sorted({operator_name(n) for n in network.nodes}))}",
            "look at network.nodes",
        )
    return draft.finish()


def _put(draft: Draft, tape: Tape, node: ir.Node, symbols: tuple[Symbol, ...]) -> None:
    needed = [i for i, v in enumerate(node.outputs) if v.uses() or v.is_graph_output()]
    if needed and needed[-1] >= len(symbols):
        raise InvalidArgument(
            f"{len(symbols)} symbols for node {node.name!r} ({operator_name(node)}), which has {len(node.outputs)} outputs",
            "one for each output that is used",
        )
    written = {v for n in tape.written for v in n.outputs}
    for old, new in zip(node.outputs, symbols, strict=False):
        if not old.uses() and not old.is_graph_output():
            continue
        draft.supplant(old, new.value, copied=new.value not in written or new.value in node.outputs)
        written.discard(new.value)


@dataclass
class PatternMatch:
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


Matcher: TypeAlias = Callable[[ir.Node], "PatternMatch | None"]


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
        return lambda node: PatternMatch([node]) if match(node) else None
    try:
        tree = ast.parse(match.strip(), mode="eval").body
    except SyntaxError as error:
        raise _unreadable(match) from error
    if isinstance(tree, ast.Name | ast.Attribute):
        operator = _operator(tree, match)
        return lambda node: PatternMatch([node]) if _is(node, operator) else None
    if not isinstance(tree, ast.Call):
        raise _unreadable(match)
    _verify(tree, match)
    return lambda node: next(_matches(tree, node, PatternMatch()), None)


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


def _matches(tree: ast.expr, node: ir.Node | None, so_far: PatternMatch) -> Iterator[PatternMatch]:
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
    orders = itertools.permutations(inputs) if operator_facts(node).commutative and len(inputs) <= 3 else [tuple(inputs)]
    for order in orders:
        yield from _arguments(patterns, order, PatternMatch([*so_far.nodes, node], dict(so_far.values)))


def _arguments(
    patterns: list[ast.expr], inputs: tuple[ir.Value | None, ...], so_far: PatternMatch
) -> Iterator[PatternMatch]:
    if not patterns:
        yield so_far
        return
    for first in _argument(patterns[0], inputs[0], so_far):
        yield from _arguments(patterns[1:], inputs[1:], first)


def _argument(tree: ast.expr, value: ir.Value | None, so_far: PatternMatch) -> Iterator[PatternMatch]:
    if isinstance(tree, ast.Call):
        if value is not None and (producer := value.producer()) is not None and value is producer.outputs[0]:
            yield from _matches(tree, producer, so_far)
    elif isinstance(tree, ast.Name):
        if tree.id == "_":
            yield so_far
        elif tree.id not in so_far.values:
            yield PatternMatch(so_far.nodes, {**so_far.values, tree.id: value})
        elif so_far.values[tree.id] is value:
            yield so_far
    elif value is not None and not value.is_graph_input():
        array = as_array(value)
        if array is not None and array.size == 1 and array.dtype != object and _same_number(array.item(), _number(tree)):
            yield so_far


def _same_number(stored: Any, written: float) -> bool:
    return bool(stored == written or np.float32(stored) == np.float32(written) or np.float16(stored) == np.float16(written))

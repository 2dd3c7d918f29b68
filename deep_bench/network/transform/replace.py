"""``replace``: other nodes in the place of some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network, NetworkLike, as_network
from deep_bench.graph.node import attributes, operator_name
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.network.gradient.tape import Tape
from deep_bench.network.transform.draft import Draft
from deep_bench.network.transform.pattern import Found, matcher

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
        hit = look(node) if _is_needed(node) else None
        if hit is None:
            continue
        places += 1
        replacement = build(tape, _match(tape, hit))
        if replacement is not None:
            _put(draft, tape, node, replacement if isinstance(replacement, tuple) else (replacement,))
    if required and not places:
        raise InvalidArgument(
            f"nothing in {network.name} matches {match if isinstance(match, str) else 'the function given'!r}",
            f"one of its operators: {', '.join(sorted({operator_name(n) for n in network.nodes}))}",
            "look at network.nodes",
        )
    return draft.finish()


def _is_needed(node: ir.Node) -> bool:
    return any(v.uses() or v.is_graph_output() for v in node.outputs)


def _match(tape: Tape, hit: Found) -> Match:
    nodes = set(hit.nodes)
    inner = [v for n in hit.nodes[1:] for v in n.outputs]
    private = not any(v.is_graph_output() or any(use.node not in nodes for use in v.uses()) for v in inner)
    inputs = tuple(None if v is None else Symbol(tape, v) for v in hit.node.inputs)
    values = {k: None if v is None else Symbol(tape, v) for k, v in hit.values.items()}
    return Match(hit.node, tuple(hit.nodes), inputs, private, values)


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

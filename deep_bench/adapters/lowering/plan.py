"""A lowered network: what adapters build native code from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deep_bench.framework import Forms


class NotNative(Exception):
    """Raised by an adapter's operator function: the framework has no code for this use of the operator."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A value as one node sees it, with all that is known of it when the network is prepared.

    Args:
        name: The value's name; unique in the whole network, subgraphs included.
        dtype: Its element type, or ``None`` where that is not known (sequences, optionals).
        shape: Its dimensions, ``None`` for each that is open; or ``None`` if not even the rank is known.
        constant: Its contents, where they are known and never change.
    """

    name: str
    dtype: np.dtype | None = None
    shape: tuple[int | None, ...] | None = None
    constant: np.ndarray | None = None

    @property
    def rank(self) -> int | None:
        """The number of dimensions, if known."""
        return None if self.shape is None else len(self.shape)


@dataclass(frozen=True, slots=True)
class Site:
    """One node of a lowered graph, as an adapter's operator function reads it.

    Args:
        name: The node's name.
        operator: Its operator, as ``Conv`` or ``com.microsoft:FusedConv``.
        opset: The version of its operator's domain.
        attributes: The stated attributes as plain Python values; each graph among them is a `Plan`.
        inputs: One entry per input in ONNX's order; ``None`` for an omitted optional one.
        outputs: One entry per output; ``None`` for one that nobody asked for.
        origin: Name of the file's node that this one helps to compute; empty for a copy that no node asked for.
    """

    name: str
    operator: str
    opset: int
    attributes: Mapping[str, Any]
    inputs: tuple[Slot | None, ...]
    outputs: tuple[Slot | None, ...]
    origin: str = ""

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute's value, or ``default`` where the node does not state it."""
        return self.attributes.get(name, default)

    def input(self, index: int) -> Slot | None:
        """An input, or ``None`` where it is omitted, be it with an empty name or at the end of the list."""
        return self.inputs[index] if index < len(self.inputs) else None

    def constant(self, index: int) -> np.ndarray | None:
        """The contents of an input that are known when the network is prepared; ``None`` if unknown or omitted."""
        slot = self.input(index)
        return None if slot is None else slot.constant

    def has(self, index: int) -> bool:
        """Whether an input is given."""
        return self.input(index) is not None

    def wants(self, index: int) -> bool:
        """Whether an output is used."""
        return index < len(self.outputs) and self.outputs[index] is not None


@dataclass(frozen=True, slots=True)
class Step:
    """A node with the native code that an adapter built for it.

    Args:
        site: What the node is.
        function: Takes one native array per input (``None`` for an omitted one); returns one native array, or a tuple of
            them where the site has several outputs. For sites with subgraphs, the arrays that the subgraphs capture follow
            the inputs, in the order of ``captures``.
        captures: Names of the outer values that the site's subgraphs use.
    """

    site: Site
    function: Callable[..., Any]
    captures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph whose every node has native code.

    Args:
        inputs: The graph's inputs.
        steps: The nodes in the order to run them. Nodes whose results are known constants, or used by nobody, are gone.
        outputs: Names of the values to return: results of steps, inputs, constants or captured values.
        constants: Name to contents of every constant that a step or an output uses in this graph (initializers, folded
            values); those of the outer graph are in the outer plan.
        captures: Names of the values that a subgraph takes from the graphs around it, constants of outer plans included.
        parameters: Names among ``constants`` that are the network's parameters.
    """

    inputs: tuple[Slot, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, np.ndarray]
    captures: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lowered:
    """What `lower` returns.

    Args:
        plan: The plan of the outermost graph; its outputs have the names that were asked for, in that order.
        forms: How each node of the network is run.
        absent: Names of the nodes that need not run: known results, other names of a value, branches that are never taken,
            results that nobody uses.
    """

    plan: Plan
    forms: Forms = field(default_factory=Forms)
    absent: tuple[str, ...] = ()

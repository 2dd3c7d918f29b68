"""Rewriting a node: attributes, constants, nodes before it, names that are new, and what is known of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx_ir as ir

from deep_bench.errors import Unsupported
from deep_bench.graph.node import as_array, operator_name, subgraphs
from deep_bench.graph.shapes import Types

if TYPE_CHECKING:
    from deep_bench.graph.network import Network

ORIGIN = "deep_bench.origin"
"""Key in a node's ``meta``: the name of the node, as the file has it, that this one helps to express."""


class Names:
    """Names for new values and nodes that no value or node of a network has."""

    def __init__(self, network: Network) -> None:
        self._taken = {n.name for n in network.all_nodes()} | {v.name for n in network.all_nodes() for v in n.outputs}
        for graph in [network.graph, *network.graph.subgraphs()]:
            self._taken |= {v.name for v in graph.inputs} | set(graph.initializers)

    def fresh(self, base: str) -> str:
        """A name that starts with ``base`` and is new in the network; it is taken from now on."""
        name, number = base, 1
        while name in self._taken:
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        return name


class Edit:
    """A node that a rule rewrites in place; its outputs keep their names.

    Args:
        node: The node, inside a graph.
        opset: The version it is written in.
        names: Where new names come from.
        types: What is known of the values.
    """

    def __init__(self, node: ir.Node, opset: int, names: Names, types: Types) -> None:
        assert isinstance(node.graph, ir.Graph | ir.Function)
        self.node, self.opset, self.names, self.types = node, opset, names, types
        self.graph = node.graph
        self.base = str(node.outputs[0].name or node.name)

    # What is there

    def input(self, index: int) -> ir.Value | None:
        """An input, or ``None`` where it is omitted."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def known(self, index: int) -> np.ndarray | None:
        """The contents of an input that is a constant."""
        value = self.input(index)
        return None if value is None or value.is_graph_input() else as_array(value)

    def uses_output(self, index: int) -> bool:
        """Whether an output is consumed by a node or returned by the graph."""
        if index >= len(self.node.outputs):
            return False
        value = self.node.outputs[index]
        return bool(value.uses()) or value.is_graph_output()

    def take(self, name: str, default: Any = None) -> Any:
        """An attribute's value; the node does not have it any more."""
        attribute = self.node.attributes.pop(name, None)
        if attribute is None:
            return default
        if attribute.is_ref():
            raise self.unsupported(f"its attribute {name!r} is a parameter of a function that nobody calls")
        return attribute.value

    # What becomes of it

    def set(self, **attributes: Any) -> None:
        """State attributes."""
        for attribute in ir.convenience.convert_attributes(attributes):
            self.node.attributes[attribute.name] = attribute

    def become(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> None:
        """Turn the node into another operator with these inputs and attributes."""
        self.node.op_type = op_type
        self.node.attributes.clear()
        self.set(**attributes)
        self.feed(*inputs)

    def feed(self, *inputs: ir.Value | None) -> None:
        """Give the node these inputs; trailing ``None`` are left out."""
        values = list(inputs)
        while values and values[-1] is None:
            values.pop()
        self.node.resize_inputs(len(values))
        for index, value in enumerate(values):
            self.node.replace_input_with(index, value)

    def constant(self, label: str, array: Any, dtype: Any = None) -> ir.Value:
        """A new constant beside the node."""
        tensor = ir.tensor(np.asarray(array, dtype=dtype))
        name = self.names.fresh(f"{self.base}.{label}")
        if isinstance(self.graph, ir.Graph):
            value = ir.Value(
                name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(np.shape(array)), const_value=tensor
            )
            self.graph.register_initializer(value)
            return value
        return self.before("Constant", label=label, value=tensor)

    def constant_like(self, label: str, number: float, like: ir.Value | None) -> ir.Value:
        """A new constant scalar in the element type of another value."""
        dtype = self.types.dtype(like)
        scalar = self.constant(label, np.asarray(number, dtype or np.float32))
        return scalar if dtype is not None else self.before("CastLike", scalar, like, label=f"{label}.like")

    def before(self, op_type: str, *inputs: ir.Value | None, label: str, **attributes: Any) -> ir.Value:
        """A new node before this one, with one output, which is returned."""
        name = self.names.fresh(f"{self.base}.{label}")
        node = ir.Node(
            "",
            op_type,
            inputs,
            ir.convenience.convert_attributes(attributes),
            outputs=[ir.Value(name=name)],
            name=self.names.fresh(f"{self.node.name}.{label}"),
        )
        node.meta[ORIGIN] = self.node.name
        self.graph.insert_before(self.node, node)
        return node.outputs[0]

    def unsupported(self, reason: str) -> Unsupported:
        """The refusal of this node."""
        return Unsupported(
            f"node {self.node.name!r} ({operator_name(self.node)}, opset {self.opset}) has no equivalent: {reason}",
            advice="export the network again for a newer opset",
        )


def subgraph_of(node: ir.Node, name: str) -> ir.Graph:
    """A graph that the node holds as an attribute."""
    return subgraphs(node)[name]


Rule: TypeAlias = Callable[[Edit], None]
"""What brings a node to the version in which its operator's meaning, or the way to write it, changed."""

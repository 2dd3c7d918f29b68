"""``Draft``: a copy of a network that a transformation may change."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TypeVar

import numpy as np
import onnx_ir as ir

from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidInput, InvalidNetwork, Unsupported
from deep_bench.graph import Network
from deep_bench.graph.edit import Names
from deep_bench.graph.node import as_array, prune
from deep_bench.graph.shapes import Knowledge
from deep_bench.network.gradient.tape import Tape

T = TypeVar("T")

_USUAL_OPSET = 21
"""What older networks are brought to: every runtime of today has it."""

OLDEST_OPSET = 13
"""The first in which ``Split`` takes its sizes, and ``Squeeze`` and ``Unsqueeze`` their axes, as inputs."""


class Draft:
    """A network that is being changed; the one that it was made from stays as it is.

    Args:
        network: What is changed a copy of. It is brought to opset 21, or ``oldest``, if it is older than ``oldest``.
        base: What new names start with.
        oldest: The oldest opset that the change can be written in.

    Raises:
        Unsupported: Kernels of the user's compute nodes of it: what becomes of these, a change of the graph cannot tell.

    Example:
        >>> import deep_bench as db
        >>> draft = Draft(db.load("digits-cnn"), "mine")
        >>> draft.dims(draft.value("logits"))
        ('batch', 10)
    """

    def __init__(self, network: Network, base: str, oldest: int = OLDEST_OPSET) -> None:
        for node, kernel in network.kernels.items():
            raise Unsupported(
                f"a transformation of {network.name}, whose node {node!r} the kernel {kernel.name} computes",
                "a network without kernels",
                "transform network.without_kernels(), and put the kernels into the result: replace(match, operator)",
            )
        self.source, self.base = network, base
        opset = network.opset if network.opset >= oldest else max(oldest, _USUAL_OPSET)
        self.network = network.upgraded(opset).copy()
        self.graph = self.network.graph
        self.names = Names(self.network)

    # What is there

    @cached_property
    def knowledge(self) -> Knowledge:
        """Element types and dimensions of its values, as they were when this was first asked for."""
        return Knowledge(self.network)

    @property
    def nodes(self) -> dict[str, ir.Node]:
        """The nodes of its outermost graph, by name."""
        return {str(node.name): node for node in self.graph}

    @property
    def values(self) -> dict[str, ir.Value]:
        """The values of its outermost graph, by name."""
        graph_values = [*self.graph.inputs, *self.graph.initializers.values(), *(v for n in self.graph for v in n.outputs)]
        return {str(v.name): v for v in graph_values if v.name}

    def node(self, name: str) -> ir.Node:
        """A node of the outermost graph.

        Raises:
            InvalidArgument: There is none of that name.
        """
        return item_named(self.nodes, name, "node", self.source.name)

    def value(self, name: str) -> ir.Value:
        """A value of the outermost graph.

        Raises:
            InvalidArgument: There is none of that name.
        """
        return item_named(self.values, name, "value", self.source.name)

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """The contents of a value that no caller can change; ``None`` for any other."""
        return None if value is None or value.is_graph_input() else as_array(value)

    def dims(self, value: ir.Value) -> tuple[int | str | None, ...]:
        """The dimensions of a value.

        Raises:
            InvalidNetwork: Not even their number is known before a run.
        """
        dims = self.knowledge.dims(value)
        if dims is None:
            raise InvalidNetwork(
                f"the shape of {value.name!r} in {self.source.name} is unknown before a run",
                "a value whose number of dimensions follows from the inputs",
                "fix the sizes of the inputs first: network.with_sizes(…)",
            )
        return dims

    # What becomes of it

    def tape(self) -> Tape:
        """Where new nodes are written; `finish` puts them in order."""
        return Tape(self.graph, self.names, self.knowledge, self.base)

    def initializer(self, name: str, array: np.ndarray) -> ir.Value:
        """A new constant, under a new name that starts with ``name``."""
        tensor = ir.tensor(array)
        fresh = self.names.fresh(name)
        value = ir.Value(name=fresh, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
        self.graph.register_initializer(value)
        self.knowledge.state(value, ir.to_proto(value).type)
        return value

    def supplant(self, old: ir.Value, new: ir.Value, *, copied: bool = False) -> None:
        """Let ``new`` stand wherever ``old`` did, under its name.

        Args:
            old: A node's output.
            new: What has the same meaning.
            copied: Whether ``new`` must keep its own name, since it means something by itself; a copy then takes its place.
        """
        if copied:
            new = self._identity(new)
        name, value_type = str(old.name), self.knowledge.type_of(old)
        old.name = self.names.fresh(f"{name}.before")
        new.name = name
        new.type, new.shape = old.type, old.shape
        self.knowledge.state(new, value_type)
        old.replace_all_uses_with(new, replace_graph_outputs=True)

    def _identity(self, value: ir.Value) -> ir.Value:
        output = ir.Value(name=self.names.fresh(f"{value.name}.copy"))
        self.graph.append(ir.Node("", "Identity", [value], outputs=[output], name=self.names.fresh(f"{self.base}.Identity")))
        return output

    def finish(self) -> Network:
        """The changed network: its nodes in order, without those that nothing needs any more.

        Raises:
            InvalidNetwork: The change made a value depend on itself.
        """
        try:
            self.graph.sort()
        except ValueError as error:
            raise InvalidNetwork(
                f"a change to {self.source.name} makes a value depend on itself",
                "new nodes that use only values from before those they replace",
            ) from error
        prune(self.graph)
        return Network(self.network.model, name=self.source.name, source=None)


@contextmanager
def runs(network: Network) -> Iterator[None]:
    """What the reference cannot run is the fault of the inputs.

    Raises:
        InvalidInput: Instead of what NumPy raises.
    """
    try:
        yield
    except DeepBenchError:
        raise
    except Exception as error:  # NumPy raises whatever fits
        where = " ".join(getattr(error, "__notes__", [])[:1])
        raise InvalidInput(
            f"the reference cannot run {network.name} on these inputs: {error} {where}".strip(),
            "inputs of values and sizes that suit the network",
            "give other ones, or fix other sizes: network.with_sizes(…)",
        ) from error


def item_named(items: Mapping[str, T], name: str, kind: str, network: str) -> T:
    """The item of a name.

    Raises:
        InvalidArgument: There is none; the nearest names are told.
    """
    if name not in items:
        near = difflib.get_close_matches(name, items, n=3, cutoff=0.4) or list(items)[:5]
        raise InvalidArgument(f"{network} has no {kind} {name!r}", f"a {kind} of its outermost graph: {', '.join(near)}, …")
    return items[name]

"""What a gradient rule is given: the node, its values, the gradients of its outputs, and a tape to write on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from deep_bench.errors import Unsupported, UnsupportedOperator
from deep_bench.graph import operator_name
from deep_bench.graph.node import settings, subgraphs
from deep_bench.network.gradient.tape import Symbol, Tape

if TYPE_CHECKING:
    from deep_bench.network.gradient.backward import Backward


class Site:
    """A node on the way back.

    Args:
        node: The node of the forward graph.
        tape: Where the gradient is written.
        backward: What calls the rule; a rule for a node with graphs calls it again for these.
        gradients: Of each output; ``None`` for one that the loss does not depend on.
        wanted: The values whose gradients are asked for.

    Attributes:
        op: The tape: ``at.op.Where(…)`` writes a node.
    """

    def __init__(
        self,
        node: ir.Node,
        tape: Tape,
        backward: Backward,
        gradients: Sequence[Symbol | None],
        wanted: Callable[[ir.Value], bool],
    ) -> None:
        self.node, self.op, self.backward, self._wanted = node, tape, backward, wanted
        self._gradients = tuple(gradients)

    @property
    def inputs(self) -> tuple[Symbol | None, ...]:
        """The inputs of the node; ``None`` where one is omitted."""
        return tuple(None if v is None else Symbol(self.op, v) for v in self.node.inputs)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes that the node states, and defaults that are real numbers; graphs apart."""
        inner = subgraphs(self.node)
        return {name: value for name, value in settings(self.node).items() if name not in inner}

    @property
    def y(self) -> Symbol:
        """The first output."""
        return self.output(0)

    def output(self, index: int) -> Symbol:
        """An output of the node; it is added to the node if nobody asked for it before."""
        if index >= len(self.node.outputs):
            self.node.resize_outputs(index + 1)
        value = self.node.outputs[index]
        if not value.name:
            value.name = self.op.names.fresh(f"{self.node.name}.output_{index}")
            self.op.knowledge.infer(self.node)
        return Symbol(self.op, value)

    @property
    def dy(self) -> Symbol:
        """The gradient of the first output, zeros if the loss does not depend on it."""
        return self.gradient(0)

    def gradient(self, index: int) -> Symbol:
        """The gradient of an output, zeros if the loss does not depend on it."""
        gradient = self.gradient_or_none(index)
        return self.op.zeros_like(self.output(index)) if gradient is None else gradient

    def gradient_or_none(self, index: int) -> Symbol | None:
        """The gradient of an output; ``None`` if there is no such output, or the loss does not depend on it."""
        return self._gradients[index] if index < len(self._gradients) else None

    def wants(self, index: int) -> bool:
        """Whether the gradient of an input is asked for; of others it need not be written."""
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        return value is not None and self._wanted(value)

    def wants_value(self, value: ir.Value) -> bool:
        """Whether the gradient of a value is asked for, one that the node's graphs take from around it, say."""
        return self._wanted(value)

    def through(self, function: Callable[..., Symbol | Sequence[Symbol]], *inputs: Symbol | None) -> list[Symbol | None]:
        """The gradients of the node's inputs by those of a function that computes the same.

        Args:
            function: Writes nodes that compute the node's outputs from ``inputs``; they are differentiated in turn.
            *inputs: What it is called with.

        Returns:
            One gradient for each of ``inputs``; ``None`` where it is omitted, or not asked for.
        """
        start = len(self.op.written)
        result = function(*inputs)
        outputs = [result] if isinstance(result, Symbol) else list(result)
        seeds = {y.value: dy for i, y in enumerate(outputs) if (dy := self.gradient_or_none(i)) is not None}
        targets = list(dict.fromkeys(x.value for x in inputs if x is not None and self._wanted(x.value)))
        gradients = self.backward.run(self.op, self.op.written[start:], seeds, targets)
        # Where one value is fed twice, its whole gradient belongs to the first place.
        return [None if x is None else gradients.pop(x.value, None) for x in inputs]

    def refusal(self, reason: str) -> Unsupported:
        """The error that says why this node has no gradient here."""
        return UnsupportedOperator(
            str(self.node.name), operator_name(self.node), self.op.knowledge.opset, f"it has no gradient: {reason}"
        )

"""The walk back: from gradients of results to gradients of what they were computed from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.errors import Unsupported, UnsupportedOperator
from deep_bench.graph import operator_name
from deep_bench.graph.attached import kernel_of
from deep_bench.graph.expand import expand
from deep_bench.graph.node import outer_values, subgraphs
from deep_bench.network.gradient.copying import inlined
from deep_bench.network.gradient.kernel import by_kernel
from deep_bench.network.gradient.rules import find, is_step
from deep_bench.network.gradient.rules._sequences import sum_of
from deep_bench.network.gradient.site import Site
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.network.gradient.tape import Tape
from deep_bench.tensor import is_float, is_integer

Gradients = dict[ir.Value, Symbol]

_PRODUCTS = ("MatMulInteger", "ConvInteger")
"""The operators whose results of 4 bytes stand for real numbers; of others, only those of up to 2 bytes do."""


class Backward:
    """Applies the rule of each node, from the last to the first.

    Args:
        straight_through: Whether quantization counts as if it did nothing, where it does not saturate.
        rounded_slopes: Whether the slopes inside recurrent layers are taken from rounded values: ``y (1 - y)`` for the
            sigmoid, which loses bits where ``y`` is nearly 1.
    """

    def __init__(self, *, straight_through: bool = False, rounded_slopes: bool = False) -> None:
        self.straight_through, self.rounded_slopes = straight_through, rounded_slopes

    def run(
        self, tape: Tape, nodes: Sequence[ir.Node], seeds: Mapping[ir.Value, Symbol], targets: Collection[ir.Value]
    ) -> Gradients:
        r"""The gradients of ``targets``: :math:`\bar x = \sum_i (\partial y_i / \partial x)^T \bar y_i`.

        Args:
            tape: Where they are written.
            nodes: What computes ``seeds`` from ``targets``, in topological order.
            seeds: The gradient of each result.
            targets: The values whose gradients are asked for.

        Returns:
            Target to gradient; a target that no result depends on is absent.

        Raises:
            UnsupportedOperator: A node on the way has no gradient.
        """
        active = self.depending(tape, nodes, targets)
        parts: dict[ir.Value, list[Symbol]] = {value: [gradient] for value, gradient in seeds.items()}
        for node in reversed(nodes):
            output_gradients = [_total(parts, v, keep=v in targets) for v in node.outputs]
            if any(g is not None for g in output_gradients) and any(v in active for v in _uses(node)):
                for value, gradient in self._node(node, tape, output_gradients, active):
                    parts.setdefault(value, []).append(gradient)
        return {value: total for value in targets if (total := _total(parts, value, keep=True)) is not None}

    def depending(self, tape: Tape, nodes: Sequence[ir.Node], targets: Iterable[ir.Value]) -> set[ir.Value]:
        """The targets, and the values that depend on them through real numbers, or straight through quantized ones."""
        active = set(targets)
        for node in nodes:
            if any(v in active for v in _uses(node)):
                quantized = (4 if node.op_type in _PRODUCTS else 2) if self.straight_through else 0
                active.update(v for v in node.outputs if _carries(tape, v, quantized))
        return active

    def _node(
        self, node: ir.Node, tape: Tape, output_gradients: Sequence[Symbol | None], active: Collection[ir.Value]
    ) -> Iterable[tuple[ir.Value, Symbol]]:
        if kernel_of(node) is not None:
            return by_kernel(node, tape, output_gradients, active)
        if is_step(node):
            return []
        site = Site(node, tape, self, output_gradients, active.__contains__)
        rule = find(node.domain, node.op_type)
        before, tape.base = tape.base, f"{node.name}.gradient"
        try:
            result = _by_body(site) if rule is None else rule(site, *site.inputs, **site.attributes)
        except UnsupportedOperator:
            raise
        except Unsupported as refusal:  # of the tape, which does not know the node
            raise site.refusal(refusal.came) from refusal
        finally:
            tape.base = before
        return [(value, gradient) for value, gradient in _pairs(node, result) if value in active]


def _pairs(node: ir.Node, result: Any) -> Iterable[tuple[ir.Value, Symbol]]:
    """What a rule returned: a gradient, one for each input, or a mapping from value to gradient."""
    if isinstance(result, Mapping):
        return result.items()
    gradients = [result] if isinstance(result, Symbol) or result is None else list(result)
    return [(v, g) for v, g in zip(node.inputs, gradients, strict=False) if v is not None and g is not None]


def _by_body(site: Site) -> list[Symbol | None]:
    """The gradients of a composite operator, by those of the body that ONNX defines for it."""
    node, tape = site.node, site.op
    types = [None if v is None else tape.knowledge.type_of(v) for v in node.inputs]
    body = expand(node, [t if t is not None else None for t in types], tape.names)
    if body is None:
        raise site.refusal(f"there is no rule for {operator_name(node)}, and no body in the standard")
    by_name = {str(v.name): Symbol(tape, v) for v in _uses(node)}
    fed = [by_name[str(v.name)] for v in body.inputs]
    for value in body.outputs:
        value.name = tape.names.fresh(f"{value.name}.again")

    def function(*inputs: Symbol) -> list[Symbol]:
        return inlined(body, inputs, tape)

    gradients = dict(zip((x.value for x in fed), site.through(function, *fed), strict=True))
    return [None if v is None else gradients.pop(v, None) for v in node.inputs]


def _total(parts: dict[ir.Value, list[Symbol]], value: ir.Value, *, keep: bool) -> Symbol | None:
    """The sum of what arrived at a value."""
    gradients = parts.get(value) if keep else parts.pop(value, None)
    if not gradients:
        return None
    total = gradients[0]
    for part in gradients[1:]:
        total = sum_of(total, part)
    if keep:
        parts[value] = [total]
    return total


def _uses(node: ir.Node) -> list[ir.Value]:
    """What a node takes: its inputs, and what its graphs take from around it."""
    captured = [v for graph in subgraphs(node).values() for v in outer_values(graph)]
    return [v for v in dict.fromkeys([*node.inputs, *captured]) if v is not None]


def _carries(tape: Tape, value: ir.Value, quantized: int) -> bool:
    """Whether a value may have a gradient: a real tensor, one of integers of up to ``quantized`` bytes, or a container."""
    value_type = tape.knowledge.type_of(value)
    while value_type is not None and not value_type.HasField("tensor_type"):
        if value_type.HasField("sequence_type"):
            value_type = value_type.sequence_type.elem_type
        elif value_type.HasField("optional_type"):
            value_type = value_type.optional_type.elem_type
        else:
            return True
    kind = value_type.tensor_type.elem_type if value_type is not None else onnx.TensorProto.UNDEFINED
    if kind == onnx.TensorProto.UNDEFINED:
        return True
    if kind == onnx.TensorProto.STRING:
        return False
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    return is_float(dtype) or (is_integer(dtype) and dtype.itemsize <= quantized)

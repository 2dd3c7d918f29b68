"""The gradient of a node that a kernel of the user's computes: its own ``backward``, as one node of the derived network."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.framework import Device
from deep_bench.graph.attached import KERNEL_DOMAIN, attach_kernel
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.network.gradient.tape import Tape
from deep_bench.operators.placed import Placed, placed


def by_kernel(
    node: ir.Node, tape: Tape, given: Sequence[Symbol | None], active: Collection[ir.Value]
) -> list[tuple[ir.Value, Symbol]]:
    """The gradients of a node's inputs by its kernel.

    Args:
        node: The node.
        tape: Where the node that computes them is written.
        given: The gradient of each of its outputs.
        active: The values whose gradients are wanted.

    Raises:
        UnsupportedOperator: The kernel has no backward.
    """
    kernel = placed(node, tape.knowledge.opset)
    kernel.require_backward()
    values = list(node.inputs)
    indices = tuple(i for i, v in enumerate(values) if v is not None and v in active)
    outputs = []
    for index in indices:
        value = values[index]
        assert value is not None
        output = ir.Value(name=tape.names.fresh(f"{node.name}.gradient.{kernel.kernel.name}"))
        value_type = tape.knowledge.type_of(value)
        tape.knowledge.state(output, value_type)
        if value_type is not None:
            output.type = ir.serde.deserialize_type_proto_for_type(value_type)
            output.shape = ir.serde.deserialize_type_proto_for_shape(value_type)
        outputs.append(output)
    fed = [*(None if g is None else g.value for g in given), *values, *node.outputs]
    name = tape.names.fresh(f"{node.name}.gradient.{kernel.kernel.name}")
    written = ir.Node(KERNEL_DOMAIN, f"{kernel.kernel.name}.backward", fed, outputs=outputs, name=name)
    attach_kernel(written, KernelGradient(kernel, len(node.outputs), len(values), indices))
    tape.graph.opset_imports.setdefault(KERNEL_DOMAIN, 1)
    tape.append(written)
    pairs = [(values[index], Symbol(tape, output)) for index, output in zip(indices, outputs, strict=True)]
    return [(value, symbol) for value, symbol in pairs if value is not None]


class KernelGradient:
    """A kernel that computes another one's ``backward``: its inputs are the gradients, the inputs and the outputs.

    Args:
        of: The other one.
        outputs: How many outputs that has.
        inputs: How many inputs.
        wanted: The positions of the inputs whose gradients are wanted.
    """

    differentiates = False

    def __init__(self, of: Placed, outputs: int, inputs: int, wanted: Sequence[int]) -> None:
        self.of, self.outputs, self.inputs, self.wanted = of, outputs, inputs, tuple(wanted)

    @property
    def name(self) -> str:
        """The other one's, and that it is its gradient."""
        return f"{self.of.kernel.name}.backward"

    @property
    def device(self) -> Device[Any]:
        """The other one's."""
        return self.of.device

    def forward(self, *arrays: Any) -> tuple[Any, ...]:
        """The gradients that are wanted; zeros where the kernel says that there is none."""
        grads, remainder = arrays[: self.outputs], arrays[self.outputs :]
        inputs, results = remainder[: self.inputs], remainder[self.inputs :]
        gradients = self.of.backward(grads, inputs, results)
        return tuple(gradients[i] if gradients[i] is not None else self._zeros(inputs[i]) for i in self.wanted)

    def backward(self, grads: Any, inputs: Any, outputs: Any, **attributes: Any) -> Any:
        """There are no second derivatives: `differentiates` says so."""
        raise NotImplementedError

    def _zeros(self, x: Any) -> Any:
        return self.device.from_numpy(np.zeros_like(self.device.to_numpy(x)))

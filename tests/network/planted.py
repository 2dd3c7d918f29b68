"""A network of 300 nodes, and adapters that run it with a fault in one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

import deep_bench as db
from deep_bench.framework import Adapter, Executor
from deep_bench.graph import Network

CHANNELS, SIDE = 4, 5
BLOCKS = 50

Change = Callable[[ir.Node], None]


def large_network(blocks: int = BLOCKS) -> Network:
    """Blocks of Conv, BatchNormalization, Relu, Add, MatMul and Softmax over small tensors: six nodes each."""
    rng = np.random.default_rng(0)
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1, CHANNELS, SIDE, SIDE]))
    graph = ir.Graph([x], [], nodes=[], opset_imports={"": 21}, name=f"{6 * blocks} nodes")
    value = x

    def weight(name: str, array: np.ndarray) -> ir.Value:
        made = ir.Value(name=name, const_value=ir.tensor(array.astype(np.float32), name=name))
        made.type, made.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(array.shape)
        graph.initializers[name] = made
        return made

    def node(operator: str, name: str, inputs: Sequence[ir.Value], **attributes: Any) -> ir.Value:
        made = ir.node(operator, inputs, attributes, name=name)
        made.outputs[0].name = f"{name}.out"
        graph.append(made)
        return made.outputs[0]

    for k in range(blocks):
        convolved = node(
            "Conv",
            f"conv{k}",
            [value, weight(f"w{k}", rng.standard_normal((CHANNELS, CHANNELS, 3, 3)) / 6)],
            pads=[1, 1, 1, 1],
        )
        statistics = [rng.uniform(0.5, 1.5, CHANNELS), rng.standard_normal(CHANNELS), rng.standard_normal(CHANNELS) / 4]
        names = [weight(f"{n}{k}", a) for n, a in zip(("scale", "shift", "mean"), statistics, strict=True)]
        normal = node(
            "BatchNormalization", f"bn{k}", [convolved, *names, weight(f"var{k}", rng.uniform(0.2, 1.0, CHANNELS))]
        )
        relu = node("Relu", f"relu{k}", [normal])
        added = node("Add", f"add{k}", [relu, value])
        product = node("MatMul", f"matmul{k}", [added, weight(f"m{k}", rng.standard_normal((SIDE, SIDE)))])
        value = node("Softmax", f"softmax{k}", [product], axis=-1)
    value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([1, CHANNELS, SIDE, SIDE])
    graph.outputs.append(value)
    return Network(ir.Model(graph, ir_version=10))


def inputs() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal((1, CHANNELS, SIDE, SIDE)).astype(np.float32)}


class Faulty(Adapter[Any]):
    """A framework in which one node is changed, in whatever network it comes.

    Args:
        name: The framework.
        node: The node's name.
        change: What is done to it.
    """

    name = "faulty"

    def __init__(self, name: str, node: str, change: Change) -> None:
        self._adapter, self._node, self._change = db.frameworks[name](), node, change
        self.differentiates = self._adapter.differentiates

    def prepare(self, network: Network, *, mode: Any = "inference", outputs: Sequence[str] | None = None) -> Executor[Any]:
        changed = network.upgraded().copy()
        for node in changed.nodes:
            if node.name == self._node:
                self._change(node)
        return self._adapter.prepare(Network(changed.model, name=network.name), mode=mode, outputs=outputs)

    def describe(self) -> Mapping[str, str]:
        return self._adapter.describe()

    def from_numpy(self, array: np.ndarray) -> Any:
        return self._adapter.from_numpy(array)

    def to_numpy(self, array: Any) -> np.ndarray:
        return self._adapter.to_numpy(array)

    def synchronize(self) -> None:
        self._adapter.synchronize()


def wrong_epsilon(node: ir.Node) -> None:
    node.attributes["epsilon"] = ir.AttrFloat32("epsilon", 1e-3)


def wrong_pad(node: ir.Node) -> None:
    node.attributes["pads"] = ir.AttrInt64s("pads", [0, 1, 2, 1])


def wrong_axis(node: ir.Node) -> None:
    node.attributes["axis"] = ir.AttrInt64("axis", 2)


def wrong_when_fused(node: ir.Node) -> None:
    """Only where what it reads is computed in the same network: alone, it is right."""
    if node.inputs[0] is not None and node.inputs[0].producer() is not None:
        wrong_axis(node)


def wrong_dtype(node: ir.Node) -> None:
    """Compute in float16, and give the result as float32."""
    graph, output = node.graph, node.outputs[0]
    assert graph is not None
    for place, value in enumerate(node.inputs):
        narrow = ir.node("Cast", [value], {"to": int(ir.DataType.FLOAT16)})
        graph.insert_before(node, narrow)
        node.replace_input_with(place, narrow.outputs[0])
    wide = ir.node("Cast", [output], {"to": int(ir.DataType.FLOAT)})
    graph.insert_after(node, wide)
    name, output.name = output.name, None
    output.type = ir.TensorType(ir.DataType.FLOAT16)
    ir.convenience.replace_all_uses_with(output, wide.outputs[0], replace_graph_outputs=True)
    wide.replace_input_with(0, output)
    wide.outputs[0].name, wide.outputs[0].type = name, ir.TensorType(ir.DataType.FLOAT)


FAULTS: Mapping[str, tuple[str, Change]] = {
    "wrong epsilon": ("bn20", wrong_epsilon),
    "wrong pad": ("conv31", wrong_pad),
    "wrong axis": ("softmax7", wrong_axis),
    "wrong dtype": ("matmul42", wrong_dtype),
}

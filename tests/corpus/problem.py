"""What a problem is made of: a network of a few nodes, and inputs that excite what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from deep_bench.check import Truth, Verdict, establish, judge
from deep_bench.graph import OPSET, Network

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Problem:
    """A network and what it is fed."""

    name: str
    network: Network
    inputs: Arrays

    def truth(self) -> Truth:
        """What is known of it."""
        return establish(self.network, self.inputs, "quick")

    def judge(self, truth: Truth, subject: Any, norm_wise: Collection[str] = ()) -> Verdict:
        """What the checker says of a system."""
        return judge(truth, subject, norm_wise=norm_wise)


def single(
    operator: str, feeds: Mapping[str, np.ndarray | None], weights: Arrays | None = None, outputs: int = 1, **attributes: Any
) -> Callable[[], Problem]:
    """A problem of one node; ``feeds`` then ``weights`` are its inputs, in order; ``None`` omits one."""
    return lambda: chain(operator, feeds, [(operator, list(weights or {}), outputs, attributes)], weights)


def chain(
    name: str, feeds: Mapping[str, np.ndarray | None], nodes: Sequence[tuple[Any, ...]], weights: Arrays | None = None
) -> Problem:
    """A problem whose nodes follow each other: each takes the first output of the one before, then its weights."""
    made: list[onnx.NodeProto] = []
    current = [n if x is not None else "" for n, x in feeds.items()]
    for number, (operator, extra, count, attributes) in enumerate(nodes):
        outs = [f"y{number}" if k == 0 else f"y{number}_{k}" for k in range(count)]
        made.append(helper.make_node(operator, [*current, *extra], outs, name=f"{operator}_{number}", **attributes))
        current = outs[:1]
    last = [o for o in made[-1].output if o]
    return Problem(name, network(name, made, feeds, last, weights or {}), {n: x for n, x in feeds.items() if x is not None})


def network(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    feeds: Mapping[str, np.ndarray | None],
    outputs: Sequence[str],
    weights: Arrays,
) -> Network:
    """A network of these nodes; the element types of its outputs are inferred."""
    graph = helper.make_graph(
        list(nodes),
        name,
        [_declared(n, x) for n, x in feeds.items() if x is not None],
        [helper.make_tensor_value_info(o, TensorProto.UNDEFINED, None) for o in outputs],
        [numpy_helper.from_array(w, n) for n, w in weights.items() if n],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET - 5)], ir_version=10)
    for value in model.graph.output:
        value.type.Clear()
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for value in inferred.graph.output:
        if not value.type.WhichOneof("value"):  # what is defined by a body only is not inferred
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    return Network.from_proto(inferred, name=name)


def _declared(name: str, x: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)


def normal(*shape: int, scale: float = 1.0, shift: float = 0.0, seed: int = 0) -> np.ndarray:
    """Normal numbers in float32."""
    rng = np.random.default_rng([seed, *shape])
    return (rng.standard_normal(shape) * scale + shift).astype(np.float32)


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers between 0.1 and 1.1 in float32."""
    return np.random.default_rng([seed, *shape]).random(shape, dtype=np.float32) + np.float32(0.1)


def tails(*shape: int) -> np.ndarray:
    """Numbers over many orders of magnitude, of both signs: functions are tried near zero and in their tails."""
    rng = np.random.default_rng(shape)
    return (rng.choice([-1, 1], shape) * 10.0 ** rng.uniform(-3, 1, shape)).astype(np.float32)

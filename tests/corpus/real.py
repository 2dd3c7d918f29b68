"""Faults planted in one node of a real network, for a system that is right everywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import deep_bench as db
from tests.real.fetch import fetch
from tests.real.table import REAL, sizes

from .entry import Entry
from .patches import after, attributes, bfloat16, element, on_inputs, rounded_factors, scaled, swapped, tf32, without
from .problem import Problem
from .problems import problem
from .subjects import Patch, Patched


class PatchedNode(Patched):
    """The reference with one node done otherwise.

    Args:
        problem: What is run.
        node: The node's name in the upgraded network.
        patch: What replaces it.
    """

    def __init__(self, problem: Problem, node: str, patch: Patch) -> None:
        super().__init__(problem, {})
        self.node, self.patch = node, patch

    def _arithmetic(self, step: Any, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        if step.node.name != self.node:
            return function(*inputs)
        dtype = next((x.dtype for x in inputs if isinstance(x, np.ndarray) and x.dtype.kind == "f"), None)
        outputs = self.patch(step.function, list(inputs), dict(step.attributes))
        return outputs.astype(dtype) if dtype is not None and isinstance(outputs, np.ndarray) else outputs


@dataclass(frozen=True)
class Planted:
    """A fault in one node.

    Args:
        network: Our name of the real network.
        operator: The operator of the node.
        place: Where among the network's nodes of that operator, from 0 to 1.
        fault: The name of the fault.
    """

    network: str
    operator: str
    place: float
    fault: str

    def __str__(self) -> str:
        return f"{self.network}: {self.fault} in a {self.operator} at {self.place:.0%}"

    def subject(self) -> PatchedNode:
        """The faulty system."""
        posed = problem(self.network)
        nodes = [str(n.name) for n in posed.network.upgraded().all_nodes() if n.op_type == self.operator]
        return PatchedNode(posed, nodes[round(self.place * (len(nodes) - 1))], FAULTS[self.fault])


def _shifted_pads(f: Any, x: Any, a: Any) -> Any:
    pads = list(a["pads"])
    pads[0], pads[len(pads) // 2] = pads[0] + 1, pads[len(pads) // 2] - 1
    return f(*x, **{**a, "pads": tuple(pads)})


def _erf_by_tanh(f: Any, x: Any, a: Any) -> Any:
    y = x[0] * np.sqrt(2.0).astype(x[0].dtype)
    return np.tanh(np.sqrt(2 / np.pi).astype(y.dtype) * (y + y.dtype.type(0.044715) * y**3))


FAULTS: Mapping[str, Patch] = {
    "bfloat16 factors": rounded_factors(bfloat16),
    "TF32 factors": rounded_factors(tf32),
    "bias dropped": without(2),
    "kernel flipped": on_inputs(lambda x: [x[0], np.ascontiguousarray(x[1][..., ::-1]), *x[2:]]),
    "channels swapped": after(swapped(1)),
    "pad shifted": _shifted_pads,
    "one element zeroed": after(element(0.0)),
    "wrong epsilon": attributes(epsilon=1e-3),
    "variance scaled": scaled(4, 1.001),
    "erf by tanh": _erf_by_tanh,
    "scaled by 1.0001": after(lambda y: y * y.dtype.type(1.0001)),
    "rows rolled": after(lambda y: np.roll(y, 1, axis=-1)),
}

PLANTED = (
    Planted("ppocr_cls", "Conv", 0.1, "TF32 factors"),
    Planted("ppocr_cls", "Conv", 0.5, "bfloat16 factors"),
    Planted("ppocr_cls", "Conv", 0.9, "channels swapped"),
    Planted("ppocr_cls", "Conv", 0.0, "pad shifted"),
    Planted("ppocr_cls", "BatchNormalization", 0.4, "wrong epsilon"),
    Planted("ppocr_cls", "BatchNormalization", 0.8, "variance scaled"),
    Planted("ppocr_cls", "Add", 0.5, "one element zeroed"),
    Planted("ppocr_cls", "MatMul", 0.0, "bfloat16 factors"),
    Planted("ppocr_det", "Conv", 0.5, "TF32 factors"),
    Planted("ppocr_det", "Conv", 0.2, "kernel flipped"),
    Planted("ppocr_det", "Erf", 0.5, "erf by tanh"),
    Planted("ppocr_det", "Mul", 0.7, "one element zeroed"),
    Planted("ppocr_det", "ConvTranspose", 0.0, "bfloat16 factors"),
    Planted("ppocr_rec", "MatMul", 0.5, "TF32 factors"),
    Planted("ppocr_rec", "Softmax", 0.0, "scaled by 1.0001"),
    Planted("ppocr_rec", "ReduceMean", 0.5, "scaled by 1.0001"),
    Planted("magika", "MatMul", 1.0, "bfloat16 factors"),
    Planted("magika", "Conv", 0.0, "channels swapped"),
    Planted("silero_vad_16k_op15", "Conv", 0.5, "TF32 factors"),
    Planted("silero_vad_16k_op15", "LSTM", 0.0, "scaled by 1.0001"),
    Planted("silero_vad_op18_ifless", "Gemm", 0.0, "bias dropped"),
    Planted("silero_vad_op18_ifless", "Tanh", 0.0, "rows rolled"),
    Planted("swift_f0", "Conv", 0.5, "channels swapped"),
    Planted("swift_f0", "MatMul", 0.8, "TF32 factors"),
)


def real_problem(name: str) -> Problem:
    """A real network with its realistic input.

    Raises:
        Unreachable: It cannot be fetched.
    """
    real = next(r for r in REAL if r.name == name)
    inputs = real.inputs()
    network = db.load(fetch(real.package, real.name))
    return Problem(name, network.with_sizes(sizes(network, inputs)), inputs)


def planted() -> Iterator[Entry]:
    """All faults planted in real networks."""
    return (Entry(str(p), p.network, p.subject, held_out=True) for p in PLANTED)


def faultless() -> Iterator[Entry]:
    """The same networks without a fault."""
    return (Entry(f"{n} as it is", n, lambda n=n: Patched(problem(n), {})) for n in sorted({p.network for p in PLANTED}))

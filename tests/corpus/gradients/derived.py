"""Derived networks, whose nodes are replayed alone: kernels of a backward pass that are wrong, or right in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import deep_bench as db
from deep_bench.check import InProcessSubject

from ..entry import Entry
from ..patches import after, algorithm, attributes, bfloat16, float16, in_double, on_inputs, rounded_factors, tf32, times
from ..problem import Problem
from ..problems import DERIVED, problem
from ..subjects import Patch, Patched
from .problem import gradient_problem


def derived_problem(of: str) -> Problem:
    """The network of a problem's gradients, as a network like any other."""
    posed = gradient_problem(of)
    return Problem(f"{DERIVED}{of}", posed.derived, posed.inputs)


def _short_sum(f: Any, x: Any, a: Any) -> Any:
    """A sum that stops before the last element of its last axis, where that is one that is added up."""
    axis = x[0].ndim - 1
    if len(x) < 2 or x[1] is None or axis not in [int(k) % x[0].ndim for k in x[1]]:
        return f(*x, **a) * x[0].dtype.type(0.999)
    return f(x[0][..., :-1], *x[1:], **a)


def _last_term(f: Any, x: Any, a: Any) -> Any:
    """The products' sums stop one early."""
    left = x[0][:-1] if a.get("transA") else x[0][..., :-1]
    right = x[1][:, :-1] if a.get("transB") else x[1][..., :-1, :]
    return f(left, right, *x[2:], **a)


def _turned_pads(f: Any, x: Any, a: Any) -> Any:
    """The padding of begin and end exchanged."""
    half = len(a["pads"]) // 2
    return f(*x, **{**a, "pads": (*a["pads"][half:], *a["pads"][:half])})


_PRODUCTS: Mapping[str, Patch] = {
    "with TF32": rounded_factors(tf32),
    "with bfloat16": rounded_factors(bfloat16),
    "with its result in float16": after(float16),
    "without its last term": _last_term,
}
_SUMS: Mapping[str, Patch] = {"scaled by 1.01": after(times(1.01)), "in bfloat16": after(bfloat16), "too short": _short_sum}
_CONVOLUTIONS: Mapping[str, Patch] = {
    "with TF32": rounded_factors(tf32),
    "with its kernel flipped": on_inputs(lambda x: [x[0], x[1][..., ::-1, ::-1], *x[2:]]),
    "with its padding turned": _turned_pads,
}
_FAULTY: Mapping[str, Mapping[str, Patch]] = {
    "MatMul": _PRODUCTS,
    "Gemm": _PRODUCTS,
    "ReduceSum": _SUMS,
    "ConvTranspose": _CONVOLUTIONS,
    "Softmax": {"along another axis": attributes(axis=0), "in bfloat16": after(bfloat16)},
    "Mul": {"in bfloat16": after(bfloat16)},
}

_METHODS = ("blocked", "compensated", "sequential", "split_k")
_CORRECT: Mapping[str, Mapping[str, Patch]] = {
    "MatMul": {f"by the algorithm {m}": algorithm("MatMul", m) for m in _METHODS},
    "Gemm": {f"by the algorithm {m}": algorithm("Gemm", m) for m in _METHODS},
    "ReduceSum": {f"by the algorithm {m}": algorithm("ReduceSum", m) for m in ("pairwise", "sequential")},
    "ConvTranspose": {"in float64": in_double},
    "Softmax": {"by the algorithm online": algorithm("Softmax", "online"), "in float64": in_double},
}

_NODES: Mapping[str, tuple[str, ...]] = {
    "MatMul": ("Gemm",),
    "MatMul batched": ("MatMul", "ReduceSum"),
    "Gemm": ("Gemm", "ReduceSum"),
    "Conv": ("MatMul", "ConvTranspose", "ReduceSum"),
    "Conv grouped": ("MatMul", "ConvTranspose"),
    "Conv pointwise": ("MatMul",),
    "conv-bn-relu-pool": ("MatMul", "ReduceSum"),
    "Softmax": ("Softmax", "ReduceSum", "Mul"),
    "LayerNormalization": ("MatMul", "ReduceSum", "Mul"),
    "BatchNormalization": ("ReduceSum", "Mul"),
    "Attention": ("MatMul", "Softmax"),
    "Attention shared": ("MatMul", "Softmax"),
    "ReduceL2": ("Mul",),
    "LSTM of three steps": ("MatMul", "Mul"),
    "GRU of three steps": ("MatMul", "Mul"),
    "RNN of three steps": ("MatMul", "Mul"),
    "mlp": ("Gemm", "MatMul", "ReduceSum"),
    "block": ("Gemm", "MatMul", "ReduceSum"),
    "Add": ("ReduceSum",),
    "Gelu": ("Mul",),
}
"""Problem to those of the operators in its derived network that are done otherwise."""


def derived_faults() -> Iterator[Entry]:
    """Derived networks some of whose kernels are wrong."""
    return _patched(_FAULTY)


def derived_variants() -> Iterator[Entry]:
    """Derived networks some of whose kernels are done otherwise, then in the frameworks that are installed."""
    yield from _patched(_CORRECT)
    for framework in ("onnxruntime", "torch", "tensorflow"):
        if find_spec(framework) is not None:
            for of in _NODES:
                yield Entry(f"{framework} on {DERIVED}{of}", f"{DERIVED}{of}", _native(framework, of), native=True)


def _patched(patches: Mapping[str, Mapping[str, Patch]]) -> Iterator[Entry]:
    chosen = [(of, op, name) for of, ops in _NODES.items() for op in ops for name in patches.get(op, ())]
    for number, (of, op, name) in enumerate(chosen):
        where = f"{DERIVED}{of}"
        yield Entry(f"{op} {name} in {where}", where, _subject(where, op, patches[op][name], number % 2 == 0))


def _subject(where: str, operator: str, patch: Patch, ladder: bool) -> Callable[[], Patched]:
    return lambda: Patched(problem(where), {operator: patch}, ladder=ladder)


def _native(framework: str, of: str) -> Callable[[], InProcessSubject]:
    def make() -> InProcessSubject:
        posed = problem(f"{DERIVED}{of}")
        return InProcessSubject(db.frameworks[framework](), posed.network, posed.inputs)

    return make

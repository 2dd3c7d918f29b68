"""One gradient rule for each ONNX operator, in the families and under the names of the references.

A rule takes a `Site` and then what the reference takes: the operator's inputs by position, ``None`` for an optional one that
is absent, and its attributes by keyword. It writes the gradient with ONNX operators and returns one for each input:
``None`` where there is none, and a single one for operators of one input. `Site` gives it the outputs (``at.y``), their
gradients (``at.dy``) and the tape (``at.op.Where(…)``). What is not asked for need not be left out: nodes that nobody uses
are removed.

An operator without a rule is differentiated through its body in the standard, if it has one.

Example:
    >>> find("", "Tanh").__name__, find("", "NonZero")
    ('Tanh', None)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import onnx_ir as ir

from deep_bench.graph.node import is_standard

# fmt: off
_FAMILIES: Mapping[str, tuple[str, ...]] = {  # a domain to the modules of this package that have its rules
    "": (
        "activation", "attention", "cast", "control", "convolution", "elementwise", "generate", "image", "indexing",
        "linear", "loss", "normalization", "pooling", "quantize", "recurrent", "reduction", "sequence", "shape", "signal",
    ),
    "ai.onnx.preview.training": ("training",),
    "com.microsoft": ("contrib",),
}
# fmt: on

_MODULES = [(domain, import_module(f"{__name__}.{name}")) for domain, names in _FAMILIES.items() for name in names]

RULES: Mapping[tuple[str, str], Callable[..., Any]] = MappingProxyType(
    {(domain, name): getattr(module, name) for domain, module in _MODULES for name in module.__all__}
)
"""Every operator that has a rule, by domain and type."""

_STEPS = frozenset(
    "Floor Ceil Round Sign Hardmax EyeLike Bernoulli RandomNormalLike RandomUniformLike".split()  # noqa: SIM905
)


def find(domain: str, op_type: str) -> Callable[..., Any] | None:
    """The rule of an operator, or ``None`` if it has none."""
    return RULES.get(("" if domain == "ai.onnx" else domain, op_type))


def is_step(node: ir.Node) -> bool:
    """Whether a node's operator is constant but for steps, so that its gradient is 0."""
    return is_standard(node) and node.op_type in _STEPS

"""Several algorithms of one operator, so that the accuracy and cost of a method can be told from those of a kernel.

Each has its operator's full signature. What an algorithm cannot do is refused with `deep_bench.errors.Unsupported`. The
reference runs a network with chosen ones: ``reference:algorithms=Conv/winograd_4+MatMul/strassen``.

Example:
    >>> import numpy as np
    >>> x, w = np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 3, 3), np.float32)
    >>> algorithms["Conv"]["winograd_2"](x, w).tolist() == algorithms["Conv"]["direct"](x, w).tolist()
    True
    >>> list(algorithms["Conv"])
    ['direct', 'fft', 'im2col', 'winograd_2', 'winograd_4']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.reference.operators import activation, linear, normalization, recurrent, reduction
from deep_bench.reference.operators import attention as plain_attention
from deep_bench.reference.operators import convolution as by_columns
from deep_bench.reference.operators.algorithms import attention, convolution, layer_normalization, lstm
from deep_bench.reference.operators.algorithms import product as blocked
from deep_bench.reference.operators.algorithms import summation as sum_blocked
from deep_bench.reference.operators.algorithms.product import gemm_by, matmul_by
from deep_bench.reference.operators.algorithms.summation import reductions_by

__all__ = ["algorithms", "choose", "less_accurate", "name_of"]

_PRODUCTS = {
    "blocked": blocked.blocked_product,
    "compensated": blocked.compensated_product,
    "sequential": blocked.sequential_product,
    "split_k": blocked.split_k_product,
    "strassen": blocked.strassen_product,
}
_SUMS = {
    "blocked": reductions_by(sum_blocked.blocked_total),
    "compensated": reductions_by(sum_blocked.compensated_total),
    "pairwise": reductions_by(sum_blocked.pairwise_total),
    "sequential": reductions_by(sum_blocked.sequential_total),
}


def _reduction(name: str) -> Mapping[str, Callable[..., Any]]:
    return {**{kind: forms[name] for kind, forms in _SUMS.items()}, "numpy": getattr(reduction, name)}


algorithms: Mapping[str, Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "Attention": {"plain": plain_attention.Attention, "tiled": attention.Attention},
        "Conv": {
            "direct": convolution.direct_conv,
            "fft": convolution.fft_conv,
            "im2col": by_columns.Conv,
            "winograd_2": convolution.winograd_2,
            "winograd_4": convolution.winograd_4,
        },
        "Gemm": {"blas": linear.Gemm, **{name: gemm_by(product) for name, product in _PRODUCTS.items()}},
        "LSTM": {"fused": recurrent.LSTM, "separate": lstm.LSTM},
        "LayerNormalization": {
            "one_pass": layer_normalization.one_pass_layer_normalization,
            "two_pass": normalization.LayerNormalization,
            "welford": layer_normalization.welford_layer_normalization,
        },
        "MatMul": {"blas": linear.MatMul, **{name: matmul_by(product) for name, product in _PRODUCTS.items()}},
        **{name: _reduction(name) for name in ("ReduceL1", "ReduceL2", "ReduceMean", "ReduceSum", "ReduceSumSquare")},
        "Softmax": {"online": attention.Softmax, "two_pass": activation.Softmax},
    }
)
"""Operator to name of an algorithm to its function. One of each operator's is what the reference does by itself."""

less_accurate: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "Conv": frozenset({"fft", "winograd_2", "winograd_4"}),
        "Gemm": frozenset({"strassen"}),
        "LayerNormalization": frozenset({"one_pass"}),
        "MatMul": frozenset({"strassen"}),
    }
)
"""Operator to the algorithms whose errors are knowingly larger than the elements' own terms explain.

Those of products and convolutions are relative to the largest elements, which is how to judge them
(``norm_wise`` of `deep_bench.check.judge`). One pass for the variance fails where the mean is large.
"""


def name_of(operator: str, function: Callable[..., Any]) -> str:
    """The name of the algorithm that a function of an operator is; empty where the operator has a single one.

    Example:
        >>> from deep_bench.reference.operators import find
        >>> name_of("Conv", find("", "Conv")), name_of("Relu", find("", "Relu"))
        ('im2col', '')
    """
    return next((name for name, candidate in algorithms.get(operator, {}).items() if candidate is function), "")


def choose(chosen: str | Mapping[str, str]) -> dict[str, Callable[..., Any]]:
    """The functions of chosen algorithms, by operator.

    Args:
        chosen: Operator to name of an algorithm; or the same as text, ``"Conv/winograd_4+MatMul/strassen"``.

    Raises:
        UnknownName: No such operator, or none of its algorithms; the nearest known name is suggested.
        InvalidArgument: Text in another form, or an operator twice.

    Example:
        >>> list(choose("Softmax/online+MatMul/split_k"))
        ['Softmax', 'MatMul']
    """
    if isinstance(chosen, str):
        pairs = [part.partition("/") for part in chosen.split("+")]
        if any(not operator or not name for operator, _, name in pairs):
            raise InvalidArgument(
                f"algorithms {chosen!r}", "operator/algorithm, several joined by +: Conv/fft+MatMul/strassen"
            )
        named = [(operator, name) for operator, _, name in pairs]
        if len(dict(named)) < len(named):
            raise InvalidArgument(f"algorithms {chosen!r}", "each operator once")
    else:
        named = list(chosen.items())
    for operator, name in named:
        if operator not in algorithms:
            raise UnknownName("operator with several algorithms", operator, algorithms)
        if name not in algorithms[operator]:
            raise UnknownName(f"algorithm of {operator}", name, algorithms[operator])
    return {operator: algorithms[operator][name] for operator, name in named}

"""Faults as people make them: each patch is one mistake in one operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..entry import Entry
from ..problems import problem
from ..subjects import Halfway, Patch, Patched, Stale
from . import attention, convolution, functions, gemm, normalization, quantized, recurrent, reduction, softmax

_FAMILIES = (gemm, convolution, softmax, normalization, attention, reduction, recurrent, quantized, functions)

_BUFFERS = (
    "digits-cnn",
    "mlp",
    "Conv",
    "block",
    "Gemm",
    "Softmax",
    "LayerNormalization",
    "Attention",
    "ReduceMean",
    "LSTM",
    "QLinearMatMul",
)


def faults() -> Iterator[Entry]:
    """Every fault made by hand, with and without a ladder in turn."""
    patches: Mapping[tuple[str, str], Patch] = {key: p for family in _FAMILIES for key, p in family.FAULTS.items()}
    for number, ((where, name), patch) in enumerate(patches.items()):
        yield Entry(f"{name} in {where}", where, _patched(where, name.split(" ")[0], patch, number % 2 == 0))
    for where in _BUFFERS:
        yield Entry(f"stale buffer in {where}", where, lambda where=where: Stale(problem(where), {}))
        yield Entry(f"last row not written in {where}", where, lambda where=where: Halfway(problem(where), {}, ladder=False))


def _patched(where: str, operator: str, patch: Patch, ladder: bool) -> Callable[[], Patched]:
    return lambda: Patched(problem(where), {operator: patch}, ladder=ladder)

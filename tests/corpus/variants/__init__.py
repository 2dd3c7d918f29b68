"""Correct implementations: other orders of summation, fused and tiled forms, other formulas of the same function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec

import deep_bench as db
from deep_bench.check import InProcessSubject

from ..entry import Entry
from ..patches import NormWise
from ..problems import BUILDERS, problem
from ..subjects import Patch, Patched
from . import attention, convolution, functions, gemm, normalization, quantized, recurrent, reduction, softmax

_FAMILIES = (gemm, convolution, softmax, normalization, attention, reduction, recurrent, quantized, functions)

FRAMEWORKS = ("torch", "onnxruntime", "tensorflow")


def variants() -> Iterator[Entry]:
    """Every correct variant: those made here with and without a ladder in turn, and the frameworks that are installed."""
    made: Mapping[tuple[str, str], Patch | NormWise] = {key: p for family in _FAMILIES for key, p in family.VARIANTS.items()}
    for number, ((where, name), patch) in enumerate(made.items()):
        operator = name.split(" ")[0]
        declared = isinstance(patch, NormWise)
        plain = patch.patch if isinstance(patch, NormWise) else patch
        subject = _patched(where, operator, plain, number % 2 == 0)
        yield Entry(f"{name} in {where}", where, subject, norm_wise=(operator,) if declared else ())
    for framework in FRAMEWORKS:
        if find_spec(framework) is not None:
            for where in BUILDERS:
                yield Entry(f"{framework} on {where}", where, _native(framework, where), native=True)


def _patched(where: str, operator: str, patch: Patch, ladder: bool) -> Callable[[], Patched]:
    return lambda: Patched(problem(where), {operator: patch}, ladder=ladder)


def _native(framework: str, where: str) -> Callable[[], InProcessSubject]:
    def make() -> InProcessSubject:
        posed = problem(where)
        return InProcessSubject(db.frameworks[framework](), posed.network, posed.inputs)

    return make

"""How tables call a case: its sizes, in the order in which the operator's literature gives them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deep_bench.operators.case import Case


def label_of(case: Case) -> str:
    """A label made from the sizes.

    ``MxNxK`` for matrix products, with ``T`` for each side that is transposed; the shape for a single input; else the shapes
    of all drawn inputs with more than one element.

    Example:
        >>> from deep_bench.operators.case import Case
        >>> Case.of("Gemm", (3, 2), (3, 4), transA=1).label, Case.of("Softmax", (8, 10)).label
        ('2x4x3 TN', '8x10')
        >>> Case.of("Conv", (1, 3, 8, 8), (4, 3, 3, 3)).label
        '1x3x8x8 4x3x3x3'
    """
    shapes = [a.shape for a in case.arguments if a is not None]
    if case.operator == "Gemm":
        return _gemm(case, shapes)
    if case.operator in ("MatMul", "MatMulInteger") and all(len(shape) > 1 for shape in shapes[:2]):
        return _matmul(shapes)
    drawn = [a.shape for a in case.arguments if a is not None and a.value is None] or shapes
    large = [shape for shape in drawn if prod(shape) != 1] or drawn[:1]
    return " ".join(map(sizes, large))


def sizes(shape: Sequence[int]) -> str:
    """A shape as ``"2x3"``; ``"scalar"`` without dimensions.

    Example:
        >>> sizes((2, 3)), sizes(())
        ('2x3', 'scalar')
    """
    return "x".join(map(str, shape)) or "scalar"


def _gemm(case: Case, shapes: Sequence[tuple[int, ...]]) -> str:
    sides = [bool(case.attributes.get(name, 0)) for name in ("transA", "transB")]
    a, b = (shape[::-1] if turned else shape for shape, turned in zip(shapes[:2], sides, strict=True))
    turned = " " + "".join("T" if side else "N" for side in sides) if any(sides) else ""
    return f"{a[0]}x{b[1]}x{a[1]}{turned}"


def _matmul(shapes: Sequence[tuple[int, ...]]) -> str:
    a, b = shapes[:2]
    batch = max(a[:-2], b[:-2], key=prod)
    return (f"{sizes(batch)} " if batch else "") + f"{a[-2]}x{b[-1]}x{a[-1]}"

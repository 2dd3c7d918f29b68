"""Operators that put elements where an index says, and those that look for some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from deep_bench.facts.row import OperatorFacts, Shape, Work
from deep_bench.facts.rules import Growth, ShapedCase, elements, named, passing


def ScatterElements(x: Shape, indices: Shape, updates: Shape, *, reduction: str = "none") -> Work:
    """An addition, product or comparison for each update that is not just stored. Source: ONNX ScatterElements, opset 18."""
    return _reduced(reduction) * prod(updates)


def ScatterND(x: Shape, indices: Shape, updates: Shape, *, reduction: str = "none") -> Work:
    """An addition, product or comparison for each update that is not just stored. Source: ONNX ScatterND, opset 18."""
    return _reduced(reduction) * prod(updates)


def _reduced(reduction: str) -> Work:
    return Work(flops=reduction in ("add", "mul"), comparisons=reduction in ("max", "min"))


def NonZero(x: Shape) -> Work:
    """A comparison for each element. Source: ONNX NonZero, opset 13."""
    return Work(comparisons=prod(x))


def OneHot(*, y: Shape) -> Work:
    """A comparison for each element of the result. Source: ONNX OneHot, opset 28."""
    return Work(comparisons=prod(y))


def Unique(x: Shape) -> Work:
    """A comparison for each element at least; how many more depends on the method. Source: ONNX Unique, opset 11."""
    return Work(comparisons=prod(x))


def _along_axis(case: ShapedCase) -> str:
    return f"indices:{named(case, 'data').shape[case.attributes.get('axis', 0)]}"


def _gathered_rows(case: ShapedCase) -> str:
    start, depth = case.attributes.get("batch_dims", 0), named(case, "indices").shape[-1]
    return ":".join(["rows", *map(str, named(case, "data").shape[start : start + depth])])


def _scattered(case: ShapedCase) -> str:
    axis = case.attributes.get("axis", 0)
    size = named(case, "data").shape[axis]
    return f"distinct:{size}:{axis}" if case.attributes.get("reduction", "none") == "none" else f"indices:{size}"


def _scattered_rows(case: ShapedCase) -> str:
    kind = "distinct_rows" if case.attributes.get("reduction", "none") == "none" else "rows"
    depth = named(case, "indices").shape[-1]
    return ":".join([kind, *map(str, named(case, "data").shape[:depth])])


def _scattering(case: ShapedCase) -> Growth:
    reduction = case.attributes.get("reduction", "none")
    if reduction == "none":
        return Growth()
    return Growth(1, elements(case) + 1) if reduction == "mul" else Growth(elements(case))


def _depth(case: ShapedCase) -> str:
    depth = named(case, "depth").value
    return f"indices:{int(depth.reshape(()))}" if depth is not None else "normal"


def _write_index(case: ShapedCase) -> str:
    axis = case.attributes.get("axis", -2)
    room = named(case, "past_cache").shape[axis] - named(case, "update").shape[axis]
    return f"below:{room + 1}"


def _time(case: ShapedCase) -> str:
    return f"lengths:{named(case, 'input').shape[case.attributes.get('time_axis', 0)]}"


_GATHERED = OperatorFacts(
    cost=Work, settings=(1,), index_input=1, index_arithmetic=True, growth=passing, defines_special=True
)
_SCATTERED = OperatorFacts(
    settings=(1,), choices={"reduction": "add max min mul none"}, index_input=1, index_arithmetic=True, growth=_scattering
)

OPERATORS: Mapping[str, OperatorFacts] = {
    "Compress": OperatorFacts(cost=Work, traffic="picked", settings=(1,)),
    "Gather": replace(_GATHERED, traffic="picked", roles={0: "embedding"}, draws={"indices": _along_axis}),
    "GatherElements": replace(_GATHERED, traffic="picked", draws={"indices": _along_axis}),
    "GatherND": replace(_GATHERED, traffic="picked", draws={"indices": _gathered_rows}),
    "NonZero": OperatorFacts(cost=NonZero, index_arithmetic=True),
    "OneHot": OperatorFacts(
        cost=OneHot,
        settings=(0, 1),
        constants=("depth",),
        initializer_settings=(2,),
        index_input=0,
        index_arithmetic=True,
        draws={"indices": _depth},
        grows=True,
    ),
    "ReverseSequence": OperatorFacts(cost=Work, settings=(1,), draws={"sequence_lens": _time}),
    "Scatter": OperatorFacts(settings=(1,), index_input=1),
    "ScatterElements": replace(_SCATTERED, cost=ScatterElements, draws={"indices": _scattered}),
    "ScatterND": replace(_SCATTERED, cost=ScatterND, draws={"indices": _scattered_rows}),
    "TensorScatter": OperatorFacts(cost=Work, draws={"write_indices": _write_index}),
    "Trilu": OperatorFacts(cost=Work, settings=(1,), constants=("k",), growth=passing),
    "Unique": OperatorFacts(cost=Unique, stepped=True),
}
"""The rows, by operator."""

"""Control flow with drawn bodies: branches of different shapes, loops that end by count or condition, scans of any axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from deep_bench.testing.generated.problem import Draw, GeneratedProblem, code_of

Generator = Callable[[Draw], GeneratedProblem]

_TYPES = tuple(np.dtype(t) for t in ("f4", "f8", "f2", "i8", "i4"))


def info(name: str, dtype: Any, shape: Sequence[int] | None = None) -> onnx.ValueInfoProto:
    """A tensor of a subgraph."""
    return helper.make_tensor_value_info(name, code_of(np.dtype(dtype)), shape)


def small(draw: Draw, shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Numbers whose sums are exact in every element type."""
    return draw.array(shape, dtype, "ties" if np.dtype(dtype).kind == "f" else "small")


def If(draw: Draw) -> GeneratedProblem:
    """Branches compute different things from values around them, with results of different shapes."""
    dtype, shape = draw.pick(_TYPES), draw.full_shape()
    outer = [small(draw, shape, dtype), small(draw, shape, dtype)]
    branches = {}
    for branch in ("then", "else"):
        count = 2
        operator = draw.pick(("Add", "Sub", "Mul", "Max", "Concat"))
        settings: dict[str, Any] = {"axis": draw.axis(len(shape))} if operator == "Concat" else {}
        nodes = [
            helper.make_node(operator, ["outer0", "outer1"], [f"{branch}0"], **settings),
            helper.make_node(draw.pick(("Neg", "Abs", "Identity")), [f"{branch}0"], [f"{branch}1"]),
        ]
        branch_outputs = [info(f"{branch}{i}", dtype) for i in range(count)]
        branches[f"{branch}_branch"] = helper.make_graph(nodes, branch, [], branch_outputs)
    condition = np.array(draw.boolean(), bool).reshape(draw.pick(((), (1,))))
    return GeneratedProblem("If", [condition], branches, outputs=2, outer=outer)


def Loop(draw: Draw) -> GeneratedProblem:
    """Ends by its count, by its condition, or never begins; carries values on, and collects one a round."""
    dtype, shape = draw.pick(_TYPES), draw.full_shape(0, 2)
    limit = draw.integer(0, 4)
    nodes = [
        helper.make_node("Less", ["i", "outer0"], ["going"]),
        helper.make_node(draw.pick(("Add", "Sub", "Max")), ["carried", "outer1"], ["next"]),
        helper.make_node("Cast", ["i"], ["number"], to=code_of(dtype)),
        helper.make_node("Mul", ["next", "number"], ["element"]),
    ]
    body_inputs = [info("i", np.int64, ()), info("was", bool, ()), info("carried", dtype, shape)]
    body_outputs = [info("going", bool, ()), info("next", dtype, shape), info("element", dtype, shape)]
    count = draw.integer(2, 3)
    body = helper.make_graph(nodes if count == 3 else nodes[:2], "body", body_inputs, body_outputs[:count])
    trips = draw.maybe(np.array(draw.pick((3, 1, 0, 5)), np.int64).reshape(draw.pick(((), (1,)))))
    going = np.array(draw.pick((True, True, False))).reshape(draw.pick(((), (1,))))
    begin = going if trips is None else draw.maybe(going)
    outer = [np.array(limit, np.int64), small(draw, shape, dtype)]
    return GeneratedProblem(
        "Loop", [trips, begin, small(draw, shape, dtype)], {"body": body}, outputs=count - 1, outer=outer
    )


def Scan(draw: Draw) -> GeneratedProblem:
    """One or two inputs and results, each along an axis of its own, forwards or backwards; with a state or without."""
    dtype, shape = draw.pick(_TYPES), draw.full_shape(1, 2)
    scanned, states, results = draw.integer(1, 2), draw.integer(0, 1), draw.integer(1, 2)
    nodes = [
        helper.make_node(draw.pick(("Sub", "Add")), ["state" if states else "outer0", "in0"], ["next"]),
        helper.make_node("Max", ["next", f"in{scanned - 1}"], ["out0"]),
        helper.make_node("Sub", ["in0", "next"], ["out1"]),
    ]
    body_inputs = [info(n, dtype, shape) for n in [*["state"] * states, *(f"in{i}" for i in range(scanned))]]
    body_outputs = [info(n, dtype, shape) for n in [*["next"] * states, *(f"out{i}" for i in range(results))]]
    body = helper.make_graph(nodes[: 1 + results], "body", body_inputs, body_outputs)
    rank, length = len(shape) + 1, draw.integer(1, 4)
    axes = [draw.axis(rank) for _ in range(scanned)] if draw.boolean() else None
    inputs = []
    for axis in axes or [0] * scanned:
        place = axis % rank
        inputs.append(small(draw, (*shape[:place], length, *shape[place:]), dtype))
    settings = {
        "num_scan_inputs": scanned,
        "scan_input_axes": axes,
        "scan_input_directions": draw.maybe([draw.boolean() for _ in range(scanned)]),
        "scan_output_axes": draw.maybe([draw.axis(rank) for _ in range(results)]),
        "scan_output_directions": draw.maybe([draw.boolean() for _ in range(results)]),
    }
    begin = [small(draw, shape, dtype) for _ in range(states)]
    around = [] if states else [small(draw, shape, dtype)]
    return GeneratedProblem("Scan", [*begin, *inputs], {"body": body, **settings}, outputs=states + results, outer=around)


GENERATORS: dict[str, Generator] = {"If": If, "Loop": Loop, "Scan": Scan}

"""Control flow. Subgraphs are callables: arrays in, a tuple of arrays out."""

from __future__ import annotations

from typing import Any

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators._arguments import integer, ints64

__all__ = ["If", "Loop", "Scan"]


def If(cond, *, then_branch, else_branch):
    """What the chosen branch returns. Source: ONNX If, opset 25."""
    return then_branch() if np.asanyarray(cond).item() else else_branch()


def Loop(trip_count, cond, *initial, body):
    """Call ``body(i, cond, *carried)`` up to ``trip_count`` times while ``cond`` holds.

    The body returns the next ``cond``, the next carried values and elements of the scan outputs. A ``cond`` that is not
    given always holds. If the body never runs, the scan outputs are empty: see `_empty`.

    Returns:
        The last carried values, then every scan output with its elements stacked.

    Source: ONNX Loop, opset 25.
    """
    if trip_count is None and cond is None:
        raise InvalidInput("a Loop with neither trip count nor condition", "one of the two: it would never end")
    count = None if trip_count is None else integer(trip_count)
    going = True if cond is None else bool(np.asanyarray(cond).item())
    carried, collected, i = initial, [], 0
    while going and (count is None or i < count):
        going_on, *results = body(ints64(i), np.asanyarray(going), *carried)
        carried, elements = tuple(results[: len(initial)]), results[len(initial) :]
        collected.append(elements)
        going = True if cond is None else bool(np.asanyarray(going_on).item())
        i += 1
    if not collected:
        return (*carried, *_empty(body, 1 + len(initial), (ints64(0), np.asanyarray(True), *initial)))
    return (*carried, *(np.stack(elements) for elements in zip(*collected, strict=True)))


def Scan(
    *inputs,
    body,
    num_scan_inputs,
    scan_input_axes=None,
    scan_input_directions=None,
    scan_output_axes=None,
    scan_output_directions=None,
):
    """Call ``body(*state, *elements)`` for each position along the scanned axes of the last ``num_scan_inputs`` inputs.

    The body returns the next state and elements of the scan outputs. Direction 1 reads an input from its end, and fills an
    output from its end.

    Returns:
        The last state, then every scan output with its elements stacked along its axis.

    Source: ONNX Scan, opset 25.
    """
    n_states = len(inputs) - num_scan_inputs
    state, scanned = inputs[:n_states], inputs[n_states:]
    axes = scan_input_axes or (0,) * len(scanned)
    backward = scan_input_directions or (0,) * len(scanned)
    sequences = [np.moveaxis(x, axis, 0) for x, axis in zip(scanned, axes, strict=True)]
    sequences = [x[::-1] if reverse else x for x, reverse in zip(sequences, backward, strict=True)]
    collected = []
    for elements in zip(*sequences, strict=True):
        results = body(*state, *(np.asanyarray(e, x.dtype) for e, x in zip(elements, sequences, strict=True)))
        state = tuple(results[:n_states])
        collected.append(results[n_states:])
    if collected:
        outputs = [np.stack(elements) for elements in zip(*collected, strict=True)]
    else:
        outputs = _empty(body, n_states, (*state, *(np.zeros_like(x, shape=x.shape[1:]) for x in sequences)))
    axes = scan_output_axes or (0,) * len(outputs)
    backward = scan_output_directions or (0,) * len(outputs)
    outputs = [y[::-1] if reverse else y for y, reverse in zip(outputs, backward, strict=True)]
    return (*state, *(np.moveaxis(y, 0, axis) for y, axis in zip(outputs, axes, strict=True)))


def _empty(body: Any, skip: int, inputs: tuple[Any, ...]) -> list[Any]:
    """Scan outputs without elements, of a body that never ran; the body's first ``skip`` outputs are not scan outputs.

    Their shape and element type are those that the body declares in its attribute ``outputs`` (one ``TensorSpec`` each, an
    open dimension taken as 0). If it declares none, one trial call tells: a body has no effect but its results.
    """
    declared = getattr(body, "outputs", None)
    if declared is None:
        return [np.zeros_like(y, shape=(0, *y.shape)) for y in body(*inputs)[skip:]]
    shapes = [[d if isinstance(d, int) else 0 for d in spec.shape] for spec in declared[skip:]]
    return [np.zeros((0, *shape), spec.dtype) for shape, spec in zip(shapes, declared[skip:], strict=True)]

"""Attributes left to their defaults, and simple numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx_ir as ir

from deep_bench.network.reduction.candidate import Candidate, finished
from deep_bench.network.reduction.search import Search
from deep_bench.network.reduction.shrink import with_arrays
from deep_bench.network.reduction.structure import with_declared_outputs
from deep_bench.tensor import is_float

_SIMPLER: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("zeros", np.zeros_like),
    ("ones", np.ones_like),
    ("whole numbers", lambda x: np.round(x.astype(np.float64)).astype(x.dtype)),
    ("eighths", lambda x: (np.round(x.astype(np.float64) * 8) / 8).astype(x.dtype)),
)


def simpler_attributes(search: Search) -> None:
    """Leave out attributes, or set the numbers in lists to ones or zeros."""
    if not search.best.comparable:
        return
    for node in search.best.network.nodes:
        for attribute in list(node.attributes.values()):
            for changed, description in _variants(search.best, str(node.name), attribute):
                search.check()
                if search.offer(
                    with_declared_outputs(changed), f"attribute {attribute.name!r} of {node.name!r} {description}"
                ):
                    break


def _variants(candidate: Candidate, node: str, attribute: ir.Attr) -> Iterator[tuple[Candidate, str]]:
    if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.TENSOR, ir.AttributeType.GRAPHS):
        return
    yield _with_attribute(candidate, node, attribute.name, None), "left out"
    if attribute.type is not ir.AttributeType.INTS:
        return
    for number in (1, 0):
        simple = [number] * len(attribute.as_ints())
        if simple != list(attribute.as_ints()):
            yield _with_attribute(candidate, node, attribute.name, simple), f"set to {simple}"


def _with_attribute(candidate: Candidate, node: str, name: str, value: list[int] | None) -> Candidate:
    changed = candidate.network.copy()
    attributes = next(n for n in changed.nodes if n.name == node).attributes
    if value is None:
        del attributes[name]
    else:
        attributes[name] = ir.AttrInt64s(name, value)
    return finished(changed, candidate.inputs, {}, keep_values=False)


def simpler_values(search: Search) -> None:
    """Make floating-point inputs and weights zeros, ones, whole numbers or eighths."""
    if not search.best.comparable:
        return
    for name in [*search.best.inputs, *search.best.network.initializers]:
        for description, function in _SIMPLER:
            search.check()
            array = {**search.best.inputs, **search.best.network.initializers}.get(name)
            if array is None or not is_float(array.dtype):
                break
            with np.errstate(all="ignore"):
                simple = np.asarray(function(array))
            if np.array_equal(simple, array, equal_nan=True):
                break
            if search.offer(with_declared_outputs(with_arrays(search.best, {name: simple})), f"{name!r} made {description}"):
                break

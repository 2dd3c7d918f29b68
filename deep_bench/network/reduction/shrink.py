"""Smaller dimensions of inputs and weights, where shapes allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice

import numpy as np
import onnx_ir as ir

from deep_bench.network.reduction.candidate import Candidate, declare, finished
from deep_bench.network.reduction.search import Search
from deep_bench.network.reduction.structure import with_declared_outputs

Axis = tuple[str, int]
"""The name of an input or weight, and one of its axes."""

_MOST_CHOICES = 48


def shrink(search: Search) -> None:
    """Cut dimensions of inputs and weights down, those of one size together or some of them.

    Which of them belong together is found by trying: what the reference cannot run is no network.
    """
    if not search.best.comparable:
        return
    tried: set[tuple[tuple[Axis, ...], int, int]] = set()
    while _step(search, tried):
        pass


def _step(search: Search, tried: set[tuple[tuple[Axis, ...], int, int]]) -> bool:
    """Make one dimension smaller; whether one could be."""
    groups = _groups(search.best)
    for size in sorted(groups, reverse=True):
        for smaller in dict.fromkeys((1, 2, size // 2)):
            if smaller >= size:
                continue
            for axes in islice(_choices(groups[size]), _MOST_CHOICES):
                if (axes, size, smaller) in tried:
                    continue
                search.check()
                tried.add((axes, size, smaller))
                description = f"size {size} cut to {smaller} in {', '.join(dict.fromkeys(name for name, _ in axes))}"
                if search.offer(_cut(search.best, axes, smaller), description):
                    return True
    return False


def _groups(candidate: Candidate) -> dict[int, list[Axis]]:
    """The axes of inputs and weights by their size."""
    groups: dict[int, list[Axis]] = {}
    for name, array in (*candidate.inputs.items(), *candidate.network.initializers.items()):
        for axis, size in enumerate(array.shape):
            if size > 1:
                groups.setdefault(size, []).append((name, axis))
    return groups


def _choices(axes: Sequence[Axis]) -> Iterator[tuple[Axis, ...]]:
    """All of the axes, then most of them, down to each alone."""
    for count in range(len(axes), 0, -1):
        yield from combinations(axes, count)


def _cut(candidate: Candidate, axes: Sequence[Axis], size: int) -> Candidate | None:
    arrays = {**candidate.inputs, **candidate.network.initializers}
    cut: dict[str, np.ndarray] = {}
    for name, axis in axes:
        array = cut.get(name, arrays[name])
        cut[name] = np.ascontiguousarray(array[(slice(None),) * axis + (slice(0, size),)])
    return with_declared_outputs(with_arrays(candidate, cut))


def with_arrays(candidate: Candidate, arrays: Mapping[str, np.ndarray]) -> Candidate:
    """The candidate with other inputs and weights."""
    changed = candidate.network.copy()
    graph = changed.graph
    for value in graph.inputs:
        if (array := arrays.get(str(value.name))) is not None:
            declare(value, array)
    for name, value in graph.initializers.items():
        if name in arrays:
            value.const_value = ir.tensor(arrays[name], name=name)
            declare(value, arrays[name])
    return finished(changed, {**candidate.inputs, **arrays}, {}, keep_values=False)

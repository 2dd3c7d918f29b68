"""Cases like a given one, with dimensions of one and of zero elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from deep_bench.errors import DeepBenchError
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case
from deep_bench.operators.case_label import label_of
from deep_bench.operators.draws_table import draw_of

Place = tuple[int, int]
"""Which argument, and which of its dimensions."""

_WINDOWED = frozenset(
    """
    AveragePool Conv ConvInteger ConvTranspose DeformConv GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool
    QLinearConv
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""Operators of whose dimensions only the batch may be empty: no window fits into an image of nothing."""


def small_cases(case: Case, sizes: Sequence[int] = (1, 0), most: int = 12) -> list[Case]:
    """Cases of the same operator whose dimensions are shrunk, one group at a time, as far as the operator allows.

    Dimensions of the same size are shrunk together, each alone, and in pairs of two inputs: what the operator's schema, or a
    run of the function, refuses is left out.

    Args:
        case: The case.
        sizes: What to shrink to.
        most: How many cases for each size.

    Example:
        >>> [c.label for c in small_cases(Case.of("Gemm", (4, 3), (3, 2)))]
        ['1x2x3', '4x2x1', '4x1x3', '0x2x3', '4x2x0', '4x0x3']
    """
    variants: list[Case] = []
    for size in sizes:
        visited = {case.problem}
        shrunk_cases: list[Case] = []
        for places in _groups(case):
            if len(shrunk_cases) >= most:
                break
            small = _shrunk(case, places, size)
            if small is not None and small.problem not in visited:
                visited.add(small.problem)
                shrunk_cases.append(small)
        variants += shrunk_cases
    return variants


def _groups(case: Case) -> Iterator[tuple[Place, ...]]:
    """Dimensions to shrink together: those of the same size, in the order of the first; each alone; pairs of two inputs."""
    by_size: dict[int, list[Place]] = {}
    for i, argument in enumerate(case.arguments):
        if argument is not None and argument.value is None:
            for axis, size in enumerate(argument.shape):
                if size > 1:
                    by_size.setdefault(size, []).append((i, axis))
    yield from map(tuple, by_size.values())
    several = [places for places in by_size.values() if len(places) > 1]
    yield from ((place,) for places in several for place in places)
    for places in several:
        yield from (pair for pair in combinations(places, 2) if pair[0][0] != pair[1][0])


def _shrunk(case: Case, places: Sequence[Place], size: int) -> Case | None:
    if size == 0 and case.operator in _WINDOWED and any(place != (0, 0) for place in places):
        return None
    arguments = list(case.arguments)
    for i, axis in places:
        argument = arguments[i]
        assert argument is not None
        shape = tuple(size if k == axis else d for k, d in enumerate(argument.shape))
        arguments[i] = Argument(replace(argument.spec, shape=shape), draw=argument.draw)
    small = replace(case, arguments=tuple(arguments))
    try:
        small = replace(small, arguments=tuple(_redrawn(case, small, i) for i in range(len(arguments))))
        small.results  # noqa: B018 (what does not fit together is refused here)
        small.arrays()
    except (DeepBenchError, IndexError, ZeroDivisionError):  # a rule for a draw may look for an element that is not there
        return None
    return replace(small, label=label_of(small))


def _redrawn(case: Case, small: Case, index: int) -> Argument | None:
    """The argument with the draw that its operator has for the new sizes, unless it had one of its own."""
    argument = small.arguments[index]
    if argument is None or argument.value is not None or argument.draw != draw_of(case, index):
        return argument
    return Argument(argument.spec, draw=draw_of(small, index))

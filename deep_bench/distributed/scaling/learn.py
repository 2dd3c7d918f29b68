"""From a recipe and a scheme to the pattern of their messages: fit, then check against traces that were not used for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from deep_bench.distributed.scaling.pattern import DoesNotGeneralise, Pattern, check, generalised
from deep_bench.distributed.scaling.trace import Scheme, Trace, traced
from deep_bench.training.recipes import Recipe

FIRST = (2, 3, 4)
CHECKS = ((5, 8), (6, 12))
"""Numbers of ranks whose traces are compared with the pattern. If those of a round differ, they are used for the fit, and
the next ones are compared."""


def learned(
    recipe: Recipe,
    on: str,
    scheme: Scheme,
    *,
    uneven: bool = False,
    steps: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Pattern:
    """The pattern of a scheme.

    Args:
        recipe: What is trained.
        on: A framework, for the traces.
        scheme: What keeps ranks together.
        uneven: Of steps in which ranks have different numbers of samples.
        steps: How many to trace; as many as the scheme needs by default.
        advance: Told of each number of ranks that was traced.

    Raises:
        DoesNotGeneralise: No known form has the traces, or those that were not used for it differ.
    """
    take = partial(_taken, recipe, on, scheme, steps, uneven, advance)
    first, *rounds = _rounds(scheme)
    traces = [take(ranks) for ranks in first]
    for number, round_ in enumerate(rounds):
        new_traces = [take(ranks) for ranks in round_]
        try:
            pattern = generalised(traces)
            for trace in new_traces:
                check(pattern, trace)
        except DoesNotGeneralise:
            if number == len(rounds) - 1:
                raise
            traces += new_traces
        else:
            return replace(pattern, checked=tuple(round_))
    raise AssertionError("there is at least one round")


def _rounds(scheme: Scheme) -> tuple[tuple[int, ...], ...]:
    """Numbers of ranks to fit, and to compare; of nodes larger than a few ranks, those that make one node to three."""
    node = getattr(scheme.made, "per_node", None) or 1
    if node <= FIRST[-1]:
        return FIRST, *CHECKS
    return (node + 1, node + 2, 2 * node), (2 * node + 1, 3 * node)


def _taken(
    recipe: Recipe,
    on: str,
    scheme: Scheme,
    steps: int | None,
    uneven: bool,
    advance: Callable[[int], None],
    ranks: int,
) -> Trace:
    trace = traced(recipe, on, scheme, ranks, steps=steps, uneven=uneven)
    advance(ranks)
    return trace

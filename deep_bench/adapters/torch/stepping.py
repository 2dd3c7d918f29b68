"""The steps of generated code, each wrapped in something else for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from deep_bench.adapters.lowering import Step
from deep_bench.adapters.torch.module import PlanModule

Function = Callable[..., Any]


@contextmanager
def wrapped(module: PlanModule, wrap: Callable[[Step, Function], Function]) -> Iterator[None]:
    """Meanwhile the module's code calls what ``wrap`` made of each step of the outermost graph.

    The code itself stays as it is, and so does what it costs before and after.

    Args:
        module: The network.
        wrap: Takes a step and its function; returns what to call instead.
    """
    forward: Any = module.forward
    scope: dict[str, Any] = forward.__globals__  # where the generated code finds its steps, as f0, f1, …
    originals = {f"f{index}": scope[f"f{index}"] for index in range(len(module.plan.steps))}
    for index, step in enumerate(module.plan.steps):
        scope[f"f{index}"] = wrap(step, originals[f"f{index}"])
    try:
        yield
    finally:
        scope.update(originals)

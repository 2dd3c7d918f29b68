"""The smallest adapter there can be: it runs a plan with NumPy, and has "native" code for the operators it is told to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from deep_bench.adapters.lowering import Lowered, NotNative, Plan, Site, lower
from deep_bench.adapters.lowering.infer import bound
from deep_bench.graph import Network
from deep_bench.reference import operators


def run(plan: Plan, inputs: Mapping[str, Any], outer: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
    """Run a plan on NumPy arrays."""
    values = {**(outer or {}), **plan.constants, **inputs}
    for step in plan.steps:
        arrays = [None if s is None else values[s.name] for s in step.site.inputs]
        result = step.function(*arrays, *(values[name] for name in step.captures))
        results = (result,) if len(step.site.outputs) == 1 else result
        for slot, array in zip(step.site.outputs, results, strict=True):
            if slot is not None:
                check(slot, array)
                values[slot.name] = array
    return tuple(values[name] for name in plan.outputs)


def check(slot: Any, array: Any) -> None:
    """What a slot says of a value must be true."""
    if slot.dtype is not None:
        assert np.asarray(array).dtype == slot.dtype, slot
    if slot.shape is not None:
        assert len(slot.shape) == np.ndim(array), (slot, np.shape(array))
        pairs = zip(slot.shape, np.shape(array), strict=True)
        assert all(d is None or d == n for d, n in pairs), (slot, np.shape(array))


def native(site: Site, *, known: Collection[str] | None = None) -> Callable[..., Any]:
    """Native code: the reference's function, for the operators in ``known``."""
    domain, _, name = site.operator.rpartition(":")
    function = operators.find(domain, name)
    if function is None or (known is not None and site.operator not in known):
        raise NotNative(f"no {site.operator} here")
    plans = {name: value for name, value in site.attributes.items() if isinstance(value, Plan)}
    if not plans:
        return bound(function, site.attributes, len(site.outputs))
    captures = list(dict.fromkeys(name for plan in plans.values() for name in plan.captures))

    def call(*arrays: Any) -> Any:
        inputs, captured = arrays[: len(site.inputs)], arrays[len(site.inputs) :]
        outer = dict(zip(captures, captured, strict=True))
        bodies = {name: _callable(plan, outer) for name, plan in plans.items()}
        return bound(function, {**site.attributes, **bodies}, len(site.outputs))(*inputs)

    return call


def _callable(plan: Plan, outer: Mapping[str, Any]) -> Callable[..., Any]:
    names = [slot.name for slot in plan.inputs]
    return lambda *arrays: run(plan, dict(zip(names, arrays, strict=True)), outer)


def lowered(network: Network, known: Collection[str] | None = None, *, fall_back: bool = False, **options: Any) -> Lowered:
    """A network lowered for this adapter."""
    code = functools.partial(native, known=known)
    fallback = (lambda site, function: function) if fall_back else None
    return lower(network, native=code, fallback=fallback, **options)

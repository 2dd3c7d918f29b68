"""Gradients of narrow floating point, computed in float32 and rounded once."""

from __future__ import annotations

import functools

import numpy as np

from deep_bench.network.gradient.site import Site
from deep_bench.tensor import is_float


def is_narrow(x):
    """Whether a symbol is known to be of floating point narrower than float32."""
    dtype = None if x is None else x.tape.knowledge.dtype(x.value)
    return dtype is not None and is_float(dtype) and dtype.itemsize < 4


def in_float32(rule):
    """Let a rule compute in float32 where the node's inputs are narrower; its results have the type of the inputs again."""

    @functools.wraps(rule)
    def wrapper(at, *inputs, **attributes):
        if not any(map(is_narrow, inputs)):
            return rule(at, *inputs, **attributes)
        result = rule(_WideSite(at), *map(_widened, inputs), **attributes)
        gradients = result if isinstance(result, list | tuple) else [result]
        return [g.cast(x) if g is not None and is_narrow(x) else g for x, g in zip(inputs, gradients, strict=False)]

    return wrapper


class _WideSite(Site):
    """The same node; what of its results is narrow is seen in float32."""

    def __init__(self, at):
        gradients = [at.gradient_or_none(i) for i in range(len(at.node.outputs))]
        super().__init__(at.node, at.op, at.backward, gradients, at.wants_value)

    def output(self, index):
        return _widened(super().output(index))

    def gradient_or_none(self, index):
        return _widened(super().gradient_or_none(index))


def _widened(x):
    if not is_narrow(x):
        return x
    constant = x.known  # what is known stays known
    return x.cast(np.float32) if constant is None else x.tape.constant(constant, np.float32)

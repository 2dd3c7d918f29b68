"""Nodes that torch does not compute: the reference's, by NumPy between two conversions, and kernels of the user's.

A kernel has its own gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from deep_bench.adapters.lowering import Site
from deep_bench.adapters.torch.arrays import describe_value, to_native, to_numpy
from deep_bench.adapters.torch.gradients import tie_result
from deep_bench.framework import THROUGH_NUMPY
from deep_bench.operators.placed import Placed


def fallback(
    site: Site,
    function: Callable[..., Any],
    target: torch.device,
    convert: Callable[[np.ndarray], np.ndarray],
) -> Callable[..., Any]:
    """Native code that calls a function of NumPy arrays.

    Args:
        site: The node.
        function: The reference's function, with its attributes fixed.
        target: Where the results go.
        convert: Applied to each result (a change of precision).

    Returns:
        A function of tensors. Autograd cannot see through it: where derivatives are asked for, it says so.
    """
    single = len(site.outputs) == 1

    @torch.compiler.disable
    def reference(*inputs: Any) -> Any:
        with np.errstate(all="ignore"):
            result = function(*(to_numpy(x) for x in inputs))
        if single and isinstance(result, tuple):
            result = result[0]
        return tie_result(site, _REASON, to_native(result, target, convert), inputs)

    return reference


_REASON = "the reference computes it, through which torch takes no derivatives; the reference's own executor may have them"


ON_TENSORS = "a kernel of the user's, on torch's own tensors"

Code = Callable[..., Any]


def kernel_code(site: Site, kernel: Placed, target: torch.device, *, direct: bool) -> tuple[Code, str]:
    """Native code that calls a kernel.

    Args:
        site: The node.
        kernel: Its kernel.
        target: Where tensors live.
        direct: Whether the kernel takes tensors that live there; else they go through NumPy.

    Returns:
        A function of tensors, which autograd differentiates by the kernel's ``backward``, or says that there is none; and
        how the node is run.
    """
    kernel.dtypes = [None if slot is None else slot.dtype for slot in site.outputs]
    calls: _Calls = _OnTensors(kernel, target) if direct else _ThroughNumpy(kernel, target)

    @torch.compiler.disable
    def run(*inputs: Any) -> Any:
        if not torch.is_grad_enabled() or not any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs):
            results = calls.forward(inputs)
        elif kernel.kernel.differentiates:
            results = _KernelFunction.apply(calls, *inputs)
        else:
            with torch.no_grad():
                results = calls.forward(inputs)
            reason = f"the kernel {kernel.kernel.name} has no backward: override it, or run network.without_kernels()"
            results = tie_result(site, reason, results, inputs)
        return results[0] if len(results) == 1 else results

    return run, ON_TENSORS if direct else THROUGH_NUMPY


class _OnTensors:
    """Calls of a kernel on tensors.

    Args:
        kernel: The kernel.
        target: Where it takes them.
    """

    def __init__(self, kernel: Placed, target: torch.device) -> None:
        self._kernel, self._target = kernel, target

    def forward(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs, where the inputs are: shapes stay on the CPU."""
        home = _home(inputs, self._target)
        return tuple(y.to(home) for y in self._kernel.forward(self._moved(inputs), describe_value))

    def backward(self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients, each where its input is."""
        gradients = self._kernel.backward(self._moved(grads), self._moved(inputs), self._moved(outputs), describe_value)
        return tuple(None if g is None else g.to(x.device) for g, x in zip(gradients, inputs, strict=True))

    def _moved(self, values: Sequence[Any]) -> list[Any]:
        return [x.to(self._target) if isinstance(x, torch.Tensor) else x for x in values]


class _ThroughNumpy:
    """Calls of a kernel on another device, between two conversions.

    Args:
        kernel: The kernel.
        target: Where the tensors live.
    """

    def __init__(self, kernel: Placed, target: torch.device) -> None:
        self._kernel, self._target = kernel, target

    def forward(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs, where the inputs are: shapes stay on the CPU."""
        with np.errstate(all="ignore"):
            outputs = self._kernel.forward_numpy(*map(to_numpy, inputs))
        return tuple(to_native(outputs, _home(inputs, self._target)))

    def backward(self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients, each where its input is."""
        with np.errstate(all="ignore"):
            gradients = self._kernel.backward_numpy(*([to_numpy(x) for x in values] for values in (grads, inputs, outputs)))
        return tuple(None if g is None else to_native(g, x.device) for g, x in zip(gradients, inputs, strict=True))


_Calls = _OnTensors | _ThroughNumpy


def _home(inputs: Sequence[Any], target: torch.device) -> torch.device:
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    return torch.device("cpu") if tensors and all(x.device.type == "cpu" for x in tensors) else target


class _KernelFunction(torch.autograd.Function):
    """A kernel with its own backward."""

    @staticmethod
    def forward(ctx: Any, calls: _Calls, *inputs: Any) -> Any:
        results = calls.forward(inputs)
        ctx.calls, ctx.count = calls, len(inputs)
        ctx.others = tuple(None if isinstance(x, torch.Tensor) else x for x in inputs)
        ctx.tensors = tuple(i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor))
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(y for y in results if isinstance(y, torch.Tensor) and not _is_real(y)))
        ctx.save_for_backward(*(x for x in inputs if isinstance(x, torch.Tensor)), *results)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        saved, inputs = ctx.saved_tensors, list(ctx.others)
        for place, tensor in zip(ctx.tensors, saved, strict=False):
            inputs[place] = tensor
        gradients = ctx.calls.backward(grads, inputs, saved[len(ctx.tensors) :])
        return None, *(g if i in ctx.tensors else None for i, g in enumerate(gradients))


def _is_real(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()

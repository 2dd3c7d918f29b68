"""Functions of tensors, modules, and launches of Triton kernels as operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from deep_bench.adapters.torch.adapter import TorchAdapter
from deep_bench.adapters.wrapping import Pull, Remembered
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import Device
from deep_bench.operators.wrapping import Parts, with_signature
from deep_bench.variant import Variant


def parts(function: Callable[..., Any], device: str | Device[Any] | None) -> Parts:
    """The parts of an operator that torch computes; see `deep_bench.operators.wrap`.

    Raises:
        InvalidArgument: The device is another framework's, or a module is on another one.
    """
    place = _device(device, _home(function))
    home = torch.device(_home(function))
    held = isinstance(function, nn.Module) and any(True for _ in (*function.parameters(), *function.buffers()))
    if held and (home.type, home.index or 0) != (place.target.type, place.target.index or 0):
        raise InvalidArgument(
            f"a module on {home} for the device {place.target}", "the same", f"move it: module.to({str(place.target)!r})"
        )
    compiled = torch.compile(function, backend=place.backend) if place.backend is not None else function
    forward = (
        with_signature(_without_autograd(compiled), _signature_holder(function)) if isinstance(function, nn.Module) else None
    )
    if forward is None:
        forward = with_signature(compiled, _signature_holder(function))
    bound = hasattr(function, "_init_fn") or type(function).__module__ == "torch._ops"  # of torch.library
    again = ("", ()) if bound or _is_compiled(function) else None
    if getattr(function, "_backward_fn", True) is None:  # an operator of torch.library without a gradient of its own
        return Parts(place, forward, again=again)
    return Parts(place, forward, Remembered(_OperatorAutograd(compiled), _version), again)


def triton_parts(function: Callable[..., Any], device: str | Device[Any] | None) -> Parts:
    """The parts of an operator that launches a Triton kernel, which torch cannot see through."""
    place = _device(device, "cuda")
    return Parts(place, with_signature(function))


class _OperatorAutograd:
    """Runs a function with torch's record of it.

    Args:
        function: The function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Pull:
        """The way back from the results to the inputs."""
        arguments = [_variable(x) if _is_real(x) else x for x in inputs]
        leaves = [(i, x) for i, x in enumerate(arguments) if _is_real(x)]
        with torch.enable_grad():
            outcome = self._function(*arguments, **attributes)
        results = outcome if isinstance(outcome, tuple) else (outcome,)
        tracked = [isinstance(y, torch.Tensor) and y.requires_grad for y in results]

        def pull(grads: Sequence[Any]) -> tuple[Any, ...]:
            pairs = [
                (y, g) for y, g, is_tracked in zip(results, grads, tracked, strict=True) if is_tracked and g is not None
            ]
            if not any(tracked):
                raise Unsupported(
                    f"torch's autograd does not see how {_called(self._function)} computes its results from its inputs",
                    "a function of torch's differentiable operations",
                    "give its gradient: wrap(…, backward=…)",
                )
            gradients: list[Any] = [None] * len(arguments)
            if pairs:
                outputs, weights = zip(*pairs, strict=True)
                targets = [x for _, x in leaves]
                answers = torch.autograd.grad(outputs, targets, weights, retain_graph=True, allow_unused=True)
                for (index, _), gradient in zip(leaves, answers, strict=True):
                    gradients[index] = gradient
            return tuple(gradients)

        return pull


def _without_autograd(function: Callable[..., Any]) -> Callable[..., Any]:
    """A module's call, which its parameters would have recorded for differentiation."""

    def run(*inputs: Any, **attributes: Any) -> Any:
        with torch.no_grad():
            return function(*inputs, **attributes)

    return run


def _is_compiled(function: Any) -> bool:
    """Whether it is a function that ``torch.compile`` made; of a module it makes one that can be pickled."""
    return hasattr(function, "_torchdynamo_orig_callable") and not isinstance(function, nn.Module)


def _signature_holder(function: Any) -> Any:
    """What has the signature of a function that is none of Python's; ``None`` for a plain one."""
    if isinstance(function, nn.Module):
        return getattr(function, "_orig_mod", function).forward
    return getattr(function, "_init_fn", None)


def _device(requested: str | Device[Any] | None, default: str) -> TorchAdapter:
    """The adapter that a function's tensors are of."""
    adapter = (
        TorchAdapter(device=default)
        if requested is None
        else Variant.parse(requested).create()
        if isinstance(requested, str)
        else requested
    )
    if not isinstance(adapter, TorchAdapter):
        raise InvalidArgument(f"device {getattr(adapter, 'name', adapter)!r} for a function of torch's tensors", "torch")
    return adapter


def _home(function: Any) -> str:
    """Where a module is; the CPU for a function."""
    held = [*function.parameters(), *function.buffers()] if isinstance(function, nn.Module) else []
    return str(held[0].device) if held else "cpu"


def _variable(x: torch.Tensor) -> torch.Tensor:
    """The tensor as one that gradients are asked for; what was made in inference mode never can be one."""
    return (x.clone() if x.is_inference() else x.detach()).requires_grad_()


def _version(x: Any) -> int:
    return int(x._version) if isinstance(x, torch.Tensor) and not x.is_inference() else 0


def _is_real(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())


def _called(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))

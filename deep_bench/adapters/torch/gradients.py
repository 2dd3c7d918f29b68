"""Gradients by torch's own autograd, of which no derivative gets lost unnoticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import nn

from deep_bench.adapters.lowering import Plan, Site, Slot, Step
from deep_bench.adapters.torch.arrays import map_native
from deep_bench.adapters.torch.module import reads_number
from deep_bench.errors import InvalidArgument, Unsupported, UnsupportedOperator
from deep_bench.graph import Network
from deep_bench.network.gradient.derived import checked_names
from deep_bench.tensor import is_float

OnReady = Callable[[str, torch.Tensor], None]
Named = Sequence[tuple[str, torch.Tensor]]


@dataclass(frozen=True, slots=True)
class GradientRequest:
    """What to differentiate, and with respect to what.

    Args:
        loss: The output.
        names: In the order asked for.
        parameters: Those among them that are parameters, with their keys in the module.
        inputs: Those that are inputs, with their positions.
        unread: The rest: parameters that no node reads.
        everything: Whether all parameters of the module are among them.
    """

    loss: str
    names: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...]
    inputs: tuple[tuple[str, int], ...]
    unread: tuple[str, ...]
    everything: bool


class Autograd:
    """Differentiates the outputs of a module.

    Args:
        network: What the module computes, with the outputs that it returns.
        held: The module's parameters by key; read in every call.
        keys: The keys of those by their names.
        unread: Makes zeros in the shape of another parameter of the network.
    """

    def __init__(
        self,
        network: Network,
        held: Mapping[str, torch.Tensor | None],
        keys: Mapping[str, str],
        unread: Callable[[str], torch.Tensor],
    ) -> None:
        self._network, self._held, self._keys, self._unread = network, held, keys, unread
        self._requests: dict[tuple[str, Sequence[str] | None], GradientRequest] = {}

    def __call__(
        self,
        run: Callable[..., dict[str, Any]],
        arguments: Sequence[Any],
        request: GradientRequest,
        on_ready: OnReady | None,
    ) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        """Run the module and differentiate; see `Executor.gradients`.

        Returns:
            The outputs, which may share memory with each other and with what the module holds, and the gradients.
        """
        fed = [_detached(a) for a in arguments]
        leaves: list[tuple[str, Any]] = [(name, self._held[key]) for name, key in request.parameters]
        if not all([leaf.requires_grad for _, leaf in leaves]):  # noqa: C419 (a list is faster than a generator)
            raise _frozen(leaves)
        for name, index in request.inputs:
            argument = fed[index]
            if not isinstance(argument, torch.Tensor):
                raise Unsupported(f"input {name!r} is of {argument.dtype}: torch has no tensors of it, and no gradients")
            fed[index] = argument.detach().requires_grad_()
            leaves.append((name, fed[index]))
        with torch.enable_grad():
            outputs = run(*fed)
        value = _one_element(self._network, request.loss, outputs[request.loss])
        gradients = _backward(value, leaves, request.everything, on_ready) if leaves and value.requires_grad else {}
        if len(gradients) < len(request.names):
            self._add_zeros(gradients, request, leaves, on_ready)
        return {name: map_native(_cut, y) for name, y in outputs.items()}, {name: gradients[name] for name in request.names}

    def request(self, loss: str, wrt: Sequence[str] | None) -> GradientRequest:
        """What is asked for, checked the first time.

        Raises:
            InvalidArgument: See `deep_bench.framework.checked_request`.
        """
        key = (loss, wrt if wrt is None or isinstance(wrt, str) else tuple(wrt))
        return self._requests.get(key) or self._checked(key)

    def _checked(self, key: tuple[str, Sequence[str] | None]) -> GradientRequest:
        names = checked_names(self._network, *key)
        places = {spec.name: index for index, spec in enumerate(self._network.inputs)}
        request = self._requests[key] = GradientRequest(
            key[0],
            names,
            tuple((name, self._keys[name]) for name in names if name in self._keys),
            tuple((name, places[name]) for name in names if name in places),
            tuple(name for name in names if name not in self._keys and name not in places),
            everything=set(names) >= set(self._keys),
        )
        return request

    def _add_zeros(
        self, gradients: dict[str, torch.Tensor], request: GradientRequest, leaves: Named, on_ready: OnReady | None
    ) -> None:
        zeros = {name: torch.zeros_like(leaf, requires_grad=False) for name, leaf in leaves if name not in gradients}
        zeros |= {name: self._unread(name) for name in request.unread}
        gradients |= zeros
        if on_ready is not None:
            for name, gradient in zeros.items():
                on_ready(name, gradient)


def _detached(argument: Any) -> Any:
    """An argument as a value of its own, whatever it was computed from."""
    if isinstance(argument, torch.Tensor):
        return argument.detach() if argument.requires_grad else argument
    return map_native(_detached, argument) if isinstance(argument, list | tuple) else argument


def _cut(value: Any) -> Any:
    """A value without what is known of how it was computed."""
    return value.detach() if isinstance(value, torch.Tensor) else value


def _frozen(leaves: Named) -> Unsupported:
    names = ", ".join(repr(name) for name, leaf in leaves if not leaf.requires_grad)
    return Unsupported(
        f"to torch, no gradients are wanted of the parameters {names}",
        "real parameters with requires_grad",
        "leave them out of wrt, or say parameter.requires_grad_()",
    )


def _one_element(network: Network, name: str, value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.is_floating_point():
        description = f"{value.dtype}{list(value.shape)}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
        raise InvalidArgument(
            f"the output {name!r} of {network.name} is {description}",
            "a loss: one floating-point number",
            "add a loss to the network, or its sum: network.with_loss(…)",
        )
    return value


def _backward(loss: torch.Tensor, leaves: Named, everything: bool, on_ready: OnReady | None) -> dict[str, torch.Tensor]:
    """The gradients of those leaves that the loss depends on, each in memory of its own.

    torch gathers them in the leaves' ``grad``, as in any training loop; what is there already is put aside meanwhile.
    """
    previous = [leaf.grad for _, leaf in leaves]
    for (_, leaf), gradient in zip(leaves, previous, strict=True):
        if gradient is not None:
            leaf.grad = None
    ready: dict[str, torch.Tensor] = {}
    hooks = [] if on_ready is None else [_announce(name, leaf, ready, on_ready) for name, leaf in leaves]
    try:
        torch.autograd.backward(loss, inputs=None if everything else [leaf for _, leaf in leaves])
        gradients = {name: leaf.grad for name, leaf in leaves if leaf.grad is not None}
    finally:
        for hook in hooks:
            hook.remove()
        for (_, leaf), gradient in zip(leaves, previous, strict=True):
            leaf.grad = gradient
    return {**gradients, **ready}


def _announce(name: str, leaf: torch.Tensor, ready: dict[str, torch.Tensor], on_ready: OnReady) -> Any:
    """Tell of a leaf's gradient when it is complete; returns what ends it."""

    def take(variable: torch.Tensor) -> None:
        gradient, variable.grad = variable.grad, None
        assert gradient is not None
        ready[name] = gradient
        on_ready(name, gradient)

    return leaf.register_post_accumulate_grad_hook(take)


_POWERS = np.dtype(ml_dtypes.float8_e8m0fnu)
_DIFFERENTIATED = frozenset((("Dropout", 1), ("Pad", 2)))
"""Operators and inputs that their code reads as numbers only where no derivative is asked for."""


class Followed(np.ndarray):
    """An array of a type that torch lacks, with the tensors that it was computed from."""

    sources: tuple[torch.Tensor, ...] = ()


def tie_result(site: Site, reason: str, result: Any, inputs: Sequence[Any]) -> Any:
    """A result, each floating-point array in it tied to those tensors in ``inputs`` that need derivatives.

    Args:
        site: The node.
        reason: Why it has no derivatives with respect to ``inputs``.
        result: What it computed.
        inputs: Native values that autograd did not see it compute from.
    """
    sources = tuple(_sources(inputs)) if torch.is_grad_enabled() else ()
    if not sources:
        return result

    def tie(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            value = value.view(Followed)
            value.sources = sources
            return value
        if value.is_floating_point() or value.is_complex():
            return _Tie.apply(value, _Refusal.apply(site, reason, *sources))
        return value

    outcome = map_native(tie, result)
    return tuple(outcome) if isinstance(result, tuple) else outcome


def _sources(values: Sequence[Any]) -> Iterator[torch.Tensor]:
    """The tensors that need derivatives, those in sequences and behind arrays included."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from _sources(value)
        elif isinstance(value, Followed):
            yield from value.sources
        elif isinstance(value, torch.Tensor) and value.requires_grad:
            yield value


class _Tie(torch.autograd.Function):
    """The first tensor; the second one is only there to be asked for a derivative."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, refusal: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:  # noqa: ARG004
        return gradient, torch.zeros((), device=gradient.device)


class _Refusal(torch.autograd.Function):
    """A number that depends on tensors in a way that nobody can differentiate."""

    @staticmethod
    def forward(ctx: Any, site: Site, reason: str, *sources: torch.Tensor) -> torch.Tensor:
        ctx.site, ctx.reason = site, reason
        return torch.zeros((), device=sources[0].device)

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        raise UnsupportedOperator(ctx.site.name, ctx.site.operator, ctx.site.opset, ctx.reason)


def watch_code(site: Site, code: Callable[..., Any]) -> Callable[..., Any]:
    """A node's native code, its results tied to the inputs that it looks at behind autograd's back."""
    if isinstance(code, nn.Module):
        return code
    reason, unseen = _unseen(site)
    if not unseen:
        return code

    def tying(*inputs: Any) -> Any:
        result = code(*inputs)
        return tie_result(site, reason, result, [inputs[i] for i in unseen])

    return tying


def _unseen(site: Site) -> tuple[str, tuple[int, ...]]:
    """The positions of the inputs through which torch takes no derivatives, and why not."""
    everything = tuple(range(len(site.inputs)))
    if site.operator == "BitCast":
        return "bits have no derivatives", everything
    if any(s is not None and _is_narrow(s.dtype) for s in site.outputs) or any(_is_power(s) for s in site.inputs):
        return "to torch, derivatives are of the type of the values, and 8 bits have no room for them", everything
    numbers = tuple(i for i, slot in enumerate(site.inputs) if _is_number(site.operator, i, slot))
    return "torch's code reads a number that derivatives are asked for with respect to", numbers


def _is_narrow(dtype: np.dtype | None) -> bool:
    return dtype is not None and is_float(dtype) and dtype.itemsize < 2


def _is_power(slot: Slot | None) -> bool:
    return slot is not None and slot.dtype == _POWERS


def _is_number(operator: str, index: int, slot: Slot | None) -> bool:
    if slot is None or slot.constant is not None or (operator, index) in _DIFFERENTIATED:
        return False
    return reads_number(operator, index) and (slot.dtype is None or is_float(slot.dtype))


def with_masks(plan: Plan) -> Plan:
    """A plan whose ``Softmax`` has the derivative 0 in rows of no numbers, where a ``Where`` replaces them afterwards.

    In a row that is masked as a whole, attention puts zeros for ``0 / 0``; the derivative of that, unused, times zero would
    still be no number.
    """
    readers: dict[str, list[Step]] = {}
    for step in plan.steps:
        for index, slot in enumerate(step.site.inputs):
            if slot is not None and (step.site.operator, index) != ("CastLike", 1):
                readers.setdefault(slot.name, []).append(step)

    def replaced(slot: Slot | None) -> bool:
        users = [] if slot is None or slot.name in plan.outputs else readers.get(slot.name, [])
        if len(users) != 1:
            return False
        return users[0].site.operator == "Where" or (
            users[0].site.operator in ("Cast", "CastLike") and replaced(users[0].site.outputs[0])
        )

    def masked(step: Step) -> Step:
        if step.site.operator != "Softmax" or not replaced(step.site.outputs[0]):
            return step
        axis = int(step.site.attribute("axis", -1))
        return replace(step, function=lambda x: _MaskedSoftmax.apply(x, axis))

    return replace(plan, steps=tuple(map(masked, plan.steps)))


class _MaskedSoftmax(torch.autograd.Function):
    """``Softmax`` along an axis, with the derivative 0 where it is no number."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, axis: int) -> torch.Tensor:
        y = torch.softmax(x, axis)
        ctx.axis = axis
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        y = torch.nan_to_num(ctx.saved_tensors[0])
        return torch._softmax_backward_data(gradient, y, ctx.axis, y.dtype), None

"""Gradients by torch's own autograd."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from deep_bench.adapters.torch.arrays import map_native
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.graph import Network
from deep_bench.network.gradient.derived import checked_names

OnReady = Callable[[str, torch.Tensor], None]
Named = Sequence[tuple[str, torch.Tensor]]


@dataclass(frozen=True, slots=True)
class Request:
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
        self._requests: dict[tuple[str, Sequence[str] | None], Request] = {}

    def __call__(
        self,
        run: Callable[..., dict[str, Any]],
        arguments: Sequence[Any],
        request: Request,
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
            fed[index] = _variable(name, fed[index])
            leaves.append((name, fed[index]))
        with torch.enable_grad():
            outputs = run(*fed)
        value = _one_element(self._network, request.loss, outputs[request.loss])
        gradients = _backward(value, leaves, request.everything, on_ready) if leaves and value.requires_grad else {}
        if len(gradients) < len(request.names):
            self._add_zeros(gradients, request, leaves, on_ready)
        return {name: map_native(_cut, y) for name, y in outputs.items()}, {name: gradients[name] for name in request.names}

    def request(self, loss: str, wrt: Sequence[str] | None) -> Request:
        """What is asked for, checked the first time.

        Raises:
            InvalidArgument: See `deep_bench.request.checked_request`.
        """
        key = (loss, wrt if wrt is None or isinstance(wrt, str) else tuple(wrt))
        return self._requests.get(key) or self._checked(key)

    def _checked(self, key: tuple[str, Sequence[str] | None]) -> Request:
        names = checked_names(self._network, *key)
        places = {spec.name: index for index, spec in enumerate(self._network.inputs)}
        request = self._requests[key] = Request(
            key[0],
            names,
            tuple((name, self._keys[name]) for name in names if name in self._keys),
            tuple((name, places[name]) for name in names if name in places),
            tuple(name for name in names if name not in self._keys and name not in places),
            everything=set(names) >= set(self._keys),
        )
        return request

    def _add_zeros(
        self, gradients: dict[str, torch.Tensor], request: Request, leaves: Named, on_ready: OnReady | None
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


def _variable(name: str, argument: Any) -> torch.Tensor:
    if not isinstance(argument, torch.Tensor):
        raise Unsupported(f"input {name!r} is of {argument.dtype}: torch has no tensors of it, and no gradients")
    return argument.detach().requires_grad_()


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

"""Gradients for an executor that can only run networks: those of the differentiated network."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Generic, TypeVar

from deep_bench.errors import Unsupported
from deep_bench.events import Direction
from deep_bench.framework import Adapter, Describe, Executor, Mode, check_native, checked_request
from deep_bench.graph import Network

A = TypeVar("A")


class DerivedGradients(Generic[A]):
    """Differentiates a network as often as another loss or other names are asked for, and keeps what it prepared.

    Args:
        network: The network.
        adapter: Prepares what is derived from it.
        mode: The mode that the network itself was prepared in.
        describe: Tells the shape and element type of the adapter's arrays.
    """

    def __init__(self, network: Network, adapter: Adapter[A], mode: Mode, describe: Describe) -> None:
        self._network, self._adapter, self._mode, self._describe = network, adapter, mode, describe
        self._inputs = network.inputs
        self._executors: dict[tuple[str, tuple[str, ...]], Executor[A]] = {}

    def __call__(
        self,
        parameters: Mapping[str, A],
        inputs: Mapping[str, A],
        loss: str,
        wrt: Sequence[str] | None,
        on_ready: Callable[[str, A], None] | None,
    ) -> tuple[dict[str, A], dict[str, A]]:
        """See `Executor.gradients`; ``parameters`` are those of the executor, as they are now."""
        from deep_bench.network.gradient.backward import gradient_name

        names = self._names(loss, wrt)
        check_native(self._inputs, inputs, self._describe)
        names, executor = self.executor(loss, names)
        for name, value in parameters.items():
            if name in executor.parameters:  # what neither the outputs nor the gradients depend on is left out
                executor.parameters[name] = value
        outputs = executor.forward(inputs)
        gradients = {name: outputs.pop(gradient_name(loss, name)) for name in names}
        if on_ready is not None:
            for name, gradient in gradients.items():
                on_ready(name, gradient)
        return outputs, gradients

    def executor(self, loss: str, wrt: Sequence[str] | None) -> tuple[tuple[str, ...], Executor[A]]:
        """The names to differentiate with respect to, and what runs the network derived for them."""
        from deep_bench.network.gradient.backward import differentiate  # with the rules of all operators

        names = self._names(loss, wrt)
        if (loss, names) not in self._executors:
            derived = differentiate(self._network, loss, names)
            self._executors[loss, names] = self._adapter.prepare(derived, mode="train")
        return names, self._executors[loss, names]

    def _names(self, loss: str, wrt: Sequence[str] | None) -> tuple[str, ...]:
        if self._mode != "train":
            raise not_training(self._network.name)
        if wrt is not None and (loss, tuple(wrt)) in self._executors and not isinstance(wrt, str):
            return tuple(wrt)
        return checked_names(self._network, loss, wrt)


def not_training(network: str) -> Unsupported:
    """The error of an executor that was made for inference only."""
    return Unsupported(
        f"{network} was prepared for inference", advice='prepare(network, mode="train") keeps what gradients need'
    )


def checked_names(network: Network, loss: str, wrt: Sequence[str] | None) -> tuple[str, ...]:
    """The names to differentiate with respect to.

    Raises:
        InvalidArgument: ``loss`` is no output, or one of ``wrt`` no parameter and no floating-point input; or named twice.
    """
    outputs = [spec.name for spec in network.outputs]
    return checked_request(network.name, outputs, list(network.parameters), network.inputs, loss, wrt)


def origin(name: str, nodes: Container[str]) -> tuple[str, Direction]:
    """Which of a network's nodes a node of its derived network belongs to, and on which way; ``""`` if to none.

    Args:
        name: The name of the derived network's node.
        nodes: The names of the network's own nodes.

    Example:
        >>> origin("head", {"head"}), origin("head.gradient.Gemm_1", {"head"}), origin("gradient.Add_1", {"head"})
        (('head', 'forward'), ('head', 'backward'), ('', 'backward'))
    """
    if name in nodes:
        return name, "forward"
    parts = name.split(".gradient.")
    prefixes = (".gradient.".join(parts[:n]) for n in range(len(parts) - 1, 0, -1))
    return next((prefix for prefix in prefixes if prefix in nodes), ""), "backward"

"""Python code that is attached to a node: it goes with the node through copies of a network, and is lost in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import onnx_ir as ir

from deep_bench.errors import InvalidArgument

FUNCTION_DOMAIN = "numpy"
"""The domain of nodes that compute a NumPy function of the user's, which is attached to them."""

KERNEL_DOMAIN = "deep_bench.kernel"
"""The domain of nodes that only a kernel says how to compute, such as the gradient of one."""

_FUNCTION = "deep_bench.function"
_KERNEL = "deep_bench.kernel"


@runtime_checkable
class Kernel(Protocol):
    """What can compute a node in the place of a framework's own code: a `deep_bench.Operator`."""

    @property
    def name(self) -> str:
        """How it is called."""
        ...

    @property
    def device(self) -> Any:
        """Where its arrays live: a `deep_bench.framework.Device`."""
        ...

    @property
    def differentiates(self) -> bool:
        """Whether it has a ``backward``."""
        ...

    def forward(self, *inputs: Any, **attributes: Any) -> Any:
        """The node's output, or a tuple of them."""
        ...

    def backward(self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], **attributes: Any) -> Any:
        """The gradient of each input, ``None`` where there is none."""
        ...


def attach_function(node: ir.Node, function: Callable[..., Any]) -> None:
    """Say what a node of `FUNCTION_DOMAIN` computes: a NumPy function of its inputs and attributes."""
    node.meta[_FUNCTION] = function


def function_of(node: ir.Node) -> Callable[..., Any] | None:
    """The NumPy function that is attached to a node, if there is one.

    Example:
        >>> node = ir.Node("numpy", "doubled", [ir.Value(name="x")])
        >>> attach_function(node, lambda x: x + x)
        >>> function_of(node)(2)
        4
    """
    function: Callable[..., Any] | None = node.meta.get(_FUNCTION)
    return function


def attach_kernel(node: ir.Node, kernel: Kernel) -> None:
    """Have a node computed by a kernel; what it is meant to compute stays what the node says."""
    node.meta[_KERNEL] = kernel


def kernel_of(node: ir.Node) -> Kernel | None:
    """The kernel that computes a node, if there is one."""
    kernel: Kernel | None = node.meta.get(_KERNEL)
    return kernel


def attach_kernels(nodes: Iterable[ir.Node], kernels: Mapping[str, Kernel]) -> None:
    """Have nodes computed by kernels.

    Args:
        nodes: Those of a network.
        kernels: Name of a node to its kernel.

    Raises:
        InvalidArgument: There is no node of such a name.
    """
    named = {str(node.name): node for node in nodes}
    for name, kernel in kernels.items():
        if name not in named:
            raise InvalidArgument(f"a kernel for the node {name!r}, which the network does not have", "one of its nodes")
        attach_kernel(named[name], kernel)


def kernels_of(nodes: Iterable[ir.Node]) -> dict[str, Kernel]:
    """Name to kernel of the nodes that have one."""
    return {str(node.name): kernel for node in nodes if (kernel := kernel_of(node)) is not None}


def detach_kernel(node: ir.Node) -> None:
    """Have a node computed as any other."""
    node.meta.pop(_KERNEL, None)


def keep_attached(source: ir.Node, copy: ir.Node) -> None:
    """Attach to a copy of a node what is attached to the node."""
    copy.meta.update(source.meta)

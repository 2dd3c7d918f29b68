"""Functions that exist already, as operators: NumPy's, torch's, TensorFlow's, jax's, and the launch of a Triton kernel."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import Device
from deep_bench.operators.host import Host
from deep_bench.operators.operator import Operator
from deep_bench.operators.wrapping_home import home_of
from deep_bench.registry import Registry

Backward = Callable[..., tuple[Any, ...]]
"""Takes the gradients of the outputs, the inputs, the outputs, and the attributes by name; see `Operator.backward`."""

parts_of = Registry(
    "framework of functions",
    "deep_bench.function_parts",
    builtin={
        "jax": "deep_bench.adapters.jax.operator:parts",
        "numpy": "deep_bench.operators.wrapping:host_parts",
        "tensorflow": "deep_bench.adapters.tensorflow.operator:parts",
        "torch": "deep_bench.adapters.torch.operator:parts",
        "triton": "deep_bench.adapters.torch.operator:triton_parts",
    },
    requires={"jax": ("jax",), "tensorflow": ("tensorflow",), "torch": ("torch",), "triton": ("torch", "triton")},
    extras={"jax": "jax", "tensorflow": "deep-bench[tensorflow]", "torch": "deep-bench[torch]", "triton": "triton"},
)
"""A framework to what makes the parts of an operator from a function: ``parts(function, device)``."""


@dataclass(frozen=True)
class Parts:
    """What an operator is made of.

    Args:
        device: Where its arrays live.
        forward: Takes arrays, and attributes by name.
        backward: The framework's own differentiation of it, if there is one.
        again: For a function that cannot be pickled: the import path of what makes it anew, and what that takes. An empty
            path says that nothing does.
    """

    device: Device[Any]
    forward: Callable[..., Any]
    backward: Backward | None = None
    again: tuple[str, tuple[Any, ...]] | None = None


def wrap(
    function: Callable[..., Any],
    *,
    computes: str | Callable[..., Any],
    device: str | Device[Any] | None = None,
    backward: Backward | None = None,
    name: str | None = None,
) -> Operator[Any]:
    """A function as an operator, on the arrays of its own framework.

    ============================================================= ============================ ==========================
    function                                                      device                       gradient, by default
    ============================================================= ============================ ==========================
    of NumPy arrays                                               this machine's memory        none
    of tensors, an ``nn.Module``, ``torch.compile`` of either,    ``torch``, or where the      torch's autograd
    a ``torch.library`` operator                                  module is
    one that launches a Triton kernel                             ``torch:device=cuda``        none
    of TensorFlow's tensors, a ``tf.function``, a Keras layer     ``tensorflow``               ``tf.GradientTape``
    of jax arrays; it is compiled by ``jax.jit``                  ``jax``                      ``jax.vjp``
    ============================================================= ============================ ==========================

    It is told by the package that the function or its class is from; of a Python function, by the frameworks that its code
    names. Its inputs come in the order of the operator; the attributes by name, those that it has a parameter for. Gradients
    by the framework's own differentiation repeat the forward run once for each new inputs, and keep what they need for these
    until the next.

    Args:
        function: What computes it: returns an array, or a tuple.
        computes: An ONNX operator, or a NumPy function that a person can read; see `Operator`.
        device: The framework and its options, as on the command line (``"torch:device=cuda"``, ``"torch:compile=inductor"``,
            ``"tensorflow:jit=xla"``, ``"jax:device=gpu"``, ``"numpy"``), or a device.
        backward: As `Operator.backward`, without ``self``; in the place of the framework's own differentiation.
        name: How tables call it; by default as the function is called.

    Raises:
        InvalidArgument: Something that cannot be called, or whose framework cannot be told.
        FrameworkMissing: Its framework is not installed.
        Unsupported: There is no such device.

    Example:
        >>> import numpy as np
        >>> relu = wrap(lambda x: np.maximum(x, 0), computes="Relu", name="relu")
        >>> relu.forward(np.array([-1.0, 2.0], np.float32)), relu.differentiates
        (array([0., 2.], dtype=float32), False)
    """
    if not callable(function):
        raise InvalidArgument(f"a {type(function).__name__} as an operator", "a function, a module, or something like it")
    if isinstance(function, Operator) or (isinstance(function, type) and issubclass(function, Operator)):
        raise InvalidArgument("an operator", "a function that is none yet", "use it as it is")
    if isinstance(function, type):
        raise InvalidArgument(f"the class {function.__name__}", "an object of it", f"give {function.__name__}(…)")
    if backward is not None and not callable(backward):
        raise InvalidArgument(f"backward={backward!r}", "a function of the gradients, the inputs and the outputs")
    operator = Wrapped(function, computes, device, backward, name)
    assert operator.target  # raises where it says nothing
    return operator


class Wrapped(Operator[Any]):
    """A function as an operator, made by `wrap`.

    Args:
        function, computes, device, backward, name: As for `wrap`.

    Attributes:
        function: The function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        computes: str | Callable[..., Any],
        device: str | Device[Any] | None,
        backward: Backward | None,
        name: str | None,
    ) -> None:
        parts = _parts(function, device)
        self.function, self.computes = function, computes
        self.device = parts.device
        self._given = (device, backward)
        self._name = str(name or getattr(function, "__name__", type(function).__name__))
        self._backward, self._again = backward or parts.backward, parts.again
        self.forward = parts.forward  # type: ignore[method-assign] # called without a method around it

    @property
    def name(self) -> str:
        """The function's name, or the stated one."""
        return self._name

    @property
    def differentiates(self) -> bool:
        """Whether a ``backward`` was given, or the framework differentiates the function."""
        return self._backward is not None

    def forward(self, *inputs: Any, **attributes: Any) -> Any:
        """Call the function."""
        raise NotImplementedError  # every object has the function in its place

    def backward(
        self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], **attributes: Any
    ) -> tuple[Any, ...]:
        """See `Operator.backward`."""
        if self._backward is None:
            raise Unsupported(f"{self.name} has no gradient", advice="give one: wrap(…, backward=…)")
        return self._backward(grads, inputs, outputs, **attributes)

    def __reduce__(self) -> Any:
        device, backward = self._given
        return _again, (_sendable(self.function, self._again), self.computes, device, backward, self._name)


@dataclass(frozen=True)
class Made:
    """A function by what makes it in another process.

    Args:
        path: Import path of that, or of the function itself.
        arguments: What it takes; ``None`` if it is the function.
    """

    path: str
    arguments: tuple[Any, ...] | None = None

    def function(self) -> Any:
        """The function."""
        module, _, name = self.path.partition(":")
        value = getattr(importlib.import_module(module), name)
        return value if self.arguments is None else value(*self.arguments)


def host_parts(function: Callable[..., Any], device: Device[Any] | str | None) -> Parts:
    """The parts of an operator that a function of NumPy arrays makes."""
    return Parts(Host() if device is None or isinstance(device, str) else device, with_signature(function))


def with_signature(function: Callable[..., Any], like: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function that says which keywords it takes, as the checks of attributes need it.

    Args:
        function: One whose own signature says too little: an object that can be called, or code that is no Python.
        like: What takes the same; by default the function itself. Without a signature of its own it takes no keywords.
    """
    source = function if like is None else like
    plain = not isinstance(source, type) and not hasattr(source, "nin")  # a ufunc's keywords are no attributes
    try:
        signature = inspect.signature(source) if plain else None
    except (ValueError, TypeError):  # built in
        signature = None
    if signature is not None and like is None:
        return function
    signature = signature or inspect.Signature([inspect.Parameter("inputs", inspect.Parameter.VAR_POSITIONAL)])
    return Signed(function, signature)


class Signed:
    """A function with a signature.

    Args:
        function: The function.
        signature: Its signature.
    """

    def __init__(self, function: Callable[..., Any], signature: inspect.Signature) -> None:
        self.function, self.__signature__ = function, signature

    def __call__(self, *inputs: Any, **attributes: Any) -> Any:
        """Call it."""
        return self.function(*inputs, **attributes)


def _parts(function: Callable[..., Any], device: str | Device[Any] | None) -> Parts:
    if device is None:
        home = home_of(function)
    elif isinstance(device, str):
        home = device.partition(":")[0]
        home = "numpy" if home == "cpu" else home
    elif isinstance(device, Device):
        home = str(getattr(device, "name", "numpy"))
        home = home if home in parts_of else "numpy"  # a device of the user's own: a function of its arrays
    else:
        raise InvalidArgument(f"device={device!r}", "a framework such as 'torch:device=cuda', or a device")
    parts: Parts = parts_of[home](function, device)
    return parts


def _sendable(function: Callable[..., Any], again: tuple[str, tuple[Any, ...]] | None) -> Any:
    """The function; or where another process finds it, or what makes it there, if it is of a kind that cannot be pickled.

    Raises:
        Unsupported: There is neither.
    """
    if again is None:
        return function
    inner = getattr(function, "_init_fn", function)  # of an operator of torch.library
    module, name = str(getattr(inner, "__module__", "")), str(getattr(inner, "__qualname__", ""))
    if module in sys.modules and module != "__main__" and getattr(sys.modules[module], name, None) is function:
        return Made(f"{module}:{name}")
    if not again[0]:
        raise Unsupported(
            f"{name or type(function).__name__} is compiled or registered in this process, and cannot be sent to another",
            "a function that can be pickled",
            "wrap the Python function itself, with device='torch:compile=inductor' to compile it; or define it in a module",
        )
    return Made(*again)


def _again(
    function: Any,
    computes: str | Callable[..., Any],
    device: str | Device[Any] | None,
    backward: Backward | None,
    name: str,
) -> Wrapped:
    return Wrapped(function.function() if isinstance(function, Made) else function, computes, device, backward, name)

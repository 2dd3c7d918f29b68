"""Functions that exist already, as operators: NumPy's, torch's, TensorFlow's, jax's, and the launch of a Triton kernel.

Which framework a function is written for is found from its module and from what it calls, without importing any.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import Device
from deep_bench.operators.operator import Host, Operator
from deep_bench.registry import Registry

Backward = Callable[..., tuple[Any, ...]]
"""Takes the gradients of the outputs, the inputs, the outputs, and the attributes by name; see `Operator.backward`."""


parts_of = Registry(
    "framework of functions",
    "deep_bench.function_parts",
    builtin={
        "jax": "deep_bench.adapters.jax:parts",
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
class FunctionMaker:
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
    return SignedFunction(function, signature)


class SignedFunction:
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
        return FunctionMaker(f"{module}:{name}")
    if not again[0]:
        raise Unsupported(
            f"{name or type(function).__name__} is compiled or registered in this process, and cannot be sent to another",
            "a function that can be pickled",
            "wrap the Python function itself, with device='torch:compile=inductor' to compile it; or define it in a module",
        )
    return FunctionMaker(*again)


def _again(
    function: Any,
    computes: str | Callable[..., Any],
    device: str | Device[Any] | None,
    backward: Backward | None,
    name: str,
) -> Wrapped:
    return Wrapped(
        function.function() if isinstance(function, FunctionMaker) else function, computes, device, backward, name
    )


ROOTS = {
    "jax": "jax",
    "jaxlib": "jax",
    "keras": "tensorflow",
    "numpy": "numpy",
    "scipy": "numpy",
    "tensorflow": "tensorflow",
    "tf_keras": "tensorflow",
    "torch": "torch",
    "torchvision": "torch",
    "triton": "triton",
}
"""The package that something is from, to the framework whose arrays it takes."""


def home_of(function: Callable[..., Any]) -> str:
    """The framework that a function is from, or else the one that its code names; NumPy if it names none.

    Args:
        function: Anything that can be called.

    Returns:
        One of the values of `ROOTS`; ``"triton"`` for a Python function that launches a Triton kernel and has no gradient.

    Raises:
        InvalidArgument: Its code names more than one, or it is a Triton kernel without a launch.

    Example:
        >>> import numpy as np
        >>> home_of(np.tanh), home_of(lambda x: np.maximum(x, 0)), home_of(lambda x: x + x)
        ('numpy', 'numpy', 'numpy')
    """
    framework = _from(function)
    if framework == "triton":
        raise InvalidArgument(
            f"{_called(function)}, a Triton kernel without a launch",
            "a Python function of tensors that allocates the result, launches the kernel and returns the result",
        )
    if framework is not None:
        return framework
    named = set(_named(function, set()))
    if "triton" in named:
        named -= {"triton", "torch"}
        named.add("torch" if "autograd" in named else "triton")
    named.discard("autograd")
    frameworks = named - {"numpy"}
    if len(frameworks) > 1:
        raise InvalidArgument(
            f"{_called(function)}, whose code names {' and '.join(sorted(frameworks))}",
            "a function of one framework's arrays",
            "say which: device='torch', 'tensorflow', 'jax' or 'numpy'",
        )
    return frameworks.pop() if frameworks else "numpy"


def _from(value: Any) -> str | None:
    """The framework whose package defines an object, or its class."""
    if isinstance(value, ModuleType):
        return _root(value.__name__)
    if hasattr(value, "_torchdynamo_orig_callable"):
        return "torch"
    kinds = value.__mro__ if isinstance(value, type) else type(value).__mro__
    modules = [getattr(value, "__module__", None), *(kind.__module__ for kind in kinds)]
    return next((framework for module in modules if (framework := _root(module)) is not None), None)


def _root(module: Any) -> str | None:
    return ROOTS.get(module.partition(".")[0]) if isinstance(module, str) else None


def _named(function: Any, visited: set[int]) -> Iterator[str]:
    """The frameworks that the code of a function names, that of functions which it calls included."""
    if id(function) in visited:
        return
    visited.add(id(function))
    if isinstance(function, functools.partial):
        yield from _of(function.func, visited)
    elif isinstance(function, MethodType):
        yield from _of(function.__self__, visited)
        yield from _named(function.__func__, visited)
    elif isinstance(function, FunctionType):
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        closed = {name: cell.cell_contents for name, cell in cells if not _is_empty(cell)}
        for name in _names(function.__code__):
            if name in closed or name in function.__globals__:
                yield from _of(closed.get(name, function.__globals__.get(name)), visited)
            elif name in ROOTS:
                yield ROOTS[name]  # imported inside
    elif not isinstance(function, type):
        yield from _named(vars(type(function)).get("__call__"), visited)
        for value in getattr(function, "__dict__", {}).values():
            yield from _of(value, visited)


def _of(value: Any, visited: set[int]) -> Iterator[str]:
    """The frameworks that an object named in code stands for."""
    if isinstance(value, MethodType) and isinstance(value.__self__, type):
        value = value.__self__  # a class whose method is named
    if isinstance(value, type) and any(kind.__module__ == "torch.autograd.function" for kind in value.__mro__):
        yield "autograd"
    framework = _from(value)
    if framework is not None:
        yield framework
    elif callable(value) and not isinstance(value, type):
        yield from _named(value, visited)


def _names(code: CodeType) -> set[str]:
    """All names in a function's code, those in functions inside it included."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return {*code.co_names, *code.co_freevars}.union(*(_names(c) for c in inner))


def _is_empty(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 (reading it is the question)
    except ValueError:
        return True
    return False


def _called(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))

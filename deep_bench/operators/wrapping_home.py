"""Which framework a function of the user's is written for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from deep_bench.errors import InvalidArgument

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

"""Functions of the user's as text."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.operators.case_schema import SEPARATOR


def function_of(written: str) -> str | Callable[..., Any]:
    """An operator's name as it is; the function behind an import path (``"package.module:function"``).

    Raises:
        InvalidArgument: There is no such module or function.

    Example:
        >>> function_of("com.microsoft::BiasGelu"), function_of("numpy:tanh")
        ('com.microsoft::BiasGelu', <ufunc 'tanh'>)
    """
    module, colon, name = written.partition(":")
    if not colon or SEPARATOR in written:
        return written
    try:
        function = attrgetter(name)(import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgument(
            f"the operator {written!r}: {error}", "an ONNX operator, or package.module:function"
        ) from error
    if not callable(function):
        raise InvalidArgument(f"the operator {written!r} is a {type(function).__name__}", "a function")
    return function


def path_of(function: Callable[..., Any]) -> str:
    """The import path of a function.

    Raises:
        InvalidArgument: It is not to be found there.

    Example:
        >>> import statistics
        >>> path_of(statistics.fmean)
        'statistics:fmean'
    """
    path = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    try:
        named_function = function_of(path)
    except (InvalidArgument, TypeError):
        named_function = path
    if named_function is not function:
        raise InvalidArgument(
            f"the function {getattr(function, '__name__', function)!r} cannot be written down",
            "one that a module has under its own name",
            "move it into a module that can be imported",
        )
    return path

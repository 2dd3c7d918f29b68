"""Objects of the user's on their way to another process: pickled whole where that process could not import them."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import cloudpickle

from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidInput


def dumped(value: Any, label: str) -> bytes:
    """It, pickled for another process. What that could not import, such as a class of a notebook, goes along whole.

    Args:
        value: An operator or a case.
        label: What to call it in an error.

    Raises:
        InvalidArgument: It cannot be pickled.

    Example:
        >>> from deep_bench.operators.case import Case
        >>> case = Case.of("Gemm", (2, 3), (3, 4))
        >>> loaded(dumped(case, "the case"), "the case").label == case.label
        True
    """
    targets = (getattr(value, name, None) for name in ("operator", "target"))  # what a case, and an operator, computes
    held = [*targets, *getattr(value, "__dict__", {}).values()]
    homes = {kind.__module__ for kind in type(value).__mro__} | {getattr(member, "__module__", None) for member in held}
    try:
        with _by_value([sys.modules[name] for name in homes if name in sys.modules and not _importable(str(name))]):
            return bytes(cloudpickle.dumps(value))
    except Exception as error:  # pickling runs other people's code, which may raise anything
        raise InvalidArgument(
            f"{label} cannot be sent to its process: {type(error).__name__}: {error}",
            "something that can be pickled",
            "open files, locks and devices in setup(case) instead of holding them from the beginning",
        ) from error


def loaded(content: bytes, label: str) -> Any:
    """The inverse of `dumped`.

    Args:
        content: What `dumped` returned.
        label: What to call it in an error.

    Raises:
        InvalidInput: It cannot be read here.
    """
    try:
        return pickle.loads(content)
    except DeepBenchError:
        raise
    except Exception as error:  # unpickling runs other people's code, which may raise anything
        raise InvalidInput(
            f"{label} cannot be read in its own process: {type(error).__name__}: {error}",
            "one whose modules this interpreter can import there",
            "install its module, name it by its file (my_kernels.py:FastGelu), or work in this process",
        ) from error


@contextmanager
def _by_value(modules: Sequence[ModuleType]) -> Iterator[None]:
    """Within it, what these modules define is pickled whole."""
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _importable(name: str) -> bool:
    """Whether another process with the same path can import a module."""
    top = name.partition(".")[0]
    if top == "__main__":
        return True  # it cannot, and cloudpickle takes care of it
    for finder in sys.meta_path:
        spec = finder.find_spec(top, None)
        if spec is not None:
            module_file = getattr(sys.modules[top], "__file__", None) if top in sys.modules else None
            return (
                spec.origin is None
                or module_file is None
                or spec.origin in ("built-in", "frozen")
                or spec.origin == module_file
            )
    return False

"""Packages whose names are imported on first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, places: Mapping[str, str], subpackages: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The two functions that make a package import some of its names on first use.

    Args:
        package: The package, ``__name__`` within it.
        places: Name to the module that has it.
        subpackages: Names of packages within it.

    Returns:
        What to call ``__getattr__`` and ``__dir__`` there.

    Example:
        >>> look_up, _ = lazy("example", {"OrderedDict": "collections"})
        >>> look_up("OrderedDict").__name__
        'OrderedDict'
    """

    def look_up(name: str) -> Any:
        if name in subpackages:
            return import_module(f"{package}.{name}")
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(places[name]), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places, *subpackages})

    return look_up, names

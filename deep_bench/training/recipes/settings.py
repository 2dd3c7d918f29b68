"""Settings of things that a recipe names: checked by the signature of what makes them, and completed by its defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.training.recipes.refusal import nearest

_FIELDS = MappingProxyType({"batch_size": "sampler.batch", "samples": "data", "seed": "seeds"})
"""Arguments that come from elsewhere, and the field of the recipe that says them."""

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def complete(
    make: Callable[..., Any], settings: Mapping[str, Any], where: str, *, given: Collection[str] = ()
) -> dict[str, Any]:
    """All settings of a thing: those stated, and the defaults of the others.

    Args:
        make: What makes it.
        settings: Those that a recipe states.
        where: Which part of the recipe, with the thing's name.
        given: Arguments that come from elsewhere.

    Raises:
        InvalidArgument: A setting that it does not have, that comes from elsewhere, or is missing.

    Example:
        >>> complete(lambda lr=0.1, beta=0.9: None, {"lr": 0.5}, "optimizer mine")
        {'lr': 0.5, 'beta': 0.9}
    """
    parameters = inspect.signature(make).parameters
    by_name = {n: p for n, p in parameters.items() if p.kind in _NAMED and n not in given}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in settings:
        if name in given:
            advice = f"that is {_FIELDS[name]}" if name in _FIELDS else ""
            came = f"{where} with {name}={settings[name]!r}"
            raise InvalidArgument(came, "a recipe that leaves this to other fields", advice)
        if name not in by_name and not anything:
            expected = f"some of {', '.join(by_name)}" if by_name else "none"
            raise InvalidArgument(f"{where} has no setting {name!r}", expected, nearest(name, by_name))
    missing = [n for n, p in by_name.items() if p.default is p.empty and n not in settings]
    if missing:
        near = nearest(missing[0], settings)
        raise InvalidArgument(f"{where} lacks the setting {missing[0]!r}", f"a value for {missing[0]!r}", near)
    return {**{n: p.default for n, p in by_name.items() if p.default is not p.empty}, **settings}


def plain(value: Any) -> Any:
    """A setting as JSON has it: tuples are lists, mappings dicts.

    Raises:
        InvalidArgument: It is something that JSON does not have.

    Example:
        >>> plain({"sizes": (1, 2)})
        {'sizes': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidArgument(f"the setting {value!r}, a {type(value).__name__}", "numbers, strings, lists and mappings")

"""Variants: a framework with options, written ``torch:compile=inductor,threads=1``."""

from __future__ import annotations

import difflib
import inspect
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deep_bench import frameworks
from deep_bench.errors import InvalidArgument
from deep_bench.framework import Adapter

Option = str | int | float | bool


@dataclass(frozen=True)
class Variant:
    """A framework's name in the registry, with options for its adapter.

    Args:
        framework: The registered name.
        options: Keyword arguments of the adapter's constructor.

    Example:
        >>> variant = Variant.parse("onnxruntime:threads=1,optimize=off")
        >>> variant.framework, dict(variant.options)
        ('onnxruntime', {'threads': 1, 'optimize': 'off'})
        >>> str(variant)
        'onnxruntime:threads=1,optimize=off'
    """

    framework: str
    options: Mapping[str, Option] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Read a variant as it is written on the command line.

        Raises:
            UnknownName: No such framework.
            FrameworkMissing: It is not installed.
            InvalidArgument: An option that the framework's adapter does not have, or a value of the wrong type.
        """
        framework, colon, rest = text.partition(":")
        adapter = frameworks[framework]
        if not colon:
            return cls(framework)
        stated = [part.partition("=") for part in rest.split(",")]
        if any(not name or not equals for name, equals, _ in stated):
            raise InvalidArgument(f"options {rest!r} of {framework}", "name=value pairs, separated by commas")
        types_ = option_types(adapter)
        return cls(framework, {name: _read(framework, types_, name, value) for name, _, value in stated})

    def create(self) -> Adapter[Any]:
        """The adapter with these options."""
        adapter: Adapter[Any] = frameworks[self.framework](**self.options)
        return adapter

    def __str__(self) -> str:
        options = ",".join(f"{name}={_written(value)}" for name, value in self.options.items())
        return f"{self.framework}:{options}" if options else self.framework


def option_types(adapter: type[Adapter[Any]]) -> dict[str, type]:
    """The options of an adapter: name to type, read off its constructor."""
    if adapter.__init__ is object.__init__:
        return {}
    hints = typing.get_type_hints(adapter.__init__)
    parameters = inspect.signature(adapter.__init__).parameters.values()
    return {p.name: _bare(hints.get(p.name, str)) for p in parameters if p.kind is p.KEYWORD_ONLY}


def _bare(hint: Any) -> type:
    """``int`` of ``int | None``."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return next(a for a in typing.get_args(hint) if a is not types.NoneType)
    return hint if isinstance(hint, type) else str


def _read(framework: str, known: Mapping[str, type], name: str, value: str) -> Option:
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        raise InvalidArgument(
            f"{framework} has no option {name!r}",
            f"one of {', '.join(known) or '(it has no options)'}",
            f"did you mean {near[0]!r}?" if near else "",
        )
    if known[name] is bool:
        if value.lower() not in ("true", "false"):
            raise InvalidArgument(f"option {name}={value} of {framework}", "true or false")
        return value.lower() == "true"
    try:
        read: Option = known[name](value)
    except ValueError as error:
        raise InvalidArgument(f"option {name}={value} of {framework}", f"a value of type {known[name].__name__}") from error
    return read


def _written(value: Option) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

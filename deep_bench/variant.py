"""Variants: a framework with options, written ``torch:compile=inductor,threads=1``."""

from __future__ import annotations

import difflib
import inspect
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deep_bench import frameworks
from deep_bench.errors import InvalidArgument
from deep_bench.framework import Adapter

_PATH = re.compile(r"[\w.]+:[^\W\d]\w*(?=$|:)")
"""An import path, which is followed by nothing or by options; the name of an option is followed by an equals sign."""


@dataclass(frozen=True)
class Variant:
    """A framework's name in the registry, with options for its adapter.

    Args:
        framework: The registered name, or the import path of an adapter's class (``"my_package.adapter:MyAdapter"``).
        options: Option to value, as written; read by the types in the adapter's constructor when it is created.

    Example:
        >>> variant = Variant.parse("reference")
        >>> variant.framework, str(variant), variant.create().name
        ('reference', 'reference', 'reference')
    """

    framework: str
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Read a variant as it is written on the command line; imports no framework.

        Raises:
            UnknownName: No such framework.
            FrameworkMissing: It is not installed.
            InvalidArgument: The options are not ``name=value`` pairs, or one comes twice.
        """
        text = text.strip()
        framework, path = text.partition(":")[0], _PATH.match(text)
        if framework not in frameworks and path:
            framework = path[0]
        frameworks.require(framework)
        colon, rest = text[len(framework) :][:1], text[len(framework) + 1 :]
        if not colon:
            return cls(framework)
        stated = [part.partition("=") for part in rest.split(",")]
        if any(not name or not equals or not value for name, equals, value in stated):
            raise InvalidArgument(
                f"options {rest!r} of {framework}", "name=value pairs, separated by commas", "see `deep-bench list`"
            )
        names = [name for name, _, _ in stated]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidArgument(f"{', '.join(twice)} more than once in {text!r}", "each option once")
        return cls(framework, {name: value for name, _, value in stated})

    def create(self) -> Adapter[Any]:
        """The adapter with these options; imports the framework.

        Raises:
            InvalidArgument: An option that the framework's adapter does not have, or a value that it does not take.
        """
        adapter: type[Adapter[Any]] = frameworks[self.framework]
        if not (isinstance(adapter, type) and issubclass(adapter, Adapter)):
            what = f"the class {adapter.__name__}" if isinstance(adapter, type) else f"a {type(adapter).__name__}"
            raise InvalidArgument(f"{self.framework} is {what}", "a subclass of deep_bench.framework.Adapter")
        known = option_types(adapter)
        return adapter(**{name: _read(self.framework, known, name, value) for name, value in self.options.items()})

    def __str__(self) -> str:
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
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


def _read(framework: str, known: Mapping[str, type], name: str, value: str) -> Any:
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
        return known[name](value)
    except ValueError as error:
        raise InvalidArgument(f"option {name}={value} of {framework}", f"a value of type {known[name].__name__}") from error

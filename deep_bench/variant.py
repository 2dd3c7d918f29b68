"""Variants: a framework with options, perhaps in another Python environment.

They are written ``FRAMEWORK[@ENVIRONMENT][:OPTION=VALUE,…]``:

- FRAMEWORK is a name in ``db.frameworks``, or the import path of an adapter (``my_package.adapter:MyAdapter``); or, with an
  environment, a name in `lean_frameworks`;
- ENVIRONMENT, up to the next colon, is the folder of a virtual environment or a conda prefix, a Python interpreter, or a
  name that is declared (`deep_bench.environments`); without it the framework is that of this environment;
- options are those of the adapter: ``torch``, ``torch:compile=inductor,threads=1``, ``torch@envs/torch29``,
  ``torch@envs/torch29:device=cuda``.
"""

from __future__ import annotations

import difflib
import inspect
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deep_bench import frameworks
from deep_bench.errors import InvalidArgument, UnknownName, Unsupported
from deep_bench.framework import Adapter
from deep_bench.registry import Registry

_PATH = re.compile(r"[\w.]+:[^\W\d]\w*(?=$|:|@)")
"""An import path, followed by nothing, options or an environment; the name of an option is followed by an equals sign."""

lean_frameworks = Registry(
    "lean framework",
    "deep_bench.lean_frameworks",
    builtin={"mxnet": "deep_bench.adapters.mxnet:MXNET"},
)
"""Frameworks that cannot live beside deep_bench: they run in an environment that needs NumPy only, networks for them are
rewritten here (`deep_bench.environments.Lean`)."""


@dataclass(frozen=True)
class Variant:
    """A framework's name in the registry, with options for its adapter.

    Args:
        framework: The registered name, or the import path of an adapter's class (``"my_package.adapter:MyAdapter"``).
        options: Option to value, as written; read by the types in the adapter's constructor when it is created.
        environment: The Python environment that it lives in, as written; None for this one.

    Example:
        >>> variant = Variant.parse("reference")
        >>> variant.framework, str(variant), variant.create().name
        ('reference', 'reference', 'reference')
        >>> elsewhere = Variant.parse("torch@envs/torch29:compile=inductor")
        >>> elsewhere.environment, dict(elsewhere.options), str(elsewhere.here)
        ('envs/torch29', {'compile': 'inductor'}, 'torch:compile=inductor')
    """

    framework: str
    options: Mapping[str, str] = field(default_factory=dict)
    environment: str | None = None

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Read a variant as it is written on the command line; imports no framework.

        Raises:
            UnknownName: No such framework.
            FrameworkMissing: It is not installed; one of another environment is looked for there, when it is started.
            InvalidArgument: The options are not ``name=value`` pairs, or one comes twice; the environment is not named; or a
                lean framework is named without one.
        """
        text = text.strip()
        framework, path = re.split("[:@]", text, maxsplit=1)[0], _PATH.match(text)
        if framework not in frameworks and path:
            framework = path[0]
        remainder, environment = text[len(framework) :], None
        if remainder.startswith("@"):
            environment, colon, options = remainder[1:].partition(":")
            environment, remainder = environment.strip(), colon + options
            if not environment:
                raise InvalidArgument(f"{text!r} names no environment", "FRAMEWORK@FOLDER, or a declared environment's name")
        # see that a framework is known and, if it is one of this environment, installed
        if environment is None:
            if framework in lean_frameworks and framework not in frameworks:
                raise InvalidArgument(
                    f"{framework} without an environment",
                    f"{framework}@ENVIRONMENT, one that has it",
                    "see docs/environments.md",
                )
            frameworks.require(framework)
        elif ":" in framework:
            frameworks.missing(framework)  # raises where there is no such module
        elif framework not in frameworks and framework not in lean_frameworks:
            raise UnknownName("framework", framework, [*frameworks, *lean_frameworks])
        return cls(framework, _options(framework, remainder), environment)

    @property
    def lean(self) -> bool:
        """Whether its framework is one of `lean_frameworks`."""
        return self.framework not in frameworks and self.framework in lean_frameworks

    @property
    def here(self) -> Variant:
        """The same as its own environment calls it."""
        return Variant(self.framework, self.options)

    def create(self) -> Adapter[Any]:
        """The adapter with these options; imports the framework.

        Raises:
            InvalidArgument: An option that the framework's adapter does not have, or a value that it does not take.
            Unsupported: It lives in another environment.
        """
        if self.environment is not None:
            raise Unsupported(
                f"{self} lives in another environment, and is asked for in this one",
                "what times it there: `deep-bench run` and `deep-bench operators`, db.run and db.operators.study",
                f"name the framework of this environment here: {self.here}",
            )
        adapter: type[Adapter[Any]] = frameworks[self.framework]
        if not (isinstance(adapter, type) and issubclass(adapter, Adapter)):
            description = f"the class {adapter.__name__}" if isinstance(adapter, type) else f"a {type(adapter).__name__}"
            raise InvalidArgument(f"{self.framework} is {description}", "a subclass of deep_bench.framework.Adapter")
        by_name = option_types(adapter)
        return adapter(**{name: _read(self.framework, by_name, name, value) for name, value in self.options.items()})

    def __str__(self) -> str:
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        name = self.framework if self.environment is None else f"{self.framework}@{self.environment}"
        return f"{name}:{options}" if options else name


def variants_of(systems: Sequence[str | Variant] | str | Variant | None) -> list[Variant]:
    """The systems under test that a caller names.

    Args:
        systems: Frameworks with options, or a single one; ``None`` for all that are installed.

    Raises:
        UnknownName, FrameworkMissing: As `Variant.parse`.
        InvalidArgument: None is named, or one twice.
    """
    if systems is None:
        systems = [name for name in frameworks if not frameworks.missing(name)]
    chosen = [systems] if isinstance(systems, str | Variant) else systems
    variants = [v if isinstance(v, Variant) else Variant.parse(v) for v in chosen]
    if not variants or len({str(v) for v in variants}) < len(variants):
        raise InvalidArgument(f"systems {', '.join(map(str, variants)) or '(none)'}", "at least one, each of them once")
    return variants


def _options(framework: str, text: str) -> dict[str, str]:
    """The options of ``:NAME=VALUE,…``."""
    if not text:
        return {}
    pairs = [part.partition("=") for part in text[1:].split(",")]
    if any(not name or not equals or not value for name, equals, value in pairs):
        raise InvalidArgument(
            f"options {text[1:]!r} of {framework}", "name=value pairs, separated by commas", "see `deep-bench list`"
        )
    if misplaced := next((f"{name}={value}" for name, _, value in pairs if "@" in value), ""):
        name, _, environment = misplaced.partition("@")
        advice = f"if it is an environment, it stands before the options: {framework}@{environment}:{name}"
        raise InvalidArgument(f"option {misplaced} of {framework}", "a value without @", advice)
    names = [name for name, _, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidArgument(f"{', '.join(twice)} more than once in {text[1:]!r}", "each option once")
    return {name: value for name, _, value in pairs}


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


def _read(framework: str, by_name: Mapping[str, type], name: str, value: str) -> Any:
    if name not in by_name:
        near = difflib.get_close_matches(name, by_name, n=1)
        raise InvalidArgument(
            f"{framework} has no option {name!r}",
            f"one of {', '.join(by_name) or '(it has no options)'}",
            f"did you mean {near[0]!r}?" if near else "",
        )
    if by_name[name] is bool:
        if value.lower() not in ("true", "false"):
            raise InvalidArgument(f"option {name}={value} of {framework}", "true or false")
        return value.lower() == "true"
    try:
        return by_name[name](value)
    except ValueError as error:
        raise InvalidArgument(
            f"option {name}={value} of {framework}", f"a value of type {by_name[name].__name__}"
        ) from error

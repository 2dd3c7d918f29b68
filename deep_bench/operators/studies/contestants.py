"""The contestants of a study: operators, and frameworks with options; and how they reach their processes."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from deep_bench.environments import place_of
from deep_bench.environments.declaration import stamped_run
from deep_bench.errors import DeepBenchError, InvalidArgument, Unsupported
from deep_bench.operators.checks.finding import KernelFailure, in_a_line
from deep_bench.operators.operator import KernelAdapter, Operator
from deep_bench.variant import Variant
from deep_bench.workers.fleet import Contender
from deep_bench.workers.pickling import dumped
from deep_bench.workers.remote import Place

_FILE = re.compile(r"(?P<file>.+\.py):(?P<name>[^\W\d]\w*)")
_SYSTEM = "deep_bench.operators.studies.system:OperatorSystem"
_LONGEST_START_S = 120.0
OWN = "operator"
"""What a record has in the place of a framework's name for an operator of the user's."""


@dataclass(frozen=True)
class OperatorContestant:
    """Who takes part, as it is sent to its process.

    Args:
        label: Its name in the report.
        framework: The framework, or `OWN`.
        options: The framework's options.
        arguments: What `deep_bench.operators.studies.system.OperatorSystem` is made from.
        path: Folders that its code imports from.
        place: The Python environment that it runs in; None for this one.
    """

    label: str
    framework: str
    options: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    place: Place | None = None

    @property
    def own(self) -> bool:
        """Whether it is an operator of the user's."""
        return self.framework == OWN

    def contender(self, limit: float) -> Contender:
        """It, ready to be started, which may take longer than a call: a framework is imported."""
        translate = stamped_run if self.place is not None else None
        return Contender(
            self.label,
            _SYSTEM,
            self.arguments,
            place=self.place,
            path=self.path,
            limit_s=max(limit, _LONGEST_START_S),
            translate=translate,
        )


def contestants_of(given: Any) -> list[OperatorContestant]:
    """The contestants that a caller names.

    Args:
        given: Operators, their classes, frameworks with options (``"torch:threads=1"``), operators in files
            (``"my_kernels.py:FastGelu"``): one of them, several, or a mapping from label to each.

    Raises:
        UnknownName, FrameworkMissing: As `Variant.parse`; or there is no such environment.
        Unsupported: A lean framework, which runs whole networks only.
        InvalidArgument: Something else, no contestant, two of the same label, or one that cannot be sent to a process.
    """
    if isinstance(given, Mapping):
        contestants = [_contestant(source, str(label)) for label, source in given.items()]
    else:
        single = isinstance(given, str | Variant | Operator | type)
        contestants = [_contestant(source) for source in ([given] if single or not isinstance(given, Sequence) else given)]
    if not contestants:
        raise InvalidArgument("no contestants", "at least one operator or framework")
    twice = [label for label, count in Counter(c.label for c in contestants).items() if count > 1]
    if twice:
        raise InvalidArgument(
            f"{twice[0]} takes part twice", "labels that differ", "give a mapping from label to contestant"
        )
    return contestants


def _contestant(source: Any, label: str | None = None) -> OperatorContestant:
    if isinstance(source, str) and (match := _FILE.fullmatch(source)):
        file = Path(match["file"]).absolute()
        script = (str(file), match["name"])
        name = label or _name_of(lambda: operator_in(file, match["name"]), match["name"])
        return OperatorContestant(name, OWN, arguments={"script": script}, path=(str(file.parent),))
    if isinstance(source, str | Variant):
        variant = Variant.parse(source) if isinstance(source, str) else source
        return _of_framework(variant, label or str(variant))
    try:
        operator = as_operator(source)
    except KernelFailure:  # its process says it again, and the others go on
        name = label or source.__name__
        return OperatorContestant(name, OWN, arguments={"pickled": dumped(source, name)})
    name = label or operator.name
    return OperatorContestant(name, OWN, arguments={"pickled": dumped(operator, name)})


def _of_framework(variant: Variant, label: str) -> OperatorContestant:
    if variant.lean:
        raise Unsupported(f"{variant} on single operators", "whole networks for a lean framework", "see `deep-bench run`")
    place = None if variant.environment is None else place_of(variant.environment)
    return OperatorContestant(label, variant.framework, variant.options, {"variant": str(variant.here)}, place=place)


def _name_of(make: Callable[[], Operator[Any]], otherwise: str) -> str:
    """An operator's name, or that of its class where it cannot be made: its process says why, and the others go on."""
    try:
        return make().name
    except KernelFailure:
        return otherwise


def base_of(contestants: Sequence[OperatorContestant], asked: str | None = None) -> OperatorContestant:
    """Which of them others are compared with: the one that was asked for, else the first framework, else the first."""
    frameworks = [c for c in contestants if not c.own]
    return next((c for c in contestants if c.label == asked), (*frameworks, *contestants)[0])


def as_operator(given: Any) -> Operator[Any]:
    """An operator, made from its class if that is what is given.

    Raises:
        InvalidArgument: It is none, or its class lacks a method or cannot be made without arguments.
        KernelFailure: Its ``__init__`` raised.
    """
    operator = _instance_of(given) if isinstance(given, type) and issubclass(given, Operator) else given
    if not isinstance(operator, Operator):
        description = f"the class {given.__name__}" if isinstance(given, type) else f"a {type(given).__name__}"
        raise InvalidArgument(
            f"{description} as a contestant",
            "an object of a subclass of deep_bench.Operator, its class, a framework such as 'torch:threads=1', or "
            "'file.py:Class'",
        )
    KernelAdapter(operator)  # raises where it says nothing, or names no operator
    return operator


def _instance_of(kind: type[Operator[Any]]) -> Operator[Any]:
    name = kind.__name__
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    if missing:
        came = f"the class {name} has no {' and no '.join(missing)}"
        raise InvalidArgument(came, "a class that computes something", f"define {missing[0]}(self, …) in {name}")
    try:
        inspect.signature(kind).bind()
    except TypeError as error:
        came = f"the class {name} cannot be made without arguments: {error}"
        raise InvalidArgument(came, "an object of it", f"give {name}(…)") from error
    try:
        return kind()
    except DeepBenchError:
        raise
    except Exception as error:  # a user's code may raise anything
        raise KernelFailure(f"{name}() raised {in_a_line(error)}") from error


def operator_of(given: Any) -> Operator[Any]:
    """An operator as callers name one: itself, its class, or ``"file.py:Class"``.

    Raises:
        InvalidArgument: It is none of these, or cannot be made.
        KernelFailure: Its ``__init__`` raised.
    """
    if isinstance(given, str):
        match = _FILE.fullmatch(given)
        if match is None:
            raise InvalidArgument(f"the operator {given!r}", "an operator, its class, or 'file.py:Class'")
        return operator_in(Path(match["file"]).absolute(), match["name"])
    return as_operator(given)


def operator_in(file: Path, name: str) -> Operator[Any]:
    """An operator, or one made from a class, that a file of Python code holds.

    Raises:
        InvalidArgument: There is no such file, it cannot be run, or it has no such operator.
    """
    module = _module(file)
    if not hasattr(module, name):
        names = [n for n, v in vars(module).items() if _is_operator(v) and v is not Operator]
        raise InvalidArgument(f"{file} has no {name!r}", f"one of its operators: {', '.join(names) or '(it has none)'}")
    return as_operator(getattr(module, name))


def _is_operator(value: Any) -> bool:
    return isinstance(value, Operator) or (isinstance(value, type) and issubclass(value, Operator))


def _module(file: Path) -> ModuleType:
    if not file.is_file():
        raise InvalidArgument(f"there is no file {file}", "a file with Python code")
    existing_module = sys.modules.get(file.stem)
    if existing_module is not None and getattr(existing_module, "__file__", None) == str(file):
        return existing_module
    name = file.stem if existing_module is None else f"{file.stem}_of_{abs(hash(str(file)))}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's code may raise anything
        del sys.modules[name]
        raise InvalidArgument(
            f"{file} cannot be run: {type(error).__name__}: {error}", "Python code that can be imported"
        ) from error
    finally:
        sys.path.remove(str(file.parent))
    return module

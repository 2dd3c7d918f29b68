"""YAML as recipes are written in: plain data, numbers as in YAML 1.2, no key twice, and where in the file each value is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, get_args

import yaml
from pydantic import BaseModel, ConfigDict

from deep_bench.errors import InvalidArgument

Place: TypeAlias = tuple[str | int, ...]
"""The keys and places that lead to a value."""

_MOST_CHARACTERS = 4_000_000
_MOST_VALUES = 200_000
"""Aliases written out: a short text can stand for more values than fit into memory."""


class RecipePart(BaseModel):
    """What all parts of a recipe share: a field that there is not is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model among the members of a type, such as the items of a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := model_in(part)) is not None), None)


class _StrictLoader(yaml.SafeLoader):
    """Plain data only; ``1e-3`` is a number, which YAML 1.1 takes for a string, and ``on`` and ``off`` are words."""


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    names = set()
    for key, _ in node.value:
        name = loader.construct_object(key, deep=True)
        try:
            twice = name in names
        except TypeError:
            raise yaml.constructor.ConstructorError(None, None, "a key that is no word or number", key.start_mark) from None
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} comes twice", key.start_mark)
        names.add(name)
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
_StrictLoader.yaml_implicit_resolvers = {
    first: [rule for rule in rules if rule[0] != "tag:yaml.org,2002:bool"]
    for first, rules in _StrictLoader.yaml_implicit_resolvers.items()
}
_StrictLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?i:yes|no|true|false)$"), list("yYnNtTfF"))
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def parsed(text: str, what: str) -> Any:
    """What a text in YAML says.

    Args:
        text: The text.
        what: What it is, for the error.

    Raises:
        InvalidArgument: It is no YAML, has a key twice, or is too large.

    Example:
        >>> parsed("{lr: 1e-3, name: adam, on: torch}", "an example")
        {'lr': 0.001, 'name': 'adam', 'on': 'torch'}
    """
    return _read(text, what)[0]


def parsed_with_lines(text: str, what: str) -> tuple[Any, Mapping[Place, int]]:
    """What a text in YAML says, and the line of each value; that of a mapping's entry is the line of its key.

    Args:
        text: The text.
        what: What it is, for the error.

    Raises:
        InvalidArgument: As `parsed`.

    Example:
        >>> content, lines = parsed_with_lines("name: adam\\nsizes:\\n- 4\\n- 8", "an example")
        >>> lines[("sizes",)], lines[("sizes", 1)]
        (2, 4)
    """
    content, node = _read(text, what)
    lines: dict[Place, int] = {}
    if node is not None:
        _locate(node, (), lines)
    return content, lines


def text_in(path: Path, what: str) -> str:
    """The text of a file that is going to be parsed.

    Args:
        path: The file.
        what: What it is, for the error.

    Raises:
        InvalidArgument: It cannot be read, is too large, or is not in UTF-8.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MOST_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidArgument(f"{what} cannot be read: {reason}", "a YAML file in UTF-8") from error
    if len(text) > _MOST_CHARACTERS:
        raise InvalidArgument(f"{what} has more than {_MOST_CHARACTERS} characters", f"at most {_MOST_CHARACTERS}")
    return text


def _read(text: str, subject: str) -> tuple[Any, yaml.Node | None]:
    if len(text) > _MOST_CHARACTERS:
        raise InvalidArgument(f"{subject} has {len(text)} characters", f"at most {_MOST_CHARACTERS}")
    try:
        loader = _StrictLoader(text)
        node = loader.get_single_node()
        if node is not None and _size(node, {}, set()) > _MOST_VALUES:
            raise InvalidArgument(f"{subject} stands for more than {_MOST_VALUES} values", "fewer, or fewer aliases")
        return (None if node is None else loader.construct_document(node)), node
    except yaml.YAMLError as error:
        raise InvalidArgument(f"{subject} is no YAML: {' '.join(str(error).split())}", "see https://yaml.org") from error
    except RecursionError as error:
        raise InvalidArgument(f"{subject} is nested too deeply", "fewer levels") from error
    except (ValueError, OverflowError, AttributeError, LookupError) as error:  # such as 2026-13-01, or !!timestamp x
        raise InvalidArgument(f"{subject} holds a value that cannot be read: {error}", "see https://yaml.org") from error


def _size(node: yaml.Node, sizes: dict[int, int], above: set[int]) -> int:
    """How many values a node stands for, each alias written out."""
    if id(node) in sizes:
        return sizes[id(node)]
    if id(node) in above:
        raise yaml.constructor.ConstructorError(None, None, "an alias within what it stands for", node.start_mark)
    above.add(id(node))
    if isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
    else:
        parts = node.value if isinstance(node, yaml.SequenceNode) else []
    sizes[id(node)] = 1 + sum(_size(part, sizes, above) for part in parts)
    above.discard(id(node))
    return sizes[id(node)]


def _locate(node: yaml.Node, path: Place, lines: dict[Place, int]) -> None:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            place = (*path, str(key.value))
            lines[place] = key.start_mark.line + 1
            _locate(value, place, lines)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            _locate(value, (*path, number), lines)

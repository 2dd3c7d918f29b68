"""YAML as recipes are written in: numbers as in YAML 1.2, no key twice."""

from __future__ import annotations

import re
from typing import Any

import yaml

from deep_bench.errors import InvalidArgument


class _Loader(yaml.SafeLoader):
    """Plain data only; ``1e-3`` is a number, which YAML 1.1 takes for a string."""


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen = set()
    for key, _ in node.value:
        name = loader.construct_object(key, deep=True)
        if name in seen:
            raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} comes twice", key.start_mark)
        seen.add(name)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def parsed(text: str, what: str) -> Any:
    """What a text in YAML says.

    Args:
        text: The text.
        what: What it is, for the error.

    Raises:
        InvalidArgument: It is no YAML, or has a key twice.

    Example:
        >>> parsed("{lr: 1e-3, name: adam}", "an example")
        {'lr': 0.001, 'name': 'adam'}
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise InvalidArgument(f"{what} is no YAML: {' '.join(str(error).split())}", "see https://yaml.org") from error

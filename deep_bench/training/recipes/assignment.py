"""Fields of a recipe set from outside, as on a command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.yaml_text import parsed


def assigned(content: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """A recipe's content with some fields set to other values.

    Args:
        content: As a YAML file has it.
        assignments: ``path=value`` each: the path as in ``optimizer.lr`` or ``scores.0.k``, the value as in YAML.

    Raises:
        InvalidArgument: No ``path=value``, or a path into what has no fields.

    Example:
        >>> assigned({"network": "mlp", "epochs": 5}, ["network.hidden=[32, 32]", "epochs=3"])
        {'network': {'name': 'mlp', 'hidden': [32, 32]}, 'epochs': 3}
    """
    target = deepcopy(dict(content))
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        if not path or not equals:
            raise InvalidArgument(f"{assignment!r} to change in a recipe", "path=value, such as optimizer.lr=0.01")
        _assign(target, path.split("."), parsed(value, f"the value of {path}"), path)
    return target


def _assign(content: Any, path: list[str], value: Any, whole: str) -> None:
    first, *tail = path
    if isinstance(content, list) and first.isdecimal() and int(first) < len(content):
        key: Any = int(first)
    elif isinstance(content, dict) and first:
        key = first
    else:
        raise InvalidArgument(f"the path {whole!r}, whose {first!r} leads nowhere", "names of fields with dots between")
    if not tail:
        content[key] = value
        return
    if isinstance(content, dict) and content.get(key) is None:
        content[key] = {}
    if isinstance(content[key], str):  # a name without settings
        content[key] = {"name": content[key]}
    _assign(content[key], tail, value, whole)

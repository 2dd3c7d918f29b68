"""Fields of a recipe set from outside, as on a command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from deep_bench.yaml_text import parsed


def changed(content: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """A recipe's content with some fields set to other values.

    What is set in ``fixed`` and ``matrix`` is a field or a factor, whose name may be a path of its own.

    Args:
        content: As a YAML file has it.
        assignments: ``path=value`` each, the value as in YAML.

    Raises:
        InvalidArgument: No ``path=value``, or a path into what has no fields.

    Example:
        >>> content = {"level": "training", "fixed": {"recipe": "digits", "sampler.batch": 64, "network": {"name": "mlp"}}}
        >>> changed(content, ["fixed.sampler.batch=32", "fixed.optimizer.lr=0.1", "fixed.network.hidden=[8]"])["fixed"]
        {'recipe': 'digits', 'sampler.batch': 32, 'network': {'name': 'mlp', 'hidden': [8]}, 'optimizer.lr': 0.1}
    """
    result = deepcopy(dict(content))
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        part, _, name = path.partition(".")
        within = result.get(part, {})
        direct = bool(equals and name) and part in ("fixed", "matrix") and isinstance(within, dict)
        if not direct or (part == "fixed" and _leads_into(within, name)):
            from deep_bench.training.recipes.assignment import assigned

            result = assigned(result, [assignment])
        else:
            remaining = {key: value for key, value in within.items() if not str(key).startswith(f"{name}.")}
            result[part] = {**remaining, name: parsed(text, f"the value of {path}")}
    return result


def _leads_into(fixed: Mapping[str, Any], name: str) -> bool:
    """Whether a path leads into what is fixed under its first word, and is not itself what is fixed."""
    first, dot, _ = name.partition(".")
    return bool(dot) and first in fixed and name not in fixed

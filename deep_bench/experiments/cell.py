"""``Cell``: one combination of a recipe's factors, which is one measurement in a process of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deep_bench.experiments.fields import Fields, Level


@dataclass(frozen=True)
class Cell:
    """One measurement.

    Args:
        recipe: The recipe's name.
        level: Its level.
        factors: Factor to value, of those that make cells.
        together: The values of the factor that is compared within one measurement; empty where it is fixed.
        content: The fields of the level, as a file would have them.
        fields: The same, checked.
        changes: At the levels that have a training recipe: path to value of what is changed in it.
    """

    recipe: str
    level: Level
    factors: Mapping[str, Any]
    together: tuple[Any, ...]
    content: Mapping[str, Any]
    fields: Fields
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """12 hexadecimal digits that follow from all that the cell is."""
        identity = json.dumps([self.recipe, self.level, dict(self.factors), dict(self.content)], sort_keys=True, default=str)
        return hashlib.sha256(identity.encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """Its factors, as a table shows them.

        Example:
            >>> from deep_bench.experiments import load_experiment
            >>> [cell.name for cell in load_experiment("small-network").cells]
            ['batch=1', 'batch=64']
        """
        return ", ".join(f"{name}={worded(value)}" for name, value in self.factors.items()) or self.recipe

    @property
    def note(self) -> dict[str, Any]:
        """What the records that it makes keep of it."""
        return {"recipe": self.recipe, "id": self.id, "factors": dict(self.factors)}


def worded(value: Any) -> str:
    """A factor's value in a word.

    Example:
        >>> worded("torch"), worded([32, 32]), worded({"name": "sgd", "lr": 0.1})
        ('torch', '[32, 32]', '{"name": "sgd", "lr": 0.1}')
    """
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

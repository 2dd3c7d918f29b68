"""The training recipe of a cell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.experiments.cell import Cell
from deep_bench.experiments.fields import ScalingFields, TrainingFields
from deep_bench.yaml_text import parsed, text_in


def training_content(cell: Cell, home: Path) -> dict[str, Any]:
    """What the training recipe of a cell says, its changes made; it is not checked.

    Args:
        cell: Of the levels training and scaling.
        home: The folder that names of files are relative to.

    Raises:
        InvalidArgument: Its file cannot be read, or a change leads nowhere.
    """
    from deep_bench.training.recipes import RECIPES
    from deep_bench.training.recipes import __file__ as package
    from deep_bench.training.recipes.assignment import assigned

    fields = cell.fields
    assert isinstance(fields, TrainingFields | ScalingFields)
    base: Any = {}
    if fields.recipe is not None:
        path = Path(package).with_name(f"{fields.recipe}.yaml") if fields.recipe in RECIPES else home / fields.recipe
        description = f"the training recipe {fields.recipe!r} (one of {', '.join(RECIPES)}, or a file)"
        base = parsed(text_in(path, description), description)
        if not isinstance(base, Mapping):
            raise InvalidArgument(
                f"the training recipe {path} is a {type(base).__name__}", "fields such as network and data"
            )
    return assigned({"name": _name(fields.recipe, cell), **base}, assignments(cell))


def assignments(cell: Cell) -> list[str]:
    """The changes of a cell as `deep-bench train` takes them."""
    return [f"{path}={json.dumps(value)}" for path, value in cell.changes.items()]


def _name(recipe: str | None, cell: Cell) -> str:
    return cell.recipe if recipe is None else Path(recipe).stem

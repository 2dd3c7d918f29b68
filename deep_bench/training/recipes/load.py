"""Reading recipes: those that ship, by name, and others from files."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

from deep_bench.errors import InvalidArgument
from deep_bench.training.recipes.assignment import assigned
from deep_bench.training.recipes.recipe import Recipe
from deep_bench.yaml_text import parsed

_FOLDER = Path(__file__).parent

RECIPES = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))
"""Names of the recipes that ship."""


def load_recipe(source: str | Path, *assignments: str) -> Recipe:
    """Read a recipe.

    Args:
        source: The name of one that ships (`RECIPES`), or a YAML file.
        *assignments: What to change in it; see `Recipe.changed`.

    Raises:
        InvalidArgument: There is none of this name, the file cannot be read, or it is no recipe.
        UnknownName: It names something that there is not.

    Example:
        >>> recipe = load_recipe("digits", "epochs=3")
        >>> recipe.name, recipe.fields.epochs, recipe.fields.target
        ('digits', 3, {'accuracy': 0.97})
    """
    path = _FOLDER / f"{source}.yaml" if source in RECIPES else Path(source)
    if path.suffix not in (".yaml", ".yml"):
        near = difflib.get_close_matches(str(source), RECIPES, n=1)
        raise InvalidArgument(
            f"no recipe {str(source)!r}",
            f"one of {', '.join(RECIPES)}, or a file that ends in .yaml",
            f"did you mean {near[0]!r}?" if near else "",
        )
    try:
        content = parsed(path.read_text(encoding="utf-8"), f"the recipe {path}")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidArgument(f"the recipe {path} cannot be read: {reason}", "a YAML file in UTF-8") from error
    if content is None:
        raise InvalidArgument(f"the recipe {path} is empty", "network, loss, data and scores at least")
    return Recipe(assigned(content, assignments) if isinstance(content, Mapping) else content, path.stem)

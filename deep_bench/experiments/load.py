"""Reading recipes: those that ship, by name, and others from files."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deep_bench.errors import DeepBenchError, InvalidArgument
from deep_bench.experiments.changing import changed
from deep_bench.experiments.experiment import Experiment
from deep_bench.experiments.refusal import in_file, kind_of, nearest
from deep_bench.yaml_text import Place, parsed_with_lines, text_in

_FOLDER = Path(__file__).parent / "ready"

READY = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))
"""Names of the recipes that ship."""

_PYTHON = "recipe"
"""What a Python file calls the recipe that it makes."""


def load_experiment(source: str | Path, *assignments: str, allow_code: bool = False) -> Experiment:
    """Read a recipe.

    Args:
        source: The name of one that ships (`READY`), a YAML file, or a Python file that makes one: a mapping ``recipe``, or
            a function of that name without arguments that returns one.
        *assignments: What to change in it, ``path=value`` each, such as ``fixed.budget=1s``.
        allow_code: Whether code may run: a Python file, or what a recipe names that is no part of deep_bench.

    Raises:
        InvalidArgument: There is none of this name, it cannot be read, is no recipe, or runs code without being allowed to;
            with the file's name, and the line where it has one.

    Example:
        >>> recipe = load_experiment("small-network", "matrix.batch=[1, 8, 64]")
        >>> recipe.name, recipe.level, len(recipe.cells)
        ('small-network', 'network', 3)
    """
    if not isinstance(source, str | Path):
        choices = f"a file's path, or one of {', '.join(READY)}"
        raise InvalidArgument(f"a recipe from {kind_of(source)}", choices, "of a mapping, Experiment(…) makes one")
    path = _FOLDER / f"{source}.yaml" if source in READY else Path(source)
    lines: Mapping[Place, int] = {}
    if path.suffix in (".yaml", ".yml"):
        content, lines = parsed_with_lines(text_in(path, f"the recipe {path}"), f"the recipe {path}")
    elif path.suffix == ".py":
        content = _made_by(path, allow_code)
    else:
        raise InvalidArgument(
            f"no recipe {str(source)!r}",
            f"one of {', '.join(READY)}, or a file that ends in .yaml or .py",
            nearest(str(source), READY),
        )
    if not isinstance(content, Mapping):
        raise InvalidArgument(f"the recipe {path} is {kind_of(content)}", "fields, such as level and fixed")
    home = Path.cwd() if source in READY else path.parent
    try:
        return Experiment(changed(content, assignments), path.stem, home=home, lines=lines, allow_code=allow_code)
    except DeepBenchError as error:
        raise in_file(str(source), error) from error


def _made_by(path: Path, allow_code: bool) -> Any:
    if not allow_code:
        raise InvalidArgument(
            f"the recipe {path} is a program, which reading it would run",
            "a YAML file, or your consent",
            "look at the file; then say --allow-code (allow_code=True)",
        )
    if not path.is_file():
        raise InvalidArgument(f"the recipe {path} cannot be read: there is no such file", "a Python file")
    recipe = runpy.run_path(str(path)).get(_PYTHON)
    if recipe is None:
        raise InvalidArgument(
            f"the program {path} makes no {_PYTHON!r}", f"{_PYTHON} = {{…}}, or def {_PYTHON}(): return {{…}}"
        )
    return recipe() if callable(recipe) else recipe

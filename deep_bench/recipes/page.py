"""The page of all fields of a recipe: ``python -m deep_bench.recipes.page > docs/recipe-fields.md``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from inspect import cleandoc

from pydantic import BaseModel

from deep_bench.recipes.faults import names
from deep_bench.recipes.levels import LEVELS, CaseFields
from deep_bench.recipes.recipe import CellLimits, ExperimentModel, Slurm
from deep_bench.study.settings import SettingsModel

_HEAD = """# Fields of a recipe

Made by `python -m deep_bench.recipes.page`. What recipes are for, and how they run, is in [recipes.md](recipes.md).
"""


def page() -> str:
    """All tables, as Markdown."""
    parts: dict[str, type[BaseModel]] = {
        "A recipe": ExperimentModel,
        "`limits`": CellLimits,
        "`slurm`": Slurm,
        **{f"`fixed` and `matrix` at level `{level}`": model for level, model in LEVELS.items()},
        "A case in `cases` at level `operators`": CaseFields,
    }
    return "\n".join([_HEAD, *("\n".join(_part(title, model)) for title, model in parts.items())])


def described(model: type[BaseModel]) -> dict[str, str]:
    """Field to what the docstring of its model, or of one that this extends, says of it; several fields may share one text.

    Example:
        >>> described(CellLimits)["whole"]
        'All cells; none is begun later. None by default.'
    """
    texts: dict[str, str] = {}
    for base in reversed([base for base in model.__mro__ if base is model or issubclass(base, SettingsModel)]):
        _, _, attributes = cleandoc(base.__doc__ or "").partition("Attributes:\n")
        lines = re.sub(r"\n {5,}", " ", attributes)
        for field_names, text in re.findall(r"^ {4}([\w, ]+): (.+)$", lines, re.MULTILINE):
            texts |= {name.strip(): text for name in field_names.split(",")}
    return texts


def _part(title: str, model: type[BaseModel]) -> Iterator[str]:
    summary, _, _ = cleandoc(model.__doc__ or "").partition("\n\nAttributes:\n")
    yield f"## {title}\n"
    yield _code(" ".join(summary.split())) + "\n"
    yield "| field | what it is |\n|---|---|"
    texts = described(model)
    yield from (f"| `{name}` | {_code(texts[name])} |" for name in names(model))
    yield ""


def _code(text: str) -> str:
    """Names as Markdown has them."""
    return text.replace("``", "`").replace("|", r"\|")


if __name__ == "__main__":
    sys.stdout.write(page())

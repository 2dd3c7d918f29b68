"""What is wrong with a recipe, in words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from deep_bench.errors import InvalidArgument
from deep_bench.training.recipes.schema import Named, RecipeModel

_MANY = 5


def refusal(where: str, error: ValidationError) -> InvalidArgument:
    """The error that names each field that is unknown, missing or of another kind, and what it could have been.

    Args:
        where: What was read.
        error: What pydantic says.
    """
    faults = error.errors(include_url=False)
    messages = [_worded(fault) for fault in faults]
    suffix = f"; and {len(messages) - _MANY} more" if len(messages) > _MANY else ""
    return InvalidArgument(
        f"the recipe {where}: {'; '.join(came for came, _, _ in messages[:_MANY])}{suffix}", messages[0][1], messages[0][2]
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """The advice that names the known word nearest to this one, if one is near.

    Example:
        >>> nearest("epoch", ["epochs", "seeds"])
        "did you mean 'epochs'?"
    """
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else ""


def _worded(fault: Any) -> tuple[str, str, str]:
    path = fault["loc"]
    field = ".".join(map(str, path))
    fields = _fields(path[:-1])
    listing = ", ".join(fields)
    if fault["type"] == "extra_forbidden":
        return f"unknown field {field!r}", f"some of {listing}", nearest(str(path[-1]), fields)
    if fault["type"] == "missing":
        input_names = [name for name in fault["input"] if name not in fields] if isinstance(fault["input"], dict) else []
        near = difflib.get_close_matches(str(path[-1]), input_names, n=1)
        return f"{field!r} is missing", f"a value for {field!r}", f"is {near[0]!r} it, misspelt?" if near else ""
    return f"{field!r} is {fault['input']!r}", fault["msg"][:1].lower() + fault["msg"][1:], ""


def _fields(path: Sequence[Any]) -> list[str]:
    """The fields of the part of a recipe that a path leads to; those that every named thing has if none is known."""
    model: type[BaseModel] = RecipeModel
    for step in path:
        field = model.model_fields.get(str(step))
        inner = None if field is None else _model_in(field.annotation)
        model = model if isinstance(step, int) else inner or Named
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model among the members of a type, such as the items of a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part)) is not None), None)

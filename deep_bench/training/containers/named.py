"""Sets by what a person calls them: a registered name, or the path of a container."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidData, UnknownName
from deep_bench.training.containers import open_container
from deep_bench.training.dataset import Dataset


def open_set(name: str, root: Path | str | None = None) -> Dataset:
    """A registered set, or a container.

    Args:
        name: A name in ``db.datasets``, with a part of it (``"mnist/test"``) or without; or a path.
        root: The folder of data sets, for those that have files.

    Raises:
        UnknownName: Neither.
        InvalidArgument: The set has no such part, or cannot be made from its name alone.
        InvalidData: Its files are missing or damaged.

    Example:
        >>> len(open_set("digits/test"))
        355
    """
    registered, slash, part = name.partition("/")
    if registered in db.datasets:
        return _made(registered, part if slash else None, root)
    if not Path(name).exists():
        if "/" in name or Path(name).suffix:
            raise InvalidData(f"{name}: there is no such file or folder", "a container's path, or the name of a set")
        raise UnknownName("data set", name, db.datasets, "pick one of these, or name the path of a container")
    return open_container(name)


def _made(name: str, part: str | None, root: Path | str | None) -> Dataset:
    make = db.datasets[name]
    parameters = inspect.signature(make).parameters
    options: dict[str, Any] = {}
    if part is not None:
        if "part" not in parameters:
            raise InvalidArgument(f"{name}/{part}", name, f"{name} has no parts")
        options["part"] = part
    if root is not None and "root" in parameters:
        options["root"] = root
    needed = [
        p.name for p in parameters.values() if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if missing := [argument for argument in needed if argument not in options]:
        listing = ", ".join(missing)
        raise InvalidArgument(
            f"{name} needs {listing}", "a set that its name alone makes", f"use db.datasets[{name!r}]({listing}=…)"
        )
    dataset: Dataset = make(**options)
    return dataset

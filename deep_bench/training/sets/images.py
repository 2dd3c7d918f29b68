"""Images that a user has, in a folder or in any other container."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deep_bench.errors import InvalidData
from deep_bench.training.sets.description import Description
from deep_bench.training.sets.views import Described


def images(root: Path | str, part: str | None = None, *, kind: str | None = None, **options: Any) -> Described:
    """Images in a folder with a folder for each class, or in any other container; they stay where they are.

    Of different sizes they are brought to one by a preparation's ``resize``. What is read is ``image``, uint8 with rows
    first, and ``label``, int64.

    Args:
        root: The container, or a folder with one for each part.
        part: The name of the part's container in the folder, its suffix apart, such as ``"train"``.
        kind: The kind of container; by default what the content shows.
        options: The container's own: ``mode="RGB"`` reads all images so, whatever the first is.

    Raises:
        InvalidData: Nothing is there, several containers are of that name, or what is there is damaged; named.
        UnknownName: No such kind or option.
    """
    from deep_bench.training.containers import open_container

    root = Path(root)
    name = root.name if part is None else f"{root.name}/{part}"
    return Described(open_container(container_of(root, part), kind, **options), Description(name))


def container_of(path: Path, part: str | None) -> Path:
    """The container of a part.

    Raises:
        InvalidData: There is none of this name, or several.
    """
    if part is None:
        return path
    matches = sorted(entry for entry in path.glob(f"{part}*") if entry.name == part or entry.stem == part)
    matches = [entry for entry in matches if entry.suffix not in (".json", ".idx")]  # these lie beside a container
    if len(matches) != 1:
        names = ", ".join(entry.name for entry in matches) or "nothing"
        advice = "check the path; a set without parts is divided by a recipe's data.split=random"
        raise InvalidData(f"{path} has {names} for the part {part!r}", "one folder or file of that name", advice)
    return matches[0]

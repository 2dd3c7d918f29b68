"""ImageNet, as the user has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deep_bench.errors import InvalidData
from deep_bench.training.sets.description import Description
from deep_bench.training.sets.views import Described


def imagenet(path: Path | str, part: str | None = None, *, kind: str | None = None, **options: Any) -> Described:
    """ImageNet in any container: a folder of classes, tar, WebDataset, TFRecord, RecordIO, HDF5 …; it is not fetched.

    Some containers count classes from 1: a preparation's ``offset`` puts that right.

    Args:
        path: The container, or a folder with one for each part.
        part: The name of the part's container in the folder, its suffix apart, such as ``"train"``.
        kind: The kind of container; by default what the content shows.
        options: The container's own, for example ``decode=False`` for images as they are encoded.

    Raises:
        InvalidData: Nothing is there, several containers are of that name, or what is there is damaged; named.
        UnknownName: No such kind or option.

    Source:
        Russakovsky et al., *ImageNet large scale visual recognition challenge*, 2015.
    """
    from deep_bench.training.containers import open_container

    path = Path(path)
    found = path if part is None else _of_part(path, part)
    source = "Russakovsky et al. (2015), https://www.image-net.org/"
    description = Description(f"imagenet/{part or path.stem}", source, "research and education only; see image-net.org")
    return Described(open_container(found, kind, **options), description)


def _of_part(path: Path, part: str) -> Path:
    found = sorted(entry for entry in path.glob(f"{part}*") if entry.name == part or entry.stem == part)
    found = [entry for entry in found if entry.suffix not in (".json", ".idx")]  # these lie beside a container
    if len(found) != 1:
        names = ", ".join(entry.name for entry in found) or "nothing"
        raise InvalidData(f"{path} has {names} for the part {part!r}", "one folder or file of that name")
    return found[0]

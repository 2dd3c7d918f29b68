"""ImageNet, as the user has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deep_bench.training.sets.description import Description
from deep_bench.training.sets.images import container_of
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
    source = "Russakovsky et al. (2015), https://www.image-net.org/"
    description = Description(f"imagenet/{part or path.stem}", source, "research and education only; see image-net.org")
    return Described(open_container(container_of(path, part), kind, **options), description)

"""The folder that records are written to."""

from __future__ import annotations

import os
from pathlib import Path

from deep_bench.errors import InvalidArgument


def output_folder(path: str | Path) -> Path:
    """The folder, made if it is not there.

    Raises:
        InvalidArgument: It cannot be made or written.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(
            f"the output folder {folder} cannot be made: {error.strerror}", advice="name another folder"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidArgument(f"the output folder {folder} is read-only", advice="name another folder")
    return folder

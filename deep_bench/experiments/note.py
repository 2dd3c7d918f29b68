"""A cell's factors in the records that it made."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deep_bench.experiments.cell import Cell
from deep_bench.experiments.state import CELL
from deep_bench.measure.storage import written

_LARGEST_BYTES = 256 * 2**20
_OPTIONS = re.compile(r'"recipe":\s*\{\s*"options":\s*\{')
_RECIPE = re.compile(r'"recipe":\s*\{')
_SCALING = "scaling"


def noted(cell: Cell, folder: Path) -> bool:
    """Write into each record of a folder which cell it is of; all else in it stays as it is.

    Args:
        cell: The cell.
        folder: Its own.

    Returns:
        Whether there is a record of a run that came to its end.

    Raises:
        InvalidArgument: A record cannot be written; it stays as it was.
    """
    complete = False
    for path, content in _records(folder):
        _note(path, content, cell.note)
        complete |= bool(content.get("complete", content.get("kind") == _SCALING))
    return complete


def _records(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(folder.glob("*.json")):
        if path.name == CELL or path.is_symlink() or path.stat().st_size > _LARGEST_BYTES:
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue  # no record, or damaged: `gather` says so
        if isinstance(content, dict) and isinstance(content.get("schema_version"), int) and "recipe" in content:
            yield path, content


def _note(path: Path, content: dict[str, Any], note: dict[str, Any]) -> None:
    scaling = content.get("kind") == _SCALING
    place = content["recipe"] if scaling else content["recipe"].setdefault("options", {})
    if place.get("cell") == note:
        return
    place.pop("cell", None)
    text = path.read_text(encoding="utf-8")
    begin = (_RECIPE if scaling else _OPTIONS).search(text)
    comma = "," if place else ""
    place["cell"] = note
    if begin is not None:  # as it is written: long lists keep their form
        text = f'{text[: begin.end()]}\n   "cell": {json.dumps(note)}{comma}{text[begin.end() :]}'
    if begin is None or json.loads(text) != content:
        text = json.dumps(content, indent=1) + "\n"
    written(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

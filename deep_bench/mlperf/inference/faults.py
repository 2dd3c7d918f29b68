"""What goes wrong while LoadGen runs. It can be told of nothing: it crashes, waits for ever, or prints VALID instead."""

from __future__ import annotations

import json
import traceback
from pathlib import Path

from deep_bench.errors import WorkerError, shortened
from deep_bench.measure.storage import replace

FILE = "fault.json"
"""Where the process under LoadGen leaves what ended it."""

_MOST_CHARACTERS = 20_000


class RunFailed(WorkerError):
    """A run under LoadGen that a fault of the system under test ended."""


def note(folder: Path, error: BaseException) -> None:
    """Leave a file for the process that started this one, which ends as soon as it is written."""
    kind = type(error).__name__
    content = {
        "kind": kind,
        "message": shortened(str(error) or kind, _MOST_CHARACTERS),
        "details": shortened("".join(traceback.format_exception(error)), _MOST_CHARACTERS),
    }
    replace(folder / FILE, lambda temporary: temporary.write_text(json.dumps(content), encoding="utf-8"))


def noted(folder: Path) -> dict[str, str] | None:
    """What was left there: ``kind``, ``message`` and ``details``; ``None`` where nothing was, or a part of it only."""
    try:
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return {key: str(content[key]) for key in ("kind", "message", "details")}
    except (OSError, ValueError, KeyError, TypeError):
        return None

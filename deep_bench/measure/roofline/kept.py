"""The roofs of this machine that were measured before."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import JsonValue, ValidationError

from deep_bench.errors import InvalidArgument
from deep_bench.measure.environment import capture
from deep_bench.measure.roofline.model import Roofline
from deep_bench.measure.user_cache import user_cache

_SAME = ("hostname", "cpu_model", "architecture", "cores", "cpus_allowed", "cpu_limit", "instruction_sets", "gpus")
"""What must be the same for a machine to be the same."""


def kept_roofline(folder: Path | None = None) -> Roofline | None:
    """The roofs of this machine that were measured last, or ``None`` if they never were.

    Args:
        folder: Where they are kept; by default where `deep_bench.measure.roofline.roofline` keeps them.
    """
    matches = []
    current_machine: Mapping[str, JsonValue] | None = None
    for file in _files(folder):
        current_machine = (
            capture().model_dump(mode="json", include=set(_SAME)) if current_machine is None else current_machine
        )
        with suppress(OSError, ValidationError):  # one that cannot be read is none
            candidate = Roofline.model_validate_json(file.read_text(encoding="utf-8"))
            if all(candidate.machine.get(name) == current_machine.get(name) for name in _SAME):
                matches.append(candidate)
    return max(matches, key=lambda kept: kept.created, default=None)


def _files(folder: Path | None) -> list[Path]:
    """Those that may hold roofs; none where there is no folder, or one that this user cannot look into."""
    with suppress(InvalidArgument, OSError):
        place = user_cache() / "roofline" if folder is None else folder
        return [place / name for name in os.listdir(place) if name.endswith(".json")]
    return []

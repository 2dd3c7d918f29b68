"""What short runs write now: the fields of each kind of record and of each file of figures, whatever their values.

Only the reference is run, in this process, so that a run takes a moment and needs no framework.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stored.stored import Texts, among_records, command_line, stored

QUICK = "--on reference --in-process"
COMMANDS = {
    "run": (
        f"run files/small.onnx --batch 2 --budget 0.1s --ci-width 0.9 --no-twin {QUICK} --output written",
        "written/*.json",
    ),
    "operators": (
        f"operators --suite files/suite.toml --budget 0.1s --ci-width 0.9 --no-twin {QUICK} --output written",
        "written/*.json",
    ),
    "operators_figures": (
        f"operators --suite files/suite.toml --case row --budget 0.1s --no-twin {QUICK} --json figures.json",
        "figures.json",
    ),
    "profile": (f"profile files/small.onnx --batch 2 --repeat 2 {QUICK} --json profile.json", "profile.json"),
    "diverge": (f"diverge files/small.onnx --batch 2 {QUICK} --json diverge.json", "diverge.json"),
    "train": (
        "train digits --on reference --network mlp --optimizer sgd --steps 2 --every 64 --target accuracy=0.01"
        " --output written",
        "written/*.json",
    ),
}

CHANCE = ("arrays", "environment", "git", "load_after", "notes", "roofline", "steal", "unknown")
"""Fields whose own fields are others on another machine, or on a busier one."""


def _fields(value: Any, place: str = "") -> set[str]:
    """The paths of all fields, those of a list's elements together."""
    if isinstance(value, dict):
        within = (set() if name in CHANCE else _fields(part, f"{place}.{name}") for name, part in value.items())
        return {f"{place}.{name}".removeprefix(".") for name in value}.union(*within)
    return set().union(*(_fields(part, f"{place}[]") for part in value)) if isinstance(value, list) else set()


def _written(name: str) -> str:
    line, pattern = COMMANDS[name]
    status, output, errors = command_line(line.split())
    assert status == 0, output + errors
    (file,) = Path.cwd().glob(pattern)
    return "\n".join(sorted(_fields(json.loads(file.read_text(encoding="utf-8"))))) + "\n"


def texts() -> Texts:
    """The fields that each command writes now."""
    return {f"writing/{name}.txt": lambda name=name: _written(name) for name in COMMANDS}


@pytest.fixture(autouse=True)
def _records(tmp_path: Path) -> Iterator[None]:
    with among_records(tmp_path / "records"):
        yield


@pytest.mark.parametrize("name", COMMANDS)
def test_fields_are_as_stored(name: str) -> None:
    assert _written(name) == stored(f"writing/{name}.txt")

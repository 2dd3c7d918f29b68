"""What a stranger's bundle may run without leave, and what it may never do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from deep_bench.errors import DeepBenchError, InvalidArgument, Unsupported
from deep_bench.repeating.environment import is_ours
from deep_bench.repeating.manifest import Manifest
from deep_bench.repeating.words import AGAIN, writing
from deep_bench.yaml_text import parsed

_DATA = frozenset(
    {".csv", ".data", ".h5", ".json", ".jsonl", ".md", ".npy", ".npz", ".onnx", ".parquet", ".pb", ".png", ".toml", ".txt"}
)
"""Files that are read and not run. All others may be code, whatever the manifest calls them: an environment's Python too."""

_RECIPES = frozenset({".yaml", ".yml"})

_COMMANDS = frozenset({"container", "environments", "modules", "requirements", "setup", "slurm"})
"""Fields of a recipe, or of declared environments, that start programs or install packages."""

_VERBS = frozenset({"communicate", "conformance", "mlperf", "operators", "recipe", "run", "train"})
"""What measures something. Others write where they are told to, and have nothing to repeat."""


def checked(made: Manifest, folder: Path, *, here: bool, allow_code: bool) -> list[str]:
    """The command of a bundle, if it may be run.

    Args:
        made: The manifest.
        folder: Where it was unpacked.
        here: Whether it runs in this environment, and not with the deep_bench of the bundle.
        allow_code: Whether the user lets it run code of its own.

    Raises:
        InvalidArgument: No command, another program, or a place outside the bundle's folder.
        Unsupported: Code of a stranger, without leave.
    """
    if not made.command:
        raise InvalidArgument("a bundle without a command", "one that says what repeats it: deep-bench bundle --command '…'")
    _check_program(made)
    for word in made.command:
        _check_place(word)
    _check_output(made.command)
    if not allow_code and (code := _code(made, folder, local=here)):
        shown = ", ".join(code[:3]) + (f" and {len(code) - 3} more" if len(code) > 3 else "")
        raise Unsupported(f"the bundle runs code that came with it: {shown}", advice="read it, and say --allow-code")
    return list(made.command)


def _check_program(manifest: Manifest) -> None:
    first, *arguments = manifest.command
    if first == "deep-bench":
        verb = arguments[0] if arguments else ""
        if verb not in _VERBS:
            raise InvalidArgument(f"the command deep-bench {verb}", f"one that measures: {', '.join(sorted(_VERBS))}")
    elif not (first in {file.path for file in manifest.files} and first.endswith(".py")):
        raise InvalidArgument(f"the command {first!r}", "deep-bench, or a Python file of the bundle", "run it by hand")


def _check_place(word: str) -> None:
    """No part of a word leads out of the folder."""
    for part in re.split(r"[=,:@\s]", word):
        path = PurePosixPath(part)
        if path.is_absolute() or ".." in path.parts or part.startswith("~") or "\\" in part:
            raise InvalidArgument(f"the word {word!r}, which leads out of the bundle's folder", "paths below it")


def _check_output(command: list[str]) -> None:
    options = writing(command)
    for number, word in enumerate(command):
        option, equals, value = word.partition("=")
        if option in options:
            value = value if equals else (command[number + 1] if number + 1 < len(command) else "")
            if value != AGAIN and not value.startswith(f"{AGAIN}/"):
                raise InvalidArgument(f"{option} {value}", f"what a repeated run writes goes to {AGAIN}")


def _code(manifest: Manifest, folder: Path, *, local: bool) -> list[str]:
    """What would be run that did not come with this deep_bench."""
    sources = [word for word in manifest.command if word.startswith("--allow-code")]
    inside = [file.path for file in manifest.files if file.role != "package"]
    for path in (*inside, *(path for omission in manifest.left for path in omission.files)):
        suffix = PurePosixPath(path).suffix
        if suffix not in _DATA and (suffix not in _RECIPES or _starts_programs(folder / path)):
            sources.append(path)
    if not local and not is_ours(manifest):
        sources += [file.path for file in manifest.of("package")]
    return sources


def _starts_programs(file: Path) -> bool:
    """Whether a recipe declares environments or jobs, or cannot be read to tell."""
    try:
        content = parsed(file.read_text(encoding="utf-8"), file.name)
    except (DeepBenchError, UnicodeDecodeError):
        return True
    return _has(content)


def _has(content: Any) -> bool:
    if isinstance(content, Mapping):
        return any(str(key) in _COMMANDS or _has(value) for key, value in content.items())
    return isinstance(content, list) and any(map(_has, content))

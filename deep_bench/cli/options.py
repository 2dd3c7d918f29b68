"""What several verbs read from a command line: durations, sizes, systems, and files to write."""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from deep_bench.errors import InvalidArgument

_TAKEN = "deep_bench.cli.files"
_PICTURES = (".eps", ".jpg", ".jpeg", ".pdf", ".png", ".svg", ".webp")
_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "m": 60.0, "min": 60.0, "h": 3600.0}


class Seconds(click.ParamType[float]):
    """A duration: ``20``, ``20s``, ``2m``, ``.5h``, ``500ms``."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a number with a unit."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]*)\s*", str(value))
        if match is None or match[2] not in _UNITS:
            self.fail(f"{value!r} is no duration: write 20s, 500ms or 2m", param, ctx)
        return float(match[1]) * _UNITS[match[2]]


class Size(click.ParamType[tuple[str, int]]):
    """A dimension and its size: ``seq=128``."""

    name = "dimension=size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Read a pair."""
        if isinstance(value, tuple):
            return value
        name, _, size = str(value).rpartition("=")
        if not name or not size.isdecimal():
            self.fail(f"{value!r}: write a dimension and its size, such as seq=128", param, ctx)
        return name, int(size)


class Sweep(click.ParamType[tuple[str, tuple[int, ...]]]):
    """A dimension and several sizes: ``batch=1,8,64``."""

    name = "dimension=size,size,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, tuple[int, ...]]:
        """Read a name and a list."""
        if isinstance(value, tuple):
            return value
        name, _, sizes = str(value).rpartition("=")
        parts = sizes.split(",")
        if not name or not all(p.isdecimal() for p in parts):
            self.fail(f"{value!r}: write a dimension and its sizes, such as batch=1,8,64", param, ctx)
        return name, tuple(map(int, parts))


class FileToWrite(click.ParamType[Path]):
    """A file that is written in the end, refused in the beginning if it cannot be.

    Args:
        stem: Whether other names may be made from it, which the verb then checks itself (`check_files`).
    """

    name = "path"

    def __init__(self, *, stem: bool = False) -> None:
        self.stem = stem

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Read a path, and see that a file can be written there that no other option names."""
        path = Path(value)
        if fault := unwritable(path):
            self.fail(fault, param, ctx)
        if ctx is not None and param is not None:
            writers = ctx.meta.setdefault(_TAKEN, {})
            option = writers.setdefault(path.resolve(), param.opts[0])
            if option != param.opts[0]:
                self.fail(f"{path} is what {option} writes: name another file", param, ctx)
        return path


class PictureToWrite(FileToWrite):
    """The same for a picture, whose format its name tells."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Read a path with a suffix that says the format, and see that there is something to draw with."""
        path = super().convert(value, param, ctx)
        if path.suffix.lower() not in _PICTURES:
            self.fail(f"{path} is no picture: write a name that ends in one of {', '.join(_PICTURES)}", param, ctx)
        if importlib.util.find_spec("matplotlib") is None:
            self.fail(f"{path} needs matplotlib, which is not installed: pip install 'deep-bench[report]'", param, ctx)
        return path


def unwritable(path: Path) -> str:
    """Why no file can be written there, with what to do; empty if one can.

    A file is tried beside it, as `deep_bench.measure.storage.replace` writes one.
    """
    if path.is_dir():
        return f"{path} is a folder: name a file"
    if not path.parent.is_dir():
        missing = "is no folder" if path.parent.exists() else "does not exist"
        return f"{path} cannot be written: {path.parent} {missing}; create it, or name another"
    if path.exists() and not path.is_file():
        return f"{path} is no regular file: name another"
    if path.exists() and not os.access(path, os.W_OK):
        return f"{path} is read-only: name another file"
    trial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        trial.touch(exist_ok=False)
        trial.unlink()
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}; name another file"
    return ""


def check_files(paths: Sequence[Path], option: str) -> None:
    """See that files can be written there, and that none of them is one that the command reads.

    Args:
        paths: What an option names, or what is made from it.
        option: As it is written.

    Raises:
        BadParameter: One cannot be, or is an input.
    """
    context = click.get_current_context(silent=True)
    for path in paths:
        if fault := unwritable(path):
            raise click.BadParameter(fault, param_hint=option)
        if path.exists() and context is not None and (read := _read_as(path, context)):
            raise click.BadParameter(f"{path} is {read}: name another file", param_hint=option)


def _read_as(path: Path, context: click.Context) -> str:
    """What a file is to the command that is about to run, if that reads it, whatever the two names of it; else nothing."""
    for param in context.command.params:
        if isinstance(param.type, FileToWrite):
            continue
        value = context.params.get(str(param.name))
        for argument in value if isinstance(value, tuple) else (value,):
            for name in _files_in(argument):
                description = (
                    f"read as {param.opts[0]}" if isinstance(param, click.Option) else f"the {param.human_readable_name}"
                )
                if path.samefile(name):
                    return f"{description} of this command"
                if name.suffix == ".onnx" and _holds_data(name, path):
                    return f"where {name} has its tensors"
    return ""


def _files_in(value: object) -> list[Path]:
    """The file that a value names, alone (``in.npz``) or with what is meant in it (``kernels.py:Gelu``), if it is there."""
    if not isinstance(value, str | Path):
        return []
    return [file for file in map(Path, {str(value), str(value).rpartition(":")[0]}) if _is_file(file)]


def _is_file(path: Path) -> bool:
    """Whether there is such a file; a name that cannot be one is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _holds_data(network: Path, path: Path) -> bool:
    """Whether the external data of a network are in this file; what is no network holds none, which its reader says."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.load(network, format="protobuf", load_external_data=False)
    except (DecodeError, UnicodeDecodeError, ValueError, OSError):
        return False
    locations = {entry.value for t in _external(proto) for entry in t.external_data if entry.key == "location"}
    return any(_is_file(data) and path.samefile(data) for data in (network.parent / location for location in locations))


def _external(proto: Any) -> list[Any]:
    """The tensors of a network that are in other files."""
    from onnx.external_data_helper import _get_all_tensors, uses_external_data

    return [tensor for tensor in _get_all_tensors(proto) if uses_external_data(tensor)]


def one_each(path: Path, systems: Sequence[str]) -> list[Path]:
    """A file for each system: the one that was named if there is one system, else names with theirs, each different.

    Example:
        >>> [file.name for file in one_each(Path("p.png"), ["torch", "torch:threads=1"])]
        ['p-torch.png', 'p-torch-threads-1.png']
    """
    if len(systems) == 1:
        return [path]
    stems = [f"{path.stem}-{re.sub(r'[^0-9A-Za-z]', '-', system)}" for system in systems]
    numbered = [f"{stem}-{i + 1}" if stems.count(stem) > 1 else stem for i, stem in enumerate(stems)]
    return [path.with_stem(stem) for stem in numbered]


def check_systems(systems: Sequence[str]) -> None:
    """See that all systems exist and each is asked for once, before minutes are spent on the first.

    Raises:
        UnknownName, FrameworkMissing: As `Variant.parse`.
        InvalidArgument: One comes twice; the order of its options makes no difference.
    """
    from deep_bench.variant import Variant

    visited: dict[Any, str] = {}
    for system in systems:
        variant = Variant.parse(system)
        key = variant.framework, variant.environment, tuple(sorted(variant.options.items()))
        if key in visited:
            raise InvalidArgument(f"--on {visited[key]} and --on {system}", "each system once")
        visited[key] = system

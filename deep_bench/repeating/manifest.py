"""What a bundle says of itself: its files with their digests, the command, the lock, and what it does not hold."""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePosixPath
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field

from deep_bench.measure.record import Model, Sha256

MANIFEST = "bundle.json"
"""Name of the manifest in the archive."""

Role: TypeAlias = Literal["record", "samples", "input", "code", "package", "lock", "licence", "readme"]


def _inside(path: str) -> str:
    """A path below the bundle's folder, the same on every system."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\\" in path or ":" in parts[0] or "\0" in path:
        raise ValueError(f"{path!r} does not lie below the bundle's folder")
    return path


Inside = Annotated[str, Field(max_length=1024), AfterValidator(_inside)]


class Packed(Model):
    """A file of the archive.

    Attributes:
        path: Where it is in there.
        role: What it is for.
        bytes: Its size.
        sha256: Its digest.
        source: Where it came from, as the command named it.
    """

    path: Inside
    role: Role
    bytes: int = Field(ge=0)
    sha256: Sha256
    source: str = ""


class Left(Model):
    """Something that is needed and is not in the archive.

    Attributes:
        what: What it is, as the command or the record names it.
        why: Why it is left out.
        source: Where it can be had; empty where that was not told.
        sha256: Its digest, by its name; empty where it is not known.
        files: What has to be put into the unpacked bundle before it can be repeated: path there to digest.
    """

    what: str
    why: str
    source: str = ""
    sha256: dict[str, Sha256] = Field(default_factory=dict)
    files: dict[Inside, Sha256] = Field(default_factory=dict)


def told(one: Left) -> str:
    """What is left out, why, and where it can be had, in one line."""
    return f"{one.what}: {one.why}; {one.source or 'where it can be had was not told'}"


class Lock(Model):
    """The environment, in exact versions.

    Attributes:
        python: Its version, such as ``"3.11.7"``.
        platform: Such as ``"linux-x86_64"``.
        file: The requirements, in pip's form.
        drifted: What is another version now than the record has: the lock is of the environment that made the bundle.
    """

    python: str
    platform: str
    file: Inside
    drifted: dict[str, tuple[str, str]] = Field(default_factory=dict)


class Manifest(Model):
    """A bundle.

    Attributes:
        created: When the last of its runs began.
        deep_bench: The version that made it.
        title: What it is, in words.
        command: What is run to repeat it, with paths in the archive; empty where the record tells none.
        variables: Environment variables that it is run with.
        records: Paths of the records.
        files: All files but the manifest.
        left: What it does not hold.
        licence: Under which the author shares it; empty for none given.
        lock: The environment.
        remarks: What a reader should know.
    """

    schema_version: Literal[1] = 1
    kind: Literal["bundle"] = "bundle"
    created: datetime
    deep_bench: str
    title: str
    command: list[str] = Field(default_factory=list)
    variables: dict[str, str] = Field(default_factory=dict)
    records: list[Inside] = Field(min_length=1)
    files: list[Packed]
    left: list[Left] = Field(default_factory=list)
    licence: str = ""
    lock: Lock
    remarks: list[str] = Field(default_factory=list)

    def of(self, role: Role) -> list[Packed]:
        """The files with a role."""
        return [file for file in self.files if file.role == role]

"""Locks: the exact versions of an environment, with the hashes of their archives where pip gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from deep_bench.environments.declaration import Declaration
from deep_bench.errors import InvalidArgument
from deep_bench.measure.storage import written

_PIN = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)==(?P<version>[^\s;#]+)(?:\s+--hash=sha256:(?P<hash>[0-9a-f]{64}))?")
_MOST_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Lock:
    """What a lock says.

    Args:
        declaration: The SHA-256 of the declaration that it was made for.
        pins: Name to version.
        hashes: Name to the SHA-256 of its archive, where it is known.
    """

    declaration: str
    pins: Mapping[str, str]
    hashes: Mapping[str, str]

    @classmethod
    def parse(cls, text: str, name: str) -> Lock:
        """Read a lock's text.

        Args:
            text: The text.
            name: What to call it in an error.

        Raises:
            InvalidArgument: It is no lock: a line is neither a comment nor ``name==version [--hash=sha256:…]``.
        """
        declaration, pins, hashes = "", {}, {}
        for line in map(str.strip, text.splitlines()):
            if match := re.fullmatch(r"# declaration ([0-9a-f]{64})", line):
                declaration = match[1]
            if not line or line.startswith("#"):
                continue
            pin = _PIN.fullmatch(line)
            if pin is None:
                raise InvalidArgument(f"the lock of {name} has the line {line!r}", "name==version --hash=sha256:…")
            pins[pin["name"]] = pin["version"]
            if pin["hash"]:
                hashes[pin["name"]] = pin["hash"]
        return cls(declaration, pins, hashes)

    @property
    def hashed(self) -> bool:
        """Whether the hashes of all archives are known."""
        return bool(self.pins) and self.hashes.keys() == self.pins.keys()

    def differences(self, built: Lock) -> list[str]:
        """How what was built differs from this lock, package by package; empty if it does not.

        Example:
            >>> Lock("", {"numpy": "2.4.6", "onnx": "1.23.0"}, {}).differences(Lock("", {"numpy": "2.4.5"}, {}))
            ['numpy 2.4.6 was built as 2.4.5', 'onnx 1.23.0 was not built']
        """
        lines = []
        for name in sorted(self.pins.keys() | built.pins.keys()):
            mine, theirs = self.pins.get(name), built.pins.get(name)
            if mine is None:
                lines.append(f"{name} {theirs} was built, and is not in it")
            elif mine != theirs:
                lines.append(f"{name} {mine} was " + (f"built as {theirs}" if theirs else "not built"))
            elif self.hashes.get(name, "") != built.hashes.get(name, "") and name in self.hashes and name in built.hashes:
                lines.append(f"{name} {mine} was built from another archive")
        return lines

    def lines(self) -> list[str]:
        """The lines that pip installs from: with hashes if all are known, since pip wants all or none."""
        return [f"{n}=={v} --hash=sha256:{self.hashes[n]}" if self.hashed else f"{n}=={v}" for n, v in self.pins.items()]


def lock_of(
    name: str, declaration: Declaration, python: str, frozen: Mapping[str, str], installed: Mapping[str, str]
) -> str:
    """The lock of an environment that was just built, as text.

    Args:
        name: Its name.
        declaration: What it was built from.
        python: Its interpreter, with its version.
        frozen: Name to version of all that is installed.
        installed: ``name==version`` to the hash of its archive, of what pip installed.
    """
    pins = dict(sorted(installed.items(), key=lambda pair: pair[0].lower()))
    names = {canonicalize_name(pin.partition("==")[0]) for pin in pins}
    remarks = [
        f"# {n}=={v} came with the interpreter" for n, v in sorted(frozen.items()) if canonicalize_name(n) not in names
    ]
    lines = [f"{pin} --hash=sha256:{digest}" if digest else pin for pin, digest in pins.items()]
    head = [f"# deep-bench environment {name}", f"# declaration {declaration.sha256}", f"# {python}"]
    return "\n".join([*head, *remarks, *lines]) + "\n"


def lock_file(declarations: Path | None, name: str) -> Path:
    """Where the lock of a declared environment lies: beside the file that declares it."""
    return (declarations or Path("environments.yaml")).with_name(f"{name}.lock.txt")


def read_lock(path: Path, name: str) -> Lock | None:
    """The lock in a file; None if there is none.

    Raises:
        InvalidArgument: It cannot be read, or is no lock.
    """
    if not path.is_file():
        return None
    if path.stat().st_size > _MOST_BYTES:
        raise InvalidArgument(f"{path} has {path.stat().st_size} bytes", f"at most {_MOST_BYTES}")
    try:
        return Lock.parse(path.read_text(encoding="utf-8"), name)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"the lock {path} cannot be read: {error}", "a file that `lock` wrote") from error


def write_lock(path: Path, text: str) -> Path:
    """Write a lock beside the declarations, whole or not at all."""
    return written(path, lambda file: file.write_text(text, encoding="utf-8"))

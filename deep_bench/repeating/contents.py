"""What goes into a bundle, and what cannot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from deep_bench.measure.storage import digest
from deep_bench.repeating.manifest import Left, Packed, Role

FILE_BYTES = 512 * 2**20
"""A larger input stays outside, with its digest."""

_LISTED = 10_000
"""So many files of a folder are looked at."""

_CODE = frozenset({".py", ".cpp", ".cc", ".c", ".h", ".hpp", ".cu", ".sh"})


@dataclass
class Contents:
    """Collects files under paths that no two of them share.

    Attributes:
        files: Path in the archive to where the file is.
        packed: What the manifest says of them.
        left: What stays outside.
    """

    files: dict[str, Path] = field(default_factory=dict)
    packed: list[Packed] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)

    def add(self, file: Path, path: str, role: Role, source: str = "") -> str:
        """Take a file in.

        Returns:
            Its path in the archive: another one if the same name is taken by other content.
        """
        found = digest(file)
        path = self._free(path, found)
        if path not in self.files:
            self.files[path] = file
            self.packed.append(Packed(path=path, role=role, bytes=file.stat().st_size, sha256=found, source=source))
        return path

    def take(self, named: Path, word: str, *, limit: int = FILE_BYTES) -> str:
        """Take in what a command reads: a file, or a folder with all that is in it.

        Args:
            named: The file or folder.
            word: As the command names it.
            limit: The most bytes of all its files.

        Returns:
            Its path in the archive, or where it has to be put if it is left outside.
        """
        place = f"inputs/{named.resolve().name}"
        files = list(_within(named))
        size = sum(file.stat().st_size for _, file in files)
        if len(files) > _LISTED or size > limit:
            why = f"more than {_LISTED} files" if len(files) > _LISTED else f"{size} bytes, of which {limit} are taken in"
            listed = {inside or named.name: digest(file) for inside, file in files[:_LISTED]}
            self.left.append(Left(what=word, why=why, source=f"put it at {place}", sha256=listed))
            return place
        if named.is_file():
            return self.add(named, place, "code" if named.suffix in _CODE else "input", word)
        for inside, file in files:
            self.add(file, f"{place}/{inside}", "code" if file.suffix in _CODE else "input", f"{word}/{inside}")
        return place

    def _free(self, path: str, found: str) -> str:
        taken = {file.path: file.sha256 for file in self.packed}
        number, free = 1, path
        while taken.get(free, found) != found:
            number += 1
            free = str(Path(path).with_name(f"{Path(path).stem}_{number}{Path(path).suffix}"))
        return free


def _within(named: Path) -> Iterator[tuple[str, Path]]:
    """Path below the folder, and file; links are not followed out of it, and what begins with a dot is left."""
    if named.is_file():
        yield "", named
        return
    root = named.resolve()
    for file in sorted(named.rglob("*")):
        inside = file.relative_to(named)
        hidden = any(part.startswith(".") or part == "__pycache__" for part in inside.parts)
        if file.is_file() and not hidden and file.resolve().is_relative_to(root):
            yield inside.as_posix(), file


def beside(file: Path, suffixes: Iterable[str] = (".h5",)) -> Iterator[Path]:
    """The files that belong to a record: those whose names begin with its own."""
    for other in sorted(file.parent.glob(f"{file.stem}_*")):
        if other.suffix in suffixes and other.is_file():
            yield other

"""What goes into a bundle, and what cannot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from deep_bench.errors import InvalidArgument
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
        checksum = digest(file)
        path = self._free(path, checksum)
        if path not in self.files:
            self.files[path] = file
            self.packed.append(Packed(path=path, role=role, bytes=file.stat().st_size, sha256=checksum, source=source))
        return path

    def take(self, named: Path, word: str, place: str = "", *, source: str = "", limit: int = FILE_BYTES) -> str:
        """Take in what a command reads: a file, or a folder with all that is in it.

        Args:
            named: The file or folder.
            word: As the command names it.
            place: Where it goes; by default below ``inputs``.
            source: Where it can be had, if it is too large.
            limit: The most bytes of all its files.

        Returns:
            Its path in the archive, or where it has to be put if it is left outside.

        Raises:
            InvalidArgument: Another file lies where one of the folder has to.
        """
        place = place or f"inputs/{named.resolve().name}"
        files = {f"{place}/{inside}" if inside else place: file for inside, file in _within(named)}
        if not self._fits(files, word, source, limit):
            return place
        if named.is_file():
            return self.add(named, place, _role(named), word)
        self._add_all(files, word)
        return place

    def take_together(self, files: Mapping[str, Path], word: str, *, source: str = "") -> None:
        """Take in files that have to lie as they do: a network, and those that hold its tensors.

        Args:
            files: Path in the archive to where the file is.
            word: As the command names them.
            source: Where they can be had, if they are too large.

        Raises:
            InvalidArgument: Another file lies at one of the paths.
        """
        if self._fits(files, word, source, FILE_BYTES):
            self._add_all(files, word)

    def _add_all(self, files: Mapping[str, Path], word: str) -> None:
        for path, file in files.items():
            if self.add(file, path, _role(file), word) != path:
                raise InvalidArgument(
                    f"{word}: another file lies at {path} in the bundle", "names that differ", "rename one, and run it again"
                )

    def _fits(self, files: Mapping[str, Path], word: str, source: str, limit: int) -> bool:
        """Whether files are few and small enough; if not, they are noted as left outside."""
        size = sum(file.stat().st_size for file in files.values())
        if len(files) <= _LISTED and size <= limit:
            return True
        reason = f"more than {_LISTED} files" if len(files) > _LISTED else f"{size} bytes, of which {limit} are taken in"
        listed = {path: digest(file) for path, file in list(files.items())[:_LISTED]}
        self.left.append(Left(what=word, why=reason, source=source, files=listed))
        return False

    def _free(self, path: str, checksum: str) -> str:
        checksums = {file.path: file.sha256 for file in self.packed}
        number, free = 1, path
        while checksums.get(free, checksum) != checksum:
            number += 1
            free = str(PurePosixPath(path).with_name(f"{PurePosixPath(path).stem}_{number}{PurePosixPath(path).suffix}"))
        return free


def _role(file: Path) -> Role:
    return "code" if file.suffix in _CODE else "input"


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
    """The files that belong to a record: named as it is, or with more words after that."""
    for sibling in sorted(file.parent.iterdir()):
        ours = sibling.stem == file.stem or sibling.stem.startswith(f"{file.stem}_")
        if ours and sibling.suffix in suffixes and sibling.is_file():
            yield sibling

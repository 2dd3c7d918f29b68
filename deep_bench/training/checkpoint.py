"""Checkpoints: a training run in an HDF5 file, from which it goes on exactly.

One run writes into a folder at a time.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import re
import time
import warnings
from contextlib import suppress
from io import FileIO
from itertools import takewhile
from pathlib import Path
from time import perf_counter_ns
from typing import Any
from zlib import crc32

import h5py
import numpy as np

from deep_bench.arrays import grown, leaves
from deep_bench.errors import InvalidArgument, InvalidRecord, printable
from deep_bench.events import Moment
from deep_bench.records.store import FileForHdf5, written
from deep_bench.training.run_state import Progress
from deep_bench.training.samplers import natural
from deep_bench.training.steps import Tree

FORMAT = 1
"""The version of the layout: a group for each branch of the tree, a data set for each leaf."""


_LEAVES, _EMPTY = " leaves", " empty"
"""Names of the data sets that list the paths of all leaves, and of branches without any; no key has a space once escaped."""


_HEAD = 512
"""Bytes that HDF5 leaves to the user at the beginning of a file; the check sum of all that follows is there."""


_SEAL = b"deep_bench checkpoint, CRC-32 %08x\n"
_MAGIC = _SEAL.index(b"%")
_PART = 2**22

_DTYPE = "dtype"
"""Where a leaf of a type that HDF5 does not have says which it is; its bits are stored as whole numbers."""


def write_checkpoint(path: str | Path, tree: Tree) -> Path:
    """Write a tree of arrays to an HDF5 file: whole, or not at all.

    It is written beside, brought to the disk, and then renamed: a process that is killed amid leaves what was there before.

    Args:
        path: The file.
        tree: What `Trainer.snapshot` gave, or any tree of dicts with arrays as leaves.

    Raises:
        InvalidArgument: The folder does not exist or cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = write_checkpoint(f"{folder}/a.h5", {"parameters": {"w": np.arange(3.0)}})
        ...     read_checkpoint(file)
        {'parameters': {'w': array([0., 1., 2.])}}
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InvalidArgument(f"no folder {str(target.parent)!r} for the checkpoint", "an existing folder")
    return written(target, lambda temporary: _fill(temporary, tree))


def read_checkpoint(path: str | Path) -> Tree:
    """Read what `write_checkpoint` wrote.

    Raises:
        InvalidRecord: No such file, no checkpoint, one of another version, or a damaged one.
    """
    path = Path(path)
    try:
        _check_seal(path)
        with h5py.File(path, "r") as file:
            version = file.attrs.get("deep_bench.checkpoint")
            if version != FORMAT:
                raise InvalidRecord(f"{path} is of version {version!r}", f"a checkpoint of version {FORMAT}")
            by_path: dict[tuple[str, ...], Any] = {}
            for key in file[_LEAVES].asstr()[()]:
                stored = file[key]
                array = np.asarray(stored[()])
                name = stored.attrs.get(_DTYPE)
                by_path[_keys(key)] = array if name is None else array.view(np.dtype(str(name)))
            branches = [_keys(key) for key in file[_EMPTY].asstr()[()]]
    except OSError as error:
        raise InvalidRecord(
            f"cannot read the checkpoint {path}: {error.strerror or error}", "a file of write_checkpoint"
        ) from error
    tree = grown(by_path)
    for path_of_branch in branches:
        branch = tree
        for key in path_of_branch:
            branch = branch.setdefault(key, {})
    return tree


def _fill(path: Path, tree: Tree) -> None:
    with FileForHdf5(path) as plain, h5py.File(plain, "w", userblock_size=_HEAD) as file:
        file.attrs["deep_bench.checkpoint"] = FORMAT
        by_path = {"/".join(map(_escaped, keys)): np.asarray(leaf) for keys, leaf in leaves(tree).items()}
        for key, array in by_path.items():
            if array.dtype.hasobject:
                raise InvalidArgument(f"{key} of Python objects in a checkpoint", "arrays of numbers")
            builtin = array.dtype.isbuiltin == 1 and array.dtype.kind in "biuf"
            stored = file.create_dataset(key, data=array if builtin else array.view(f"u{array.dtype.itemsize}"))
            if not builtin:
                stored.attrs[_DTYPE] = array.dtype.name
            plain.check()
        for name, keys in ((_LEAVES, list(by_path)), (_EMPTY, _empty(tree))):
            file.create_dataset(name, data=keys, dtype=h5py.string_dtype())  # an attribute would hold no more than 64 KiB
    with open(path, "r+b") as sealed:
        sealed.write(_SEAL % _sum(sealed))


def _empty(tree: Tree, path: str = "") -> list[str]:
    """The paths of all empty branches, which no leaf tells of."""
    paths = []
    for key, value in tree.items():
        if isinstance(value, dict):
            branch = f"{path}{_escaped(key)}"
            paths += [branch] if not value else _empty(value, f"{branch}/")
    return paths


def _check_seal(path: Path) -> None:
    with open(path, "rb") as file:
        head = file.read(_HEAD)
        if not head.startswith(_SEAL[:_MAGIC]):
            raise InvalidRecord(f"{path} is no checkpoint", "a file of write_checkpoint")
        if not head.startswith(_SEAL % _sum(file)):
            raise InvalidRecord(
                f"{path} is damaged: its check sum differs", "the file as it was written", "use an earlier one"
            )


def _sum(file: Any) -> int:
    file.seek(_HEAD)
    checksum = 0
    while part := file.read(_PART):
        checksum = crc32(part, checksum)
    file.seek(0)
    return checksum


def _escaped(key: str) -> str:
    """A key that HDF5 takes for a single name."""
    return re.sub(r"[%/ \0]|^\.+$", lambda m: "".join(f"%{ord(c):02x}" for c in m[0]), key) or "%"


def _keys(path: str) -> tuple[str, ...]:
    return tuple(
        "" if part == "%" else re.sub("%([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), part) for part in path.split("/")
    )


class Checkpoints:
    """A callback that writes checkpoints into a folder, and keeps the last ones.

    While a run goes on, no other can write into the folder, which is locked (`deep_bench.training.checkpoint.FolderLock`).

    One is written at the end of a run too, unless an error ended it, or Ctrl-C amid a step; with
    `deep_bench.training.callbacks.StopAtSignal` beside it, Ctrl-C ends a run after its step.

    Args:
        folder: Where; made if it is missing.
        steps: Write after so many steps; by default, or at 0, never.
        seconds: Write when so many seconds have passed since the last; by default, or at 0, never.
        epochs: Write after so many epochs, 1 by default; 0 for never.
        keep: How many files to keep.

    Raises:
        InvalidArgument: A negative number, steps, epochs or files that are no whole number, or nothing to write after: a 0
            without a number above 0.

    Example:
        >>> import deep_bench as db
        >>> db.training.Checkpoints("checkpoints", steps=100).path(1200).name
        'step_0000001200.h5'
    """

    moments = (Moment.BEFORE_RUN, Moment.BEFORE_STEP, Moment.AFTER_STEP, Moment.AFTER_EPOCH, Moment.AFTER_RUN)

    def __init__(
        self,
        folder: str | Path,
        *,
        steps: int | None = None,
        seconds: float | None = None,
        epochs: int | None = None,
        keep: int = 2,
    ) -> None:
        if epochs is None:
            epochs = 0 if 0 in (steps, seconds) and not (steps or seconds) else 1
        steps, epochs, keep = (natural(name, n) for name, n in (("steps", steps or 0), ("epochs", epochs), ("keep", keep)))
        seconds = seconds or 0
        if not seconds >= 0 or not (steps or seconds or epochs) or keep < 1:
            raise InvalidArgument(
                f"checkpoints every {steps} steps, {seconds} seconds, {epochs} epochs, keeping {keep}",
                "one of these above 0, none below, and at least one file kept",
            )
        self.folder = Path(folder)
        self.steps, self.seconds, self.epochs, self.keep = steps, seconds, epochs, keep
        self._last_ns = perf_counter_ns()
        self._lock = FolderLock(self.folder)
        self._whole: tuple[int, int] | None = None
        self._written: tuple[int, int] | None = None

    def path(self, step: int) -> Path:
        """The file of a step."""
        return self.folder / f"step_{step:010d}.h5"

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Write one if it is due."""
        try:
            if self.due(moment, index, time_ns, data):
                self.write(data)
        finally:
            if moment is Moment.AFTER_RUN:
                self.release()

    def due(self, moment: Moment, index: int, time_ns: int, data: Progress) -> bool:
        """Whether one is to be written now; before the run, see that it can be, and that no other run's are there."""
        position, done = (data.epoch, data.position), index + 1
        if moment is Moment.BEFORE_STEP:
            self._whole = None  # amid a step nothing is as it was before, and nothing as it will be
            return False
        if moment is Moment.BEFORE_RUN:
            self.check_folder(data.step)
            self._last_ns, self._written, due = time_ns, position, False
        elif moment is Moment.AFTER_STEP:
            due = bool(self.steps) and done % self.steps == 0
            due = due or (bool(self.seconds) and time_ns - self._last_ns >= self.seconds * 1e9)
        elif moment is Moment.AFTER_EPOCH:
            due = bool(self.epochs) and done % self.epochs == 0
        else:
            due = bool(data.history.stopped_because) and position == self._whole != self._written
        if moment is not Moment.AFTER_RUN:
            self._whole = position
        return due

    def hold(self) -> None:
        """Keep other runs out of the folder until `release`, and make it if it is missing; before it is read to go on.

        Raises:
            InvalidArgument: It cannot be made, or another run is writing there.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgument(f"cannot make the folder {self.folder}: {error.strerror}", "another folder") from error
        self._lock.take()

    def release(self) -> None:
        """Let other runs write there."""
        self._lock.give_back()

    def check_folder(self, step: int) -> None:
        """See that a run which is at this step can write here, and hold the folder.

        Raises:
            InvalidArgument: It cannot be made, is in use, or holds another run's.
        """
        self.hold()
        latest = latest_checkpoint(self.folder)
        if latest is not None and int(latest.stem.rpartition("_")[2]) > step:
            self.release()
            raise InvalidArgument(
                f"{self.folder} holds {latest.name}, and this run is at step {step}: it is another run's",
                "an empty folder, or a run that goes on from there",
                "name another folder, or resume",
            )

    def write(self, data: Progress) -> Path:
        """Write a checkpoint now."""
        return self.write_tree(data.trainer.snapshot(), data)

    def write_tree(self, tree: Tree, data: Progress) -> Path:
        """Write a snapshot that was taken now."""
        path = write_checkpoint(self.path(data.step), tree)
        self._written = (data.epoch, data.position)
        self._last_ns = perf_counter_ns()
        for old in _checkpoints(self.folder)[: -self.keep]:
            old.unlink(missing_ok=True)
        return path


def latest_checkpoint(folder: str | Path) -> Path | None:
    """The checkpoint of the latest step in a folder; ``None`` if there is none."""
    return next(reversed(_checkpoints(Path(folder))), None)


def set_aside_damaged(folder: str | Path) -> list[Path]:
    """Rename the latest checkpoints if they are damaged, so that a run goes on from the last one that is whole.

    Returns:
        What was renamed, as it is called now: ``step_….h5.damaged``.

    Raises:
        InvalidRecord: None is whole; then nothing is renamed, since nothing is left to go on from.
    """
    checkpoints = _checkpoints(Path(folder))
    damaged = list(takewhile(_is_damaged, reversed(checkpoints)))
    if damaged and len(damaged) == len(checkpoints):
        raise InvalidRecord(
            f"all checkpoints in {folder} are damaged: {', '.join(path.name for path in checkpoints)}",
            "one at least that is whole",
            "restore one from a copy; or delete them, and start afresh",
        )
    return [path.rename(path.with_name(f"{path.name}.damaged")) for path in damaged]


def _is_damaged(path: Path) -> bool:
    try:
        _check_seal(path)
    except InvalidRecord:
        return True
    except OSError:  # it cannot be read here, which says nothing of it; who reads it is told
        return False
    return False


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("step_" + "[0-9]" * 10 + ".h5"))


FILE = ".lock"
"""The file that is locked. It is gone when its run ends; after a run that was killed it stays, and is nobody's."""


_TAKEN = (errno.EAGAIN, errno.EACCES)
"""What the system answers where somebody has it; anything else means that there are no locks."""


_LONGEST = 300


class FolderLock:
    """The right to write into a folder. The system takes it back when the process ends, however it does.

    Args:
        folder: The folder, which must exist when it is taken.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mine = FolderLock(folder)
        ...     mine.take()
        ...     try:
        ...         FolderLock(folder).take()
        ...     except InvalidArgument as error:
        ...         print("is in use by another run: process" in str(error))
        ...     mine.give_back()
        ...     FolderLock(folder).take()
        True
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._file: FileIO | None = None

    def take(self) -> None:
        """Take it, if this has not taken it already. Where the file system has no locks, that is a warning.

        Raises:
            InvalidArgument: Another run has it, which is named; or the file cannot be written.
        """
        if self._file is not None:
            return
        file = self._opened()
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            with file:
                if error.errno in _TAKEN:
                    file.seek(0)
                    holder = printable(file.read(_LONGEST).decode(errors="replace").strip())
                    raise InvalidArgument(
                        f"{self._folder} is in use by another run: {holder or 'a process that does not say which'}",
                        "one run at a time, or files of both would be mixed",
                        "wait until it has ended, end it, or name another folder",
                    ) from error
            self._path.unlink(missing_ok=True)
            note = f"{self._folder} is on a file system without locks ({error.strerror}): see that no other run writes there"
            warnings.warn(note, RuntimeWarning, stacklevel=2)
            return
        if not self._is_there(file):  # another run has just ended, and taken its file away
            file.close()
            self.take()
            return
        self._file = file
        holder = f"process {os.getpid()} on {platform.node()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}\n"
        with suppress(OSError):  # a full disk: others are then refused without a name
            file.truncate(0)
            file.write(holder.encode())

    def give_back(self) -> None:
        """Let others have it."""
        if self._file is not None:
            if self._is_there(self._file):
                self._path.unlink()
            self._file.close()
            self._file = None

    def __del__(self) -> None:
        self.give_back()

    @property
    def _path(self) -> Path:
        return self._folder / FILE

    def _opened(self) -> FileIO:
        try:  # no link is followed, which would have another file emptied
            return FileIO(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+")
        except OSError as error:
            raise InvalidArgument(
                f"cannot write {self._path}: {error.strerror}", "a folder with space that can be written"
            ) from error

    def _is_there(self, file: FileIO) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(file.fileno()))
        except FileNotFoundError:
            return False

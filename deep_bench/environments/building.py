"""Building environments: once, whole or not at all, and again with the same versions.

A lock has the exact versions, with the hashes of their archives where pip gives them. An environment can be worked in if a
worker can be started in it and ended.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from deep_bench.environments.declaration import Built, Declaration, built, current, folder_of
from deep_bench.errors import InvalidArgument, WorkerError
from deep_bench.records.store import written
from deep_bench.workers.process import Worker
from deep_bench.workers.remote import PACKAGE, Place

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


Tell = Callable[[str], object]
_TAIL_LINES = 12
_DOES = re.compile(r"(Collecting|Downloading|Processing|Building|Installing|Successfully|ERROR)\b")
_LONGEST_LINE = 160
_ABOUT = (
    "import json, platform, sysconfig; "
    "print(json.dumps([platform.python_implementation() + ' ' + platform.python_version(), sysconfig.get_path('purelib')]))"
)


def build(
    name: str, declaration: Declaration, *, lock: Lock | None = None, again: bool = False, tell: Tell = lambda _: None
) -> Built:
    """Build an environment, unless it is there already. Installing packages runs their code.

    It is made in its own folder below the user's cache: a virtual environment, and in it what pip installs. What a build
    leaves that was ended is removed by the next one. Of two builds at once the second waits for the first.

    Args:
        name: Its name.
        declaration: What is declared of it.
        lock: The exact versions to install; by default pip chooses by the requirements.
        again: Build it anew if it is there.
        tell: Told each step, and what pip says.

    Raises:
        InvalidArgument: One is there that was built from another declaration or lock; the lock is for another declaration;
            or there is no such interpreter.
        WorkerError: A step failed; ``details`` holds the end of what it said.
    """
    if lock is not None and lock.declaration != declaration.sha256:
        raise InvalidArgument(
            f"the lock of {name} was made for another declaration",
            advice=f"make it anew: deep-bench environments lock {name}",
        )
    with _alone(name, tell):
        if not again and built(name) is not None:
            environment = current(name, declaration)
            if lock is not None and Lock.parse(environment.lock, name).pins != lock.pins:
                raise InvalidArgument(
                    f"the environment {name} holds other versions than its lock", advice="build it --again"
                )
            tell(f"{name} is built")
            return environment
        folder = folder_of(name)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return _EnvironmentBuild(name, declaration, folder, tell).run(lock)


def remove(name: str) -> bool:
    """Remove an environment, finished or not; whether there was one."""
    with _alone(name, lambda _: None):
        folder = folder_of(name)
        existed = folder.is_dir()
        if existed:
            (folder / "built.json").unlink(missing_ok=True)  # first: what is half removed is not taken for finished
            shutil.rmtree(folder)
    return existed


def differences(found: Built) -> list[str]:
    """How what is installed in an environment differs from its lock; empty if it does not."""
    build = _EnvironmentBuild(found.name, found.declaration, folder_of(found.name), lambda _: None)
    installed, locked = build.frozen(), Lock.parse(found.lock, found.name).pins
    changed = [
        f"{n} {locked[n]} is {installed[n]} now" for n in sorted(locked) if n in installed and installed[n] != locked[n]
    ]
    return changed + [f"{n} {locked[n]} is missing" for n in sorted(locked) if n not in installed]


class _EnvironmentBuild:
    """One build, in an empty folder of its own; by the pip of this environment, where that can reach it."""

    def __init__(self, name: str, declaration: Declaration, folder: Path, tell: Tell) -> None:
        self.name, self.declaration, self.folder, self.tell = name, declaration, folder, tell
        self.python = str(folder / "venv" / "bin" / "python")
        local_pip = not declaration.prefix and any(importlib.metadata.distributions(name="pip"))
        self.pip = (sys.executable, "-m", "pip", "--python", self.python) if local_pip else (self.python, "-m", "pip")
        self.venv = ("-m", "venv", *(["--without-pip"] if local_pip else []), str(folder / "venv"))

    def run(self, lock: Lock | None) -> Built:
        """All steps; the last one says that it is finished."""
        self.tell(f"making {self.folder / 'venv'}")
        self.step(_interpreter(self.declaration), *self.venv)
        installed: Mapping[str, str] = {}
        requirements = self.requirements() if lock is None else [*self.declaration.pip_options, *lock.lines()]
        if requirements:
            installed = self.install(requirements, lock)
        version, packages = json.loads(self.step(self.python, "-c", _ABOUT))
        if self.declaration.deep_bench:
            (Path(packages) / "deep_bench").symlink_to(PACKAGE)
        text = lock_of(self.name, self.declaration, version, self.frozen(), installed)
        environment = Built(name=self.name, declaration=self.declaration, python=version, lock=text)
        environment.keep()
        self.tell(f"{self.name} is built")
        return environment

    def requirements(self) -> list[str]:
        """What is declared; and what deep_bench itself needs, which is linked there: both sides are the same source."""
        if not self.declaration.deep_bench:
            return list(self.declaration.requirements)
        try:
            declared = importlib.metadata.requires("deep-bench") or []
        except importlib.metadata.PackageNotFoundError as error:
            raise InvalidArgument("deep_bench is not installed here, only on the path", advice="pip install -e .") from error
        return [*self.declaration.requirements, *(line for line in declared if "extra ==" not in line)]

    def install(self, requirements: Sequence[str], lock: Lock | None) -> Mapping[str, str]:
        """Let pip install; name and version of each package to the hash of its archive, where pip tells it."""
        file, report = self.folder / "requirements.txt", self.folder / "report.json"
        file.write_text("\n".join(requirements) + "\n", encoding="utf-8")
        words = ["--no-deps", *(["--require-hashes"] if lock.hashed else [])] if lock is not None else []
        self.tell(f"installing {len(requirements)} requirements")
        words += ["--disable-pip-version-check", "--progress-bar", "off", "--report", str(report), "-r", str(file)]
        self.step(*self.pip, "install", *words, shown=True)
        content = json.loads(report.read_text(encoding="utf-8"))
        return {
            f"{item['metadata']['name']}=={item['metadata']['version']}": _hash(item.get("download_info", {}))
            for item in content["install"]
        }

    def frozen(self) -> dict[str, str]:
        """Name to version of all that is installed."""
        listed = json.loads(self.step(*self.pip, "list", "--format", "json", "--disable-pip-version-check"))
        return {package["name"]: package["version"] for package in listed}

    def step(self, *words: str, shown: bool = False) -> str:
        """Run a command in the environment; what it printed.

        Raises:
            WorkerError: It failed.
        """
        command = [*self.declaration.prefix, *words]
        dropped = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
        variables: dict[str, str | None] = {n: v for n, v in os.environ.items() if n not in dropped}
        variables.update(self.declaration.variables)
        tell = self._told if shown else None
        output, tail = _run(command, {n: v for n, v in variables.items() if v is not None}, tell)
        if output is None:
            suffix = f": {tail[-1]}" if tail else ""
            failure = WorkerError(
                f"building the environment {self.name}: {self.declaration.command(*words)} failed{suffix}",
                advice="mend the declaration, and build it again",
            )
            failure.details = "\n".join(tail)
            raise failure
        return output

    def _told(self, line: str) -> None:
        """Pass on of what pip says what it does; all of it is in the folder."""
        with open(self.folder / "build.log", "a", encoding="utf-8") as log:
            log.write(line + "\n")
        if _DOES.match(line):
            self.tell(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} …")


def _run(command: Sequence[str], variables: Mapping[str, str], tell: Tell | None) -> tuple[str | None, list[str]]:
    """What a command printed, or None if it failed; and the last lines that it said. Ctrl-C ends it with all it started."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if tell is not None else subprocess.PIPE,
            text=True,
            errors="replace",
            env=dict(variables),
            process_group=0,
        )
    except OSError as error:
        raise InvalidArgument(f"{command[0]} cannot be started: {error.strerror}", "a program that is there") from error
    with process:
        try:
            if tell is None:
                out, err = process.communicate()
            else:
                lines = []
                for line in process.stdout or ():
                    lines.append(line.rstrip("\n"))
                    tell(lines[-1])
                out = err = "\n".join(lines)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    tail = [line for line in (err or out).splitlines() if line.strip()][-_TAIL_LINES:]
    return (out if process.returncode == 0 else None), tail


def _interpreter(declaration: Declaration) -> str:
    """What makes the virtual environment.

    Raises:
        InvalidArgument: There is no such interpreter here.
    """
    requested = declaration.python
    if requested is None:
        return "python3" if declaration.prefix else sys.executable
    name = f"python{requested}" if requested[:1].isdigit() else requested
    if not declaration.prefix and shutil.which(os.path.expanduser(name)) is None:
        raise InvalidArgument(f"there is no {name} here", "an interpreter on PATH, or the path of one", "install it")
    return os.path.expanduser(name)


def _hash(download: Mapping[str, object]) -> str:
    archive = download.get("archive_info")
    hashes = archive.get("hashes", {}) if isinstance(archive, dict) else {}
    return str(hashes.get("sha256", ""))


@contextmanager
def _alone(name: str, tell: Tell) -> Iterator[None]:
    """Within it no other process builds or removes the environment; the system lets go of it when this process ends."""
    folder = folder_of(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f".{name}.busy"), "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"another process builds or removes {name}: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def looked_at(place: Place) -> dict[str, Any]:
    """What a record would keep of it: its Python, its packages, deep_bench there, and what was locked.

    Raises:
        InvalidArgument, Unsupported: It cannot be worked in, and why.
        WorkerDied: Its process ended while it was started.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with Worker("collections:Counter", {}, label=place.name, log=log, place=place) as worker:
            return worker.place_facts

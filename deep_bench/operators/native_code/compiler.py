"""Finding a compiler, and running it."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.operators.native_code.errors import BuildFailed
from deep_bench.operators.native_code.source import Language, Source

VARIABLES: dict[Language, str] = {"C": "CC", "C++": "CXX", "CUDA": "NVCC"}
"""The environment variables that name compilers."""

_KNOWN: dict[Language, tuple[str, ...]] = {"C": ("gcc", "cc", "clang"), "C++": ("g++", "c++", "clang++"), "CUDA": ("nvcc",)}
_INSTALL: dict[Language, str] = {
    "C": "install gcc (Debian, Ubuntu: `apt install gcc`; conda: `conda install gcc`)",
    "C++": "install g++ (Debian, Ubuntu: `apt install g++`; conda: `conda install gxx`)",
    "CUDA": "install the CUDA toolkit, and put its bin folder on PATH",
}
_THIS_PROCESSOR = "-mcpu=native" if platform.machine().startswith("ppc") else "-march=native"
_OPTIONS: dict[Language, tuple[str, ...]] = {
    "C": ("-std=c11", "-O3", _THIS_PROCESSOR, "-shared", "-fPIC"),
    "C++": ("-std=c++17", "-O3", _THIS_PROCESSOR, "-shared", "-fPIC"),
    "CUDA": ("-std=c++17", "-O3", "-shared", "-Xcompiler=-fPIC"),
}
SANITIZE = ("-fsanitize=address", "-fno-omit-frame-pointer", "-g")
"""Flags for AddressSanitizer."""

SANITIZE_CUDA = ("-lineinfo",)
"""Flags for compute-sanitizer, so that it names lines."""

_ARCHITECTURE = ("-arch", "--gpu-architecture", "-gencode", "--generate-code")
HEADERS = Path(__file__).parent


@dataclass(frozen=True)
class Compiler:
    """A compiler of this machine.

    Args:
        command: Its path, and arguments that always go with it.
        version: What it says of its version.
        language: What it is used for.
    """

    command: tuple[str, ...]
    version: str
    language: Language

    @property
    def path(self) -> str:
        """Where it is."""
        return self.command[0]


def find(language: Language, asked: str | Path | None = None) -> Compiler:
    """The compiler asked for, or that of the environment variable (``CC``, ``CXX``, ``NVCC``), or the usual one on ``PATH``.

    Raises:
        Unsupported: There is none; it says what to install.
    """
    variable = VARIABLES[language]
    named = str(asked) if asked is not None else os.environ.get(variable)
    if named:
        program, *arguments = shlex.split(named)
        path = shutil.which(program)
        if path is None:
            origin = f"compiler={named!r}" if asked is not None else f"the environment variable {variable}={named}"
            raise Unsupported(f"{origin}: there is no such program", f"a compiler for {language}", _INSTALL[language])
        return _inspected(language, path, tuple(arguments), os.stat(path).st_mtime_ns)
    for program in _KNOWN[language]:
        path = shutil.which(program)
        if path is not None:
            return _inspected(language, path, (), os.stat(path).st_mtime_ns)
    raise Unsupported(
        f"there is no compiler for {language} on this machine",
        f"one of {', '.join(_KNOWN[language])} on PATH, or the environment variable {variable}",
        _INSTALL[language],
    )


@cache
def _inspected(language: Language, path: str, arguments: tuple[str, ...], changed_ns: int) -> Compiler:
    del changed_ns  # makes a compiler that was replaced meanwhile another one
    try:
        done = subprocess.run([path, *arguments, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise Unsupported(f"{path} cannot be run: {error}", f"a compiler for {language}", _INSTALL[language]) from error
    if done.returncode:
        raise InvalidArgument(
            f"{path} --version fails: {(done.stderr or done.stdout).strip()}", f"a compiler for {language}"
        )
    return Compiler((path, *arguments), done.stdout.strip(), language)


def options(language: Language, flags: Sequence[str]) -> list[str]:
    """The compiler's options: deep_bench's own, and then the user's, which win."""
    base_options = [*_OPTIONS[language]]
    if language == "CUDA" and not any(flag.startswith(_ARCHITECTURE) for flag in flags):
        base_options.append("-arch=native")
    return [*base_options, *flags]


def compile_library(
    compiler: Compiler, source: Source, options: Sequence[str], includes: Sequence[Path], scratch: Path
) -> Path:
    """Compile a source into the shared library ``scratch/kernel.so``.

    What the source includes, but for the system's own headers, is written to ``scratch/kernel.d``.

    Raises:
        BuildFailed: The compiler refused; its own messages are in the error's.
    """
    (scratch / source.name).write_text(source.text, encoding="utf-8")
    library = scratch / "kernel.so"
    command = [*compiler.command, source.name, "-o", library.name, "-MMD", "-MF", "kernel.d"]
    if source.folder is not None:
        command.append(f"-I{source.folder}")
        if "-g" in options:  # a sanitizer then names the file where it is
            command.append(f"-ffile-prefix-map={scratch}={source.folder}")
    # As the system's headers they are left out of kernel.d: the entry's digest has their versions.
    command += [argument for folder in (HEADERS, *includes) for argument in ("-isystem", str(folder))] + list(options)
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, cwd=scratch)
    except OSError as error:
        raise Unsupported(f"{compiler.path} cannot be run: {error}", f"a compiler for {source.language}") from error
    if done.returncode or not library.is_file():
        output = (done.stderr + done.stdout).rstrip() or f"(it wrote nothing, and ended with {done.returncode})"
        raise BuildFailed(
            f"{compiler.path} refused {source.name}:\n{output}", advice=f"the command was: {shlex.join(command)}"
        )
    return library


def included(scratch: Path) -> list[Path]:
    """The files outside ``scratch`` that ``kernel.d`` lists: a rule of make."""
    rule = (scratch / "kernel.d").read_text(encoding="utf-8", errors="surrogateescape").replace("\\\n", " ")
    names = re.findall(r"(?:\\.|\$\$|[^\s\\])+", rule.partition(":")[2])
    paths = [Path(re.sub(r"\\(.)", r"\1", name).replace("$$", "$")) for name in names]
    return [path for path in paths if path.is_absolute() and scratch not in path.parents]


def runtime_library(compiler: Compiler, name: str) -> Path | None:
    """Where the compiler has a library of its own, such as ``libasan.so``."""
    done = subprocess.run([*compiler.command, f"-print-file-name={name}"], capture_output=True, text=True, check=False)
    path = Path(done.stdout.strip())
    return path.resolve() if not done.returncode and path.is_absolute() and path.is_file() else None

"""From a source to a library: what is built, and how.

The source is a file, a text, or a library that is built already. Libraries that were built before are kept by content in a
folder of the user's: an entry is a folder, named by a digest of the source, the compiler, its options and the processor.
In it are the list of the headers that the source included and a library for each state of these headers.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import Device
from deep_bench.operators.native_code import library as tvm
from deep_bench.operators.native_code.library import BuildFailed
from deep_bench.operators.native_code.signature import Signature
from deep_bench.records.folders import VARIABLE, user_cache

Language = Literal["C", "C++", "CUDA"]

SUFFIXES: dict[str, Language] = {".c": "C", ".cc": "C++", ".cpp": "C++", ".cu": "CUDA", ".cxx": "C++"}
LIBRARIES = (".so", ".dylib")
_LIBRARY = re.compile(r"\.(so(\.\d+)*|dylib)$")
_NAMES: dict[Language, str] = {"C": "kernel.c", "C++": "kernel.cpp", "CUDA": "kernel.cu"}


@dataclass(frozen=True)
class NativeSource:
    """Native code to compile.

    Args:
        text: All of it.
        language: What it is written in.
        name: The file name that the compiler's messages have.
        folder: Where its own headers are; ``None`` for a text.
    """

    text: str
    language: Language
    name: str
    folder: Path | None = None


def read_source(source: str | Path, device: str) -> NativeSource | Path:
    """The source, or the path of a library that is built already.

    A string with a line break, a semicolon or a brace in it is a text: C++, or CUDA where ``device`` is that.

    Raises:
        InvalidArgument: No such file, one with an unknown suffix, one that cannot be read, or a device that does not fit.
    """
    if isinstance(source, str) and re.search(r"[\n;{]", source):
        language: Language = "CUDA" if device == "cuda" else "C++"
        return NativeSource(source, language, _NAMES[language])
    path = Path(source).expanduser().absolute()
    if not path.is_file():
        reason = "is a folder" if path.is_dir() else "is not there"
        raise InvalidArgument(f"the native source {path} {reason}", "a file, or the source itself as a string")
    if _LIBRARY.search(path.name):
        return path
    file_language = SUFFIXES.get(path.suffix)
    if file_language is None:
        suffixes = ", ".join([*SUFFIXES, *LIBRARIES])
        raise InvalidArgument(f"the native source {path} ends with {path.suffix or 'nothing'!r}", f"one of {suffixes}")
    if file_language == "CUDA" and device != "cuda":
        raise InvalidArgument(
            f"the CUDA source {path} with device={device!r}",
            "device='cuda' for CUDA",
            "say device='cuda', or rename it to .cpp",
        )
    try:
        return NativeSource(path.read_text(encoding="utf-8"), file_language, path.name, path.parent)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"the native source {path} cannot be read: {error}", "a text file in UTF-8") from error


VARIABLES: dict[Language, str] = {"C": "CC", "C++": "CXX", "CUDA": "NVCC"}
"""The environment variables that name compilers."""


_COMPILERS: dict[Language, tuple[str, ...]] = {
    "C": ("gcc", "cc", "clang"),
    "C++": ("g++", "c++", "clang++"),
    "CUDA": ("nvcc",),
}
_INSTALL: dict[Language, str] = {
    "C": "install gcc (Debian, Ubuntu: `apt install gcc`; conda: `conda install gcc`)",
    "C++": "install g++ (Debian, Ubuntu: `apt install g++`; conda: `conda install gxx`)",
    "CUDA": "install the CUDA toolkit, and put its bin folder on PATH",
}
_NATIVE_PROCESSOR = "-mcpu=native" if platform.machine().startswith("ppc") else "-march=native"
_COMPILER_OPTIONS: dict[Language, tuple[str, ...]] = {
    "C": ("-std=c11", "-O3", _NATIVE_PROCESSOR, "-shared", "-fPIC"),
    "C++": ("-std=c++17", "-O3", _NATIVE_PROCESSOR, "-shared", "-fPIC"),
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


def find_compiler(language: Language, asked: str | Path | None = None) -> Compiler:
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
        return _inspected_compiler(language, path, tuple(arguments), os.stat(path).st_mtime_ns)
    for program in _COMPILERS[language]:
        path = shutil.which(program)
        if path is not None:
            return _inspected_compiler(language, path, (), os.stat(path).st_mtime_ns)
    raise Unsupported(
        f"there is no compiler for {language} on this machine",
        f"one of {', '.join(_COMPILERS[language])} on PATH, or the environment variable {variable}",
        _INSTALL[language],
    )


@cache
def _inspected_compiler(language: Language, path: str, arguments: tuple[str, ...], changed_ns: int) -> Compiler:
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


def compiler_options(language: Language, flags: Sequence[str]) -> list[str]:
    """The compiler's options: deep_bench's own, and then the user's, which win."""
    base_options = [*_COMPILER_OPTIONS[language]]
    if language == "CUDA" and not any(flag.startswith(_ARCHITECTURE) for flag in flags):
        base_options.append("-arch=native")
    return [*base_options, *flags]


def compile_library(
    compiler: Compiler, source: NativeSource, options: Sequence[str], includes: Sequence[Path], scratch: Path
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


def included_headers(scratch: Path) -> list[Path]:
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


_ENVIRONMENT = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS")
_LISTED = "includes.json"
_SCRATCH = "build-"


def cache_folder() -> Path:
    """The folder of built libraries.

    Example:
        >>> cache_folder().name
        'native'
    """
    return user_cache() / "native"


def library_digest(*parts: Any) -> str:
    """A digest of plain data, and of all else that decides what a compiler makes of it here."""
    environment = {name: os.environ.get(name) for name in _ENVIRONMENT}
    text = json.dumps([parts, environment, _processor()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def obtain_library(key: str, build: Callable[[Path], Iterable[Path]]) -> tuple[Path, bool]:
    """The library of an entry, built unless it is there.

    Safe with any number of processes: one builds, the others wait, and a library appears whole or not at all. The next one
    builds where a process was killed amid a build, and removes what that left.

    Args:
        key: The entry's digest.
        build: Makes ``kernel.so`` in the folder that it is given; returns the files that the source included.

    Returns:
        The library, and whether it was there.

    Raises:
        InvalidArgument: The folder cannot be written to.
    """
    entry = cache_folder() / key
    try:
        library = _look_up(entry)
        if library is not None:
            return library, True
        with _locked(entry):
            library = _look_up(entry)
            return (library, True) if library is not None else (_compiled_entry(entry, build), False)
    except OSError as error:
        raise _unusable(error) from error


def _compiled_entry(entry: Path, build: Callable[[Path], Iterable[Path]]) -> Path:
    for leftover in entry.glob(f"{_SCRATCH}*"):  # of a process that was killed: it would hold the lock otherwise
        shutil.rmtree(leftover, ignore_errors=True)
    with TemporaryDirectory(dir=entry, prefix=_SCRATCH) as scratch:
        included = sorted({str(path) for path in build(Path(scratch))})
        library = entry / f"{_state(included)}.so"
        listed = Path(scratch) / _LISTED
        listed.write_text(json.dumps(included), encoding="utf-8")
        os.replace(Path(scratch) / "kernel.so", library)
        os.replace(listed, entry / _LISTED)
    return library


def _look_up(entry: Path) -> Path | None:
    try:
        state = _state(json.loads((entry / _LISTED).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):  # nothing was built, or a header is gone
        return None
    library = entry / f"{state}.so"
    return library if library.is_file() else None


def _state(files: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.encode())
        digest.update(hashlib.sha256(Path(file).read_bytes()).digest())
    return digest.hexdigest()[:32]


@contextmanager
def _locked(entry: Path) -> Iterator[None]:
    entry.mkdir(parents=True, exist_ok=True)
    lock = os.open(entry / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _unusable(error: OSError) -> InvalidArgument:
    return InvalidArgument(
        f"the folder for built kernels cannot be used: {error}",
        f"a folder that can be written to, instead of {cache_folder()}",
        f"name one in the environment variable {VARIABLE}",
    )


@cache
def _processor() -> str:
    """What ``-march=native`` depends on: a home directory may be shared by different machines."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            # The first processor's block tells; a large machine has hundreds.
            lines = file.read(16_384).partition("\n\n")[0].splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    fields = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU part", "CPU implementer")
    return "\n".join([platform.machine(), *(line for line in lines if line.partition("\t")[0].strip() in fields)])


Route = Literal["c", "tvm-ffi"]


@dataclass(frozen=True)
class BuildRecipe:
    """All that makes a native operator; it can be pickled as far as ``computes`` and ``device`` can.

    Args:
        source: Code to compile, or a library that is built already.
        function: The name of the function.
        computes: See `deep_bench.operators.Operator`.
        backward: The name of the function for the gradients, if there is one.
        route: How it is called; ``None`` for what its source or library is written for.
        signature: What it takes; ``None`` for the prototype of ``deep_bench.h``, or tensors alone.
        backward_signature: The same of the function for the gradients.
        flags: For the compiler, behind its own.
        compiler: Which one; ``None`` for the usual one.
        device: ``"cpu"``, ``"cuda"``, a framework with its options, or a device.
        sanitize: Whether it runs under a sanitizer.
    """

    source: NativeSource | Path
    function: str
    computes: str | Callable[..., Any]
    backward: str | None = None
    route: Route | None = None
    signature: Signature | None = None
    backward_signature: Signature | None = None
    flags: tuple[str, ...] = ()
    compiler: str | None = None
    device: str | Device[Any] = "cpu"
    sanitize: bool = False

    @property
    def on_cuda(self) -> bool:
        """Whether it runs on a GPU."""
        return self.device == "cuda"


@dataclass(frozen=True)
class BuiltLibrary:
    """A library that is ready to be loaded.

    Args:
        path: Where it is.
        route: How its functions are called.
        cached: Whether it was there already.
        seconds: How long it took to have it.
        compiler: What compiled it; ``None`` for a library that was built by someone else.
    """

    path: Path
    route: Route
    cached: bool
    seconds: float
    compiler: Compiler | None = None


def build_library(recipe: BuildRecipe) -> BuiltLibrary:
    """Compile the source unless that was done before.

    Raises:
        BuildFailed: The compiler refused; the message has its own messages.
        Unsupported: There is no compiler, or CUDA is asked for where there is none.
        InvalidArgument: The cache's folder cannot be used.
        FrameworkMissing: apache-tvm-ffi is not installed.
    """
    if recipe.on_cuda:
        require_cuda()
    source = recipe.source
    if isinstance(source, Path):
        return BuiltLibrary(source, recipe.route or _route_of(source, recipe.function), True, 0.0)
    start = time.perf_counter()
    route = recipe.route or ("tvm-ffi" if tvm.TVM_MARK in source.text else "c")
    toolchain = find_compiler(source.language, recipe.compiler)
    options = compiler_options(source.language, recipe.flags)
    includes, versions = _foundation(route, options)

    def compile_into(scratch: Path) -> Iterable[Path]:
        compile_library(toolchain, source, options, includes, scratch)
        return included_headers(scratch)

    folder = str(source.folder) if 'include "' in source.text or "include<" in source.text else None
    key = library_digest(source.text, source.name, folder, toolchain.command, toolchain.version, options, versions)
    path, cached = obtain_library(key, compile_into)
    return BuiltLibrary(path, route, cached, time.perf_counter() - start, toolchain)


def _foundation(route: Route, options: list[str]) -> tuple[list[Path], list[str]]:
    """The folders of headers that a route needs, and what changes when they do; adds what it is linked with."""
    header = hashlib.sha256((HEADERS / "deep_bench.h").read_bytes()).hexdigest()
    if route == "c":
        return [], [header]
    folder, version = tvm.require_tvm()
    options += tvm.tvm_link_options(folder)
    return [folder / "include"], [header, version]


def _route_of(path: Path, function: str) -> Route:
    return "tvm-ffi" if f"{tvm.TVM_PREFIX}{function}" in tvm.exported_functions(path) else "c"


def require_cuda() -> None:
    """Refuse CUDA where there is none.

    Raises:
        Unsupported: No driver, or no device.
    """
    import pynvml

    requirement = ("a CUDA device", "run this on a machine with an NVIDIA GPU and its driver")
    try:
        pynvml.nvmlInit()
        try:
            count = pynvml.nvmlDeviceGetCount()
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise Unsupported(f"device='cuda' on a machine without a CUDA driver: {error}", *requirement) from error
    if not count:
        raise Unsupported("device='cuda' on a machine whose driver finds no device", *requirement)


def require_sanitizer(recipe: BuildRecipe) -> None:
    """Refuse a sanitizer where it can do nothing.

    Raises:
        InvalidArgument: A library that is built already, or another device than the CPU and CUDA.
    """
    if isinstance(recipe.source, Path) and not recipe.on_cuda:
        raise InvalidArgument(
            f"sanitize=True for {recipe.source}, which is built already",
            "a source, which can be compiled with AddressSanitizer",
        )
    if recipe.device not in ("cpu", "cuda"):
        raise InvalidArgument(f"sanitize=True with device={recipe.device!r}", "device='cpu' or 'cuda'")

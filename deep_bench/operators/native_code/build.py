"""From a source to a library: what is built, and how."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import Device
from deep_bench.operators.native_code import cache, compiler, library, tvm
from deep_bench.operators.native_code.signature import Signature
from deep_bench.operators.native_code.source import Source

Route = Literal["c", "tvm-ffi"]


@dataclass(frozen=True)
class Recipe:
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

    source: Source | Path
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
class Built:
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
    compiler: compiler.Compiler | None = None


def build(recipe: Recipe) -> Built:
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
        return Built(source, recipe.route or _route_of(source, recipe.function), True, 0.0)
    start = time.perf_counter()
    route = recipe.route or ("tvm-ffi" if tvm.MARK in source.text else "c")
    toolchain = compiler.find(source.language, recipe.compiler)
    options = compiler.options(source.language, recipe.flags)
    includes, versions = _foundation(route, options)

    def compile_into(scratch: Path) -> Iterable[Path]:
        compiler.compile_library(toolchain, source, options, includes, scratch)
        return compiler.included(scratch)

    folder = str(source.folder) if 'include "' in source.text or "include<" in source.text else None
    key = cache.digest_of(source.text, source.name, folder, toolchain.command, toolchain.version, options, versions)
    path, cached = cache.obtain(key, compile_into)
    return Built(path, route, cached, time.perf_counter() - start, toolchain)


def _foundation(route: Route, options: list[str]) -> tuple[list[Path], list[str]]:
    """The folders of headers that a route needs, and what changes when they do; adds what it is linked with."""
    header = hashlib.sha256((compiler.HEADERS / "deep_bench.h").read_bytes()).hexdigest()
    if route == "c":
        return [], [header]
    folder, version = tvm.installed()
    options += tvm.link_options(folder)
    return [folder / "include"], [header, version]


def _route_of(path: Path, function: str) -> Route:
    return "tvm-ffi" if f"{library.TVM_PREFIX}{function}" in library.exported(path) else "c"


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


def require_sanitizer(recipe: Recipe) -> None:
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

"""Running a native function in a process of its own under AddressSanitizer or compute-sanitizer."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, Any

import numpy as np

from deep_bench.errors import Unsupported, WorkerDied, WorkerError
from deep_bench.measure.workers import Worker
from deep_bench.operators.native_code import compiler
from deep_bench.operators.native_code.build import Built, Recipe, build
from deep_bench.operators.native_code.errors import MemoryViolation
from deep_bench.operators.pickled import dumped

if TYPE_CHECKING:
    from deep_bench.operators.case import Case

_ASAN_OPTIONS = "detect_leaks=0:exitcode=86:color=never:allocator_may_return_null=1"
"""Python itself leaks by design, so that leaks are not looked for."""

_RUNTIME = ("libasan.so", "libstdc++.so")
"""Loaded before all else. With libstdc++ too, since the sanitizer looks for its functions on starting."""

_FOUND = 86


class Sanitizer:
    """A native function that is called in another process.

    Args:
        recipe: What it is made of.
    """

    def __init__(self, recipe: Recipe) -> None:
        extra = compiler.SANITIZE_CUDA if recipe.on_cuda else compiler.SANITIZE
        self.recipe = replace(recipe, sanitize=False, flags=(*extra, *recipe.flags))
        self._worker: Worker | None = None

    def setup(self, case: Case) -> None:
        """As `deep_bench.operators.Operator.setup`."""
        if self.recipe.on_cuda:  # each request has a process of its own
            compute_sanitizer()
            build(self.recipe)
            return
        self._ask("setup", dumped(case, "the case"))

    def forward(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """As `deep_bench.operators.Operator.forward`.

        Raises:
            MemoryViolation: The sanitizer found something.
        """
        return self._ask("forward", tuple(map(_sent, inputs)), dict(attributes))

    def backward(
        self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Any:
        """As `deep_bench.operators.Operator.backward`.

        Raises:
            MemoryViolation: The sanitizer found something.
        """
        sent = (tuple(map(_sent, several)) for several in (grads, inputs, outputs))
        return self._ask("backward", *sent, dict(attributes))

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _ask(self, method: str, *args: Any) -> Any:
        if self.recipe.on_cuda:
            return _ask_cuda(self.recipe, method, args)
        worker = self._started()
        try:
            return worker.call(method, *args)
        except KeyboardInterrupt:  # its answer would be taken for the next request's
            self.close()
            raise
        except WorkerDied as death:
            log = worker.log.read_text(encoding="utf-8", errors="replace")
            self.close()
            report = log[start:] if (start := log.find("=================\n==")) >= 0 else ""
            if "AddressSanitizer" not in report:
                raise
            raise _violation(self.recipe.function, report) from death

    def _started(self) -> Worker:
        if self._worker is None:
            built = build(self.recipe)  # here, where the compiler is not under the sanitizer
            environment = {"LD_PRELOAD": _preloaded(built), "ASAN_OPTIONS": _options()}
            folder = mkdtemp(prefix="deep-bench-sanitizer-")
            log = Path(folder) / "log"
            arguments = {"pickled": dumped(self.recipe, self.recipe.function)}
            self._worker = Worker(
                f"{__name__}:Subject", arguments, label=self.recipe.function, log=log, environment=environment
            )
            weakref.finalize(self, _end, self._worker, folder)
        return self._worker


class Subject:
    """The other end: the function in the process that is watched.

    Args:
        pickled: The recipe.
    """

    def __init__(self, pickled: bytes) -> None:
        from deep_bench.operators.native_code.operator import NativeOperator

        self._operator = NativeOperator(pickle.loads(pickled))

    def setup(self, case: bytes) -> None:
        """Make it ready for a case."""
        self._operator.setup(pickle.loads(case))

    def forward(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """Call it."""
        return self._returned(self._operator.forward(*map(self._own, inputs), **attributes))

    def backward(
        self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Any:
        """Call the function for the gradients."""
        copies = ([self._own(a) for a in several] for several in (grads, inputs, outputs))
        return self._returned(self._operator.backward(*copies, **attributes))

    def _own(self, array: np.ndarray | None) -> Any:
        """A copy with memory of exactly its size, so that the sanitizer knows where it ends."""
        return None if array is None else self._operator.device.from_numpy(np.array(array))

    def _returned(self, results: Any) -> Any:
        if isinstance(results, tuple):
            return tuple(map(self._returned, results))
        return None if results is None else self._operator.device.to_numpy(results)


def _end(worker: Worker, folder: str) -> None:
    worker.close()
    shutil.rmtree(folder)


def _ask_cuda(recipe: Recipe, method: str, args: tuple[Any, ...]) -> Any:
    program = compute_sanitizer()
    build(recipe)
    with TemporaryDirectory(prefix="deep-bench-sanitizer-") as folder:
        request, reply, log = (Path(folder) / name for name in ("request", "reply", "log"))
        request.write_bytes(pickle.dumps((dumped(recipe, recipe.function), method, args)))
        command = [program, "--tool", "memcheck", "--error-exitcode", str(_FOUND), "--log-file", str(log)]
        command += [sys.executable, "-P", "-m", __name__, str(request), str(reply)]
        # torch's own allocator hands out parts of large blocks, whose ends the tool cannot see.
        environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=environment)
        report = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        if done.returncode == _FOUND:
            raise _violation(recipe.function, report)
        if done.returncode or not reply.is_file():
            failure = WorkerError(
                f"{recipe.function} failed under {program}, which ended with {done.returncode}:\n{done.stderr}{report}"
            )
            failure.details = done.stderr
            raise failure
        return pickle.loads(reply.read_bytes())


def compute_sanitizer() -> str:
    """Where CUDA's sanitizer is.

    Raises:
        Unsupported: It is not on this machine.
    """
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    program = shutil.which("compute-sanitizer") or (shutil.which("compute-sanitizer", path=f"{home}/bin") if home else None)
    if program is None:
        raise Unsupported(
            "sanitize=True with device='cuda', and compute-sanitizer is not on this machine",
            "compute-sanitizer on PATH, or in the bin folder of the environment variable CUDA_HOME",
            "install it with the CUDA toolkit (Debian, Ubuntu: the package cuda-sanitizer)",
        )
    return program


def _preloaded(built: Built) -> str:
    assert built.compiler is not None
    if "clang" in built.compiler.version:
        raise Unsupported(
            f"sanitize=True with {built.compiler.path}",
            "gcc or g++, whose sanitizer can be loaded into Python",
            "name it: compiler='g++'",
        )
    libraries = [compiler.runtime_library(built.compiler, name) for name in _RUNTIME]
    if libraries[0] is None:
        raise Unsupported(
            f"{built.compiler.path} has no {_RUNTIME[0]}",
            "a gcc with AddressSanitizer",
            "install it (Debian, Ubuntu: the package libasan of gcc's version)",
        )
    return ":".join(str(path) for path in libraries if path is not None)


def _options() -> str:
    before = os.environ.get("ASAN_OPTIONS")
    return f"{_ASAN_OPTIONS}:{before}" if before else _ASAN_OPTIONS


def _violation(function: str, report: str) -> MemoryViolation:
    failure = MemoryViolation(f"{function} touches memory that is not its own; the sanitizer says:\n{report.strip()}")
    failure.report = report
    return failure


def _sent(array: Any) -> np.ndarray | None:
    if array is None or isinstance(array, np.ndarray):
        return array
    return array.cpu().numpy() if hasattr(array, "cpu") else np.asarray(array)


def main(request: str, reply: str) -> None:
    """Answer one request: what compute-sanitizer starts."""
    recipe, method, args = pickle.loads(Path(request).read_bytes())
    answer = getattr(Subject(recipe), method)(*args)
    Path(reply).write_bytes(pickle.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A native function as an operator."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, Any

import numpy as np

from deep_bench.errors import Unsupported, WorkerDied, WorkerError
from deep_bench.framework import Device
from deep_bench.operators.argument import content
from deep_bench.operators.native_code import build, library
from deep_bench.operators.native_code import signature as plain_attributes
from deep_bench.operators.native_code.build import BuildRecipe, BuiltLibrary, build_library, require_sanitizer
from deep_bench.operators.native_code.library import MemoryViolation
from deep_bench.operators.native_code.ready import ReadyCall, Specs, address, spec_of
from deep_bench.operators.native_code.signature import CallTensors, backward_names, forward_names
from deep_bench.operators.operator import Host, Operator
from deep_bench.operators.results import gradients_of, infer_results, may_decide_shape
from deep_bench.tensor import TensorSpec
from deep_bench.workers.pickling import dumped
from deep_bench.workers.process import Worker

if TYPE_CHECKING:
    from deep_bench.operators.case import Case

_MOST_CALLS = 8
"""For how many different shapes a function is kept ready."""


class NativeOperator(Operator[Any]):
    """A function of a shared library, made by `deep_bench.operators.native`.

    Its results are fresh arrays, and its inputs are kept until the next call. It must not be called by two threads at once.
    When it is pickled, its source goes along, and is built or found in the cache on the other side.

    Args:
        recipe: What it is made of.
    """

    def __init__(self, recipe: BuildRecipe) -> None:
        if recipe.sanitize:
            require_sanitizer(recipe)
        self.recipe = recipe
        self.computes = recipe.computes
        self._ready: ReadyCall | None = None
        self._all_ready: dict[Any, ReadyCall] = {}
        self._depends: dict[Any, bool] = {}
        self._outputs: int | None = len(recipe.signature.names("written")) if recipe.signature is not None else None

    def __reduce__(self) -> Any:
        return NativeOperator, (self.recipe,)

    @property
    def name(self) -> str:
        """The function's name."""
        return self.recipe.function

    @property
    def differentiates(self) -> bool:
        """Whether it has a function for the gradients."""
        return self.recipe.backward is not None

    @cached_property
    def device(self) -> Device[Any]:  # type: ignore[override]
        """Where its arrays live: made on first use, since it may import a framework."""
        device = self.recipe.device
        if not isinstance(device, str):
            return device
        if device == "cpu":
            return Host()
        from deep_bench.variant import Variant

        return Variant.parse("torch:device=cuda" if device == "cuda" else device).create()

    @cached_property
    def built(self) -> BuiltLibrary:
        """Its library, compiled unless that was done before. See `deep_bench.operators.native_code.build.build_library`."""
        return build_library(self.recipe)

    def sanitized(self) -> NativeOperator:
        """The same with ``sanitize=True``.

        Raises:
            InvalidArgument: It is a library that is built already, or on a device of a framework.
        """
        return NativeOperator(replace(self.recipe, sanitize=True))

    def setup(self, case: Case) -> None:
        """Compile the source, and allocate what a case needs.

        Raises:
            BuildFailed: The compiler refused.
            Unsupported: The function does not take such inputs or attributes, or there is no compiler or device.
            InvalidArgument: The library has no such function.
        """
        self._outputs = case.outputs
        if self.recipe.sanitize:
            self._sanitizer.setup(case)
            return
        specs = tuple(None if a is None else a.spec for a in case.arguments)
        self._prepared(specs, [None if a is None else a.value for a in case.arguments], dict(case.attributes))

    def forward(self, *inputs: Any, **attributes: Any) -> Any:
        """Call the function.

        Raises:
            KernelFailed: It says that it failed.
            MemoryViolation: It runs under a sanitizer, which found something.
            Unsupported: The function does not take such inputs or attributes.
        """
        ready = self._ready
        if ready is not None and attributes == ready.attributes:
            held = ready.held
            if len(held) == len(inputs):
                i = 0  # counting costs half of what zip or enumerate does
                for held_input in held:
                    if inputs[i] is not held_input:
                        break
                    i += 1  # noqa: SIM113
                else:
                    return ready.run()
                if ready.exchange(inputs):
                    return ready.run()
        if self.recipe.sanitize:
            return self._sanitizer.forward(inputs, attributes)
        return self._accepting(inputs, attributes).run()

    def forward_into(self, outputs: Sequence[Any], inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
        """Call the function with given arrays for its results, all of them contiguous.

        Raises:
            InvalidInput: They are not as the results are.
        """
        self._accepting(tuple(inputs), dict(attributes)).run_into(outputs)

    def bind(self, *inputs: Any, **attributes: Any) -> Callable[[], Any]:
        """A call without arguments of the function on these inputs, at the lowest cost.

        Its results are the same arrays each time, and so valid until the next call only.
        """
        specs = self._specs(inputs)
        results, _ = self._infer(specs, _settings(inputs), attributes)
        ready = self._new("forward", specs, results, attributes, depends=False)
        ready.accept(inputs)
        return ready.bound()

    def results(self, *inputs: Any, **attributes: Any) -> tuple[TensorSpec, ...]:
        """Name, shape and element type of what it gives for these inputs."""
        return self._infer(self._specs(inputs), _settings(inputs), attributes)[0]

    def backward(
        self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], **attributes: Any
    ) -> tuple[Any, ...]:
        """Call the function for the gradients; see `deep_bench.operators.Operator.backward`."""
        if self.recipe.backward is None:
            return super().backward(grads, inputs, outputs, **attributes)
        if self.recipe.sanitize:
            return self._sanitizer.backward(grads, inputs, outputs, attributes)
        result = self._accepting_back(grads, inputs, outputs, attributes).run()
        return result if isinstance(result, tuple) else (result,)

    def backward_into(
        self,
        gradients: Sequence[Any],
        grads: Sequence[Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        attributes: Mapping[str, Any],
    ) -> None:
        """As `backward`, with given arrays for the gradients; ``None`` where there is none."""
        self._accepting_back(grads, inputs, outputs, dict(attributes)).run_into(gradients)

    def gradients(self, *inputs: Any) -> Specs:
        """Name, shape and element type of the gradient of each input, ``None`` where it gives none."""
        return gradients_of(self._specs(inputs), self._wanted(len(inputs)))

    def poison(self) -> None:
        """Overwrite all arrays that it would use again for results."""
        for ready in self._all_ready.values():
            ready.poison()

    @cached_property
    def _sanitizer(self) -> Sanitizer:
        return Sanitizer(self.recipe)

    def _accepting(self, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> ReadyCall:
        """The call for such inputs, pointed at these."""
        ready = self._prepared(self._specs(inputs), inputs, attributes)
        ready.accept(inputs)
        self._ready = ready
        return ready

    def _prepared(self, specs: Specs, inputs: Sequence[Any], attributes: dict[str, Any]) -> ReadyCall:
        """The call for such inputs; of their contents, only those that decide the shape of a result matter."""
        values = _settings(inputs)
        shapes = _key("forward", specs, attributes)
        key = (shapes, content(values))
        ready = self._all_ready.get(key if self._depends.get(shapes) else shapes)
        if ready is None:
            results, depends = self._infer(specs, values, attributes)
            self._depends[shapes] = depends
            ready = self._new("forward", specs, results, attributes, depends=depends)
            self._keep(key if depends else shapes, ready)
        return ready

    def _accepting_back(
        self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], attributes: dict[str, Any]
    ) -> ReadyCall:
        arrays = (*grads, *inputs, *outputs)
        input_specs, computed = self._specs(inputs), self._specs(outputs, "outputs")
        specs = (*(None if g is None else s for g, s in zip(grads, computed, strict=True)), *input_specs, *computed)
        key = _key(f"backward {len(grads)}", specs, attributes)
        ready = self._all_ready.get(key)
        if ready is None:
            gradients = gradients_of(input_specs, self._wanted(len(inputs)))
            ready = self._new("backward", specs, gradients, attributes, depends=False)
            self._keep(key, ready)
        ready.accept(arrays)
        return ready

    def _keep(self, key: Any, ready: ReadyCall) -> None:
        if len(self._all_ready) >= _MOST_CALLS:
            del self._all_ready[next(iter(self._all_ready))]
        self._all_ready[key] = ready

    def _specs(self, arrays: Sequence[Any], role: str = "inputs") -> Specs:
        """The arrays' names are those of the signature, if there is one."""
        signature = self.recipe.signature
        names = signature.names("read" if role == "inputs" else "written") if signature is not None else ()
        short = "x" if role == "inputs" else "y"
        return tuple(
            None if a is None else spec_of(a, names[i] if i < len(names) else f"{short}{i}") for i, a in enumerate(arrays)
        )

    def _infer(
        self, specs: Specs, values: Sequence[Any], attributes: Mapping[str, Any]
    ) -> tuple[tuple[TensorSpec, ...], bool]:
        return infer_results(self.recipe.computes, specs, values, attributes, self._outputs)

    def _wanted(self, count: int) -> tuple[str, ...] | None:
        """The name of each input's gradient where the backward function gives one, else an empty text; ``None`` for all."""
        forward, backward = self.recipe.signature, self.recipe.backward_signature
        if backward is None:
            return None
        if forward is None:
            raise Unsupported("a backward signature without a forward one", "both", "give the forward function's signature")
        written = backward.names("written")
        return tuple(f"d{n}" if f"d{n}" in written else "" for n in forward.names("read")[:count])

    @cached_property
    def _library(self) -> Any:
        load = library.load_tvm_module if self.built.route == "tvm-ffi" else library.load_library
        return load(self.built.path)

    def _new(
        self, direction: str, read: Specs, written: Specs, attributes: Mapping[str, Any], *, depends: bool
    ) -> ReadyCall:
        recipe, forward = self.recipe, self.recipe.signature
        if direction == "forward":
            name, signature = recipe.function, forward
        else:
            name, signature = str(recipe.backward), recipe.backward_signature
        find = library.tvm_function if self.built.route == "tvm-ffi" else library.library_function
        function = find(self._library, self.built.path, name)
        values = plain_attributes.complete_attributes(recipe.computes, attributes)
        names: dict[str, int] = {}
        if signature is not None:
            if direction == "forward":
                names = forward_names(signature, read, written, name)
            elif forward is not None:
                names = backward_names(signature, forward, name)
            used_names = [p.attribute for p in signature.parameters if p.attribute is not None]
            plain_attributes.refuse_unused_attributes(recipe.computes, values, used_names, name)
        tensors = CallTensors(tuple(read), tuple(written), names)
        by_tvm = self.built.route == "tvm-ffi"
        if by_tvm:
            call = library.call_by_tvm(function, name, signature, tensors, values)
        elif signature is None:
            call = library.call_by_tensors(function, tensors, values)
        else:
            call = library.call_by_signature(function, name, signature, tensors, values)
        return ReadyCall(
            call,
            name,
            tensors.read,
            tensors.written,
            place=library.pass_on if by_tvm else address,
            device=self.device,
            attributes=dict(attributes),
            depends=depends,
        )


def _settings(inputs: Sequence[Any]) -> list[Any]:
    """The contents that may decide the shape of a result."""
    return [x if may_decide_shape(x) else None for x in inputs]


def _key(label: str, specs: Specs, attributes: Mapping[str, Any]) -> Any:
    return (label, tuple(None if s is None else (s.shape, s.dtype) for s in specs), content(attributes))


_ASAN_OPTIONS = "detect_leaks=0:exitcode=86:color=never:allocator_may_return_null=1"
"""Python itself leaks by design, so that leaks are not looked for."""


_RUNTIME = ("libasan.so", "libstdc++.so")
"""Loaded before all else. With libstdc++ too, since the sanitizer looks for its functions on starting."""


_VIOLATION_STATUS = 86


class Sanitizer:
    """A native function that is called in another process.

    Args:
        recipe: What it is made of.
    """

    def __init__(self, recipe: BuildRecipe) -> None:
        extra = build.SANITIZE_CUDA if recipe.on_cuda else build.SANITIZE
        self.recipe = replace(recipe, sanitize=False, flags=(*extra, *recipe.flags))
        self._worker: Worker | None = None
        if recipe.on_cuda:  # each request has a process of its own
            return
        built = build_library(self.recipe)  # here, where the compiler is not under the sanitizer
        before = os.environ.get("ASAN_OPTIONS")
        options = f"{_ASAN_OPTIONS}:{before}" if before else _ASAN_OPTIONS
        folder = mkdtemp(prefix="deep-bench-sanitizer-")
        self._worker = Worker(
            "deep_bench.operators.native_code.sanitizer:SanitizedFunction",
            {"pickled": dumped(self.recipe, self.recipe.function)},
            label=self.recipe.function,
            log=Path(folder) / "log",
            environment={"LD_PRELOAD": _preloaded(built), "ASAN_OPTIONS": options},
            lasting=True,
        )
        weakref.finalize(self, _end_worker, self._worker, folder)

    def setup(self, case: Case) -> None:
        """As `deep_bench.operators.Operator.setup`."""
        if self.recipe.on_cuda:
            compute_sanitizer()
            build_library(self.recipe)
            return
        self._ask("setup", dumped(case, "the case"))

    def forward(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """As `deep_bench.operators.Operator.forward`.

        Raises:
            MemoryViolation: The sanitizer found something.
        """
        return self._ask("forward", tuple(map(_as_numpy, inputs)), dict(attributes))

    def backward(
        self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Any:
        """As `deep_bench.operators.Operator.backward`.

        Raises:
            MemoryViolation: The sanitizer found something.
        """
        sent = (tuple(map(_as_numpy, several)) for several in (grads, inputs, outputs))
        return self._ask("backward", *sent, dict(attributes))

    def _ask(self, method: str, *args: Any) -> Any:
        worker = self._worker
        if worker is None:
            return _ask_cuda(self.recipe, method, args)
        try:
            return worker.call(method, *args)
        except WorkerDied as death:
            log = worker.log.read_text(encoding="utf-8", errors="replace")
            worker.log.unlink()  # the next process writes one of its own
            report = log[start:] if (start := log.find("=================\n==")) >= 0 else ""
            if "AddressSanitizer" not in report:
                raise
            raise _violation(self.recipe.function, report) from death


def _end_worker(worker: Worker, folder: str) -> None:
    worker.close()
    shutil.rmtree(folder)


def _ask_cuda(recipe: BuildRecipe, method: str, args: tuple[Any, ...]) -> Any:
    program = compute_sanitizer()
    build_library(recipe)
    with TemporaryDirectory(prefix="deep-bench-sanitizer-") as folder:
        request, reply, log = (Path(folder) / name for name in ("request", "reply", "log"))
        request.write_bytes(pickle.dumps((dumped(recipe, recipe.function), method, args)))
        command = [program, "--tool", "memcheck", "--error-exitcode", str(_VIOLATION_STATUS), "--log-file", str(log)]
        command += [sys.executable, "-P", "-m", "deep_bench.operators.native_code.sanitizer", str(request), str(reply)]
        # torch's own allocator hands out parts of large blocks, whose ends the tool cannot see.
        environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=environment)
        report = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        if done.returncode == _VIOLATION_STATUS:
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


def _preloaded(built: BuiltLibrary) -> str:
    assert built.compiler is not None
    if "clang" in built.compiler.version:
        raise Unsupported(
            f"sanitize=True with {built.compiler.path}",
            "gcc or g++, whose sanitizer can be loaded into Python",
            "name it: compiler='g++'",
        )
    libraries = [build.runtime_library(built.compiler, name) for name in _RUNTIME]
    if libraries[0] is None:
        raise Unsupported(
            f"{built.compiler.path} has no {_RUNTIME[0]}",
            "a gcc with AddressSanitizer",
            "install it (Debian, Ubuntu: the package libasan of gcc's version)",
        )
    return ":".join(str(path) for path in libraries if path is not None)


def _violation(function: str, report: str) -> MemoryViolation:
    failure = MemoryViolation(f"{function} touches memory that is not its own; the sanitizer says:\n{report.strip()}")
    failure.report = report
    return failure


def _as_numpy(array: Any) -> np.ndarray | None:
    if array is None or isinstance(array, np.ndarray):
        return array
    return array.cpu().numpy() if hasattr(array, "cpu") else np.asarray(array)

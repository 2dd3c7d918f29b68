"""Kernels in C, C++ and CUDA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from deep_bench.errors import InvalidArgument, UnknownName

if TYPE_CHECKING:
    from deep_bench.framework import Device
    from deep_bench.operators.native_code.operator import NativeOperator

ROUTES = ("auto", "c", "tvm-ffi")


def native(
    source: str | Path,
    *,
    function: str,
    computes: str | Callable[..., Any],
    signature: str | None = None,
    backward: str | None = None,
    backward_signature: str | None = None,
    route: Literal["auto", "c", "tvm-ffi"] = "auto",
    flags: Sequence[str] = (),
    compiler: str | Path | None = None,
    device: str | Device[Any] = "cpu",
    sanitize: bool = False,
) -> NativeOperator:
    """A kernel from a source in C, C++ or CUDA, or from a library that is built already.

    It is compiled when it is first needed, and kept in a cache by its contents, its own headers, the compiler and the flags
    (see `deep_bench.operators.native_code.build`). Memory for the results is allocated before the call: they have the shapes
    and element types that the operator's definition gives. Inputs that are not contiguous or aligned are copied.

    A function is called by one of three conventions:

    - With a ``signature``, the parameters of its C prototype, it gets plain pointers and numbers, at the lowest cost. Their
      order is free; pointers to ``const`` are the inputs and others the outputs, each in order. See
      `deep_bench.operators.native_code.signature.GRAMMAR`. The names in the backward signature are those of the forward one,
      with a ``d`` before them for gradients: for ``const float *x, float *y`` they may be ``const float *dy,
      const float *x, float *dx``.
    - Without one, it has the prototype in ``deep_bench.h``, which takes any number of tensors of any shape and element type,
      and all attributes.
    - Exported by ``apache-tvm-ffi``, it takes inputs and then outputs as ``tvm::ffi::TensorView`` (a backward function:
      gradients of the outputs, inputs, outputs, and then gradients of the inputs), or what its signature says in the order
      of that. The same function works on NumPy, torch and TensorFlow arrays. Calling one imports ``tvm_ffi``, which imports
      torch where that is installed: not for processes that must be without it.

    Args:
        source: A file (``.c``, ``.cc``, ``.cpp``, ``.cxx``, ``.cu``), the source itself, or a shared library (``.so``).
        function: The function's name, which must be ``extern "C"`` where C++ is compiled and called as C.
        computes: The ONNX operator or the NumPy function that it claims to compute.
        signature: The parameters of its prototype.
        backward: The name of the function for the gradients.
        backward_signature: The parameters of that.
        route: How it is called: ``"c"`` or ``"tvm-ffi"``; ``"auto"`` looks at the source or library.
        flags: For the compiler, behind its own (``-O3 -march=native -std=c++17``); they win.
        compiler: Which one; by default that of the environment variable ``CXX`` (``CC``, ``NVCC``), or the usual one.
        device: Where its arrays live: ``"cpu"`` for NumPy, ``"cuda"`` for torch's on a GPU, a framework with its options
            (``"torch"``, ``"tensorflow"``), or a `deep_bench.framework.Device`.
        sanitize: Compile it with AddressSanitizer, and run it in a process of its own under that (CUDA: under
            ``compute-sanitizer``). It is slow then, and not for timing.

    Raises:
        InvalidArgument: No such file, a signature that cannot be read, an attribute that the operator does not have, or
            arguments that do not fit each other.
        UnknownName: No such operator or device.

    Example:
        >>> import numpy as np
        >>> source = '''
        ... extern "C" void relu(const float *x, float *y, long n) {
        ...     for (long i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
        ... }
        ... '''
        >>> relu = native(source, function="relu", computes="Relu", signature="const float *x, float *y, long n = x.size")
        >>> relu.forward(np.array([-1, 2], np.float32))
        array([0., 2.], dtype=float32)
    """
    from deep_bench.operators.native_code.build import BuildRecipe, read_source
    from deep_bench.operators.native_code.operator import NativeOperator
    from deep_bench.operators.native_code.signature import backward_names, check_attributes_known, parse_signature

    if route not in ROUTES:
        raise InvalidArgument(f"route={route!r}", f"one of {', '.join(ROUTES)}")
    if isinstance(flags, str):
        raise InvalidArgument(f"flags={flags!r}", "a list with a text for each flag", f"say flags={flags.split()!r}")
    forward = parse_signature(signature) if signature is not None else None
    back = parse_signature(backward_signature) if backward_signature is not None else None
    if back is not None and (forward is None or backward is None):
        raise InvalidArgument("a backward signature alone", "backward and signature beside it, whose names it uses")
    if forward is not None:
        forward.check_sizes((*forward.names("read"), *forward.names("written")), function)
    if back is not None and forward is not None:
        backward_names(back, forward, str(backward))
    if backward is not None and forward is not None and back is None and route == "c":
        raise InvalidArgument(f"backward={backward!r} without its signature", "backward_signature, as signature is given")
    if isinstance(device, str):
        _check_device(device)
    if forward is not None:
        check_attributes_known(computes, [p for s in (forward, back) if s is not None for p in s.parameters], function)
    recipe = BuildRecipe(
        source=read_source(source, device if isinstance(device, str) else ""),
        function=function,
        computes=computes,
        backward=backward,
        route=None if route == "auto" else route,
        signature=forward,
        backward_signature=back,
        flags=tuple(flags),
        compiler=None if compiler is None else str(compiler),
        device=device,
        sanitize=sanitize,
    )
    return NativeOperator(recipe)


def _check_device(device: str) -> None:
    """Refuse what is neither NumPy's arrays, nor torch's on a GPU, nor a framework; importing none."""
    from deep_bench import frameworks

    devices = ["cpu", "cuda", *frameworks]
    if device.partition(":")[0] not in devices:
        raise UnknownName("device", device, devices)

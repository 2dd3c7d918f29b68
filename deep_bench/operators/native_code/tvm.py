"""Calling functions of apache-tvm-ffi, which take NumPy, torch and TensorFlow arrays alike.

Importing ``tvm_ffi`` imports torch where that is installed. So it is imported on the first call of such a function only, and
a process that must not have torch must not make one. Compiling needs its headers alone.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.errors import FrameworkMissing, Unsupported
from deep_bench.operators.native_code.attributes import Plain
from deep_bench.operators.native_code.call import Call, Tensors, check_types
from deep_bench.operators.native_code.library import TVM_PREFIX, exported, missing
from deep_bench.operators.native_code.plain import value_of
from deep_bench.operators.native_code.signature import Signature

MARK = "tvm/ffi"
"""What is in the source of every such function: the path of a header."""


class Argument:
    """The place of a tensor in a list of arguments."""

    __slots__ = ("_arguments", "_index")

    def __init__(self, arguments: list[Any], index: int) -> None:
        self._arguments, self._index = arguments, index

    @property
    def value(self) -> Any:
        """The tensor."""
        return self._arguments[self._index]

    @value.setter
    def value(self, tensor: Any) -> None:
        self._arguments[self._index] = tensor


def installed() -> tuple[Path, str]:
    """The folder of the package and its version; imports nothing.

    Raises:
        FrameworkMissing: It is not installed.
    """
    spec = importlib.util.find_spec("tvm_ffi")
    if spec is None or spec.origin is None:
        raise FrameworkMissing(
            "this native source is written for apache-tvm-ffi, which is not installed",
            "the package apache-tvm-ffi",
            "pip install 'deep-bench[native]'",
        )
    return Path(spec.origin).parent, metadata.version("apache-tvm-ffi")


def link_options(folder: Path) -> list[str]:
    """What the linker needs."""
    return [f"-L{folder / 'lib'}", "-ltvm_ffi"]


def load(path: Path) -> Any:
    """The module of a library."""
    installed()
    import tvm_ffi

    return tvm_ffi.load_module(str(path))


def function(module: Any, path: Path, name: str) -> Any:
    """A function of a module.

    Raises:
        InvalidArgument: There is none of that name; it says which there are.
    """
    if f"{TVM_PREFIX}{name}" not in exported(path):
        raise missing(path, name, TVM_PREFIX)
    return getattr(module, name)


def call(function: Any, name: str, signature: Signature | None, tensors: Tensors, attributes: Mapping[str, Plain]) -> Call:
    """Make a function ready: its arguments are all tensors read, then all written; or what the signature says.

    Raises:
        Unsupported: A tensor of another element type than the signature has.
        InvalidArgument: An attribute that it takes is missing or of another kind.
    """
    if signature is None:
        arguments: list[Any] = [None] * (len(tensors.read) + len(tensors.written))
        slots = [[Argument(arguments, i)] for i in range(len(arguments))]
        return _ready(function, arguments, slots[: len(tensors.read)], slots[len(tensors.read) :])
    check_types(signature, tensors, name)
    read: list[list[Argument]] = [[] for _ in tensors.read]
    written: list[list[Argument]] = [[] for _ in tensors.written]
    arguments = []
    for parameter in signature.parameters:
        if parameter.kind in ("read", "written"):
            place = (read if parameter.kind == "read" else written)[tensors.place(parameter)]
            place.append(Argument(arguments, len(arguments)))
            arguments.append(None)
        else:
            arguments.append(value_of(parameter, name, tensors, attributes))
    return _ready(function, arguments, read, written)


def _ready(function: Any, arguments: list[Any], read: Any, written: Any) -> Call:
    return Call(partial(_invoke, function, arguments), _failure, read, written)


def _invoke(function: Any, arguments: list[Any]) -> Any:
    return function(*arguments)


def _failure(returned: Any) -> str | None:
    return None if returned is None else f"it returned a {type(returned).__name__} instead of filling its outputs"


def pass_on(array: Any) -> Any:
    """An array as a function takes it. NumPy's are converted here, once; those of frameworks are passed as they are.

    Raises:
        Unsupported: NumPy has no way to pass this element type on.
    """
    if not isinstance(array, np.ndarray):
        return array
    import tvm_ffi

    if not array.flags.writeable:  # DLPack of NumPy has no way to say so; the checks see whether the kernel obeyed
        array = _writable(array)
    try:
        return tvm_ffi.from_dlpack(array)
    except BufferError as error:
        raise Unsupported(
            f"NumPy cannot pass {array.dtype} on to tvm-ffi: {error}",
            "an element type that DLPack has for NumPy",
            "say device='torch', or use the plain C route",
        ) from error


def _writable(array: np.ndarray) -> np.ndarray:
    import ctypes

    if not array.nbytes:
        return np.empty(array.shape, array.dtype)
    memory = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    return np.frombuffer(memoryview(memory), array.dtype).reshape(array.shape)

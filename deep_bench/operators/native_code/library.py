"""A shared library, what is in it, and calling its functions through ctypes or apache-tvm-ffi.

Functions of apache-tvm-ffi take NumPy, torch and TensorFlow arrays alike. Importing ``tvm_ffi`` imports torch where that
is installed. So it is imported on the first call of such a function only, and a process that must not have torch must not
make one. Compiling needs its headers alone.
"""

from __future__ import annotations

import ctypes
import importlib.util
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.errors import DeepBenchError, FrameworkMissing, InvalidArgument, Unsupported
from deep_bench.operators.native_code.signature import (
    SCALARS,
    CallTensors,
    NativeCall,
    Parameter,
    Plain,
    Returns,
    Signature,
    check_types,
    size_of,
    wants_length,
)
from deep_bench.tensor import STRING, TensorSpec


class BuildFailed(DeepBenchError):
    """A compiler refused a source; the message holds what it wrote, as it wrote it."""


class KernelFailed(DeepBenchError):
    """A native function reported that it failed."""


class MemoryViolation(DeepBenchError):
    """A native function touched memory that is not its own; ``report`` holds the sanitizer's text."""

    report: str = ""


TVM_PREFIX = "__tvm_ffi_"
"""What tvm-ffi puts before the name of an exported function."""


_SHARED_SYMBOLS = 11
_FUNCTION = 2
_RUNTIME_SYMBOLS = ("_init", "_fini")


def load_library(path: Path) -> ctypes.CDLL:
    """Load a library into this process.

    Raises:
        InvalidArgument: The loader refused; its own message is in the error's.
    """
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise InvalidArgument(
            f"{path} cannot be loaded: {error}",
            "a shared library for this machine, with all that it needs",
            "name the libraries that it needs in flags: flags=['-lname']",
        ) from error


def library_function(library: ctypes.CDLL, path: Path, name: str) -> Any:
    """A function of a library.

    Raises:
        InvalidArgument: There is none of that name; it says which there are.
    """
    try:
        return library[name]
    except AttributeError as error:
        raise missing_function(path, name) from error


def missing_function(path: Path, name: str, prefix: str = "") -> InvalidArgument:
    """The error for a function that a library does not have."""
    symbols = exported_functions(path)
    names = [n.removeprefix(prefix) for n in symbols if n.startswith(prefix)]
    mangled = [n for n in symbols if n.startswith(f"_Z{len(name)}{name}")]
    if mangled:
        advice = f'write extern "C" before it: C++ made {mangled[0]} of its name'
    elif prefix:
        advice = f"write TVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, {name}); behind it"
    else:
        advice = "name one of these; a function that is static, or in an anonymous namespace, cannot be called from outside"
    return InvalidArgument(f"there is no function {name!r} in the library", f"one of {', '.join(names) or '(none)'}", advice)


def exported_functions(path: Path) -> list[str]:
    """The names of the functions that a library exports, sorted; none where it is no 64-bit ELF file.

    Source:
        The ELF-64 object file format, version 1.5.
    """
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        return []
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    names = []
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind != _SHARED_SYMBOLS:
            continue
        strings = sections[link][4]
        for at in range(offset, offset + length, entry):
            name, info, _, section = struct.unpack_from("<IBBH", data, at)
            if section and info & 15 == _FUNCTION and info >> 4:
                end = data.index(b"\0", strings + name)
                names.append(data[strings + name : end].decode(errors="replace"))
    return sorted(set(names) - {*_RUNTIME_SYMBOLS})


class CTensor(ctypes.Structure):
    """``db_tensor`` of ``deep_bench.h``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("size", ctypes.c_int64),
        ("rank", ctypes.c_int32),
        ("type", ctypes.c_int32),
    )


class CAttribute(ctypes.Structure):
    """``db_attribute`` of ``deep_bench.h``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("text", ctypes.c_char_p),
        ("floats", ctypes.POINTER(ctypes.c_double)),
        ("integers", ctypes.POINTER(ctypes.c_int64)),
        ("size", ctypes.c_int64),
    )


class CAttributeList(ctypes.Structure):
    """``db_attributes`` of ``deep_bench.h``."""

    _fields_ = (("items", ctypes.POINTER(CAttribute)), ("size", ctypes.c_int64))


def call_by_tensors(function: Any, tensors: CallTensors, attributes: Mapping[str, Plain]) -> NativeCall:
    """Make a function ready that has the prototype of ``deep_bench.h``."""
    read, written = _c_tensors(tensors.read), _c_tensors(tensors.written)
    items = [_c_attribute(name, value) for name, value in attributes.items()]
    listed = CAttributeList((CAttribute * len(items))(*items), len(items))
    arguments = (
        read,
        ctypes.c_int64(len(tensors.read)),
        written,
        ctypes.c_int64(len(tensors.written)),
        ctypes.byref(listed),
    )
    function.restype = _RETURNED["text"]
    slots = (
        [[_data_pointer(read, i)] for i in range(len(tensors.read))],
        [[_data_pointer(written, i)] for i in range(len(tensors.written))],
    )
    return NativeCall(partial(function, *arguments), _FAILURE["text"], *slots)


def call_by_signature(
    function: Any, name: str, signature: Signature, tensors: CallTensors, attributes: Mapping[str, Plain]
) -> NativeCall:
    """Make a function ready that has a signature of its own.

    Raises:
        Unsupported: A tensor of another element type than the signature has.
        InvalidArgument: An attribute that it takes is missing or of another kind.
    """
    arguments, read, written = _arranged(signature, name, tensors, attributes)
    passed: list[Any] = []
    for parameter, argument in zip(signature.parameters, arguments, strict=True):
        if parameter.kind in ("read", "written"):
            passed.append(ctypes.c_void_p())
        else:
            passed.append(_as_c(parameter, argument))
    function.restype = _RETURNED[signature.returns]
    pointers, written_pointers = ([[passed[i] for i in places] for places in side] for side in (read, written))
    return NativeCall(partial(function, *passed), _FAILURE[signature.returns], pointers, written_pointers)


def _arranged(
    signature: Signature, function: str, tensors: CallTensors, attributes: Mapping[str, Plain]
) -> tuple[list[Any], list[list[int]], list[list[int]]]:
    """A function's arguments, ``None`` for tensors, and the places of each tensor that is read, and that is written."""
    check_types(signature, tensors, function)
    read: list[list[int]] = [[] for _ in tensors.read]
    written: list[list[int]] = [[] for _ in tensors.written]
    arguments: list[Any] = []
    for parameter in signature.parameters:
        if parameter.kind in ("read", "written"):
            (read if parameter.kind == "read" else written)[tensors.place(parameter)].append(len(arguments))
            arguments.append(None)
        else:
            arguments.append(value_of(parameter, function, tensors, attributes))
    return arguments, read, written


def value_of(parameter: Parameter, function: str, tensors: CallTensors, attributes: Mapping[str, Plain]) -> Any:
    """What a parameter that is no tensor stands for, in Python.

    Raises:
        InvalidArgument: An attribute that it needs is missing or of another kind.
    """
    if parameter.kind == "stream":
        return None  # the default stream, which is the current one unless the framework was told otherwise
    if parameter.tensor is not None:
        spec = tensors.spec(parameter.tensor)
        shape = tuple(int(d) for d in spec.shape) if spec is not None else None
        if parameter.kind == "shape":
            return shape or ()
        return size_of(parameter, shape) if shape is not None else 0
    value = attributes.get(str(parameter.attribute))
    if wants_length(parameter):
        return len(value) if isinstance(value, tuple) else 0
    if parameter.kind == "list" and value is None:
        return ()
    literal = parameter.value if parameter.kind == "value" and not parameter.value.startswith("attributes.") else ""
    if value is None and literal:
        value = float(literal) if parameter.type in ("float", "double") else int(literal)
    accepted_types: dict[str, tuple[type, ...]] = {"text": (str,), "list": (tuple,)}
    whole = parameter.type not in ("float", "double")
    fits = isinstance(value, accepted_types.get(parameter.kind, (int,) if whole else (int, float)))
    if not fits or (whole and isinstance(value, tuple) and any(isinstance(v, float) for v in value)):
        came = "is missing" if value is None else f"is {value!r}"
        raise InvalidArgument(
            f"the attribute {parameter.attribute} for {function} {came}", f"a {_needed_arguments(parameter)}"
        )
    return value


def _needed_arguments(parameter: Parameter) -> str:
    return {"text": "text", "list": f"list of {parameter.type}"}.get(parameter.kind, parameter.type)


def _as_c(parameter: Parameter, value: Any) -> Any:
    """An argument that stays as it is; ``from_param`` converts it once instead of at each call."""
    if parameter.kind == "stream":
        return ctypes.c_void_p.from_param(None)
    if parameter.kind == "text":
        return ctypes.c_char_p.from_param(value.encode())
    kind = SCALARS[parameter.type][0]
    return (kind * len(value))(*value) if parameter.kind in ("shape", "list") else kind.from_param(value)


def _c_tensors(specs: Sequence[TensorSpec | None]) -> Any:
    tensors = [CTensor() if spec is None else _c_tensor(spec) for spec in specs]
    return (CTensor * len(tensors))(*tensors)


def _c_tensor(spec: TensorSpec) -> CTensor:
    import onnx

    if spec.dtype == STRING:
        raise Unsupported(f"{spec} for a native function", "tensors of numbers", "leave such cases out")
    shape = tuple(int(d) for d in spec.shape)
    size = 1
    for dimension in shape:
        size *= dimension
    code = int(onnx.helper.np_dtype_to_tensor_dtype(spec.dtype))
    return CTensor(None, (ctypes.c_int64 * len(shape))(*shape), size, len(shape), code)


def _data_pointer(tensors: Any, index: int) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_buffer(tensors, index * ctypes.sizeof(CTensor))


def _c_attribute(name: str, value: Plain) -> CAttribute:
    if isinstance(value, str):
        text = value.encode()
        return CAttribute(name.encode(), text, None, None, len(text))
    numbers = value if isinstance(value, tuple) else (value,)
    floats = (ctypes.c_double * len(numbers))(*numbers)
    whole = all(isinstance(n, int) for n in numbers)
    integers = (ctypes.c_int64 * len(numbers))(*(int(n) for n in numbers)) if whole else None
    return CAttribute(name.encode(), None, floats, integers, len(numbers))


def _status_failure(returned: int) -> str | None:
    return f"it returned {returned}" if returned else None


def _text_failure(returned: bytes | None) -> str | None:
    return returned.decode(errors="replace") if returned is not None else None


_RETURNED: Mapping[Returns, Any] = {"nothing": None, "status": ctypes.c_int, "text": ctypes.c_char_p}
_FAILURE: Mapping[Returns, Callable[[Any], str | None] | None] = {
    "nothing": None,
    "status": _status_failure,
    "text": _text_failure,
}


TVM_MARK = "tvm/ffi"
"""What is in the source of every such function: the path of a header."""


class TvmArgument:
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


def require_tvm() -> tuple[Path, str]:
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


def tvm_link_options(folder: Path) -> list[str]:
    """What the linker needs."""
    return [f"-L{folder / 'lib'}", "-ltvm_ffi"]


def load_tvm_module(path: Path) -> Any:
    """The module of a library."""
    require_tvm()
    import tvm_ffi

    return tvm_ffi.load_module(str(path))


def tvm_function(module: Any, path: Path, name: str) -> Any:
    """A function of a module.

    Raises:
        InvalidArgument: There is none of that name; it says which there are.
    """
    if f"{TVM_PREFIX}{name}" not in exported_functions(path):
        raise missing_function(path, name, TVM_PREFIX)
    return getattr(module, name)


def call_by_tvm(
    function: Any, name: str, signature: Signature | None, tensors: CallTensors, attributes: Mapping[str, Plain]
) -> NativeCall:
    """Make a function ready: its arguments are all tensors read, then all written; or what the signature says.

    Raises:
        Unsupported: A tensor of another element type than the signature has.
        InvalidArgument: An attribute that it takes is missing or of another kind.
    """
    if signature is None:
        n, m = len(tensors.read), len(tensors.written)
        arguments, read, written = [None] * (n + m), [[i] for i in range(n)], [[n + i] for i in range(m)]
    else:
        arguments, read, written = _arranged(signature, name, tensors, attributes)
    slots = ([[TvmArgument(arguments, i) for i in places] for places in side] for side in (read, written))
    return NativeCall(partial(_invoke_tvm, function, arguments), _tvm_failure, *slots)


def _invoke_tvm(function: Any, arguments: list[Any]) -> Any:
    return function(*arguments)


def _tvm_failure(returned: Any) -> str | None:
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

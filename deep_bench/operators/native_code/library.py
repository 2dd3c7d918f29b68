"""A shared library, and what is in it."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any

from deep_bench.errors import InvalidArgument

TVM_PREFIX = "__tvm_ffi_"
"""What tvm-ffi puts before the name of an exported function."""

_SHARED_SYMBOLS = 11
_FUNCTION = 2
_OWN = ("_init", "_fini")


def load(path: Path) -> ctypes.CDLL:
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


def function(library: ctypes.CDLL, path: Path, name: str) -> Any:
    """A function of a library.

    Raises:
        InvalidArgument: There is none of that name; it says which there are.
    """
    try:
        return library[name]
    except AttributeError as error:
        raise missing(path, name) from error


def missing(path: Path, name: str, prefix: str = "") -> InvalidArgument:
    """The error for a function that a library does not have."""
    symbols = exported(path)
    names = [n.removeprefix(prefix) for n in symbols if n.startswith(prefix)]
    mangled = [n for n in symbols if n.startswith(f"_Z{len(name)}{name}")]
    if mangled:
        advice = f'write extern "C" before it: C++ made {mangled[0]} of its name'
    elif prefix:
        advice = f"write TVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, {name}); behind it"
    else:
        advice = "name one of these; a function that is static, or in an anonymous namespace, cannot be called from outside"
    return InvalidArgument(f"there is no function {name!r} in the library", f"one of {', '.join(names) or '(none)'}", advice)


def exported(path: Path) -> list[str]:
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
    return sorted(set(names) - {*_OWN})

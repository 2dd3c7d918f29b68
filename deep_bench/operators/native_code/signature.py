"""What a native function takes, as its author writes it: the parameters of its C prototype."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np

from deep_bench.errors import InvalidArgument

GRAMMAR = (
    "parameters of a C function: 'const float *x' for an input and 'float *y' for an output, in order; "
    "'int64_t n = x.size', '= x.rank' or '= x.shape[0]' and 'const int64_t *s = x.shape' for sizes; "
    "'float epsilon' for an attribute, 'float epsilon = 1e-5' with a default, 'const char *mode' for a text, "
    "'const int64_t *p = attributes.pads' and 'int64_t n = attributes.pads.size' for a list; "
    "perhaps in 'int (...)' where it returns 0 for success, or 'const char * (...)' where it returns an error's text"
)

SCALARS: dict[str, tuple[Any, str]] = {
    "float": (ctypes.c_float, "float32"),
    "double": (ctypes.c_double, "float64"),
    "bool": (ctypes.c_bool, "bool"),
    "int": (ctypes.c_int, "int32"),
    "long": (ctypes.c_long, "int64"),
    "size_t": (ctypes.c_size_t, "uint64"),
    **{
        f"{sign}int{bits}_t": (getattr(ctypes, f"c_{sign}int{bits}"), f"{sign}int{bits}")
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
}
"""C types of single numbers, as ctypes and as NumPy have them."""

_TENSORS: dict[str, Any] = {
    **{name: np.dtype(kind) for name, (_, kind) in SCALARS.items()},
    **dict.fromkeys(("_Float16", "__fp16", "half", "__half"), np.dtype("float16")),
    **dict.fromkeys(("__bf16", "__nv_bfloat16", "nv_bfloat16"), np.dtype(ml_dtypes.bfloat16)),
    "__nv_fp8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "__nv_fp8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "std::complex<float>": np.dtype("complex64"),
    "std::complex<double>": np.dtype("complex128"),
    "void": None,
}
"""C types that tensors may be of; ``void`` fits any."""

_PARAMETER = re.compile(
    r"(?P<const>const\s+)?(?P<type>[\w:]+(?:<\w+>)?)\s*(?P<pointer>\*\s*(?:(?:const|__restrict__|__restrict|restrict)\b\s*)?)?"
    r"(?P<name>[A-Za-z_]\w*)?\s*(?:=\s*(?P<value>.+))?"
)
_WHOLE = re.compile(r"\s*(?P<returns>void|int|const\s+char\s*\*)\s*\w*\s*\((?P<rest>.*)\)\s*;?\s*", re.DOTALL)
_SIZE = re.compile(r"(?P<tensor>[A-Za-z_]\w*)\.(?:(?P<what>size|rank|shape)|shape\[(?P<axis>-?\d+)\])")
_ATTRIBUTE = re.compile(r"attributes\.(?P<name>\w+)(?P<size>\.size)?")
_STREAM = ("cudaStream_t", "CUstream")

Kind = Literal["read", "written", "value", "list", "text", "shape", "stream"]
Returns = Literal["nothing", "status", "text"]


@dataclass(frozen=True)
class Parameter:
    """One parameter.

    Args:
        kind: ``read`` and ``written`` tensors; a single ``value``; a ``list`` of numbers, a ``text``, a ``shape``; a CUDA
            ``stream``.
        type: As written, without ``const`` and ``*``.
        name: As written.
        value: What stands behind the equals sign.
    """

    kind: Kind
    type: str
    name: str
    value: str = ""

    @property
    def dtype(self) -> np.dtype | None:
        """The element type of a tensor; ``None`` for any."""
        return _TENSORS[self.type]

    @property
    def tensor(self) -> str | None:
        """The tensor whose size, rank or shape it is."""
        match = _SIZE.fullmatch(self.value)
        return match["tensor"] if match else None

    @property
    def attribute(self) -> str | None:
        """The attribute whose value or length it is."""
        if self.kind in ("read", "written", "shape", "stream") or self.tensor is not None:
            return None
        match = _ATTRIBUTE.fullmatch(self.value)
        return match["name"] if match else self.name


@dataclass(frozen=True)
class Signature:
    """All that a function takes and gives back.

    Args:
        parameters: In order.
        returns: Nothing; an ``int`` that is 0 for success; or a text that is ``NULL`` for success.

    Example:
        >>> signature = parse("const float *x, float *y, int64_t n = x.size")
        >>> [(p.kind, p.name) for p in signature.parameters]
        [('read', 'x'), ('written', 'y'), ('value', 'n')]
    """

    parameters: tuple[Parameter, ...]
    returns: Returns = "nothing"

    def check_sizes(self, tensors: Collection[str], function: str) -> None:
        """Refuse a size of a tensor that is none of ``tensors``.

        Raises:
            InvalidArgument: It names the parameter.
        """
        for p in self.parameters:
            if p.tensor is not None and p.tensor not in tensors:
                choices = ", ".join(tensors) or "(none)"
                raise InvalidArgument(f"{p.value!r} in the signature of {function}", f"a size of one of {choices}")

    def names(self, kind: Kind) -> tuple[str, ...]:
        """The names of the parameters of a kind, in order."""
        return tuple(p.name for p in self.parameters if p.kind == kind)


def parse(text: str) -> Signature:
    """Read a signature; see `GRAMMAR`.

    Raises:
        InvalidArgument: It says which parameter cannot be read.
    """
    whole = _WHOLE.fullmatch(text)
    returns: Returns = "nothing"
    if whole:
        text = whole["rest"]
        returns = "text" if "char" in whole["returns"] else "status" if whole["returns"] == "int" else "nothing"
    parts = [" ".join(part.split()) for part in text.split(",")] if text.strip() else []
    parameters = tuple(_parameter(part) for part in parts)
    names = [p.name for p in parameters]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise InvalidArgument(f"two parameters named {doubled!r} in the signature {text!r}", "a name of its own for each")
    return Signature(parameters, returns)


def _parameter(part: str) -> Parameter:
    match = _PARAMETER.fullmatch(part)
    if match is None or not match["name"]:
        raise InvalidArgument(f"the parameter {part!r} in a signature", GRAMMAR)
    kind, name, value = match["type"], match["name"], (match["value"] or "").strip()
    if kind in _STREAM and not match["pointer"]:
        return Parameter("stream", kind, name)
    if match["pointer"]:
        return _pointer(part, bool(match["const"]), kind, name, value)
    if kind not in SCALARS:
        raise InvalidArgument(f"the type {kind!r} in the parameter {part!r}", f"one of {', '.join(SCALARS)}")
    size = _SIZE.fullmatch(value)
    if value and not ((size and size["what"] != "shape") or _ATTRIBUTE.fullmatch(value) or _is_number(value)):
        raise InvalidArgument(f"the value {value!r} in the parameter {part!r}", GRAMMAR)
    return Parameter("value", kind, name, value)


def _pointer(part: str, const: bool, kind: str, name: str, value: str) -> Parameter:
    if kind == "char" and const and not value:
        return Parameter("text", kind, name)
    if not value:
        if kind not in _TENSORS:
            raise InvalidArgument(f"the type {kind!r} in the parameter {part!r}", f"one of {', '.join(_TENSORS)}")
        return Parameter("read" if const else "written", kind, name)
    size, attribute = _SIZE.fullmatch(value), _ATTRIBUTE.fullmatch(value)
    if const and kind == "int64_t" and size and size["what"] == "shape":
        return Parameter("shape", kind, name, value)
    if const and kind in SCALARS and attribute and not attribute["size"]:
        return Parameter("list", kind, name, value)
    raise InvalidArgument(f"the value {value!r} in the parameter {part!r}", GRAMMAR)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def size_of(parameter: Parameter, shape: Sequence[int]) -> int:
    """The number that a parameter such as ``n = x.shape[0]`` stands for.

    Raises:
        InvalidArgument: The tensor has no such dimension.
    """
    match = _SIZE.fullmatch(parameter.value)
    assert match is not None
    if match["what"] == "size":
        return int(np.prod(shape, dtype=np.int64))
    if match["what"] == "rank":
        return len(shape)
    axis = int(match["axis"])
    if not -len(shape) <= axis < len(shape):
        raise InvalidArgument(f"{parameter.value} of a tensor of shape {list(shape)}", f"a dimension below {len(shape)}")
    return shape[axis]


def wants_length(parameter: Parameter) -> bool:
    """Whether it is the length of a list attribute."""
    match = _ATTRIBUTE.fullmatch(parameter.value)
    return bool(match and match["size"])

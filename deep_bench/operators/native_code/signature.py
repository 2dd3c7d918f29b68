"""What a native function takes, as its author writes it: the parameters of its C prototype; and one for given tensors.

Attributes are plain numbers, lists and texts, ONNX's defaults included.
"""

from __future__ import annotations

import ctypes
import difflib
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import ml_dtypes
import numpy as np
import onnx

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.operators.case_schema import schema_of, signature, split
from deep_bench.tensor import TensorSpec

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
        >>> signature = parse_signature("const float *x, float *y, int64_t n = x.size")
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


def parse_signature(text: str) -> Signature:
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
        const = bool(match["const"])
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
    if kind not in SCALARS:
        raise InvalidArgument(f"the type {kind!r} in the parameter {part!r}", f"one of {', '.join(SCALARS)}")
    size = _SIZE.fullmatch(value)
    if value and not ((size and size["what"] != "shape") or _ATTRIBUTE.fullmatch(value) or _is_number(value)):
        raise InvalidArgument(f"the value {value!r} in the parameter {part!r}", GRAMMAR)
    return Parameter("value", kind, name, value)


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


Plain = int | float | str | tuple[int, ...] | tuple[float, ...]


def attribute_defaults(computes: str | Callable[..., Any]) -> dict[str, Any]:
    """Name to default value: those of the operator's schema, or of the function's keyword arguments.

    Example:
        >>> attribute_defaults("Gemm")["alpha"], attribute_defaults(lambda x, *, slope=2: x)
        (1.0, {'slope': 2})
    """
    if not isinstance(computes, str):
        try:
            parameters = inspect.signature(computes).parameters.values()
        except (ValueError, TypeError):  # built into NumPy without a signature
            return {}
        # A default of None means that the argument is absent.
        return {p.name: p.default for p in parameters if p.default not in (p.empty, None) and p.kind != p.POSITIONAL_ONLY}
    schema = schema_of(*split(computes))
    if schema is None:
        return {}
    protos = {name: a.default_value for name, a in schema.attributes.items() if a.default_value.name}
    return {name: onnx.helper.get_attribute_value(value) for name, value in protos.items()}


def complete_attributes(computes: str | Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Plain]:
    """The attributes given, and the defaults of the others.

    Raises:
        Unsupported: One is no number, text, or list of numbers.
    """
    return {n: _plain_attribute(n, v) for n, v in {**attribute_defaults(computes), **given}.items() if v is not None}


def check_attributes_known(computes: str | Callable[..., Any], parameters: Iterable[Parameter], function: str) -> None:
    """Refuse a signature with an attribute that the operator does not have and the signature gives no value.

    Raises:
        InvalidArgument: It names the attribute, and the nearest one.
    """
    schema = schema_of(*split(computes)) if isinstance(computes, str) else None
    if schema is None:
        return
    for parameter in parameters:
        name = parameter.attribute
        has_value = parameter.value and not parameter.value.startswith("attributes.")
        if name is None or has_value or name in schema.attributes:
            continue
        near = difflib.get_close_matches(name, schema.attributes, n=1)
        raise InvalidArgument(
            f"{computes} has no attribute {name!r}, which the signature of {function} takes",
            signature(str(computes)),
            f"did you mean {near[0]!r}?" if near else f"give it a value there: {parameter.type} {name} = 1, say",
        )


def refuse_unused_attributes(
    computes: str | Callable[..., Any], given: Mapping[str, Plain], taken: Collection[str], function: str
) -> None:
    """Refuse attributes that a function's signature has no place for, unless they are as they are by default.

    Raises:
        Unsupported: It names the attribute.
    """
    usual = complete_attributes(computes, {})
    for name, value in given.items():
        if name not in taken and not (name in usual and _equal_attributes(usual[name], value)):
            raise Unsupported(
                f"{name}={value!r} for {function}, whose signature has no such attribute",
                f"{', '.join(taken) or 'no attributes'}",
                f"put it into the signature ('float {name}', say), or leave such cases out",
            )


def _equal_attributes(first: Plain, second: Plain) -> bool:
    """Whether ONNX, whose attributes are float32, takes them for the same."""
    if isinstance(first, float | int) and isinstance(second, float | int):
        return bool(np.float32(first) == np.float32(second))
    return first == second


def _plain_attribute(name: str, value: Any) -> Plain:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | tuple):
        items = [n for n in map(_number, value) if n is not None]
        if len(items) == len(value):
            whole = tuple(n for n in items if isinstance(n, int))
            return whole if len(whole) == len(items) else tuple(map(float, items))
    number = value if isinstance(value, str) else _number(value)
    if number is None:
        raise Unsupported(
            f"the attribute {name} is a {type(value).__name__}",
            "a number, a text, or a list of numbers, for a native function",
            "leave such cases out",
        )
    return number


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool | np.bool_ | int | np.integer):
        return int(value)
    return float(value) if isinstance(value, float | np.floating) else None


class ArgumentSlot(Protocol):
    """A place in the arguments that says where a tensor is."""

    value: Any


@dataclass(frozen=True, eq=False)
class NativeCall:
    """A function with all its arguments; only the places of the tensors change.

    Args:
        invoke: Calls it.
        failure: What the result of ``invoke`` says of a failure, ``None`` for success; ``None`` where it never says.
        read: The slots of each tensor that it reads; none for those that it does not take.
        written: Those of each tensor that it writes.
    """

    invoke: Callable[[], Any]
    failure: Callable[[Any], str | None] | None
    read: Sequence[Sequence[ArgumentSlot]]
    written: Sequence[Sequence[ArgumentSlot]]


@dataclass(frozen=True)
class CallTensors:
    """The tensors of a call.

    Args:
        read: In order; ``None`` for one that is omitted.
        written: In order; ``None`` for one that is not asked for.
        names: Name in the signature to place in ``read``, or in ``written`` counted from -1 downwards.
    """

    read: tuple[TensorSpec | None, ...]
    written: tuple[TensorSpec | None, ...]
    names: Mapping[str, int]

    def place(self, parameter: Parameter) -> int:
        """The place of a tensor in ``read`` or ``written``."""
        at = self.names[parameter.name]
        return at if at >= 0 else -1 - at

    def spec(self, name: str) -> TensorSpec | None:
        """The tensor of a name."""
        at = self.names[name]
        return self.read[at] if at >= 0 else self.written[-1 - at]


def forward_names(signature: Signature, read: Sequence[Any], written: Sequence[Any], function: str) -> dict[str, int]:
    """Which name of a forward signature is which tensor: inputs and outputs in order.

    Raises:
        InvalidArgument: It takes another number of inputs or outputs.
    """
    inputs, outputs = signature.names("read"), signature.names("written")
    if len(inputs) != len(read) or len(outputs) != len(written):
        raise InvalidArgument(
            f"{len(read)} inputs and {len(written)} outputs for {function}",
            f"{len(inputs)} inputs ({', '.join(inputs) or 'none'}) and {len(outputs)} outputs "
            f"({', '.join(outputs) or 'none'}), as its signature has them",
            "change the signature, or leave such cases out",
        )
    return {**{n: i for i, n in enumerate(inputs)}, **{n: -1 - i for i, n in enumerate(outputs)}}


def backward_names(signature: Signature, forward: Signature, function: str) -> dict[str, int]:
    """Which name of a backward signature is which tensor, by the names that the forward signature has.

    The tensors read are the gradients of the outputs, the inputs, the outputs; those written the gradients of the inputs.

    Raises:
        InvalidArgument: A name that means nothing.
    """
    inputs, outputs = forward.names("read"), forward.names("written")
    readable = (*(f"d{name}" for name in outputs), *inputs, *outputs)
    writable = tuple(f"d{name}" for name in inputs)
    names = (*readable, *writable)
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise InvalidArgument(
            f"{doubled!r} in the signatures for {function} may be two things",
            "names in the forward signature that are no other's name with a d before it",
        )
    _check_names_known(signature.names("read"), readable, "read", function)
    _check_names_known(signature.names("written"), writable, "written", function)
    signature.check_sizes(names, function)
    return {**{n: i for i, n in enumerate(readable)}, **{n: -1 - i for i, n in enumerate(writable)}}


def _check_names_known(names: Sequence[str], candidates: Sequence[str], kind: str, function: str) -> None:
    for name in names:
        if name not in candidates:
            raise InvalidArgument(
                f"{function} has a tensor {name!r} that is {kind}",
                f"one of {', '.join(candidates)}",
                "call gradients by the name of what they belong to with a d before it: dy for y",
            )


def check_types(signature: Signature, tensors: CallTensors, function: str) -> None:
    """Refuse element types that are not those of the signature.

    Raises:
        Unsupported: It names the tensor.
    """
    for parameter in signature.parameters:
        if parameter.kind in ("read", "written"):
            spec = tensors.spec(parameter.name)
            if spec is not None and parameter.dtype is not None and spec.dtype != parameter.dtype:
                raise Unsupported(
                    f"{parameter.name} of {function} is {spec}",
                    f"{parameter.dtype}, as its signature has it",
                    "leave such cases out, or write a function for them",
                )

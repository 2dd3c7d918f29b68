"""Calling C functions through ctypes, with arguments that are made once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.operators.native_code.attributes import Plain
from deep_bench.operators.native_code.call import Call, Tensors, check_types
from deep_bench.operators.native_code.signature import SCALARS, Parameter, Returns, Signature, size_of, wants_length
from deep_bench.tensor import STRING, TensorSpec


class Tensor(ctypes.Structure):
    """``db_tensor`` of ``deep_bench.h``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("size", ctypes.c_int64),
        ("rank", ctypes.c_int32),
        ("type", ctypes.c_int32),
    )


class Attribute(ctypes.Structure):
    """``db_attribute`` of ``deep_bench.h``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("text", ctypes.c_char_p),
        ("floats", ctypes.POINTER(ctypes.c_double)),
        ("integers", ctypes.POINTER(ctypes.c_int64)),
        ("size", ctypes.c_int64),
    )


class AttributeList(ctypes.Structure):
    """``db_attributes`` of ``deep_bench.h``."""

    _fields_ = (("items", ctypes.POINTER(Attribute)), ("size", ctypes.c_int64))


def call_by_tensors(function: Any, tensors: Tensors, attributes: Mapping[str, Plain]) -> Call:
    """Make a function ready that has the prototype of ``deep_bench.h``."""
    read, written = _tensors(tensors.read), _tensors(tensors.written)
    listed = _attributes(attributes)
    arguments = (
        read,
        ctypes.c_int64(len(tensors.read)),
        written,
        ctypes.c_int64(len(tensors.written)),
        ctypes.byref(listed),
    )
    function.restype = _RETURNED["text"]
    slots = [[_data(read, i)] for i in range(len(tensors.read))], [[_data(written, i)] for i in range(len(tensors.written))]
    return Call(partial(function, *arguments), _FAILURE["text"], *slots)


def call_by_signature(
    function: Any, name: str, signature: Signature, tensors: Tensors, attributes: Mapping[str, Plain]
) -> Call:
    """Make a function ready that has a signature of its own.

    Raises:
        Unsupported: A tensor of another element type than the signature has.
        InvalidArgument: An attribute that it takes is missing or of another kind.
    """
    check_types(signature, tensors, name)
    read: list[list[ctypes.c_void_p]] = [[] for _ in tensors.read]
    written: list[list[ctypes.c_void_p]] = [[] for _ in tensors.written]
    arguments: list[Any] = []
    for parameter in signature.parameters:
        if parameter.kind in ("read", "written"):
            pointer = ctypes.c_void_p()
            (read if parameter.kind == "read" else written)[tensors.place(parameter)].append(pointer)
            arguments.append(pointer)
        else:
            arguments.append(_as_c(parameter, value_of(parameter, name, tensors, attributes)))
    function.restype = _RETURNED[signature.returns]
    return Call(partial(function, *arguments), _FAILURE[signature.returns], read, written)


def value_of(parameter: Parameter, function: str, tensors: Tensors, attributes: Mapping[str, Plain]) -> Any:
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
        raise InvalidArgument(f"the attribute {parameter.attribute} for {function} {came}", f"a {_wanted(parameter)}")
    return value


def _wanted(parameter: Parameter) -> str:
    return {"text": "text", "list": f"list of {parameter.type}"}.get(parameter.kind, parameter.type)


def _as_c(parameter: Parameter, value: Any) -> Any:
    """An argument that stays as it is; ``from_param`` converts it once instead of at each call."""
    if parameter.kind == "stream":
        return ctypes.c_void_p.from_param(None)
    if parameter.kind == "text":
        return ctypes.c_char_p.from_param(value.encode())
    kind = SCALARS[parameter.type][0]
    return (kind * len(value))(*value) if parameter.kind in ("shape", "list") else kind.from_param(value)


def _tensors(specs: Sequence[TensorSpec | None]) -> Any:
    tensors = [Tensor() if spec is None else _tensor(spec) for spec in specs]
    return (Tensor * len(tensors))(*tensors)


def _tensor(spec: TensorSpec) -> Tensor:
    import onnx

    if spec.dtype == STRING:
        raise Unsupported(f"{spec} for a native function", "tensors of numbers", "leave such cases out")
    shape = tuple(int(d) for d in spec.shape)
    size = 1
    for dimension in shape:
        size *= dimension
    code = int(onnx.helper.np_dtype_to_tensor_dtype(spec.dtype))
    return Tensor(None, (ctypes.c_int64 * len(shape))(*shape), size, len(shape), code)


def _data(tensors: Any, index: int) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_buffer(tensors, index * ctypes.sizeof(Tensor))


def _attributes(attributes: Mapping[str, Plain]) -> AttributeList:
    items = [_attribute(name, value) for name, value in attributes.items()]
    return AttributeList((Attribute * len(items))(*items), len(items))


def _attribute(name: str, value: Plain) -> Attribute:
    if isinstance(value, str):
        text = value.encode()
        return Attribute(name.encode(), text, None, None, len(text))
    numbers = value if isinstance(value, tuple) else (value,)
    floats = (ctypes.c_double * len(numbers))(*numbers)
    whole = all(isinstance(n, int) for n in numbers)
    integers = (ctypes.c_int64 * len(numbers))(*(int(n) for n in numbers)) if whole else None
    return Attribute(name.encode(), None, floats, integers, len(numbers))


def _status(returned: int) -> str | None:
    return f"it returned {returned}" if returned else None


def _text(returned: bytes | None) -> str | None:
    return returned.decode(errors="replace") if returned is not None else None


_RETURNED: Mapping[Returns, Any] = {"nothing": None, "status": ctypes.c_int, "text": ctypes.c_char_p}
_FAILURE: Mapping[Returns, Callable[[Any], str | None] | None] = {"nothing": None, "status": _status, "text": _text}

"""A native function made ready for tensors of given shapes and element types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.operators.native_code.signature import Parameter, Signature
from deep_bench.tensor import TensorSpec


class Slot(Protocol):
    """A place in the arguments that says where a tensor is."""

    value: Any


@dataclass(frozen=True, eq=False)
class Call:
    """A function with all its arguments; only the places of the tensors change.

    Args:
        invoke: Calls it.
        failure: What the result of ``invoke`` says of a failure, ``None`` for success; ``None`` where it never says.
        read: The slots of each tensor that it reads; none for those that it does not take.
        written: Those of each tensor that it writes.
    """

    invoke: Callable[[], Any]
    failure: Callable[[Any], str | None] | None
    read: Sequence[Sequence[Slot]]
    written: Sequence[Sequence[Slot]]


@dataclass(frozen=True)
class Tensors:
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
    _check_known(signature.names("read"), readable, "read", function)
    _check_known(signature.names("written"), writable, "written", function)
    signature.check_sizes(names, function)
    return {**{n: i for i, n in enumerate(readable)}, **{n: -1 - i for i, n in enumerate(writable)}}


def _check_known(names: Sequence[str], candidates: Sequence[str], kind: str, function: str) -> None:
    for name in names:
        if name not in candidates:
            raise InvalidArgument(
                f"{function} has a tensor {name!r} that is {kind}",
                f"one of {', '.join(candidates)}",
                "call gradients by the name of what they belong to with a d before it: dy for y",
            )


def check_types(signature: Signature, tensors: Tensors, function: str) -> None:
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

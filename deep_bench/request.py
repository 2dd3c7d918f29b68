"""What `Executor.gradients` is asked for, checked in the same way and the same words by every executor."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from deep_bench.errors import InvalidArgument, InvalidInput
from deep_bench.framework import check_input_names, fits
from deep_bench.tensor import STRING, TensorSpec, is_float

Describe: TypeAlias = "Callable[[Any], tuple[Sequence[int], np.dtype] | None]"
"""From a native array to its shape and NumPy element type; ``None`` for what is no array of the framework."""


def describe_numpy(value: Any) -> tuple[Sequence[int], np.dtype] | None:
    """`Describe` of a framework whose native arrays are NumPy's.

    Example:
        >>> describe_numpy(np.zeros((2, 3))), describe_numpy([0.0])
        (((2, 3), dtype('float64')), None)
    """
    return (value.shape, value.dtype) if isinstance(value, np.ndarray | np.generic) else None


def names_once(wrt: Iterable[str]) -> tuple[str, ...]:
    """The names to differentiate with respect to, as a tuple.

    Raises:
        InvalidArgument: A string instead of a sequence of names, or a name that is there twice.

    Example:
        >>> names_once(["w", "b"])
        ('w', 'b')
    """
    if isinstance(wrt, str):
        raise InvalidArgument(f"wrt={wrt!r}, a string", "a sequence of names", f"write wrt=[{wrt!r}]")
    names = tuple(wrt)
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise InvalidArgument(f"{twice!r} is in wrt {names.count(twice)} times", "each name once")
    return names


def checked_request(
    whose: str,
    outputs: Collection[str],
    parameters: Collection[str],
    inputs: Sequence[TensorSpec],
    loss: str,
    wrt: Sequence[str] | None,
) -> tuple[str, ...]:
    """The names to differentiate with respect to: those asked for, or all parameters, or else all real inputs.

    Args:
        whose: Name of the network, for messages.
        outputs: Names of what the executor returns.
        parameters: Names of its parameters that have gradients.
        inputs: What it takes.
        loss: Name of the output to differentiate.
        wrt: The names asked for; ``None`` for all parameters, or all floating-point inputs where there are none.

    Raises:
        InvalidArgument: ``loss`` is no output; one of ``wrt`` is no parameter and no floating-point input; or a name is
            there twice.
    """
    if loss not in outputs:
        raise InvalidArgument(f"{whose} has no output {loss!r}", f"one of {', '.join(outputs)}", _nearest(loss, outputs))
    specs = {spec.name: spec for spec in inputs}
    real = [name for name, spec in specs.items() if spec.is_tensor and is_float(spec.dtype)]
    names = names_once((parameters or real) if wrt is None else wrt)
    differentiable = {*parameters, *real}
    for name in names:
        if name in differentiable:
            continue
        expected = f"some of {', '.join([*parameters, *real]) or '(none)'}"
        if name in specs:
            raise InvalidArgument(f"the input {specs[name]} of {whose} is no floating-point tensor", expected)
        came = f"{whose} has no parameter or floating-point input {name!r}"
        raise InvalidArgument(came, expected, _nearest(name, differentiable))
    return names


def check_native(
    specs: Sequence[TensorSpec], inputs: Mapping[str, Any], describe: Describe, working: np.dtype | None = None
) -> None:
    """Compare native arrays with the declarations of what they are fed to; nothing is copied or converted.

    Args:
        specs: The declarations.
        inputs: Name to native array; a sequence is a list of them, an empty optional is ``None``.
        describe: See `Describe`.
        working: An element type that floating-point inputs may have in place of the declared one: what an executor runs in.

    Raises:
        InvalidInput: A missing or unknown name, something that is no native array, or a wrong shape or element type.

    Example:
        >>> spec = TensorSpec("x", ("n", 2), np.dtype(np.float32))
        >>> check_native([spec], {"x": np.zeros((5, 2), np.float32)}, describe_numpy)
    """
    check_input_names(specs, inputs)
    sizes: dict[str, int] = {}
    for spec in specs:
        value = inputs[spec.name]
        if spec.is_tensor:
            shape = _checked_type(spec, spec.name, value, describe, working)
            if not fits(spec, shape, sizes):
                came = f"input {spec.name!r} has {spec.dtype}{list(shape)}"
                suffix = f" with {', '.join(f'{k}={v}' for k, v in sizes.items())}" if sizes else ""
                raise InvalidInput(came, f"{spec}{suffix}", "change the array's shape, or the network's sizes")
        elif "sequence" in spec.containers and value is not None:
            if not isinstance(value, list | tuple):
                raise InvalidInput(f"input {spec.name!r} is a {type(value).__name__}", f"{spec}, as a list of native arrays")
            for index, item in enumerate(value):
                _checked_type(spec, f"{spec.name}[{index}]", item, describe, working)
        elif value is not None:
            _checked_type(spec, spec.name, value, describe, working)
        elif "optional" not in spec.containers:
            raise InvalidInput(f"input {spec.name!r} is None", f"{spec}")


def _checked_type(spec: TensorSpec, name: str, value: Any, describe: Describe, working: np.dtype | None) -> Sequence[int]:
    """The shape of a native array of the right element type."""
    description = describe(value)
    if description is None:
        raise InvalidInput(
            f"input {name!r} is a {type(value).__name__}",
            f"{spec}, as a native array of the framework",
            "convert it: executor.device.from_numpy(array)",
        )
    shape, dtype = description
    strings = spec.dtype == STRING and dtype.kind in "OUST"
    if dtype == spec.dtype or strings or (working is not None and dtype == working and is_float(spec.dtype)):
        return shape
    raise InvalidInput(f"input {name!r} has {dtype}{list(shape)}", str(spec), "convert it to the declared element type")


def _nearest(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(name), list(names), n=1)
    return f"did you mean {near[0]!r}?" if near else ""

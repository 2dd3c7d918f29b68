"""Reading an operator's arguments: attribute values, axes, element types, small integer tensors, windows.

Axes are named by number from either end, as a tensor, or left out. Some element types are narrower than what NumPy
computes in. Windows slide over the spatial axes of an ``(N, C, D1, …)`` tensor, as convolutions and pools use them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import onnx

from deep_bench.errors import Unsupported
from deep_bench.graph.shapes import same_padding, span, window_count
from deep_bench.tensor import STRING, is_float


def check_choice(operator: str, attribute: str, value: object, known: Collection[object]) -> None:
    """Refuse an attribute value that the standard does not define.

    Raises:
        Unsupported: ``value`` is not among ``known``.
    """
    if value not in known:
        raise Unsupported(f"{operator} with {attribute}={value!r}", f"one of {', '.join(map(repr, known))}")


def reduced_axes(x: Any, axes: Any, noop_with_empty_axes: int = 0) -> tuple[int, ...]:
    """The axes to reduce over: those in the tensor ``axes``; all (or none, if asked for) where it is absent or empty.

    Source:
        ONNX ReduceSum, opset 13.
    """
    if axes is not None and axes.size:
        return tuple(axis % x.ndim for axis in axes.reshape(-1).tolist())
    return () if noop_with_empty_axes else tuple(range(x.ndim))


def column(v: Any, rank: int, axis: int = 1) -> Any:
    """The vector ``v`` shaped to lie along ``axis`` of a tensor of this rank; a scalar stays one."""
    return v.reshape([-1 if a == axis % rank else 1 for a in range(rank)]) if v.ndim == 1 else v


F = TypeVar("F", bound=Callable[..., Any])


def dtype_of(code: int) -> np.dtype:
    """The NumPy dtype of an ``onnx.TensorProto.DataType`` code; strings are ``object``.

    Example:
        >>> dtype_of(onnx.TensorProto.FLOAT), dtype_of(onnx.TensorProto.STRING)
        (dtype('float32'), dtype('O'))
    """
    return STRING if code == onnx.TensorProto.STRING else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))


def is_narrow(x: Any) -> bool:
    """Whether ``x`` is an array of floating point narrower than float32: float16, bfloat16 or fewer bits."""
    return isinstance(x, np.ndarray | np.generic) and is_float(x.dtype) and x.dtype.itemsize < 4


def widened(x: Any) -> Any:
    """``x`` in float32 if it `is_narrow`, else as it is."""
    return x.astype(np.float32) if is_narrow(x) else x


def in_float32(function: F) -> F:
    """Let ``function`` compute in float32 what comes in a narrower floating-point format, and round its results once.

    Several operations in a row would otherwise round, and overflow, after each of them; and NumPy multiplies matrices of
    such formats element by element.
    """

    @functools.wraps(function)
    def wrapper(*inputs: Any, **attributes: Any) -> Any:
        narrow = next((x.dtype for x in inputs if is_narrow(x)), None)
        if narrow is None:
            return function(*inputs, **attributes)
        result = function(*map(widened, inputs), **attributes)
        if isinstance(result, tuple):
            return tuple(_rounded(y, narrow) for y in result)
        return _rounded(result, narrow)

    return wrapper  # type: ignore[return-value]


def _rounded(y: Any, dtype: np.dtype) -> Any:
    return y.astype(dtype) if y is not None and y.dtype == np.float32 else y


def integers(array: Any) -> tuple[int, ...]:
    """The elements of an integer tensor of any shape, as Python integers.

    Example:
        >>> integers(np.array([2, -1])), integers(np.array(3))
        ((2, -1), (3,))
    """
    return tuple(int(i) for i in np.ravel(array))


def integer(array: Any) -> int:
    """The only element of a tensor, as a Python integer.

    Example:
        >>> integer(np.array([3]))
        3
    """
    return int(np.asanyarray(array).item())


def ints64(values: Any) -> np.ndarray:
    """An int64 tensor, as ONNX's shapes and counts are."""
    return np.asanyarray(values, dtype=np.int64)


_AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True, slots=True)
class Windows:
    """Where windows of one shape lie on the spatial axes of a tensor; one entry per spatial axis in each field.

    Args:
        kernel: Elements in a window.
        strides: Distance between windows.
        dilations: Distance between the elements of a window.
        begins: Padding before the tensor.
        ends: Padding after the tensor.
        outputs: The number of windows.
        overhang: How far the last window reaches beyond the padding, which happens with ``ceil_mode`` only.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    outputs: tuple[int, ...]
    overhang: tuple[int, ...] = ()

    def pad(self, x: Any, value: Any) -> Any:
        """``x`` with ``value`` around it, as far as the windows reach."""
        ends = [e + o for e, o in zip(self.ends, self.overhang, strict=True)]
        return padded(x, self.begins, ends, value)

    def taps(self, x: Any) -> Iterator[Any]:
        """For each position in the window, in row-major order: that element of all windows, a view ``(N, C, *outputs)``.

        A loop over the few positions of a window, with NumPy running over the many windows, is far faster than a reduction
        over the small axes of a view of all windows.

        Args:
            x: The padded tensor.
        """
        return (x[at] for at in self.positions())

    def positions(self) -> Iterator[tuple[Any, ...]]:
        """The index that makes each of the `taps`."""
        for position in itertools.product(*map(range, self.kernel)):
            starts = [p * d for p, d in zip(position, self.dilations, strict=True)]
            stops = [p + max((o - 1) * s + 1, 0) for p, o, s in zip(starts, self.outputs, self.strides, strict=True)]
            yield (..., *map(slice, starts, stops, self.strides))


def windows(
    spatial: Sequence[int],
    kernel: Sequence[int],
    *,
    auto_pad: str = "NOTSET",
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    ceil_mode: int = 0,
) -> Windows:
    """Lay out windows from the attributes that convolutions and pools share.

    How many there are along an axis, and what ``auto_pad`` adds, is defined in `deep_bench.graph.shapes`.

    Source:
        ONNX AveragePool, opset 22.
    """
    check_choice("Conv or pool", "auto_pad", auto_pad, _AUTO_PADS)
    rank = len(kernel)
    strides, dilations = tuple(strides or (1,) * rank), tuple(dilations or (1,) * rank)
    pads = tuple(pads) if pads and auto_pad == "NOTSET" else (0,) * (2 * rank)
    begins, ends, outputs, overhang = [], [], [], []
    for i, k, s, d, begin, end in zip(spatial, kernel, strides, dilations, pads[:rank], pads[rank:], strict=True):
        extent = span(k, d)
        if auto_pad.startswith("SAME"):
            begin, end = same_padding(i, extent, s, upper=auto_pad == "SAME_UPPER")
        count = window_count(i, begin, end, extent, s, ceil=bool(ceil_mode))
        begins.append(begin)
        ends.append(end)
        outputs.append(count)
        overhang.append(max((count - 1) * s + extent - i - begin - end, 0) if count else 0)
    return Windows(tuple(kernel), strides, dilations, *map(tuple, (begins, ends, outputs, overhang)))


def padded(x: Any, begins: Sequence[int], ends: Sequence[int], value: Any) -> Any:
    """``x`` with ``value`` before and after it along its last axes."""
    if not any(begins) and not any(ends):
        return x
    lead = x.ndim - len(begins)
    sizes = x.shape[lead:]
    shape = x.shape[:lead] + tuple(b + i + e for b, i, e in zip(begins, sizes, ends, strict=True))
    y = np.full_like(x, value, shape=shape)
    y[box(begins, sizes)] = x
    return y


def box(begins: Sequence[int], sizes: Sequence[int]) -> tuple[Any, ...]:
    """The index of a box on a tensor's last axes."""
    return (..., *(slice(b, b + i) for b, i in zip(begins, sizes, strict=True)))

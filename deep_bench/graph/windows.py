"""How the windows of convolutions and pools lie along one axis: what the reference and every adapter share."""

from __future__ import annotations

from typing import Any, TypeVar

Length = TypeVar("Length", int, Any)
"""A whole number, or a framework's own integer where a length is known only when the network runs."""


def span(kernel: int, dilation: int) -> int:
    """How many elements lie between the first and the last one of a window, both included: ``(kernel - 1) * dilation + 1``.

    Example:
        >>> span(kernel=3, dilation=2)
        5
    """
    return (kernel - 1) * dilation + 1


def split_padding(total: Length, *, upper: bool) -> tuple[Length, Length]:
    """Padding before and after; an odd element goes to the end if ``upper``, else to the beginning.

    Example:
        >>> split_padding(3, upper=True), split_padding(3, upper=False)
        ((1, 2), (2, 1))
    """
    small = total // 2
    return (small, total - small) if upper else (total - small, small)


def same_padding(size: int, extent: int, stride: int, *, upper: bool) -> tuple[int, int]:
    """Padding before and after, such that there are ``ceil(size / stride)`` windows.

    Args:
        size: The length of the axis.
        extent: The `span` of a window.
        stride: The distance between windows.
        upper: For ``SAME_UPPER``; else ``SAME_LOWER``.

    Example:
        >>> same_padding(size=5, extent=2, stride=2, upper=True)
        (0, 1)

    Source:
        ONNX AveragePool, opset 22, attribute ``auto_pad``.
    """
    return split_padding(max((-(-size // stride) - 1) * stride + extent - size, 0), upper=upper)


def window_count(size: int, begin: int, end: int, extent: int, stride: int, *, ceil: bool = False) -> int:
    """The number of windows: ``floor((size + begin + end - extent) / stride) + 1``.

    With ``ceil`` the quotient is rounded up, and a window that would start beyond the padded beginning of the axis is left
    out.

    Args:
        size: The length of the axis.
        begin: Padding before it.
        end: Padding after it.
        extent: The `span` of a window.
        stride: The distance between windows.
        ceil: Whether a last window that is only partly inside counts.

    Example:
        >>> window_count(4, 0, 0, extent=3, stride=2), window_count(4, 0, 0, extent=3, stride=2, ceil=True)
        (1, 2)

    Source:
        ONNX MaxPool, opset 22.
    """
    room = size + begin + end - extent
    count = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (count - 1) * stride >= size + begin:
        count -= 1
    return max(count, 0)

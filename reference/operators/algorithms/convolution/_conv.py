"""What all algorithms of ``Conv`` share: padding, and the bias."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deep_bench.reference.operators._dtypes import in_float32
from deep_bench.reference.operators._windows import windows
from deep_bench.reference.operators.convolution import with_bias

Correlate = Callable[..., Any]
"""From the padded input ``(N, C, …)``, weights ``(M, C / group, …)``, the windows and the number of groups to the result."""


def conv_by(correlate: Correlate, **options: Any) -> Callable[..., Any]:
    """ONNX's ``Conv``, all of its signature, with another way to correlate, which gets ``options`` too."""

    @in_float32
    def Conv(x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
        at = windows(x.shape[2:], w.shape[2:], auto_pad=auto_pad, pads=pads, strides=strides, dilations=dilations)
        return with_bias(correlate(at.pad(x, 0), w, at, group, **options), b)

    Conv.__doc__ = correlate.__doc__
    return Conv


def by_group(x: Any, w: Any, group: int) -> tuple[Any, Any]:
    """``x`` as ``(N, group, C / group, …)``, and ``w`` as ``(group, M / group, C / group, …)``."""
    n, c, m = x.shape[0], x.shape[1], w.shape[0]
    return x.reshape(n, group, c // group, *x.shape[2:]), w.reshape(group, m // group, *w.shape[1:])

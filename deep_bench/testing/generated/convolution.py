"""Convolutions: 1 to 3 spatial axes, groups, strides, dilations, all ways to pad, empty batches; finite numbers only.

Where padding meets an infinite weight, or a window an infinity, implementations differ in which zeros they multiply; the
standard does not say. `layout` draws sliding windows, as convolutions and pools take them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.reference.operators._arguments import Windows, windows
from deep_bench.testing.generated.problem import Draw, GeneratedProblem, dtypes


@dataclass(frozen=True)
class WindowLayout:
    """Where windows lie.

    Args:
        spatial: The lengths of the tensor's spatial axes.
        kernel: Elements in a window along each.
        attributes: As the operator takes them, ``None`` where left out.
    """

    spatial: tuple[int, ...]
    kernel: tuple[int, ...]
    attributes: dict[str, Any]

    @property
    def windows(self) -> Windows:
        """What the attributes come to."""
        return windows(self.spatial, self.kernel, **{n: v for n, v in self.attributes.items() if v is not None})

    @property
    def is_filled(self) -> bool:
        """Whether there are windows, and each contains an element of the tensor."""
        at = self.windows
        if 0 in at.outputs:
            return False
        inside = at.pad(np.ones((1, 1, *self.spatial)), 0)
        return bool(np.all(sum(at.taps(inside))))


def layout(
    draw: Draw, *, ranks: Sequence[int] = (2, 1, 3), auto: bool = True, ceil: bool = False, dilated: bool = True
) -> WindowLayout:
    """Windows that all meet the tensor; with the attributes of the plainest ones where those drawn do not.

    Args:
        draw: The source.
        ranks: How many spatial axes there may be.
        auto: Whether there is an attribute ``auto_pad``.
        ceil: Whether there is one ``ceil_mode``; never with ``auto_pad``, where the standard's two formulas disagree.
        dilated: Whether there is one ``dilations``.
    """
    rank = draw.pick(ranks)
    kernel = tuple(draw.integer(1, 3) for _ in range(rank))
    spatial = tuple(k + draw.integer(0, 4) for k in kernel)
    attributes: dict[str, Any] = {
        "strides": draw.maybe(tuple(draw.integer(1, 3) for _ in range(rank))),
        "pads": draw.maybe(tuple(draw.integer(0, 2) for _ in range(2 * rank))),
    }
    if dilated:
        attributes["dilations"] = draw.maybe(tuple(draw.integer(1, 2) for _ in range(rank)))
    if auto:
        attributes["auto_pad"] = draw.pick((None, None, "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    if attributes.get("auto_pad") not in (None, "NOTSET"):
        attributes["pads"] = None
    elif ceil:
        attributes["ceil_mode"] = draw.maybe(draw.boolean())
    candidate = WindowLayout(spatial, kernel, attributes)
    return candidate if candidate.is_filled else WindowLayout(spatial, kernel, dict.fromkeys(attributes))


BATCHES = (1, 2, 3, 0)


def grouped(draw: Draw, at: WindowLayout) -> tuple[int | None, tuple[int, ...], tuple[int, ...]]:
    """The attribute ``group``, and the shapes of the tensor and the weights."""
    group = draw.pick((None, 1, 2, 3))
    inner, outer = draw.integer(1, 3), draw.integer(1, 2)
    channels = (group or 1) * inner
    return group, (draw.pick(BATCHES), channels, *at.spatial), ((group or 1) * outer, inner, *at.kernel)


def Conv(draw: Draw) -> GeneratedProblem:
    """Every attribute, with or without bias."""
    at, dtype = layout(draw), draw.pick(dtypes("Conv"))
    group, x, w = grouped(draw, at)
    inputs = [draw.moderate(x, dtype), draw.moderate(w, dtype), draw.maybe(draw.moderate(w[:1], dtype))]
    return GeneratedProblem("Conv", inputs, {**at.attributes, "group": group, "kernel_shape": draw.maybe(at.kernel)})


def ConvInteger(draw: Draw) -> GeneratedProblem:
    """Zero points for all, or per output channel of the weights."""
    at, kinds = layout(draw), dtypes("ConvInteger")
    group, x, w = grouped(draw, at)
    first, second = draw.array(x, draw.pick(kinds)), draw.array(w, draw.pick(kinds))
    zero_points = draw.maybe(draw.array((), first.dtype)), draw.maybe(draw.array(draw.pick(((), w[:1])), second.dtype))
    attributes = {**at.attributes, "group": group, "kernel_shape": draw.maybe(at.kernel)}
    return GeneratedProblem("ConvInteger", [first, second, *zero_points], attributes)


def ConvTranspose(draw: Draw) -> GeneratedProblem:
    """Padding given, derived from ``output_shape`` or from ``auto_pad``; it is never negative, which is left open.

    ``output_padding`` is less than the stride: whether being less than the dilation is enough is left open.
    """
    rank, dtype = draw.pick((2, 1, 3)), draw.pick(dtypes("ConvTranspose"))
    kernel, spatial, strides, dilations = (tuple(draw.integer(1, high) for _ in range(rank)) for high in (3, 4, 3, 2))
    strides, dilations = (draw.pick((v, (1,) * rank)) for v in (strides, dilations))
    extra = tuple(draw.integer(0, s - 1) for s in strides)
    full = [
        (i - 1) * s + e + (k - 1) * d + 1 for i, s, e, k, d in zip(spatial, strides, extra, kernel, dilations, strict=True)
    ]
    group, inner, outer = draw.pick((None, 1, 2, 3)), draw.integer(1, 2), draw.integer(1, 3)
    attributes = {
        "group": group,
        "kernel_shape": draw.maybe(kernel),
        "strides": strides if max(strides) > 1 else None,
        "dilations": dilations if max(dilations) > 1 else None,
        "output_padding": extra if any(extra) else None,
    }
    attributes |= _transposed_padding(draw, full, [i * s for i, s in zip(spatial, strides, strict=True)])
    x = draw.moderate((draw.pick(BATCHES), (group or 1) * inner, *spatial), dtype)
    w = draw.moderate(((group or 1) * inner, outer, *kernel), dtype)
    return GeneratedProblem("ConvTranspose", [x, w, draw.maybe(draw.moderate(((group or 1) * outer,), dtype))], attributes)


def _transposed_padding(draw: Draw, full: list[int], same_sizes: list[int]) -> dict[str, Any]:
    way = draw.pick(("none", "pads", "output_shape", "VALID", "SAME"))
    if way == "pads":
        begins = [draw.integer(0, min(2, f - 1)) for f in full]
        ends = [draw.integer(0, min(2, f - 1 - b)) for f, b in zip(full, begins, strict=True)]
        return {"pads": (*begins, *ends)}
    if way == "output_shape":
        auto_pad = draw.pick((None, "NOTSET", "SAME_UPPER", "SAME_LOWER"))
        return {"output_shape": tuple(draw.integer(max(1, f - 3), f) for f in full), "auto_pad": auto_pad}
    if way == "SAME" and all(s <= f for s, f in zip(same_sizes, full, strict=True)):
        return {"auto_pad": draw.pick(("SAME_UPPER", "SAME_LOWER"))}
    return {"auto_pad": "VALID" if way == "VALID" else None}


def Col2Im(draw: Draw) -> GeneratedProblem:
    """Blocks that overlap or leave gaps; numbers only, for what a sum of strings is nobody says."""
    at = layout(draw, ranks=(2, 3), auto=False)
    dtype = draw.pick([d for d in dtypes("Col2Im") if d.kind not in "OSb"])
    x = (draw.pick(BATCHES), draw.integer(1, 3) * math.prod(at.kernel), math.prod(at.windows.outputs))
    return GeneratedProblem("Col2Im", [draw.moderate(x, dtype), np.array(at.spatial), np.array(at.kernel)], at.attributes)


def CausalConvWithState(draw: Draw) -> GeneratedProblem:
    """With or without a past and a bias."""
    dtype = draw.pick(dtypes("CausalConvWithState"))
    n, c, length, k = draw.integer(1, 3), draw.integer(1, 4), draw.integer(1, 5), draw.integer(1, 4)
    bias, past = draw.maybe(draw.moderate((c,), dtype)), draw.maybe(draw.moderate((n, c, k - 1), dtype))
    attributes = {"activation": draw.pick((None, "none", "silu", "swish"))}
    inputs = [draw.moderate((n, c, length), dtype), draw.moderate((c, 1, k), dtype), bias, past]
    return GeneratedProblem("CausalConvWithState", inputs, attributes, outputs=2)


def DeformConv(draw: Draw) -> GeneratedProblem:
    """Offsets that reach outside and onto the grid; two spatial axes, for which alone the standard spells it out."""
    at, dtype = layout(draw, ranks=(2,), auto=False), draw.pick(dtypes("DeformConv"))
    group, offset_group = draw.pick((None, 1, 2)), draw.pick((None, 1, 2))
    channels, outer = 2 * (group or 1) * draw.integer(1, 2), draw.integer(1, 2) * (group or 1)
    n, taps, outputs = draw.integer(1, 2), (offset_group or 1) * math.prod(at.kernel), at.windows.outputs
    inputs = [
        draw.moderate((n, channels, *at.spatial), dtype),
        draw.moderate((outer, channels // (group or 1), *at.kernel), dtype),
        draw.moderate((n, 2 * taps, *outputs), dtype),
        draw.maybe(draw.moderate((outer,), dtype)),
        draw.maybe(draw.moderate((n, taps, *outputs), dtype)),
    ]
    attributes = {"group": group, "offset_group": offset_group, "kernel_shape": draw.maybe(at.kernel)}
    return GeneratedProblem("DeformConv", inputs, {**at.attributes, **attributes})


GENERATORS: dict[str, Callable[[Draw], GeneratedProblem]] = {
    "CausalConvWithState": CausalConvWithState,
    "Col2Im": Col2Im,
    "Conv": Conv,
    "ConvInteger": ConvInteger,
    "ConvTranspose": ConvTranspose,
    "DeformConv": DeformConv,
}

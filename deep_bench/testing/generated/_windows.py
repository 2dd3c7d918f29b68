"""Sliding windows, as convolutions and pools take them: strides, dilations and padding that fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.reference.operators._windows import Windows, windows
from deep_bench.testing.generated.draw import Draw


@dataclass(frozen=True)
class Layout:
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
) -> Layout:
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
    candidate = Layout(spatial, kernel, attributes)
    return candidate if candidate.is_filled else Layout(spatial, kernel, dict.fromkeys(attributes))

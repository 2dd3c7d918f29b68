"""What convolution and pooling share: strides, pads and output sizes along the spatial axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.graph.windows import same_padding, span, split_padding


@dataclass(frozen=True, slots=True)
class Window:
    """How a kernel moves over the spatial axes.

    Args:
        kernel: Its size.
        strides: Its steps.
        dilations: The distance of its elements.
        begin, end: Pads before and after; ``None`` where they depend on a size that is open (``auto_pad``).
        lower: For ``auto_pad``, whether the odd pad goes to the beginning.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...] | None
    end: tuple[int, ...] | None
    lower: bool = False

    @property
    def reach(self) -> tuple[int, ...]:
        """The extent of the dilated kernel."""
        return tuple(map(span, self.kernel, self.dilations))

    @property
    def padded(self) -> bool:
        """Whether there are pads."""
        return self.begin is None or any(self.begin) or any(self.end or ())


def window(site: Site, kernel: tuple[int, ...], sizes: tuple[int | None, ...]) -> Window:
    """The window of a convolution or pool, with ``auto_pad`` resolved where the sizes are known."""
    n = len(kernel)
    strides = tuple(site.attribute("strides") or (1,) * n)
    dilations = tuple(site.attribute("dilations") or (1,) * n)
    mode = site.attribute("auto_pad", "NOTSET")
    if mode in ("NOTSET", "VALID"):
        pads = tuple(site.attribute("pads") or (0,) * (2 * n)) if mode == "NOTSET" else (0,) * (2 * n)
        return Window(kernel, strides, dilations, pads[:n], pads[n:])
    lower = mode == "SAME_LOWER"
    plain = Window(kernel, strides, dilations, None, None, lower)
    if any(s is None for s in sizes):
        return plain
    axes = zip(sizes, plain.reach, strides, strict=True)
    pairs = [same_padding(int(size or 0), reach, stride, upper=not lower) for size, reach, stride in axes]
    return Window(kernel, strides, dilations, tuple(a for a, _ in pairs), tuple(b for _, b in pairs), lower)


def pad_pairs(w: Window, x: Any) -> list[Any]:
    """Pads before and after each spatial axis of a channels-last tensor; tensors where they depend on open sizes."""
    if w.begin is not None and w.end is not None:
        return list(zip(w.begin, w.end, strict=True))
    pairs = []
    for axis, (reach, stride) in enumerate(zip(w.reach, w.strides, strict=True)):
        size = tf.shape(x)[axis + 1]
        total = tf.maximum(0, ((size + stride - 1) // stride - 1) * stride + reach - size)
        pairs.append(split_padding(total, upper=not w.lower))
    return pairs


def pad(x: Any, pairs: list[Any], value: Any = 0) -> Any:
    """A channels-last tensor padded along its spatial axes; cropped where a pad is negative."""
    fixed = [p for pair in pairs for p in pair if isinstance(p, int)]
    if len(fixed) == 2 * len(pairs):
        if any(p < 0 for p in fixed):
            sizes = [tf.shape(x)[i + 1] for i in range(len(pairs))]
            cut = [slice(max(0, -a), s - max(0, -b)) for (a, b), s in zip(pairs, sizes, strict=True)]
            x = x[(slice(None), *cut, slice(None))]
            pairs = [(max(0, a), max(0, b)) for a, b in pairs]
        if not any(p > 0 for p in fixed):
            return x
    return tf.pad(x, [(0, 0), *pairs, (0, 0)], constant_values=tf.cast(value, x.dtype))


def spatial_rank(rank: int, what: str) -> int:
    """The number of spatial axes.

    Raises:
        NotNative: There are none, or more than TensorFlow handles.
    """
    if not 3 <= rank <= 5:
        raise NotNative(f"TensorFlow has no {what} over {rank - 2} spatial axes")
    return rank - 2

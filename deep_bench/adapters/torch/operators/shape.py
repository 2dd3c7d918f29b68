"""Changes of shape and order, joining and cutting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of, dynamic, ints, rank_of, static_shape
from deep_bench.adapters.torch.operators._site import Tensor, listed
from deep_bench.tensor import is_float

__all__ = [
    "CenterCropPad", "Concat", "DepthToSpace", "Expand", "Flatten", "Pad", "Reshape", "Shape", "Size", "Slice",
    "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
]  # fmt: skip


def Reshape(site: Site) -> Callable[..., Tensor]:
    """The same elements in another shape; 0 keeps a dimension unless ``allowzero``, -1 is computed."""
    literal = bool(site.attribute("allowzero", 0))
    target, input_shape = ints(site, 1), static_shape(site)
    if target is None:
        return lambda x, shape: x.reshape(_resolved(listed(shape), x.shape, literal))
    if literal or 0 not in target:
        return lambda x, _: x.reshape(target)
    if input_shape is not None:
        fixed = tuple(_resolved(target, input_shape, literal))
        return lambda x, _: x.reshape(fixed)
    return lambda x, _: x.reshape(_resolved(target, x.shape, literal))


def _resolved(target: Sequence[int], came: Sequence[int], literal: bool) -> list[int]:
    dims = [came[i] if d == 0 and not literal else d for i, d in enumerate(target)]
    if -1 in dims and 0 in dims:  # torch cannot tell what -1 is beside a zero
        other_dims = [d for d in dims if d != -1]
        return [
            (0 if not math.prod(other_dims) else math.prod(came) // math.prod(other_dims)) if d == -1 else d for d in dims
        ]
    return dims


def Flatten(site: Site) -> Callable[..., Tensor]:
    """Two dimensions: all before an axis, and all from it on."""
    axis = site.attribute("axis", 1)

    def flatten(x: Tensor) -> Tensor:
        at = axis + x.dim() if axis < 0 else axis
        return x.reshape(math.prod(x.shape[:at]), math.prod(x.shape[at:]))

    input_shape = static_shape(site)
    if input_shape is None:
        return flatten
    at = axis + len(input_shape) if axis < 0 else axis
    target = (math.prod(input_shape[:at]), math.prod(input_shape[at:]))
    return lambda x: x.reshape(target)


def Transpose(site: Site) -> Callable[..., Tensor]:
    """The axes in another order; reversed by default."""
    order = site.attribute("perm")
    if order is None:
        return lambda x: x.permute(tuple(range(x.dim()))[::-1])
    order = tuple(order)
    return lambda x: x.permute(order)


def Squeeze(site: Site) -> Callable[..., Tensor]:
    """The input without some axes of size 1; without all of them by default."""
    axes = ints(site, 1)
    if dynamic(site, 1):
        return lambda x, axes: x.squeeze(tuple(listed(axes)))
    if axes is None:
        return lambda x, *_: x.squeeze()
    if len(axes) == 1:
        (axis,) = axes
        return lambda x, _: x.squeeze(axis)
    return lambda x, _: x.squeeze(axes)


def Unsqueeze(site: Site) -> Callable[..., Tensor]:
    """The input with axes of size 1 put in; axes count in the result."""
    axes = ints(site, 1)
    if axes is None:
        return lambda x, axes: _unsqueeze(x, listed(axes))
    if len(axes) == 1:
        (axis,) = axes
        return lambda x, _: x.unsqueeze(axis)
    return lambda x, _: _unsqueeze(x, axes)


def _unsqueeze(x: Tensor, axes: Sequence[int]) -> Tensor:
    rank = x.dim() + len(axes)
    for axis in sorted(a % rank for a in axes):
        x = x.unsqueeze(axis)
    return x


def Concat(site: Site) -> Callable[..., Tensor]:
    """The inputs one after another along an axis."""
    axis = site.attribute("axis")
    return lambda *xs: torch.cat(xs, axis)


def Split(site: Site) -> Callable[..., Any]:
    """The input cut along an axis, in given sizes or in equal ones of which the last may be smaller."""
    axis, sizes = site.attribute("axis", 0), ints(site, 1)
    count = site.attribute("num_outputs", len(site.outputs))
    has_sizes = site.has(1)

    def split(x: Tensor, wanted: Tensor | None = None) -> tuple[Tensor, ...]:
        if not has_sizes:
            size = x.shape[axis]
            each = -(-size // count)
            parts = [max(min(each, size - i * each), 0) for i in range(count)]
        else:
            parts = list(sizes) if sizes is not None else listed(wanted)  # type: ignore[arg-type]
        return torch.split(x, parts, axis)

    if len(site.outputs) == 1:
        return lambda x, *extra: split(x, *extra)[0]
    return split


def Slice(site: Site) -> Callable[..., Tensor]:
    """Parts of some axes, with steps of either sign."""
    constants = [ints(site, i) for i in range(1, 5)]
    if any(dynamic(site, i) for i in range(1, 5)):

        def sliced(x: Tensor, *settings: Tensor | None) -> Tensor:
            starts, ends, axes, steps = ([None if s is None else listed(s) for s in settings] + [None, None])[:4]
            return _slice(x, _slices(starts or [], ends or [], axes, steps))

        return sliced
    starts, ends, axes, steps = constants
    parts = _slices(starts or (), ends or (), axes, steps)
    if all(s.step > 0 for s in parts.values()):
        shape = site.input(0)
        if min(parts, default=0) >= 0 or (shape is not None and shape.rank is not None):
            total = shape.rank if shape is not None and shape.rank is not None else 0
            by_axis = {a % total if a < 0 else a: s for a, s in parts.items()}
            index = tuple(by_axis.get(a, slice(None)) for a in range(max(by_axis, default=-1) + 1))
            return lambda x, *_: x[index]
    return lambda x, *_: _slice(x, parts)


def _slices(
    starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None, steps: Sequence[int] | None
) -> dict[int, slice]:
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    return {a: slice(b, e, s) for a, b, e, s in zip(axes, starts, ends, steps, strict=True)}


def _slice(x: Tensor, parts: dict[int, slice]) -> Tensor:
    for axis, part in parts.items():
        places = _places(part, x.shape[axis])
        if part.step > 0:
            index = (slice(None),) * (axis % x.dim())
            x = x[(*index, slice(places.start, max(places.stop, places.start), part.step))]
        else:
            x = x.index_select(axis, torch.tensor(list(places), dtype=torch.int64, device=x.device))
    return x


def _places(part: slice, size: int) -> range:
    """The places in an axis: both ends count from its end if negative; then they are moved to where it begins or ends."""
    start, stop = (end + size if end < 0 else end for end in (part.start, part.stop))
    low, high = (0, size) if part.step > 0 else (-1, size - 1)
    start = min(max(start, 0), high)
    return range(start, min(max(stop, low), high), part.step)


def Pad(site: Site) -> Callable[..., Tensor]:
    """The input with a border: of one value, or of its own elements (``reflect``, ``edge``, ``wrap``)."""
    mode, pads, axes = site.attribute("mode", "constant"), ints(site, 1), ints(site, 3)
    value = site.constant(2)
    fill = 0 if value is None else value.reshape(-1)[0].item()
    fixed = pads is not None and not dynamic(site, 2) and not dynamic(site, 3)
    shape = site.input(0)
    if mode == "constant" and fixed and pads is not None and shape is not None and shape.rank is not None:
        flat = [v for pair in reversed(_pairs(pads, axes, shape.rank)) for v in pair]
        return lambda x, *_: torch.constant_pad_nd(x, flat, fill)
    if fixed and pads is not None and mode in ("reflect", "edge"):
        native = _native_border(site, mode, pads, axes)
        if native is not None:
            return native

    def pad(x: Tensor, amounts: Tensor, constant: Tensor | None = None, along: Tensor | None = None) -> Tensor:
        chosen = listed(along) if along is not None else None
        pairs = _pairs(pads if pads is not None else listed(amounts), chosen, x.dim())
        if mode == "constant":
            filled = fill if constant is None else constant.item()
            flat = [v for pair in reversed(pairs) for v in pair]
            y = torch.constant_pad_nd(x, flat, filled)
            if constant is None or not constant.requires_grad:
                return y
            outside = torch.constant_pad_nd(torch.zeros_like(x, dtype=torch.bool), flat, True)
            return torch.where(outside, constant.reshape(()).to(y), y)
        for axis, pair in enumerate(pairs):
            if any(pair):
                x = x.index_select(axis, _border(mode, x.shape[axis], *pair).to(x.device))
        return x

    return pad


def _pairs(pads: Sequence[int], axes: Sequence[int] | None, rank: int) -> list[tuple[int, int]]:
    axes = range(rank) if axes is None else axes
    pairs = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        pairs[axis] = (pads[i], pads[i + len(axes)])
    return pairs


def _native_border(site: Site, mode: str, pads: Sequence[int], axes: Sequence[int] | None) -> Callable[..., Any] | None:
    """torch's own borders: for floats, on the last axes, narrower than the input."""
    shape = static_shape(site)
    if shape is None or len(shape) not in (3, 4, 5) or not is_float(dtype_of(site)):
        return None
    pairs = _pairs(pads, axes, len(shape))
    narrow = all(0 <= v < size for pair, size in zip(pairs, shape, strict=True) for v in pair)
    if not narrow or any(any(p) for p in pairs[:2]):
        return None
    functions = torch._C._nn
    name = {"reflect": "reflection", "edge": "replication"}[mode]
    function = getattr(functions, f"{name}_pad{len(shape) - 2}d")
    flat = [v for pair in reversed(pairs[2:]) for v in pair]
    return lambda x, *_: function(x, flat)


def _border(mode: str, size: int, before: int, after: int) -> Tensor:
    places = torch.arange(-before, size + after)
    if mode == "edge":
        return places.clamp(0, size - 1)
    if mode == "wrap":
        return torch.remainder(places, size)
    if mode != "reflect":
        raise NotNative(f"torch has no border {mode!r}")
    period = max(2 * (size - 1), 1)
    places = torch.remainder(places, period)
    return torch.minimum(places, period - places) if size > 1 else torch.zeros_like(places)


def Expand(site: Site) -> Callable[..., Tensor]:
    """The input broadcast with a shape, both ways."""
    target, input_shape = ints(site, 1), static_shape(site)
    if target is not None and input_shape is not None:
        fixed = tuple(torch.broadcast_shapes(input_shape, target))
        return lambda x, _: x.expand(fixed)
    if target is not None:
        return lambda x, _: x.expand(torch.broadcast_shapes(x.shape, target))
    return lambda x, shape: x.expand(torch.broadcast_shapes(x.shape, tuple(listed(shape))))


def Tile(site: Site) -> Callable[..., Tensor]:
    """The input repeated along each axis."""
    repeats = ints(site, 1)
    if repeats is not None:
        return lambda x, _: x.repeat(repeats)
    return lambda x, repeats: x.repeat(listed(repeats))


def Shape(site: Site) -> Callable[..., Tensor]:
    """The input's dimensions, or some of them, on the CPU."""
    part = slice(site.attribute("start", 0), site.attribute("end"))
    return lambda x: torch.tensor(x.shape[part], dtype=torch.int64)


def Size(_: Site) -> Callable[..., Tensor]:
    """The number of elements, on the CPU."""
    return lambda x: torch.tensor(x.numel(), dtype=torch.int64)


def DepthToSpace(site: Site) -> Callable[..., Tensor]:
    """Channels moved into blocks of the image."""
    size = site.attribute("blocksize")
    if site.attribute("mode", "DCR") == "CRD":
        return lambda x: torch.pixel_shuffle(x, size)

    def move(x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        blocks = x.reshape(n, size, size, c // size**2, h, w).permute(0, 3, 4, 1, 5, 2)
        return blocks.reshape(n, c // size**2, h * size, w * size)

    return move


def SpaceToDepth(site: Site) -> Callable[..., Tensor]:
    """Blocks of the image moved into channels."""
    size = site.attribute("blocksize")

    def unshuffled(x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        return x.new_empty((n, c * size**2, h // size, w // size))

    if site.attribute("mode", "DCR") == "CRD":
        return lambda x: torch.pixel_unshuffle(x, size) if x.numel() else unshuffled(x)

    def move(x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        blocks = x.reshape(n, c, h // size, size, w // size, size).permute(0, 3, 5, 1, 2, 4)
        return blocks.reshape(n, c * size**2, h // size, w // size)

    return move


def CenterCropPad(site: Site) -> Callable[..., Tensor]:
    """The middle of the input, or the input in the middle of zeros, in a given size."""
    target, total = ints(site, 1), rank_of(site)
    axes = [a % total for a in site.attribute("axes", tuple(range(total)))]

    def centre(x: Tensor, wanted: Tensor) -> Tensor:
        for axis, size in zip(axes, listed(wanted) if target is None else target, strict=True):
            extra = size - x.shape[axis]
            if extra < 0:
                x = x.narrow(axis, -extra // 2, size)
            else:
                pads = [0, 0] * (x.dim() - 1 - axis) + [extra // 2, extra - extra // 2]
                x = torch.constant_pad_nd(x, pads, 0)
        return x

    return centre

"""Gathering hands gradients back by scattering, which adds up at places, and the other way round."""

from __future__ import annotations

from functools import partial

import numpy as np

from deep_bench.network.gradient.rules._arithmetic import joined, positions, product, size, sizes, widened, zeros

__all__ = [
    "Compress",
    "Gather",
    "GatherElements",
    "GatherND",
    "OneHot",
    "ReverseSequence",
    "ScatterElements",
    "ScatterND",
    "TensorScatter",
    "TopK",
    "Trilu",
    "Unique",
]


def Gather(at, x, indices, *, axis=0):
    """``dx[…, indices[i], …] += dy[…, i, …]``."""
    if indices.known is not None and indices.known.size == 1:
        # ``dy`` at a place that is known, with zeros around it: no search for places, and no sums
        index = int(indices.known.reshape(-1)[0])
        if indices.known.ndim == 0:
            dy = at.dy.unsqueeze(axis)
        elif indices.known.ndim == 1:
            dy = at.dy
        else:
            dy = at.dy.reshape(joined(at.op, sizes(x, 0, axis), [1], sizes(x, axis + 1 or x.rank)))
        length = size(x, axis)
        if length.known is not None:
            first = index % int(length.known[0])
            pads = [first, int(length.known[0]) - 1 - first]
        else:
            first = at.op.constant([index], np.int64) if index >= 0 else length + index
            pads = at.op.Concat(first, length - 1 - first, axis=0)
        return at.op.Pad(dy, pads, None, [axis]), None
    return added_along(at, x, indices, at.dy, axis), None


def GatherElements(at, x, indices, *, axis=0):
    """``dx[i, indices[i, j, k], k] += dy[i, j, k]`` (for ``axis`` 1)."""
    dy = widened(at.dy)
    dx = at.op.ScatterElements(zeros(x, dy.dtype), indices, dy, axis=axis, reduction="add")
    return dx.cast(x), None


def GatherND(at, x, indices, *, batch_dims=0):
    """``dx[b, *indices[b, i]] += dy[b, i]``."""
    if batch_dims == 0:
        return added_at(at, x, indices, at.dy), None
    # Samples become slices of one tensor, and the number of the sample the first index of each place.
    batch, depth = product(sizes(x, 0, batch_dims)), size(indices, -1)
    places = at.op.Reshape(indices, joined(at.op, batch, product(sizes(indices, batch_dims, -1)), depth), allowzero=1)
    first = at.op.Unsqueeze(positions(at.op, batch), [1, 2])
    first = first.expand(joined(at.op, batch, size(places, 1), [1])).cast(indices)
    whole = joined(at.op, batch, sizes(x, batch_dims))
    tail = _tail(at, x, indices, batch_dims)
    dy = at.dy.reshape(joined(at.op, batch, size(places, 1), tail))
    dx = added_at(at, x, at.op.Concat(first, places, axis=2), dy, shape=whole)
    return dx.reshape(x.shape), None


def _tail(at, x, indices, batch_dims):
    """The shape of what each place holds."""
    dims = at.op.known_dims(indices.value)
    if dims is not None and isinstance(dims[-1], int):
        return sizes(x, batch_dims + dims[-1])
    if dims is not None:
        return sizes(at.dy, len(dims) - 1)
    raise at.refusal("the number of dimensions of its indices is known only in a run")


def ScatterElements(at, x, indices, updates, *, axis=0, reduction="none"):
    """Of ``none``: ``dx = dy``, and 0 where it was replaced; ``dupdates = dy`` there. For the others see `Scattering`."""
    dx, du = Scattering(at, x, updates, elements(at.op, indices, axis)).gradients(reduction)
    return dx, None, du


def ScatterND(at, x, indices, updates, *, reduction="none"):
    """Of ``none``: ``dx = dy``, and 0 where it was replaced; ``dupdates = dy`` there. For the others see `Scattering`."""
    dx, du = Scattering(at, x, updates, slices(at.op, indices)).gradients(reduction)
    return dx, None, du


def TensorScatter(at, past, update, write_indices=None, *, axis=-2, mode="linear"):
    """``dpast = dy``, and 0 where it was replaced; ``dupdate = dy`` there."""
    dpast = at.op.TensorScatter(at.dy, at.op.zeros_like(update), write_indices, axis=axis, mode=mode)
    place = positions(at.op, size(update, axis))
    if write_indices is not None:
        place = at.op.Add(at.op.Unsqueeze(write_indices.cast(np.int64), [1]), place)
    else:
        place = at.op.Unsqueeze(place, [0])
    if mode == "circular":
        place = at.op.Mod(place, size(past, axis))
    rank = update.rank
    inner = [i for i in range(1, rank) if i != axis % rank]
    place = (at.op.Unsqueeze(place, inner) if inner else place).expand(update.shape)
    return dpast, at.op.GatherElements(at.dy, place, axis=axis), None


def TopK(at, x, k, *, axis=-1, **attributes):
    """``dx[indices] = dy``, and 0 elsewhere."""
    return at.op.ScatterElements(at.op.zeros_like(x), at.output(1), at.dy, axis=axis), None


def OneHot(at, indices, depth, values, *, axis=-1):
    """``dvalues`` is the sum of ``dy`` where it is cold, and where it is hot."""
    hot = at.op.OneHot(indices, depth, at.op.constant([0, 1], values.dtype), axis=axis)
    at.op.knowledge.state(hot.value, at.op.knowledge.type_of(at.dy.value))
    dy = widened(at.dy)
    hot = hot.cast(dy)
    sums = [(dy * part).sum().reshape([1]) for part in (1 - hot, hot)]
    return None, None, at.op.Concat(*sums, axis=0).cast(values)


def Compress(at, x, condition, *, axis=None):
    """``dx`` is ``dy`` at what was chosen, and 0 elsewhere."""
    count = product(x.shape) if axis is None else size(x, axis)
    chosen = at.op.Compress(positions(at.op, count), condition, axis=0)
    if axis is not None:
        return added_along(at, x, chosen, at.dy, axis, unique=True), None
    return _flat(at, x, chosen), None


def Unique(at, x, *, axis=None, **attributes):
    """``dx`` is ``dy`` at the first of each group of equal elements, and 0 elsewhere."""
    first = at.output(1)
    if axis is not None:
        return added_along(at, x, first, at.dy, axis, unique=True)
    return _flat(at, x, first)


def _flat(at, x, places):
    """``dy`` at places that count all elements, and 0 elsewhere."""
    dy = widened(at.dy)
    dx = at.op.ScatterElements(zeros(x, dy.dtype, product(x.shape)), places, dy, axis=0)
    return dx.cast(x).reshape(x.shape)


def Trilu(at, x, k=None, *, upper=1):
    """``dx`` is the same triangle of ``dy``."""
    return at.op.Trilu(at.dy, k, upper=upper), None


def ReverseSequence(at, x, sequence_lens, **attributes):
    """``dx`` is ``dy`` reversed likewise: done twice, it changes nothing."""
    return at.op.ReverseSequence(at.dy, sequence_lens, **attributes), None


def added_at(at, x, indices, dy, *, shape=None, unique=False):
    """Zeros in the shape of ``x``, or another, with the slices of ``dy`` added at places."""
    dy = widened(dy)
    dx = at.op.ScatterND(zeros(x, dy.dtype, shape), indices.cast(np.int64), dy, reduction=None if unique else "add")
    return dx.cast(x)


def added_along(at, x, indices, dy, axis, *, unique=False):
    """Zeros in the shape of ``x`` with the slices of ``dy`` along an axis, one for each index, added at the indices."""
    places = at.op.Unsqueeze(indices, [-1])
    if axis == 0 or (at.op.known_dims(x.value) is not None and axis == -x.rank):
        return added_at(at, x, places, dy, unique=unique)
    count = product(indices.shape)
    before, after = product(sizes(x, 0, axis)), product(sizes(x, axis + 1)) if axis != -1 else [1]
    dy = at.op.Transpose(dy.reshape(joined(at.op, before, count, after)), perm=[1, 0, 2])
    places = at.op.Reshape(indices, joined(at.op, count, [1]), allowzero=1)
    dx = added_at(at, x, places, dy, shape=joined(at.op, size(x, axis), before, after), unique=unique)
    return at.op.Transpose(dx, perm=[1, 0, 2]).reshape(x.shape)


def elements(op, indices, axis):
    """Reading and writing of single elements: the pair ``gather(x)`` and ``scatter(x, updates, reduction)``."""

    def scatter(x, updates, reduction=None):
        return op.ScatterElements(x, indices, updates, axis=axis, reduction=reduction)

    return partial(_gathered, op.GatherElements, indices, axis=axis), scatter


def slices(op, indices):
    """Reading and writing of slices: the pair ``gather(x)`` and ``scatter(x, updates, reduction)``."""

    def scatter(x, updates, reduction=None):
        return op.ScatterND(x, indices, updates, reduction=reduction)

    return partial(_gathered, op.GatherND, indices), scatter


def _gathered(operator, indices, x, **attributes):
    return operator(x, indices, **attributes)


class Scattering:
    """The gradients of ``y = x`` with updates written at places.

    Args:
        at: The site.
        x: What is written to.
        updates: What is written.
        access: Reading and writing at the places: see `elements`.
    """

    def __init__(self, at, x, updates, access):
        self.at, self.x, self.updates = at, x, updates
        self.gather, self.scatter = access

    def gradients(self, reduction):
        """Of ``x`` and of the updates."""
        methods = {"none": self._none, "add": self._add, "mul": self._mul, "max": self._most, "min": self._most}
        dx, du = methods[reduction](self.at.dy)
        return dx.cast(self.x), du.cast(self.updates)

    def _none(self, dy):
        return self.scatter(dy, self.at.op.zeros_like(self.updates)), self.gather(dy)

    def _add(self, dy):
        return dy, self.gather(dy)

    def _mul(self, dy):
        """``dx = dy ∏ u`` and ``du_i = dy x ∏_{j ≠ i} u_j``, also where updates are 0."""
        op, x, u, dy = self.at.op, widened(self.x), widened(self.updates), widened(dy)
        null = u.equals(0)
        safe = op.Where(null, 1, u)
        dx = dy * self.scatter(op.constant(1, x.dtype).expand(x.shape), u, "mul")
        nulls = self.gather(self.scatter(zeros(x, np.float32), null.cast(np.float32), "add"))
        other_product = self.gather(self.scatter(x, safe, "mul")) / safe
        # What is left without one update is 0 if another one is.
        alone = nulls.equals(null.cast(np.float32))
        return dx, op.Where(alone, self.gather(dy) * other_product, 0)

    def _most(self, dy):
        """``dy`` where an element is the one that was chosen; equal ones share it."""
        op, y = self.at.op, self.at.y
        retained = self.x.equals(y)
        won = self.updates.equals(self.gather(y))
        dy = widened(dy)
        number = self.scatter(retained.cast(dy), won.cast(dy), "add")
        share = dy / op.Max(number, 1)
        return op.Where(retained, share, 0), op.Where(won, self.gather(share), 0)

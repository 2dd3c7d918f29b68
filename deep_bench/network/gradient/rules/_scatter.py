"""Adding up at places, and the gradients of scattering."""

from __future__ import annotations

from functools import partial

import numpy as np

from deep_bench.network.gradient.rules._sizes import joined, product, size, sizes, widened, zeros


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

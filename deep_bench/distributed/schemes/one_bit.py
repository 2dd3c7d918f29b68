"""One bit for each element of a gradient, with error feedback."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.distributed.flat import Buffers, Pool
from deep_bench.distributed.optimizer import A
from deep_bench.distributed.schemes.around import Compressed, in_order, zeros
from deep_bench.distributed.schemes.codes import grouped, packed, unpacked
from deep_bench.training.optimizer import COUNT, Arrays, setting


@dataclass(frozen=True)
class OneBit(Compressed[A]):
    r"""1-bit SGD. With :math:`c_i = (n_i / \sum_j n_j) g_i` from :math:`n_i` samples and the error :math:`e_i`, 0 at first,

    .. math::
        a_i = c_i + e_i, \quad e_i' = a_i - Q(a_i), \quad x' = \operatorname{inner}(x, \sum_j Q(a_j)),

    where :math:`Q` puts, in each group, for all elements of at least 0 their mean, and for all others theirs. What travels
    is a bit for each element and two numbers for each group.

    Args:
        group: So many elements, in backward order, share two numbers. (The paper has a group for each column of a matrix.)

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule, w = OneBit(db.optimizers["sgd"](lr=1.0), comm), {"w": np.zeros(3)}
        ...     w, state = rule.update({"w": np.array([1.0, 3, -4])}, rule.init(w, NUMPY), w, NUMPY)
        ...     return w["w"].tolist(), state["residual"]["w"].tolist()
        >>> run_local(2, on_rank)[1]
        ([-2.0, -2.0, 4.0], [-0.5, 0.5, 0.0])

    Source:
        Seide, Fu, Droppo, Li and Yu, *1-bit stochastic gradient descent and its application to data-parallel distributed
        training of speech DNNs*, Interspeech 2014, section 3. Sums are not quantised again on their way back
        here.
    """

    group: int = setting(512, COUNT)
    _errors: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)

    def _remembered(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> dict[str, Any]:
        return {"residual": zeros(parameters, xp)}

    def _sum(self, contribution: Buffers, state: Tree, xp: ArrayFunctions[A]) -> dict[str, Any]:
        errors = self._errors.packed(in_order(state["residual"], contribution), xp)
        for flat, error in zip(contribution.flats, errors.flats, strict=True):
            if flat.size:
                error += flat
                mine = self._encoded(error)
                messages = self.comm.allgather(mine)
                error -= self._decoded(mine, flat)
                flat[...] = self._decoded(messages[0], flat)
                for message in messages[1:]:
                    flat += self._decoded(message, flat)
        return {"residual": errors.native(xp)}

    def _encoded(self, vector: np.ndarray) -> NDArray[np.uint8]:
        """One message: both means of each group, then the bits."""
        rows = grouped(vector, self.group)
        positive = rows >= 0
        counts = positive.sum(axis=1)
        counts[-1] -= rows.size - vector.size  # zeros that fill up the last group
        negatives = np.maximum((~positive).sum(axis=1), 1)
        means = np.stack(
            [
                np.sum(np.where(positive, rows, 0), axis=1) / np.maximum(counts, 1),
                np.sum(np.where(positive, 0, rows), axis=1) / negatives,
            ]
        ).astype(vector.dtype)
        bits = positive.reshape(-1)[: vector.size].astype(np.uint16)
        return np.concatenate([means.reshape(-1).view(np.uint8), packed(bits, 1)])

    def _decoded(self, message: NDArray[np.uint8], like: np.ndarray) -> np.ndarray:
        groups = -(-like.size // self.group)
        head = 2 * groups * like.itemsize
        above, below = message[:head].copy().view(like.dtype).reshape(2, groups)
        bits = grouped(unpacked(message[head:], 1, like.size), self.group).astype(bool)
        return np.where(bits, above[:, None], below[:, None]).reshape(-1)[: like.size]

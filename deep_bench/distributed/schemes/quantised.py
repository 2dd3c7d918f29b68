"""QSGD: gradients rounded at random to a few levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.distributed.flat import Buffers
from deep_bench.distributed.optimizer import A
from deep_bench.distributed.schemes.around import Compressed, number
from deep_bench.distributed.schemes.chance import SEED, drawn
from deep_bench.distributed.schemes.codes import grouped, packed, unpacked, width_of
from deep_bench.training.optimizer import COUNT, Allowed, one_of, setting

_LEVELS = Allowed("a whole number from 1 to 32767", lambda s: isinstance(s, int) and 1 <= s <= 32767)


@dataclass(frozen=True)
class Quantised(Compressed[A]):
    r"""Each rank gives its contribution, gradients weighted by its samples, in :math:`2 s + 1` levels; all add what they
    get.

    An element of a group :math:`v` becomes

    .. math::
        Q_s(v_i) = \|v\| \operatorname{sgn}(v_i) \frac{l_i}{s}, \qquad
        l_i = \left\lfloor s \frac{|v_i|}{\|v\|} \right\rfloor \text{ or one more},

    one more with the probability of what was cut off, so that :math:`E\,Q_s(v) = v`. Elements are sent in 2, 4, 8 or 16
    bits, as few as hold :math:`2 s + 1` numbers, and one norm for each group. A group with an element that is not finite
    becomes all NaN.

    Args:
        levels: :math:`s`: 1, 7 and 127 fill 2, 4 and 8 bits.
        group: So many elements, in backward order, share a norm.
        norm: ``euclidean``, or ``max`` for the largest magnitude, which errs less and costs sparsity.
        seed: Of the draws, which are a function of it, of the step and of the rank.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule, w = Quantised(db.optimizers["sgd"](lr=1.0), comm, levels=1, norm="max"), {"w": np.zeros(3)}
        ...     return rule.update({"w": np.array([4.0, -4, 0])}, rule.init(w, NUMPY), w, NUMPY)[0]["w"].tolist()
        >>> run_local(2, on_rank)
        [[-4.0, 4.0, 0.0], [-4.0, 4.0, 0.0]]

    Source:
        Alistarh, Grubic, Li, Tomioka and Vojnović, *QSGD: communication-efficient SGD via gradient quantization and
        encoding*, NeurIPS 2017, section 3.1, and section 4 for groups (buckets there) and the norm.
    """

    levels: int = setting(127, _LEVELS)
    group: int = setting(512, COUNT)
    norm: str = setting("euclidean", one_of("euclidean", "max"))
    seed: int = setting(0, SEED)

    def _sum(self, contribution: Buffers, state: Tree, xp: ArrayFunctions[A]) -> dict[str, Any]:
        chance = drawn(self.seed, number(state["steps"], xp), self.comm.rank)
        for flat in contribution.flats:
            if flat.size:
                messages = self.comm.allgather(self._encoded(flat, chance.random(flat.size)))
                flat[...] = self._decoded(messages[0], flat)
                for message in messages[1:]:
                    flat += self._decoded(message, flat)
        return {}

    def _encoded(self, vector: np.ndarray, chance: NDArray[np.float64]) -> NDArray[np.uint8]:
        """One message: the norms, then the codes: a level with its sign, plus the number of levels."""
        rows = np.abs(grouped(vector, self.group))
        finite = np.isfinite(rows).all(axis=1)
        rows[~finite] = 0
        sizes = np.sqrt(np.sum(rows * rows, axis=1)) if self.norm == "euclidean" else np.max(rows, axis=1)
        divisors = np.where(sizes > 0, sizes, 1).astype(vector.dtype)
        place = (rows / divisors[:, None] * vector.dtype.type(self.levels)).reshape(-1)[: vector.size]
        lower = np.minimum(np.floor(place), self.levels - 1)
        level = (lower + (chance < place - lower)).astype(np.int32)
        codes = (np.where(vector < 0, -level, level) + self.levels).astype(np.uint16)
        norms = np.where(finite, sizes, np.nan).astype(vector.dtype)
        return np.concatenate([norms.view(np.uint8), packed(codes, width_of(2 * self.levels))])

    def _decoded(self, message: NDArray[np.uint8], like: np.ndarray) -> np.ndarray:
        head = -(-like.size // self.group) * like.itemsize
        norms = message[:head].copy().view(like.dtype)
        codes = unpacked(message[head:].copy(), width_of(2 * self.levels), like.size)
        steps = (codes.astype(like.dtype) - like.dtype.type(self.levels)) / like.dtype.type(self.levels)
        return (grouped(steps, self.group) * norms[:, None]).reshape(-1)[: like.size]

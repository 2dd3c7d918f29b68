"""Sparse gradients: each rank gives only its largest elements, and remembers the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.distributed.flat import Buffers, Pool
from deep_bench.distributed.optimizer import A
from deep_bench.distributed.schemes.around import WIDE, Compressed, in_order, zeros
from deep_bench.distributed.schemes.largest import largest
from deep_bench.distributed.schemes.pairs import Pairs, index_type, sum_of_pairs
from deep_bench.training.optimizer import Allowed, Arrays, setting

_PART = Allowed(
    "a number above 0 and at most 1", lambda k: isinstance(k, int | float) and not isinstance(k, bool) and 0 < k <= 1
)
_BYTES = Allowed("a number of bytes above 0, or None", lambda b: b is None or (isinstance(b, int) and b > 0))


@dataclass(frozen=True)
class Sparse(Compressed[A]):
    r"""Top-k with error feedback. With :math:`c_i = (n_i / \sum_j n_j) g_i` from :math:`n_i` samples and the error
    :math:`e_i`, 0 at first,

    .. math::
        a_i = e_i + c_i, \quad s_i = \operatorname{top}_k(a_i), \quad e_i' = a_i - s_i, \quad
        x' = \operatorname{inner}(x, \sum_j s_j),

    where :math:`\operatorname{top}_k` keeps the :math:`\lceil k n \rceil` elements of the largest magnitude, among equal
    ones the first in backward order. They are added as pairs of index and value (`sum_of_pairs`), or densely where that is
    shorter, to the same values.

    Args:
        k: The part of the elements that is kept.
        bucket: Choose within each bucket of whole parameters with so many bytes; ``None`` for all together. Parameters of
            different element types are never together.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule, w = Sparse(db.optimizers["sgd"](lr=1.0), comm, k=0.5), {"w": np.zeros(2)}
        ...     w, state = rule.update({"w": np.array([2.0, comm.rank * 4.0])}, rule.init(w, NUMPY), w, NUMPY)
        ...     return w["w"].tolist(), state["residual"]["w"].tolist()
        >>> run_local(2, on_rank)
        [([-1.0, -2.0], [0.0, 0.0]), ([-1.0, -2.0], [1.0, 0.0])]

    Source:
        Alistarh, Hoefler, Johansson, Khirirat, Konstantinov and Renggli, *The convergence of sparsified gradient methods*,
        NeurIPS 2018, algorithm 1; Renggli et al., *SparCML*, SC 2019, algorithm 1.
    """

    k: float = setting(0.01, _PART)
    bucket: int | None = setting(None, _BYTES)
    _errors: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_pool", Pool(self.bucket, WIDE))

    def _remembered(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> dict[str, Any]:
        return {"residual": zeros(parameters, xp)}

    def _sum(self, contribution: Buffers, state: Tree, xp: ArrayFunctions[A]) -> dict[str, Any]:
        errors = self._errors.packed(in_order(state["residual"], contribution), xp)
        for bucket in self._pool.buckets:
            self._summed(contribution.part(bucket), errors.part(bucket))
        return {"residual": errors.native(xp)}

    def _summed(self, part: np.ndarray, error: np.ndarray) -> None:
        """Replace a contribution by the sum of what all ranks keep of theirs, and the error by what this one did not."""
        if part.size == 0:
            return
        error += part
        chosen = largest(error, ceil(self.k * part.size))
        mine = Pairs(part.size, chosen.astype(index_type(part.size)), error[chosen])
        error[chosen] = 0
        part[...] = sum_of_pairs(self.comm, mine).dense()

"""Model averaging: every rank trains alone, and now and then all take the mean of their parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from deep_bench.arrays import ArrayFunctions, Path, Tree, leaves
from deep_bench.distributed.flat import Pool
from deep_bench.distributed.optimizer import A, Promise
from deep_bench.distributed.schemes.around import Around, handed, number
from deep_bench.distributed.shares import Shares
from deep_bench.training.optimizer import COUNT, FLAG, Arrays, Evaluate, setting


@dataclass(frozen=True)
class Averaging(Around[A]):
    r"""Local SGD: each rank takes steps of its own, and after every :math:`H` of them

    .. math:: x_i' = \sum_j \frac{n_j}{\sum_k n_k} x_j,

    where :math:`n_j` is the number of samples that rank :math:`j` saw since the last average. With ``every=1`` all ranks
    hold the same parameters after each step.

    Args:
        every: :math:`H`.
        states: Average the inner rule's floating-point state with the same weights too; each rank keeps its own otherwise.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule = Averaging(db.optimizers["sgd"](lr=1.0), comm)
        ...     w = {"w": np.zeros(2)}
        ...     return rule.update({"w": np.full(2, comm.rank + 1.0)}, rule.init(w, NUMPY), w, NUMPY)[0]["w"].tolist()
        >>> run_local(2, on_rank)
        [[-1.5, -1.5], [-1.5, -1.5]]

    Source:
        Stich, *Local SGD converges fast and communicates little*, ICLR 2019, algorithm 1; McMahan, Moore, Ramage, Hampson
        and Agüera y Arcas, *Communication-efficient learning of deep networks from decentralized data*, AISTATS 2017,
        algorithm 1 (weights).
    """

    every: int = setting(1, COUNT)
    states: bool = setting(False, FLAG)
    _pool: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)
    _state_pool: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)

    promise: ClassVar[Promise] = "bounded"

    def _remembered(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> dict[str, Any]:
        del parameters
        return {"samples": xp.array(0, np.int64)}

    def regrouped(self, states: Sequence[Tree]) -> dict[str, Any]:
        """See `Around.regrouped`, after which it is as after an average."""
        return {**super().regrouped(states), "samples": np.array(0, np.int64)}

    def update(
        self,
        gradients: Arrays[A],
        state: Tree,
        parameters: Arrays[A],
        xp: ArrayFunctions[A],
        *,
        evaluate: Evaluate | None = None,
        samples: int | None = None,
    ) -> tuple[dict[str, A], dict[str, Any]]:
        """See `DistributedOptimizer.update`; a line search looks at this rank's own loss."""
        gradients, parameters = self.checked(gradients, parameters, samples, xp)
        new, inner = self.stepped(gradients, state["inner"], parameters, xp, evaluate)
        steps, sample_count = (
            number(state["steps"], xp) + 1,
            number(state["samples"], xp) + (1 if samples is None else samples),
        )
        if steps % self.every == 0:
            if self.comm.size > 1:
                weight = Shares(self.comm).settle(None if samples is None else sample_count)
                new = self._mean(new, self._pool, weight, xp)
                inner = self._mean_state(inner, weight, xp) if self.states else inner
            sample_count = 0
        return new, {"steps": xp.array(steps, np.int64), "inner": inner, "samples": xp.array(sample_count, np.int64)}

    def _mean(self, arrays: Arrays[A], pool: Pool[A], weight: float, xp: ArrayFunctions[A]) -> dict[str, A]:
        buffers = pool.packed(arrays, xp, weight)
        for flat in buffers.flats:
            self.comm.allreduce(flat, out=flat)
        return handed(buffers, arrays, self.inner, xp)

    def _mean_state(self, state: Any, weight: float, xp: ArrayFunctions[A]) -> Any:
        held = leaves(state)
        keys = {str(i): path for i, (path, leaf) in enumerate(held.items()) if _is_real(leaf, xp)}
        if not keys:
            return state
        mean = self._mean({key: held[path] for key, path in keys.items()}, self._state_pool, weight, xp)
        return state if self.inner.in_place else _replaced(state, {path: mean[key] for key, path in keys.items()})


def _is_real(leaf: Any, xp: ArrayFunctions[Any]) -> bool:
    return not isinstance(leaf, list) and xp.dtype(leaf).kind not in "biu"


def _replaced(tree: Tree, new: Mapping[Path, Any], at: Path = ()) -> dict[str, Any]:
    return {
        key: _replaced(value, new, (*at, key)) if isinstance(value, Mapping) else new.get((*at, key), value)
        for key, value in tree.items()
    }

"""ZeRO, stage 1: each rank keeps the optimizer's state of some parameters, and updates these for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from deep_bench.arrays import ArrayFunctions, Path, Tree, grown, leaves
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.flat import Buffers, FlatLayout, Pool
from deep_bench.distributed.optimizer import A, DistributedOptimizer, Promise, Shares
from deep_bench.errors import Unsupported
from deep_bench.training.optimizer import POSITIVE, Allowed, Arrays, Evaluate, setting

_LIMIT = Allowed(f"None, or {POSITIVE.expected}", lambda value: value is None or POSITIVE.fits(value))


@dataclass(frozen=True)
class ShardedState(DistributedOptimizer[A, Any]):
    r"""The step of one process with the whole batch, with the inner rule's state spread over the ranks.

    Each rank receives the mean gradients, :math:`\sum_i \frac{n_i}{\sum_j n_j} g_i`, of its own parameters only
    (reduce-scatter), updates these, and gives them to all (allgather): as many bytes as an allreduce, and one part in
    ``comm.size`` of the state on each rank. Whole parameters are dealt out, the largest first, each to the rank that has the
    least; a rank beyond their number keeps nothing.

    The inner rule must update each parameter from its own gradient alone (`Optimizer.separable`), as it sees only some.

    Args:
        clip: The largest norm of all parameters' gradients together: longer ones are made as long, as by
            `deep_bench.training.clip_norm`, which would see the norm of this rank's alone.

    Raises:
        Unsupported: The inner rule is not separable, or wants gradients elsewhere than at the parameters.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY, Path
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule = ShardedState(db.optimizers["momentum"](lr=1.0), comm)
        ...     w = {"w": np.zeros(2), "b": np.zeros(1)}
        ...     gradients = {name: np.full_like(array, comm.rank + 1.0) for name, array in w.items()}
        ...     w, state = rule.update(gradients, rule.init(w, NUMPY), w, NUMPY)
        ...     return {name: array.tolist() for name, array in w.items()}, list(state["momentum"])
        >>> run_local(2, on_rank)
        [({'w': [-1.5, -1.5], 'b': [-1.5]}, ['w']), ({'w': [-1.5, -1.5], 'b': [-1.5]}, ['b'])]

    Source:
        Rajbhandari, Rasley, Ruwase and He, *ZeRO: memory optimizations toward training trillion parameter models*, SC 2020,
        section 5.1.
    """

    clip: float | None = setting(None, _LIMIT)
    _plans: list[_ShardPlan] = field(default_factory=list, init=False, repr=False, compare=False)
    _shares: Shares = field(init=False, repr=False, compare=False)

    promise: ClassVar[Promise] = "equal"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.inner.separable:
            raise Unsupported(
                f"sharded-state around {self.inner!r}, which may need the gradients of all parameters at once",
                "a rule that updates each parameter by itself, and says so: separable = True",
                "clip by sharded-state's own clip=…; for other such rules take allreduce",
            )
        if self.inner.looks_ahead:
            raise Unsupported(
                f"sharded-state around {self.inner!r}, which wants gradients elsewhere than at the parameters",
                "a rule whose state is not asked before the gradients are known: no rank has all of it",
                "take allreduce",
            )
        object.__setattr__(self, "_shares", Shares(self.comm))

    def init(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> Any:
        """See `Optimizer.init`."""
        self._agreement.learn(parameters, xp)
        self._plans[:] = [_ShardPlan(self.comm, parameters, xp)]
        shard = self._plans[0].own(parameters)
        return self.inner.init(shard, xp) if shard else {}

    def restored(self, state: Tree, parameters: Arrays[A]) -> Any:
        """See `Optimizer.restored`; after `init`."""
        shard = self._plans[0].own(parameters)
        return self.inner.restored(state, shard) if shard else state

    def regrouped(self, states: Sequence[Tree]) -> Any:
        """What this rank owns now, of the states of all that owned something then."""
        plan = self._plans[0]
        by_path: dict[Path, Any] = {}
        for state in states:
            held = leaves(state).items()
            by_path |= {path: leaf for path, leaf in held if path[-1] not in plan.owners or path[-1] in plan.names}
        return grown(by_path) if plan.names else {}

    def begin(self, samples: int | None) -> None:
        """See `DistributedOptimizer.begin`."""
        super().begin(samples)
        self._shares.begin(samples)

    def update(
        self,
        gradients: Arrays[A],
        state: Tree,
        parameters: Arrays[A],
        xp: ArrayFunctions[A],
        *,
        evaluate: Evaluate | None = None,
        samples: int | None = None,
    ) -> tuple[dict[str, A], Any]:
        """See `DistributedOptimizer.update`."""
        del evaluate
        gradients, parameters = self.checked(gradients, parameters, samples, xp)
        if not self._plans:
            self._plans.append(_ShardPlan(self.comm, parameters, xp))
        plan = self._plans[0]
        shard: dict[str, A] = {}
        mean = plan.scattered(gradients, xp, self._shares.settle(samples))
        if self.clip is not None:
            self._clip(mean)
        if plan.names:
            shard, state = self.stepped(mean.native(xp), state, plan.own(parameters), xp)
        whole = plan.gathered(shard, parameters, xp)
        remaining = {name: w for name, w in parameters.items() if name not in shard}
        if self.inner.in_place:
            whole.write(remaining, xp)
        else:
            remaining = whole.native(xp)
        return {name: shard[name] if name in shard else remaining[name] for name in parameters}, state

    def _clip(self, mean: Buffers) -> None:
        square = np.array([sum(float(np.sum(np.square(flat, dtype=np.float64))) for flat in mean.flats)], np.float64)
        length = sqrt(float(self.comm.allreduce(square)[0]))
        assert self.clip is not None
        if length > self.clip:
            for flat in mean.flats:
                flat *= flat.dtype.type(self.clip / length)


class _ShardPlan:
    """Who has which parameters. In the buffers, those of a rank lie beside each other.

    Args:
        comm: The ranks.
        parameters: All parameters.
        xp: Their functions.
    """

    def __init__(self, comm: Communicator, parameters: Mapping[str, Any], xp: ArrayFunctions[Any]) -> None:
        self._comm = comm
        sizes = {p.name: p.stop - p.start for p in FlatLayout.of(parameters, xp).places.values()}
        self.owners = owners = dealt(sizes, comm.size)
        self._order = [name for rank in reversed(range(comm.size)) for name in parameters if owners[name] == rank]
        self.names = tuple(name for name in parameters if owners[name] == comm.rank)
        self._own: Pool[Any] = Pool()
        self._gradients: Pool[Any] = Pool()
        self._parameters: Pool[Any] = Pool()
        self._own.prepare(self.own(parameters), xp)
        layout = self._parameters.prepare({name: parameters[name] for name in self._order}, xp)
        self._counts = [[0] * comm.size for _ in layout.sizes]
        for place in layout.places.values():
            self._counts[place.flat][owners[place.name]] += place.stop - place.start

    def own(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """This rank's among all parameters' arrays."""
        return {name: arrays[name] for name in self.names}

    def scattered(self, gradients: Mapping[str, Any], xp: ArrayFunctions[Any], weight: float) -> Buffers:
        """The weighted sum over ranks of this rank's parameters' gradients."""
        buffers = self._gradients.packed({name: gradients[name] for name in self._order}, xp, weight)
        shard = self._own.take()
        for flat, counts in zip(buffers.flats, self._counts, strict=True):
            self._comm.reduce_scatter(flat, counts, out=_of_type(shard, flat.dtype))
        return shard

    def gathered(self, shard: Mapping[str, Any], parameters: Mapping[str, Any], xp: ArrayFunctions[Any]) -> Buffers:
        """All ranks' parameters, from this rank's."""
        mine = self._own.packed(shard, xp)
        self._parameters.prepare({name: parameters[name] for name in self._order}, xp)
        buffers = self._parameters.take()
        for flat, counts in zip(buffers.flats, self._counts, strict=True):
            self._comm.allgather(_of_type(mine, flat.dtype), counts, out=flat)
        return buffers


def dealt(sizes: Mapping[str, int], ranks: int) -> dict[str, int]:
    """Each parameter's rank: the largest first, each to the rank that has the fewest elements.

    Example:
        >>> dealt({"a": 5, "b": 3, "c": 3, "d": 1}, 2)
        {'a': 0, 'b': 1, 'c': 1, 'd': 0}
    """
    loads = [0] * ranks
    owners: dict[str, int] = {}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        rank = loads.index(min(loads))
        owners[name] = rank
        loads[rank] += sizes[name]
    return owners


def _of_type(buffers: Buffers, dtype: np.dtype) -> np.ndarray:
    """The flat array of an element type; an empty one where no parameter has it."""
    return next((flat for flat in buffers.flats if flat.dtype == dtype), np.empty(0, dtype))

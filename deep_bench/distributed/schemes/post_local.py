"""Post-local SGD: first all ranks step together, later each alone with an average now and then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.distributed.optimizer import A, Promise
from deep_bench.distributed.schemes.allreduce import AllReduce
from deep_bench.distributed.schemes.around import Around, number, one_more
from deep_bench.distributed.schemes.averaging import Averaging
from deep_bench.training.optimizer import COUNT, FLAG, Allowed, Arrays, Evaluate, setting

_STEPS = Allowed("a whole number of at least 0", lambda steps: isinstance(steps, int) and steps >= 0)


@dataclass(frozen=True)
class PostLocal(Around[A]):
    r"""The first :math:`t'` steps are those of `AllReduce`; from then on it is local SGD, `Averaging`.

    Averages are due :math:`H, 2 H, …` steps after the change.

    Args:
        until: :math:`t'`: usually the step at which the learning rate falls for the first time.
        every: :math:`H`.
        states: See `Averaging`.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule, w = PostLocal(db.optimizers["sgd"](lr=1.0), comm, until=1, every=2), {"w": np.zeros(1)}
        ...     state, found = rule.init(w, NUMPY), []
        ...     for _ in range(3):
        ...         w, state = rule.update({"w": np.array([comm.rank + 1.0])}, state, w, NUMPY)
        ...         found.append(float(w["w"][0]))
        ...     return found
        >>> run_local(2, on_rank)
        [[-1.5, -2.5, -4.5], [-1.5, -3.5, -4.5]]

    Source:
        Lin, Stich, Patel and Jaggi, *Don't use large mini-batches, use local SGD*, ICLR 2020, section 3.
    """

    until: int = setting(0, _STEPS)
    every: int = setting(1, COUNT)
    states: bool = setting(False, FLAG)
    _together: AllReduce[A] = field(init=False, repr=False, compare=False)
    _alone: Averaging[A] = field(init=False, repr=False, compare=False)

    promise: ClassVar[Promise] = "bounded"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_together", AllReduce(self.inner, self.comm))
        object.__setattr__(self, "_alone", Averaging(self.inner, self.comm, self.every, self.states))
        for scheme in (self._together, self._alone):
            object.__setattr__(scheme, "_agreement", self._agreement)

    def _remembered(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> dict[str, Any]:
        del parameters
        return {"samples": xp.array(0, np.int64)}

    def regrouped(self, states: Sequence[Tree]) -> dict[str, Any]:
        """See `Averaging.regrouped`."""
        return self._alone.regrouped(states)

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
        """See `DistributedOptimizer.update`; a line search looks at all ranks' loss first, at this rank's own later."""
        gradients, parameters = self.checked(gradients, parameters, samples, xp)
        steps = number(state["steps"], xp)
        if steps < self.until:
            new, inner = self._together.update(gradients, state["inner"], parameters, xp, evaluate=evaluate, samples=samples)
            return new, {**state, "steps": one_more(state, xp), "inner": inner}
        local = {**state, "steps": xp.array(steps - self.until, np.int64)}
        new, local = self._alone.update(gradients, local, parameters, xp, evaluate=evaluate, samples=samples)
        return new, {**local, "steps": one_more(state, xp)}

"""What schemes have in common that take the inner rule's step with the mean of all ranks' gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.distributed.optimizer import A, DistributedOptimizer, Promise
from deep_bench.distributed.reduction import GradientMean
from deep_bench.training.optimizer import Arrays, Evaluate


@dataclass(frozen=True)
class Averaged(DistributedOptimizer[A, Any]):
    """A scheme whose state is the inner rule's. A subclass makes ``_mean``, which says how gradients are summed."""

    _mean: GradientMean = field(init=False, repr=False, compare=False)

    promise: ClassVar[Promise] = "equal"

    @property
    def looks_ahead(self) -> bool:
        """See `Optimizer.looks_ahead`."""
        return self.inner.looks_ahead

    def init(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> Any:
        """See `Optimizer.init`."""
        self._agreement.learn(parameters, xp)
        self._mean.learn(parameters, xp)
        return self.inner.init(parameters, xp)

    def prepare(self, parameters: Arrays[A], state: Tree) -> dict[str, A]:
        """See `Optimizer.prepare`."""
        return self.inner.prepare(parameters, state)

    def restored(self, state: Tree, parameters: Arrays[A]) -> Any:
        """See `Optimizer.restored`."""
        return self.inner.restored(state, parameters)

    def begin(self, samples: int | None) -> Any:
        """See `DistributedOptimizer.begin`."""
        super().begin(samples)
        self._mean.shares.begin(samples)

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
        gradients, parameters = self.checked(gradients, parameters, samples, xp)
        mean, weight = self._mean(gradients, xp, samples)
        return self.stepped(mean, state, parameters, xp, self._mean.everywhere(evaluate, xp, weight))

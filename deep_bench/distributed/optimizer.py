"""``DistributedOptimizer``: an optimizer on several ranks, which agree on parameters in the way that a scheme says."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.errors import InvalidArgument
from deep_bench.training.optimizer import Arrays, Evaluate, Optimizer

A = TypeVar("A")
S = TypeVar("S", bound=Tree)

Promise: TypeAlias = Literal["equal", "bounded", "contracting"]
"""What a scheme says of the parameters of different ranks after a step: bitwise equal; apart by no more than what a bounded
number of updates makes; or apart, but pulled together in every step."""


@dataclass(frozen=True)
class DistributedOptimizer(Optimizer[A, S]):
    """An update rule that needs other ranks: an optimizer around an optimizer, so that all that holds for one holds for it.

    All ranks make the same one, hold the same parameters before the first step, and call ``update`` equally often, unless the
    scheme says otherwise. What one rank remembers is in its state, as with every optimizer; arrays that are only worked in
    are not.

    Args:
        inner: What turns gradients into parameters.
        comm: The ranks.
    """

    inner: Optimizer[A, Any]
    comm: Communicator = field(repr=False, compare=False)

    promise: ClassVar[Promise] = "equal"
    dedicated: ClassVar[bool] = False
    """Whether rank 0 trains nothing, and serves the others (`serve`) where there are any."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.inner, Optimizer) or isinstance(self.inner, DistributedOptimizer):
            raise InvalidArgument(f"{type(self).__name__} around {self.inner!r}", "an optimizer of one rank")
        if not isinstance(self.comm, Communicator):
            raise InvalidArgument(f"{type(self).__name__} over {self.comm!r}", "a communicator: db.communicators[…]()")

    def begin(self, samples: int) -> Callable[[str, A], None] | None:
        """Told before the gradients of a step are computed.

        Args:
            samples: How many samples this rank has in the step.

        Returns:
            What wants to be told of each gradient as soon as it is final (``on_ready`` of `Executor.gradients`), so that it can
            be sent away while others are computed; ``None`` where nothing does.
        """
        del samples
        return None

    @abstractmethod
    def update(
        self,
        gradients: Arrays[A],
        state: S,
        parameters: Arrays[A],
        xp: ArrayFunctions[A],
        *,
        evaluate: Evaluate | None = None,
        samples: int | None = None,
    ) -> tuple[dict[str, A], S]:
        """One step, together with the other ranks.

        Args:
            gradients: Of this rank's mean loss over its own samples.
            state: What the step before returned, or ``init``.
            parameters: This rank's.
            xp: The functions of these arrays.
            evaluate: See `Optimizer.update`; line searches are refused by schemes that cannot have them.
            samples: How many samples this rank had: gradients are weighted by them. ``None``: all ranks had equally many.

        Returns:
            This rank's new parameters and state.
        """

"""``DistributedOptimizer``: an optimizer on several ranks, which agree on parameters in the way that a scheme says."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np

from deep_bench.arrays import ArrayFunctions, Tree, leaves
from deep_bench.distributed.agreement import Agreement
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.shares import check_samples
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.training.optimizer import Arrays, Evaluate, Optimizer

A = TypeVar("A")
S = TypeVar("S", bound=Tree)

Promise: TypeAlias = Literal["equal", "bounded", "contracting", "unbounded"]
"""What a scheme says of the parameters of different ranks after a step: bitwise equal; apart by no more than what a bounded
number of updates makes; apart, but pulled together in every step; or apart by what any number of updates makes, until all
have finished."""


@dataclass(frozen=True)
class DistributedOptimizer(Optimizer[A, S]):
    """An update rule that needs other ranks: an optimizer around an optimizer, so that all that holds for one holds for it.

    All ranks make the same one, hold the same parameters before the first step, and call ``update`` equally often, unless
    the scheme says otherwise. What one rank remembers is in its state, as with every optimizer; arrays that are only worked
    in are not.

    Args:
        inner: What turns gradients into parameters.
        comm: The ranks.
    """

    inner: Optimizer[A, Any]
    comm: Communicator = field(repr=False, compare=False)

    promise: ClassVar[Promise] = "equal"
    lockstep: ClassVar[bool] = True
    """Whether all ranks take each step together; else each takes as many as it likes, and nothing else may be arranged with
    all of them meanwhile."""
    dedicated: ClassVar[bool] = False
    """Whether rank 0 trains nothing, and serves the others (`serve`) where there are any."""

    _agreement: Agreement = field(init=False, repr=False, compare=False)
    _met: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.inner, Optimizer) or isinstance(self.inner, DistributedOptimizer):
            raise InvalidArgument(f"{type(self).__name__} around {self.inner!r}", "an optimizer of one rank")
        if not isinstance(self.comm, Communicator):
            raise InvalidArgument(f"{type(self).__name__} over {self.comm!r}", "a communicator: db.communicators[…]()")

        object.__setattr__(self, "_agreement", Agreement(self.comm, lockstep=self.lockstep))

    def begin(self, samples: int | None) -> Callable[[str, A], None] | None:
        """Told before the gradients of a step are computed.

        Args:
            samples: How many samples this rank has in the step; ``None``: all ranks have equally many. `update` is told the
                same. All ranks say how many, or none does; in the first step they compare that.

        Returns:
            What wants to be told of each gradient as soon as it is final (``on_ready`` of `Executor.gradients`), so that it
            can be sent away while others are computed; ``None`` where nothing does.
        """
        check_samples(samples)
        self._agreement.compare(samples)
        return None

    def regrouped(self, states: Sequence[S]) -> S:
        """This rank's state, made of those that another number of ranks had when a checkpoint was written.

        Args:
            states: Of each of those ranks; NumPy arrays.

        Raises:
            InvalidArgument: It cannot be made of them; as here, where they differ.
        """
        first, *peers = (leaves(state) for state in states)
        if any(peer.keys() != first.keys() for peer in peers) or any(
            not np.array_equal(first[path], peer[path], equal_nan=first[path].dtype.kind in "fc")
            for peer in peers
            for path in first
        ):
            raise InvalidArgument(
                f"a checkpoint of {len(states)} ranks, each of which has its own state of {type(self).__name__}",
                f"{len(states)} ranks, not {self.comm.size}",
                f"go on with {len(states)} ranks, or start afresh",
            )
        return states[0]

    def checked(
        self, gradients: Arrays[A], parameters: Arrays[A], samples: int | None, xp: ArrayFunctions[A]
    ) -> tuple[dict[str, A], dict[str, A]]:
        """What `update` was given, in the order of all ranks: with what an ``update`` begins.

        In the first step, ranks compare what they hold, in one short message; see `meet`.

        Raises:
            InvalidArgument: Gradients are not of the parameters' names, shapes and element types; parameters are not those
                of ``init``, or of the other ranks; samples are no whole number of at least 0.
        """
        check_samples(samples)
        ordered = self._agreement.ordered(gradients, parameters, xp)
        self.meet(parameters, xp, samples)
        return ordered

    def meet(self, parameters: Arrays[A], xp: ArrayFunctions[A], samples: int | None = None) -> None:
        """Compare, once, what all ranks hold: the first thing that each does, be it ``update``, ``serve`` or ``finish``.

        Ranks that step together compare the order of their parameters as well, which is that of their messages. Others wait
        for each other here, and never again.

        Raises:
            InvalidArgument: They do not hold the same; on every rank.
        """
        if self.lockstep:
            self._agreement.compare(samples)
        elif not self._met:
            by_name = Agreement(self.comm, lockstep=True)
            by_name.learn({name: parameters[name] for name in sorted(parameters)}, xp)
            by_name.compare()
            self._met.append(True)

    def stepped(
        self,
        gradients: Arrays[A],
        state: Tree,
        parameters: Arrays[A],
        xp: ArrayFunctions[A],
        evaluate: Evaluate | None = None,
    ) -> tuple[dict[str, A], Any]:
        """The inner rule's step, with parameters in the order and the element types of those before."""
        new, state = self.inner.update(gradients, state, parameters, xp, evaluate=evaluate)
        return {name: _like(new[name], before, xp) for name, before in parameters.items()}, state

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
                All ranks say how many, or none does.

        Returns:
            This rank's new parameters and state.
        """

    def serve(
        self,
        parameters: Arrays[A],
        xp: ArrayFunctions[A],
        *,
        state: S | None = None,
        told: Callable[[dict[str, A], S], None] | None = None,
    ) -> tuple[dict[str, A], S]:
        """Serve the other ranks until all have finished: what rank 0 does where the scheme is ``dedicated``.

        Args:
            parameters: Before the first step.
            xp: The functions of these arrays.
            state: To go on from; ``init`` by default.
            told: Called with the parameters and the state after each update, so that they can be kept.

        Returns:
            The last parameters and state.
        """
        del parameters, xp, state, told
        raise Unsupported(f"{type(self).__name__} has no server", "update(…) on every rank")

    def finish(self, state: S, parameters: Arrays[A], xp: ArrayFunctions[A]) -> tuple[dict[str, A], S]:
        """Called by every rank that trains, once, after its last step: others may still need it.

        Args:
            state: What the last step returned.
            parameters: This rank's.
            xp: The functions of these arrays.

        Returns:
            The parameters and the state at the end.
        """
        del xp
        return dict(parameters), state


def _like(x: A, before: A, xp: ArrayFunctions[A]) -> A:
    """An array in another one's element type: NumPy makes float32 of bfloat16 and a Python number."""
    return x if x is before or xp.dtype(x) == xp.dtype(before) else xp.cast(x, before)

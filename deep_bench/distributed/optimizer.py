"""``DistributedOptimizer``: an optimizer on several ranks, which agree on parameters in the way that a scheme says.

All ranks hold parameters of the same names, shapes, types and order; a rank's gradients count by its samples.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np

from deep_bench.arrays import ArrayFunctions, Tree, leaves
from deep_bench.distributed.communicators.communicator import Communicator, CompletedRequest, Request
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.training.optimizer import Arrays, Evaluate, Optimizer

Form: TypeAlias = "tuple[tuple[int, ...], np.dtype]"
"""A shape and an element type."""


_SAID = "the number of samples on every rank, or on none"


class ParameterAgreement:
    """The parameters of a scheme as they were at first, with which later ones, gradients and other ranks are compared.

    Messages hold parameters one after the other, so that all ranks need the same order, whatever that of a dict.

    Args:
        comm: The ranks.
        lockstep: Whether these can compare what they hold, once. Otherwise messages have to be in the order of names.

    Example:
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import LocalCommunicator
        >>> held = ParameterAgreement(LocalCommunicator(), lockstep=True)
        >>> held.learn({"w": np.zeros(2), "b": np.zeros(1)}, NUMPY)
        >>> gradients, _ = held.ordered({"b": np.ones(1), "w": np.ones(2)}, {"w": np.zeros(2), "b": np.zeros(1)}, NUMPY)
        >>> list(gradients)
        ['w', 'b']
    """

    def __init__(self, comm: Communicator, *, lockstep: bool) -> None:
        self._comm, self._lockstep = comm, lockstep
        self._forms: dict[str, Form] = {}
        self._seen: dict[str, list[tuple[Any, Any]]] = {}
        self._compared = False

    def learn(self, parameters: Mapping[str, Any], xp: ArrayFunctions[Any]) -> None:
        """Take these parameters, in their order, for those of all ranks."""
        forms = {name: (xp.shape(w), xp.dtype(w)) for name, w in parameters.items()}
        if list(forms.items()) != list(self._forms.items()):
            self._forms, self._seen, self._compared = forms, {}, False

    def ordered(
        self, gradients: Mapping[str, Any], parameters: Mapping[str, Any], xp: ArrayFunctions[Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Gradients and parameters in the order that they had at first; `compare` tells whether it is that of all ranks.

        Raises:
            InvalidArgument: A parameter is not what it was at first, or has no gradient of its form; there is a gradient of
                no parameter; or ranks hold different parameters.
        """
        if not self._forms:
            self.learn(parameters, xp)
        self._check("the parameter", parameters, xp)
        self._check("the gradient of", gradients, xp)
        return {name: gradients[name] for name in self._forms}, {name: parameters[name] for name in self._forms}

    def _check(self, kind: str, arrays: Mapping[str, Any], xp: ArrayFunctions[Any]) -> None:
        if arrays.keys() != self._forms.keys():
            missing = ", ".join(repr(name) for name in self._forms if name not in arrays)
            extra = ", ".join(repr(name) for name in arrays if name not in self._forms)
            message = f"without {missing}" if missing else f"besides others {extra}"
            raise InvalidArgument(f"{kind} each parameter, {message}", f"one each of {', '.join(map(repr, self._forms))}")
        native = [(getattr(arrays[name], "shape", None), getattr(arrays[name], "dtype", None)) for name in self._forms]
        if native == self._seen.get(kind):  # as in the step before, which NumPy's forms of them would say slowly
            return
        shape_of, dtype_of = xp.shape, xp.dtype
        for name, (shape, dtype) in self._forms.items():
            array = arrays[name]
            if shape_of(array) != shape or dtype_of(array) != dtype:
                came = f"{kind} {name!r}: {dtype_of(array)}{list(shape_of(array))}"
                raise InvalidArgument(came, f"{dtype}{list(shape)}, as the parameter was at first")
        self._seen[kind] = native

    def compare(self, samples: int | None = None) -> None:
        """Whether all ranks hold the same, in the same order, and all or none say how many samples they have.

        It is asked once, by all ranks together, before any other message of the first step.

        Args:
            samples: How many this rank says it has; ``None``: it does not say.

        Raises:
            InvalidArgument: They do not; with the same words on every rank, so that none waits.
        """
        if self._compared or not self._lockstep or self._comm.size == 1:
            return
        mine = "\n".join(f"{name!r} {dtype}{list(shape)}" for name, (shape, dtype) in self._forms.items())
        digest = int.from_bytes(sha256(mine.encode()).digest()[:7], "big")
        fingerprint = 2 * digest + (samples is not None)
        most, least = self._comm.allreduce(np.array([fingerprint, -fingerprint], np.int64), "max").tolist()
        if most != -least:
            digests, say = np.divmod(self._comm.allgather(np.array([fingerprint], np.int64)).reshape(-1), 2)
            if (digests == digests[0]).all():
                raise InvalidArgument(_who_says(say), _SAID, "samples=0 on a rank that has none in a step")
            raise InvalidArgument(self._difference(mine, digests), "the same parameters in the same order on all ranks")
        self._compared = True

    def _difference(self, mine: str, digests: np.ndarray) -> str:
        """What the first rank that differs from rank 0 has otherwise."""
        peer = int(np.argmax(digests != digests[0]))
        first, theirs = (self._text_of(mine, rank).split("\n") for rank in (0, peer))
        for number in range(max(len(first), len(theirs))):
            peer_line, root_line = (lines[number] if number < len(lines) else "none" for lines in (theirs, first))
            if peer_line != root_line:
                return f"parameter {number} is {peer_line} on rank {peer}, and {root_line} on rank 0"
        raise AssertionError(f"ranks 0 and {peer} differ, and hold the same")

    def _text_of(self, mine: str, rank: int) -> str:
        """A rank's text, on all ranks."""
        text = np.frombuffer(mine.encode(), np.uint8)
        size = int(self._comm.broadcast(np.array([text.size], np.int64), rank)[0])
        sent = text.copy() if self._comm.rank == rank else np.empty(size, np.uint8)
        return bytes(self._comm.broadcast(sent, rank)).decode()


def _who_says(say: np.ndarray) -> str:
    with_, without = (", ".join(map(str, np.flatnonzero(say == flag))) for flag in (1, 0))
    return f"a number of samples on rank {with_}, and none (samples=None) on rank {without}"


def check_samples(samples: Any) -> None:
    """Whether a rank can have so many samples.

    Raises:
        InvalidArgument: It is neither ``None`` nor a whole number of at least 0.
    """
    if samples is not None and (not isinstance(samples, int | np.integer) or isinstance(samples, bool) or samples < 0):
        raise InvalidArgument(f"{samples!r} samples", "a whole number of at least 0, or None")


class Shares:
    r"""The weight of this rank in a mean over ranks, :math:`n_i / \sum_j n_j` of samples.

    The sum is begun before gradients are computed, and is there when they are.

    Args:
        comm: The ranks.

    Example:
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     shares = Shares(comm)
        ...     shares.begin(3 if comm.rank == 0 else 1)
        ...     return shares.settle(None)
        >>> run_local(2, on_rank)
        [0.75, 0.25]
    """

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self._samples: int | None = 0
        self._total = np.zeros(1, np.int64)
        self._begun: Request | None = None
        self._weight: float | None = None

    def begin(self, samples: int | None) -> None:
        """Begin to ask the others.

        Args:
            samples: How many this rank has; ``None`` for as many as everyone, and nobody is asked.

        Raises:
            InvalidArgument: See `check_samples`.
        """
        check_samples(samples)
        if self._begun is not None and self._weight is None:
            self._begun.wait()  # of a step that was not taken
        if samples is None:
            self._samples, self._weight, self._begun = None, 1 / self._comm.size, CompletedRequest()
            return
        self._samples, self._weight = samples, None
        self._total[0] = samples
        self._begun = self._comm.iallreduce(self._total, out=self._total)

    def weight(self) -> float:
        """This rank's weight in the step that was begun.

        Raises:
            InvalidArgument: `begin` was not called, or no rank has samples.
        """
        if self._weight is None:
            if self._begun is None:
                raise InvalidArgument("a weight before the number of samples is known", "begin(samples) first")
            self._begun.wait()
            if self._total[0] == 0:
                raise InvalidArgument("a step in which no rank has samples", "at least one sample")
            self._weight = (self._samples or 0) / int(self._total[0])
        return self._weight

    def settle(self, samples: int | None) -> float:
        """This rank's weight in the step that ends.

        Args:
            samples: How many it had; ``None`` for as many as `begin` was told, or, where it was not called, as many as
                everyone.

        Raises:
            InvalidArgument: Another number than was begun with, or no rank had any.
        """
        if self._begun is None:
            if samples is None:
                return 1 / self._comm.size
            self.begin(samples)
        elif samples is not None and samples != self._samples:
            raise InvalidArgument(f"{samples} samples", f"{self._samples}, as begin(…) was told")
        weight = self.weight()
        self._begun = self._weight = None
        return weight


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

    _agreement: ParameterAgreement = field(init=False, repr=False, compare=False)
    _met: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.inner, Optimizer) or isinstance(self.inner, DistributedOptimizer):
            raise InvalidArgument(f"{type(self).__name__} around {self.inner!r}", "an optimizer of one rank")
        if not isinstance(self.comm, Communicator):
            raise InvalidArgument(f"{type(self).__name__} over {self.comm!r}", "a communicator: db.communicators[…]()")

        object.__setattr__(self, "_agreement", ParameterAgreement(self.comm, lockstep=self.lockstep))

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
            by_name = ParameterAgreement(self.comm, lockstep=True)
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
        after_update: Callable[[dict[str, A], S], None] | None = None,
    ) -> tuple[dict[str, A], S]:
        """Serve the other ranks until all have finished: what rank 0 does where the scheme is ``dedicated``.

        Args:
            parameters: Before the first step.
            xp: The functions of these arrays.
            state: To go on from; ``init`` by default.
            after_update: Called with the parameters and the state after each update, so that they can be kept.

        Returns:
            The last parameters and state.
        """
        del parameters, xp, state, after_update
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

"""What all ranks must hold alike: names, shapes, element types and the order of the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, TypeAlias

import numpy as np

from deep_bench.arrays import ArrayFunctions
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.errors import InvalidArgument

Form: TypeAlias = "tuple[tuple[int, ...], np.dtype]"
"""A shape and an element type."""

_SAID = "the number of samples on every rank, or on none"


class Agreement:
    """The parameters of a scheme as they were at first, with which later ones, gradients and other ranks are compared.

    Messages hold parameters one after the other, so that all ranks need the same order, whatever that of a dict.

    Args:
        comm: The ranks.
        lockstep: Whether these can compare what they hold, once. Otherwise messages have to be in the order of names.

    Example:
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import LocalCommunicator
        >>> held = Agreement(LocalCommunicator(), lockstep=True)
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
        first, theirs = (self._told(mine, rank).split("\n") for rank in (0, peer))
        for number in range(max(len(first), len(theirs))):
            peer_line, root_line = (lines[number] if number < len(lines) else "none" for lines in (theirs, first))
            if peer_line != root_line:
                return f"parameter {number} is {peer_line} on rank {peer}, and {root_line} on rank 0"
        raise AssertionError(f"ranks 0 and {peer} differ, and hold the same")

    def _told(self, mine: str, rank: int) -> str:
        """A rank's text, on all ranks."""
        text = np.frombuffer(mine.encode(), np.uint8)
        size = int(self._comm.broadcast(np.array([text.size], np.int64), rank)[0])
        sent = text.copy() if self._comm.rank == rank else np.empty(size, np.uint8)
        return bytes(self._comm.broadcast(sent, rank)).decode()


def _who_says(say: np.ndarray) -> str:
    with_, without = (", ".join(map(str, np.flatnonzero(say == flag))) for flag in (1, 0))
    return f"a number of samples on rank {with_}, and none (samples=None) on rank {without}"

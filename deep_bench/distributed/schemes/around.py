"""What schemes have in common that keep the inner rule's state beside something of their own, or draw random numbers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from deep_bench.arrays import ArrayFunctions, Tree, mapped
from deep_bench.distributed.flat import Buffers, Pool
from deep_bench.distributed.optimizer import DistributedOptimizer, Shares
from deep_bench.errors import InvalidArgument
from deep_bench.training.optimizer import Allowed, Arrays, Evaluate, Optimizer

SEED = Allowed("a whole number of at least 0", lambda seed: isinstance(seed, int) and 0 <= seed < 2**64)


def drawn(seed: int, step: int, rank: int) -> np.random.Generator:
    """What draws for one rank in one step.

    Args:
        seed: Of the run.
        step: How many steps were done before.
        rank: Whose.

    Example:
        >>> bool(drawn(0, 1, 2).random() == drawn(0, 1, 2).random())
        True

    Source:
        Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3*, SC 2011 (Philox). The key is seed and
        rank, and the counter's highest word the step, so that no two streams meet.
    """
    key, counter = np.array([seed, rank], np.uint64), np.array([0, 0, 0, step], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


A = TypeVar("A")

WIDE = np.dtype(np.float32)
"""Contributions of narrower types are compressed and added in this one."""


@dataclass(frozen=True)
class WrappingScheme(DistributedOptimizer[A, dict[str, Any]]):
    """A scheme whose state has the number of steps, the inner rule's state as ``inner``, and what it remembers besides."""

    def init(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> dict[str, Any]:
        """See `Optimizer.init`."""
        self._agreement.learn(parameters, xp)
        inner = self.inner.init(parameters, xp)
        return {"steps": xp.array(0, np.int64), "inner": inner, **self._remembered(parameters, xp)}

    def _remembered(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> dict[str, Any]:
        """The other parts of the state before the first step."""
        del parameters, xp
        return {}

    def prepare(self, parameters: Arrays[A], state: Tree) -> dict[str, A]:
        """See `Optimizer.prepare`."""
        return self.inner.prepare(parameters, state["inner"])

    def restored(self, state: Tree, parameters: Arrays[A]) -> dict[str, Any]:
        """See `Optimizer.restored`."""
        return {**state, "inner": self.inner.restored(state["inner"], parameters)}

    def regrouped(self, states: Sequence[Tree]) -> dict[str, Any]:
        """The mean of what ranks had, and of whole numbers the largest: parameters begin at their mean as well."""
        first, *peers = states
        return mapped(_middle, first, *peers)


@dataclass(frozen=True)
class CompressingScheme(WrappingScheme[A]):
    """A scheme that sums contributions in a shorter form: gradients, weighted by each rank's samples."""

    _shares: Shares = field(init=False, repr=False, compare=False)
    _pool: Pool[A] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_search(self)
        object.__setattr__(self, "_shares", Shares(self.comm))
        object.__setattr__(self, "_pool", Pool(None, WIDE))

    def begin(self, samples: int | None) -> None:
        """See `DistributedOptimizer.begin`."""
        super().begin(samples)
        self._shares.begin(samples)

    @abstractmethod
    def _sum(self, contribution: Buffers, state: Tree, xp: ArrayFunctions[A]) -> dict[str, Any]:
        """Replace this rank's contribution by what all ranks have of their sum; returns what is new of the state."""

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
        """See `DistributedOptimizer.update`."""
        del evaluate
        gradients, parameters = self.checked(gradients, parameters, samples, xp)
        buffers = self._pool.packed(gradients, xp, self._shares.settle(samples))
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is seen in the parameters
            new_parts = self._sum(buffers, state, xp)
        new, inner = self.stepped(buffers.native(xp), state["inner"], parameters, xp)
        return new, {**state, "steps": one_more(state, xp), "inner": inner, **new_parts}

    def regrouped(self, states: Sequence[Tree]) -> dict[str, Any]:
        """What all have in common, and an even part of what all of them together had kept back."""
        state = super().regrouped(states)
        if "residual" in state:
            factor = len(states) / self.comm.size
            state["residual"] = {name: np.asarray(x * x.dtype.type(factor)) for name, x in state["residual"].items()}
        return state


def _middle(first: np.ndarray, *peers: np.ndarray) -> np.ndarray:
    if all(np.array_equal(first, peer) for peer in peers):
        return first
    rows = np.stack([first, *peers])
    return np.asarray(rows.max(axis=0) if rows.dtype.kind in "biu" else rows.mean(axis=0, dtype=rows.dtype))


def number(x: A, xp: ArrayFunctions[A]) -> int:
    """A whole number of a state, to decide by."""
    return int(xp.host(x))


def one_more(state: Tree, xp: ArrayFunctions[A]) -> A:
    """The number of steps after this one."""
    return xp.array(number(state["steps"], xp) + 1, np.int64)


def handed(buffers: Buffers, held: Mapping[str, A], rule: Optimizer[A, Any], xp: ArrayFunctions[A]) -> dict[str, A]:
    """The contents of buffers as parameters: the ones that are held, changed, where the rule works in place."""
    if not rule.in_place:
        arrays = buffers.native(xp)
        return {name: arrays[name] for name in held}
    buffers.write(held, xp)
    return dict(held)


def zeros(parameters: Mapping[str, A], xp: ArrayFunctions[A]) -> dict[str, A]:
    """An array of zeros like each parameter, in at least the type that contributions have."""
    return {name: xp.array(np.zeros(xp.shape(w), max(xp.dtype(w), WIDE, key=_width))) for name, w in parameters.items()}


def _width(dtype: np.dtype) -> int:
    return dtype.itemsize


def in_order(arrays: Mapping[str, A], buffers: Buffers) -> dict[str, A]:
    """Arrays in the order of some buffers: a state that was read from a file may have another."""
    return {name: arrays[name] for name in buffers.layout.names}


def by_name(arrays: Mapping[str, A]) -> dict[str, A]:
    """Arrays in the order of their names: that of all messages where ranks cannot compare theirs."""
    return {name: arrays[name] for name in sorted(arrays)}


def refuse_search(scheme: DistributedOptimizer[Any, Any]) -> None:
    """Whether the inner rule does without a look around: only this rank's loss could be evaluated.

    Raises:
        InvalidArgument: It searches along a line.
    """
    for rule in rules(scheme.inner):
        settings = getattr(rule, "settings", None) or {}
        looks = getattr(rule, "line_search", False) or settings.get("line_search_fn") is not None
        if looks or (getattr(rule, "kind", None) == "LBFGS" and settings.get("max_iter", 20) != 1):
            raise InvalidArgument(
                f"{type(scheme).__name__} around {rule!r}, which evaluates the loss at several places",
                "a rule that needs one gradient a step: other ranks do not see this one's loss",
            )


def rules(rule: Optimizer[Any, Any] | None) -> Iterator[Optimizer[Any, Any]]:
    """A rule and those within it, the innermost last."""
    while rule is not None:
        yield rule
        rule = getattr(rule, "inner", None)

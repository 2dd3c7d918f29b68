"""Gradients of parameters, added up over micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic

import numpy as np

from deep_bench.distributed.pipeline.part import Part
from deep_bench.framework import A


class Sums(Generic[A]):
    """The sums so far, which are told as soon as they are final.

    Args:
        part: Whose parameters.
        names: Which.
        on_ready: See `Executor.gradients`.
    """

    def __init__(self, part: Part[A], names: Sequence[str], on_ready: Callable[[str, A], None] | None) -> None:
        self._part, self.names, self._on_ready = part, tuple(names), on_ready
        self._native: dict[str, A] = {}
        self._host: dict[str, np.ndarray] = {}
        self._final: dict[str, A] = {}

    def ready(self, *, last: bool) -> Callable[[str, A], None] | None:
        """What an executor is to call with the gradients of a micro-batch, after the last of which they are final."""
        return self.finish if last and self._on_ready is not None else None

    def add(self, name: str, gradient: A) -> None:
        """Add that of a micro-batch."""
        if self._part.arithmetic:
            xp = self._part.adapter.xp
            with xp.untracked():
                before: Any = self._native.get(name)
                self._native[name] = gradient if before is None else xp.array(before + gradient)
        else:
            addend = self._part.host(gradient)
            self._host[name] = self._host[name] + addend if name in self._host else addend

    def finish(self, name: str, gradient: A) -> None:
        """Add that of the last micro-batch, unless that was done already."""
        if name in self._final or name not in self.names:
            return
        self.add(name, gradient)
        native = self._part.arithmetic
        self._final[name] = self._native[name] if native else self._part.adapter.from_numpy(self._host[name])
        if self._on_ready is not None:
            self._on_ready(name, self._final[name])

    def found(self) -> dict[str, A]:
        """All of them, in the order in which they were asked for."""
        return {name: self._final[name] for name in self.names}

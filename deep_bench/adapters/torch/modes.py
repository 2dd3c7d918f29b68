"""Using a module of somebody else's, and leaving it as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


class Evaluating:
    """A context in which a module and all parts of it are in evaluation mode; behind it, each has its own mode again.

    It is entered in every call that is timed, and so is cheap: where the module is in evaluation mode already, a look at
    each part. A part that does more than to note its mode, by a method ``train`` of its own, has that called.

    Args:
        module: The module; its parts are those of now.

    Example:
        >>> module = nn.Sequential(nn.Dropout(), nn.Linear(2, 2).eval())
        >>> with Evaluating(module):
        ...     [part.training for part in module.modules()]
        [False, False, False]
        >>> [part.training for part in module.modules()]
        [True, True, False]
    """

    __slots__ = ("_changed", "_module", "_parts", "_plain")

    def __init__(self, module: nn.Module) -> None:
        self._module, self._parts = module, tuple(module.modules())
        self._plain = all(_only_notes(type(part)) for part in self._parts)
        self._changed: list[nn.Module] = []

    def __enter__(self) -> None:
        self._changed = [part for part in self._parts if part.training]
        if self._plain:
            for part in self._changed:
                part.__dict__["training"] = False
        elif self._changed:
            self._module.eval()

    def __exit__(self, *_: object) -> None:
        if self._plain:
            for part in self._changed:
                part.__dict__["training"] = True
        elif self._changed:
            for part in self._parts:  # a part's own parts come after it, and have the last word
                part.train(part in self._changed)


def _only_notes(kind: type[nn.Module]) -> bool:
    """Whether modules of a class keep their mode in an attribute, and do nothing else when it changes."""
    return (
        kind.train is nn.Module.train
        and kind.eval is nn.Module.eval
        and kind.__setattr__ is nn.Module.__setattr__
        and not hasattr(kind, "training")
    )


@contextmanager
def without_trace(module: nn.Module, target: torch.device) -> Iterator[None]:
    """A context for a call that is only tried: buffers, such as running statistics, and random numbers are as before."""
    held = [
        (part._buffers, name, buffer, buffer.clone())
        for part in module.modules()
        for name, buffer in part._buffers.items()
        if buffer is not None
    ]
    with torch.random.fork_rng([target] if target.type == "cuda" else []), torch.no_grad():
        try:
            yield
        finally:
            for buffers, name, buffer, contents in held:
                buffers[name] = _restored(buffer, contents)


def _restored(buffer: torch.Tensor, contents: torch.Tensor) -> Any:
    return buffer.copy_(contents) if not torch.equal(buffer, contents) else buffer

"""The systems of ``optimizer_cost.py``: one step of an optimizer on torch tensors, in several hands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from _side_by_side import TimedCall

import deep_bench as db

SHAPES = {
    "small": [(64, 64), (64,)] * 10,
    "resnet18": [
        (64, 3, 7, 7),
        *[(128, 128, 3, 3), (128,), (128,)] * 6,
        *[(256, 256, 3, 3), (256,), (256,)] * 6,
        (1000, 256),
    ],
}
"""Shapes of the parameters: many small ones, where calls cost, and a few million elements, where memory does."""

NATIVE = {"adam": "Adam", "adamw": "AdamW", "momentum": "SGD", "sgd": "SGD"}
SETTINGS: dict[str, dict[str, Any]] = {"momentum": {"momentum": 0.9}}


def bare(optimizer: str, shapes: str) -> TimedCall:
    """``torch.optim`` with ``foreach``, as a loop of the user's calls it."""
    import torch

    def make() -> Callable[[], Any]:
        parameters, gradients = _tensors(shapes)
        made = getattr(torch.optim, NATIVE[optimizer])(
            parameters.values(), lr=1e-3, foreach=True, **SETTINGS.get(optimizer, {})
        )

        def step() -> None:
            for name, w in parameters.items():
                w.grad = gradients[name]
            made.step()
            made.zero_grad()

        return step

    return TimedCall(make)


def wrapped(optimizer: str, shapes: str) -> TimedCall:
    """The same behind deep_bench's interface."""
    native = NATIVE[optimizer].lower()
    return TimedCall(
        lambda: _stepping(db.optimizers[f"torch.{native}"](lr=1e-3, foreach=True, **SETTINGS.get(optimizer, {})), shapes)
    )


def own(optimizer: str, shapes: str) -> TimedCall:
    """The reference on tensors."""
    return TimedCall(lambda: _stepping(db.optimizers[optimizer](lr=1e-3), shapes))


def _stepping(rule: Any, shapes: str) -> Callable[[], Any]:
    parameters, gradients = _tensors(shapes)
    xp = db.frameworks["torch"](threads=1).xp
    held = [parameters, rule.init(parameters, xp)]

    def step() -> None:
        held[:] = rule.update(gradients, held[1], held[0], xp)

    return step


def _tensors(shapes: str) -> tuple[dict[str, Any], dict[str, Any]]:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    return tuple({str(i): torch.randn(shape) for i, shape in enumerate(SHAPES[shapes])} for _ in range(2))  # type: ignore[return-value]

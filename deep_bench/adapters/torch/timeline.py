"""What a timeline needs of PyTorch: waiting for its device, its memory, and a callback for Lightning."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from deep_bench.errors import FrameworkMissing, Unsupported
from deep_bench.training.timeline.stamps import DrivenPhase

if TYPE_CHECKING:
    from deep_bench.training.timeline.live import Timeline


class TorchDevice:
    """The accelerator that PyTorch uses in this process, if there is one."""

    @staticmethod
    def synchronizer() -> Callable[[], None] | None:
        """What waits until the current accelerator has done all it was given; None on a CPU, whose calls end when done."""
        return torch.accelerator.synchronize if torch.accelerator.is_available() else None

    @staticmethod
    def memory() -> int:
        """The bytes of all tensors on the current CUDA device.

        Raises:
            Unsupported: PyTorch has no CUDA device here.
        """
        if not torch.cuda.is_available():
            raise Unsupported(
                "device_memory='torch', and PyTorch has no CUDA device here",
                advice="leave it out, or give a function that returns the bytes in use",
            )
        return torch.cuda.memory_allocated()

    @staticmethod
    def asynchronous() -> str | None:
        """The accelerator whose calls return before the work is done; None on a CPU, or where CUDA was not used yet."""
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        unused = accelerator is not None and accelerator.type == "cuda" and not torch.cuda.is_initialized()
        return None if accelerator is None or unused else str(accelerator)


def summary_writer(folder: str) -> Any:
    """PyTorch's writer of TensorBoard files, which needs the package ``tensorboard``."""
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(folder)


class LightningHooks:
    """Lightning's hooks as steps with the regions ``between batches``, ``forward``, ``backward`` and ``update``.

    ``forward`` lasts from the batch's begin to the backward pass (gradients are set to zero in it), ``update`` from there to
    the batch's end. With several backward passes in a step, their regions are entered again.
    """

    def __init__(self, timeline: Timeline, phase: str) -> None:
        self._training = DrivenPhase(timeline, phase)
        self._validation = DrivenPhase(timeline, "validation")

    def on_train_epoch_start(self, *_: Any) -> None:
        self._training.begin_epoch()

    def on_train_batch_start(self, _trainer: Any, _module: Any, batch: Any, _index: int) -> None:
        self._training.begin_batch("forward", batch)

    def on_before_backward(self, *_: Any) -> None:
        self._training.part("backward")

    def on_after_backward(self, *_: Any) -> None:
        self._training.part("update")

    def on_train_batch_end(self, *_: Any) -> None:
        self._training.end_batch()

    def on_train_epoch_end(self, *_: Any) -> None:
        self._training.end_epoch()

    def on_validation_epoch_start(self, trainer: Any, *_: Any) -> None:
        if not trainer.sanity_checking:
            self._training.pause()
            self._validation.begin_epoch()

    def on_validation_batch_start(self, trainer: Any, _module: Any, batch: Any, *_: Any) -> None:
        if not trainer.sanity_checking:
            self._validation.begin_batch("forward", batch)

    def on_validation_batch_end(self, trainer: Any, *_: Any) -> None:
        if not trainer.sanity_checking:
            self._validation.end_batch()

    def on_validation_epoch_end(self, *_: Any) -> None:
        self._validation.end_epoch()

    def on_exception(self, *_: Any) -> None:
        self._training.abandon()
        self._validation.abandon()


def lightning_callback(timeline: Timeline, phase: str) -> Any:
    """A callback for ``lightning.pytorch`` or ``pytorch_lightning``, whichever is loaded, else whichever is installed."""
    base = _lightning().Callback
    return type("TimelineCallback", (LightningHooks, base), {})(timeline, phase)


def _lightning() -> ModuleType:
    names = ("lightning.pytorch", "pytorch_lightning")
    for name in sorted(names, key=lambda n: n not in sys.modules):
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
    raise FrameworkMissing(
        "the callback for Lightning needs Lightning, which is not installed here", advice="pip install lightning"
    )

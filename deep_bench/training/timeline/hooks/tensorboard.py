"""TensorBoard, through ``tensorboardX``, or through PyTorch where that is not installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from deep_bench.errors import FrameworkMissing, InvalidArgument
from deep_bench.registry import Registry
from deep_bench.training.timeline.hooks import Scalars, Target

_writers = Registry(
    "writer of TensorBoard files",
    "deep_bench.tensorboard_writers",
    builtin={
        "tensorboardX": "tensorboardX:SummaryWriter",
        "torch": "deep_bench.adapters.torch.timeline:summary_writer",
    },
    requires={"tensorboardX": ("tensorboardX",), "torch": ("torch", "tensorboard")},
)


def log(target: Target, scalars: Scalars) -> None:
    """Write scalars.

    Args:
        target: A folder, or a writer with ``add_scalar``, which stays open.
        scalars: What to write.
    """
    if hasattr(target, "add_scalar"):
        _add(target, scalars)
        return
    if target is None:
        raise InvalidArgument("no target for TensorBoard", "a folder, or a SummaryWriter")
    writer = _writer()(str(target))
    try:
        _add(writer, scalars)
    finally:
        writer.close()


def _writer() -> Any:
    for name in _writers:
        if not _writers.missing(name):
            return _writers[name]
    with_torch = " (or tensorboard, since PyTorch is installed)" if find_spec("torch") else ""
    raise FrameworkMissing("TensorBoard's files need a writer", advice=f"pip install tensorboardX{with_torch}")


def _add(writer: Any, scalars: Scalars) -> None:
    for step, values in scalars:
        for name, value in values.items():
            writer.add_scalar(name, value, step)

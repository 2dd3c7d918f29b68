"""Emptying the caches of whatever device an operator runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.framework import Adapter
from deep_bench.graph import OPSET, Network
from deep_bench.measure.caches import CacheFlush
from deep_bench.operators.kernel import KernelAdapter

_DEVICE_BYTES = 256 * 2**20
"""More than the caches of any accelerator hold."""


def flush_of(adapter: Adapter[Any]) -> Callable[[], None]:
    """What empties the caches: of this machine's processor; of another device, by letting it read and write a large array.

    Args:
        adapter: A framework's, or an operator's.
    """
    device = adapter.operator.device if isinstance(adapter, KernelAdapter) else adapter
    if not isinstance(device, Adapter) or device.describe().get("device", "cpu") == "cpu":
        return CacheFlush()
    return device_flush(device, _DEVICE_BYTES)


def device_flush(device: Adapter[Any], nbytes: int) -> Callable[[], None]:
    """A call that lets a framework's device read and write arrays of so many bytes, and waits for it."""
    network = _increment(nbytes // 4)
    inputs = {"x": device.from_numpy(np.zeros(nbytes // 4, np.float32))}
    bound = device.prepare(network).bind(inputs)

    def flush() -> None:
        bound()
        device.synchronize()

    return flush


def _increment(size: int) -> Network:
    """One operator that reads and writes arrays of a size."""
    x, y = (ir.Value(name=n, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([size])) for n in "xy")
    node = ir.Node("", "Add", [x, x], outputs=[y], name="flush")
    graph = ir.Graph([x], [y], nodes=[node], opset_imports={"": OPSET}, name="flush")
    return Network(ir.Model(graph, ir_version=10), name="flush")

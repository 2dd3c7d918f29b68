"""The CUDA kernels under each node of a network, by torch's own profiler. It needs a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from deep_bench.adapters.lowering import Step
from deep_bench.adapters.torch.module import PlanModule
from deep_bench.adapters.torch.stepping import wrapped

_PREFIX = "deep_bench node "


def kernels_by_node(module: PlanModule, call: Callable[[], Any]) -> Mapping[str, Mapping[str, float]]:
    """Name of a node to the kernels that it launched on the way forward, with their nanoseconds in one call.

    Args:
        module: The network.
        call: Runs it.
    """
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler, wrapped(module, _labelled):
        call()
        torch.cuda.synchronize()
    by_node: dict[str, dict[str, float]] = {}
    for event in profiler.events() or []:
        if event.name.startswith(_PREFIX) and event.device_type == torch.autograd.DeviceType.CPU:
            kernels = by_node.setdefault(event.name.removeprefix(_PREFIX), {})
            for name, microseconds in _kernels(event):
                kernels[name] = kernels.get(name, 0.0) + microseconds * 1e3
    return by_node


def _labelled(step: Step, function: Callable[..., Any]) -> Callable[..., Any]:
    """The step inside a range of the profiler that is named after its node."""
    label = _PREFIX + step.site.origin

    def run(*inputs: Any) -> Any:
        with record_function(label):
            return function(*inputs)

    return run


def _kernels(event: Any) -> Iterator[tuple[str, float]]:
    for kernel in event.kernels:
        yield kernel.name, kernel.duration
    for child in event.cpu_children:
        yield from _kernels(child)

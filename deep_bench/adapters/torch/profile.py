"""Where torch's time goes: the generated code with each step between two stamps, and autograd's nodes likewise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import torch

from deep_bench.adapters.lowering import Step
from deep_bench.adapters.torch.kernels import kernels_by_node
from deep_bench.adapters.torch.module import PlanModule
from deep_bench.adapters.torch.stepping import wrapped
from deep_bench.measure.observed import Stopwatch, in_turn
from deep_bench.node_profile import Direction, NodeProfile, NodeTime

if TYPE_CHECKING:
    from deep_bench.adapters.torch.executor import TorchExecutor

Key = tuple[str, Direction, str]
"""A node of the network, the way, and what is run for it."""

_ACCUMULATION: Key = ("", "backward", "AccumulateGrad")
_ABSENT = "known beforehand, unused, or another name of a value"


def profile(
    executor: TorchExecutor,
    names: Sequence[str],
    plain: Callable[[], Any],
    repeat: int,
    target: torch.device,
    *,
    compiled: bool,
    backward: bool,
) -> NodeProfile:
    """See `Executor.profile`.

    Args:
        executor: The network.
        names: The nodes of the network's outermost graph.
        plain: The call, of ``forward`` or of ``gradients``; observed it is the very same.
        repeat: Calls of each kind.
        target: The device.
        compiled: Whether a compiler made one piece of it all.
        backward: Whether the call differentiates.
    """
    synchronize = executor.device.synchronize
    if compiled:
        ns = in_turn({"plain": plain}, synchronize, repeat)["plain"]
        whole = NodeTime(tuple(names), ns, "torch.compile", whole=True)
        return NodeProfile("the compiled whole, which is not looked into", (whole,), ns, ns)
    watch: Stopwatch[Key] = Stopwatch()
    stamps = _Events(watch, target) if target.type == "cuda" else _Clock(watch)

    def observed() -> None:
        watch.begin()
        with stamped(executor.module, stamps, backward):
            plain()
        synchronize()
        stamps.settle()

    timings = in_turn({"plain": plain, "observed": observed}, synchronize, repeat)
    times = tuple(
        NodeTime((name,) if name else (), ns, operator, direction)
        for (name, direction, operator), ns in watch.samples(repeat).items()
    )
    covered = {name for time in times for name in time.nodes}
    return NodeProfile(
        f"the generated code, each step between two {stamps.what}",
        times,
        timings["observed"],
        timings["plain"],
        absent={name: _ABSENT for name in names if name not in covered},
        allocated_bytes=_allocated_bytes(plain, target),
        kernels=_kernels(executor, plain, target),
    )


class _Clock:
    """Stamps of the host's clock, for a CPU, which is done when a step returns."""

    what = "stamps of the host's clock"

    def __init__(self, watch: Stopwatch[Key]) -> None:
        self._watch = watch

    def mark(self) -> int:
        return perf_counter_ns()

    def add(self, key: Key, begin: int, end: int) -> None:
        self._watch.add(key, end - begin)

    def settle(self) -> None:
        """Nothing is left to read."""


class _Events:
    """CUDA events, read when the call has ended: the device's own time, in which steps follow the launches."""

    what = "CUDA events; where the device waits for a launch, the wait counts with the step"

    def __init__(self, watch: Stopwatch[Key], device: torch.device) -> None:
        self._watch, self._stream = watch, torch.cuda.current_stream(device)
        self._pending: list[tuple[Key, Any, Any]] = []

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def add(self, key: Key, begin: Any, end: Any) -> None:
        self._pending.append((key, begin, end))

    def settle(self) -> None:
        for key, begin, end in self._pending:
            self._watch.add(key, round(begin.elapsed_time(end) * 1e6))
        self._pending.clear()


@contextmanager
def stamped(module: PlanModule, stamps: _Clock | _Events, backward: bool) -> Iterator[None]:
    """Meanwhile the outermost graph's steps are timed, and with ``backward`` what autograd does for each of them."""
    hooks = _Backward(stamps) if backward else None
    try:
        with wrapped(module, lambda step, function: _timed(step, function, stamps, hooks)):
            yield
    finally:
        if hooks is not None:
            hooks.remove()


def _timed(step: Step, function: Callable[..., Any], stamps: Any, hooks: _Backward | None) -> Callable[..., Any]:
    name, operator = step.site.origin, step.site.operator

    def timed(*inputs: Any) -> Any:
        begin = stamps.mark()
        result = function(*inputs)
        stamps.add((name, "forward", operator), begin, stamps.mark())
        if hooks is not None:
            hooks.follow((name, "backward", operator), result)
        return result

    return timed


class _Backward:
    """Hooks on autograd's nodes, each of which belongs to the step that made it."""

    def __init__(self, stamps: Any) -> None:
        self._stamps = stamps
        self._known: dict[Any, None] = {}  # held, so that an identity is not used twice
        self._handles: list[Any] = []
        self._begun: dict[Any, Any] = {}

    def follow(self, key: Key, result: Any) -> None:
        """Hook what a step added to autograd's graph."""
        pending = [r.grad_fn for r in _tensors(result) if r.grad_fn is not None]
        while pending:
            node = pending.pop()
            if node in self._known:
                continue
            self._known[node] = None
            leaf = node.name().endswith("AccumulateGrad")
            self._hook(node, _ACCUMULATION if leaf else key)
            pending += [following for following, _ in node.next_functions if following is not None]

    def _hook(self, node: Any, key: Key) -> None:
        def before(*_: Any) -> None:
            self._begun[node] = self._stamps.mark()

        def after(*_: Any) -> None:
            if node in self._begun:
                self._stamps.add(key, self._begun.pop(node), self._stamps.mark())

        self._handles += [node.register_prehook(before), node.register_hook(after)]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._known.clear()


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, torch.Tensor):
        yield value


def _allocated_bytes(plain: Callable[[], Any], target: torch.device) -> int | None:
    """The most that torch's CUDA allocator had handed out in a call; the CPU's keeps no account."""
    if target.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats(target)
    plain()
    torch.cuda.synchronize(target)
    return torch.cuda.max_memory_allocated(target)


def _kernels(executor: TorchExecutor, plain: Callable[[], Any], target: torch.device) -> Mapping[str, Mapping[str, float]]:
    return kernels_by_node(executor.module, plain) if target.type == "cuda" else {}

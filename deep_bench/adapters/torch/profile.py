"""Where torch's time goes: its generated code and autograd's nodes between stamps; and what a timeline of a loop needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from time import perf_counter_ns
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch.profiler import ProfilerActivity, record_function
from torch.profiler import profile as profiler_profile

from deep_bench.adapters.lowering import Step
from deep_bench.adapters.torch.module import PlanModule, wrapped_steps
from deep_bench.adapters.verbose import overheard
from deep_bench.errors import FrameworkMissing, Unsupported
from deep_bench.events import Direction, NodeProfile, NodeTime, Stopwatch, in_turn
from deep_bench.training.timeline.stamps import DrivenPhase

if TYPE_CHECKING:
    from deep_bench.adapters.torch.executor import TorchExecutor
    from deep_bench.training.timeline.live import Timeline

_PREFIX = "deep_bench node "


def kernels_by_node(module: PlanModule, call: Callable[[], Any]) -> Mapping[str, Mapping[str, float]]:
    """Name of a node to the kernels that it launched on the way forward, with their nanoseconds in one call.

    Args:
        module: The network.
        call: Runs it.
    """
    with (
        profiler_profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler,
        wrapped_steps(module, _with_label),
    ):
        call()
        torch.cuda.synchronize()
    by_node: dict[str, dict[str, float]] = {}
    for event in profiler.events() or []:
        if event.name.startswith(_PREFIX) and event.device_type == torch.autograd.DeviceType.CPU:
            kernels = by_node.setdefault(event.name.removeprefix(_PREFIX), {})
            for name, microseconds in _kernels_of_event(event):
                kernels[name] = kernels.get(name, 0.0) + microseconds * 1e3
    return by_node


def _with_label(step: Step, function: Callable[..., Any]) -> Callable[..., Any]:
    """The step inside a range of the profiler that is named after its node."""
    label = _PREFIX + step.site.origin

    def run(*inputs: Any) -> Any:
        with record_function(label):
            return function(*inputs)

    return run


def _kernels_of_event(event: Any) -> Iterator[tuple[str, float]]:
    for kernel in event.kernels:
        yield kernel.name, kernel.duration
    for child in event.cpu_children:
        yield from _kernels_of_event(child)


_NOT_RUN = "it is not run: known beforehand, unused, or another name of a value"
_OWN_KERNEL = "a kernel of torch's own, which does not say its algorithm"


def algorithms_by_node(
    module: PlanModule, call: Callable[[], Any], names: Sequence[str], target: torch.device
) -> Mapping[str, tuple[str, ...] | str]:
    """See `Executor.algorithms`: what oneDNN and oneMKL print, or the names of CUDA kernels.

    Args:
        module: The network.
        call: Runs it.
        names: The nodes of the network's outermost graph.
        target: The device.
    """
    if target.type == "cuda":
        algorithms = {name: tuple(kernels) for name, kernels in kernels_by_node(module, call).items()}
    else:
        algorithms = _overheard(module, call)
    return {name: (algorithms[name] or _OWN_KERNEL) if name in algorithms else _NOT_RUN for name in names}


def _overheard(module: PlanModule, call: Callable[[], Any]) -> dict[str, tuple[str, ...]]:
    algorithms: dict[str, tuple[str, ...]] = {}
    with overheard() as since:

        def listening(step: Step, function: Callable[..., Any]) -> Callable[..., Any]:
            def run(*inputs: Any) -> Any:
                since()
                result = function(*inputs)
                name = step.site.origin
                algorithms[name] = tuple(dict.fromkeys((*algorithms.get(name, ()), *since())))
                return result

            return run

        with wrapped_steps(module, listening):
            call()
    return algorithms


Key = tuple[str, Direction, str]
"""A node of the network, the way, and what is run for it."""


_ACCUMULATION: Key = ("", "backward", "AccumulateGrad")
_NOT_TIMED = "known beforehand, unused, or another name of a value"


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
    stamps = _Events(watch, target) if target.type == "cuda" else _HostClock(watch)

    def observed() -> None:
        watch.begin()
        with stamped_steps(executor.module, stamps, backward):
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
        absent={name: _NOT_TIMED for name in names if name not in covered},
        allocated_bytes=_allocated_bytes(plain, target),
        kernels=kernels_by_node(executor.module, plain) if target.type == "cuda" else {},
    )


class _HostClock:
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
def stamped_steps(module: PlanModule, stamps: _HostClock | _Events, backward: bool) -> Iterator[None]:
    """Meanwhile the outermost graph's steps are timed, and with ``backward`` what autograd does for each of them."""
    hooks = _BackwardHooks(stamps) if backward else None
    try:
        with wrapped_steps(module, lambda step, function: _timed(step, function, stamps, hooks)):
            yield
    finally:
        if hooks is not None:
            hooks.remove()


def _timed(step: Step, function: Callable[..., Any], stamps: Any, hooks: _BackwardHooks | None) -> Callable[..., Any]:
    name, operator = step.site.origin, step.site.operator

    def timed(*inputs: Any) -> Any:
        begin = stamps.mark()
        result = function(*inputs)
        stamps.add((name, "forward", operator), begin, stamps.mark())
        if hooks is not None:
            hooks.follow((name, "backward", operator), result)
        return result

    return timed


class _BackwardHooks:
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

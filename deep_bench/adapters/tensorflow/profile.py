"""Where TensorFlow's time goes: a walk of the steps that a graph was traced from, and what a timeline of a loop needs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from deep_bench.adapters.lowering import Step
from deep_bench.adapters.tensorflow.gradients import GraphGradients
from deep_bench.adapters.tensorflow.graph import GraphRunner
from deep_bench.adapters.verbose import overheard
from deep_bench.errors import Unsupported
from deep_bench.events import Direction, NodeProfile, NodeTime, Stopwatch, in_turn
from deep_bench.training.timeline.stamps import DrivenPhase

if TYPE_CHECKING:
    from deep_bench.training.timeline.live import Timeline

_NOT_RUN = "it is not run: known beforehand, unused, or another name of a value"
_OWN_KERNEL = "a kernel of TensorFlow's own, which does not say its algorithm"


def algorithms_by_node(
    runner: GraphRunner, walk: Callable[[], Any], names: Sequence[str], synchronize: Callable[[], Any]
) -> Mapping[str, tuple[str, ...] | str]:
    """See `Executor.algorithms`: what oneDNN prints in an eager walk of the steps that the graph was traced from.

    A graph does not tell which of its nodes a line belongs to. What it fuses in addition is not seen.

    Args:
        runner: Walks the steps.
        walk: Makes it do so.
        names: The nodes of the network's outermost graph.
        synchronize: Waits for the device.
    """
    run = runner._run
    algorithms: dict[str, tuple[str, ...]] = {}
    with overheard() as since:

        def listening(step: Step, by_name: dict[str, Any]) -> None:
            since()
            run(step, by_name)
            synchronize()
            name = step.site.origin
            algorithms[name] = tuple(dict.fromkeys((*algorithms.get(name, ()), *since())))

        runner.__dict__["_run"] = listening
        try:
            walk()
        finally:
            del runner.__dict__["_run"]
    return {name: (algorithms[name] or _OWN_KERNEL) if name in algorithms else _NOT_RUN for name in names}


Key = tuple[tuple[str, ...], Direction, str]
"""Nodes of the network, the way, and what is run for them."""


_NOT_TIMED = "known beforehand, unused, or another name of a value"


def whole_profile(
    names: Sequence[str], plain: Callable[[], Any], synchronize: Callable[[], Any], repeat: int
) -> NodeProfile:
    """The profile of a network that XLA compiled: one piece.

    Args:
        names: The nodes of the network's outermost graph.
        plain: The call.
        synchronize: Waits for the device.
        repeat: Calls.
    """
    ns = in_turn({"plain": plain}, synchronize, repeat)["plain"]
    piece = NodeTime(tuple(names), ns, "XLA", whole=True)
    return NodeProfile("the compiled whole, which is not looked into", (piece,), ns, ns)


def profile(
    runner: GraphRunner,
    gradients: GraphGradients,
    names: Sequence[str],
    calls: Mapping[str, Callable[[], Any]],
    synchronize: Callable[[], Any],
    repeat: int,
    place: str,
) -> NodeProfile:
    """See `Executor.profile`.

    Args:
        runner: Walks the steps.
        gradients: Differentiates what it walked.
        names: The nodes of the network's outermost graph.
        calls: ``"plain"``, the call that nobody observes, and ``"walk"``, the walk; observed, it is the very same.
        synchronize: Waits for the device.
        repeat: Calls of each kind.
        place: TensorFlow's name of the device.
    """
    watch: Stopwatch[Key] = Stopwatch()

    def observed() -> None:
        watch.begin()
        with _stamped(runner, gradients, watch, synchronize):
            calls["walk"]()

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Converting sparse IndexedSlices")
        timings = in_turn({**calls, "observed": observed}, synchronize, repeat)
    times = tuple(
        NodeTime(nodes, ns, operator, direction, whole=direction == "backward")
        for (nodes, direction, operator), ns in watch.samples(repeat).items()
    )
    covered = {name for time in times if time.direction == "forward" for name in time.nodes}
    return NodeProfile(
        "an eager walk of the steps that the graph was traced from, each between two stamps; the way back as a whole",
        times,
        timings["observed"],
        timings["plain"],
        walk_ns=timings["walk"],
        absent={name: _NOT_TIMED for name in names if name not in covered},
        allocated_bytes=_allocated_bytes(calls["plain"], place),
    )


def _allocated_bytes(plain: Callable[[], Any], place: str) -> int | None:
    """The most that TensorFlow's allocator had handed out in a call, on a GPU; the CPU's keeps no account."""
    if "GPU" not in place:
        return None
    tf.config.experimental.reset_memory_stats(place)
    plain()
    return int(tf.config.experimental.get_memory_info(place)["peak"])


@contextmanager
def _stamped(
    runner: GraphRunner, gradients: GraphGradients, watch: Stopwatch[Key], synchronize: Callable[[], Any]
) -> Iterator[None]:
    """Meanwhile each step of the runner, and the tape's way back, are timed."""
    run, differentiated = runner._run, gradients._differentiated
    walked: dict[str, None] = {}

    def timed_step(step: Step, by_name: dict[str, Any]) -> None:
        walked.setdefault(step.site.origin)

        def settled() -> None:
            run(step, by_name)
            synchronize()

        watch.timed(((step.site.origin,) if step.site.origin else (), "forward", step.site.operator), settled)

    def timed_gradient(*arguments: Any) -> Any:
        nodes = tuple(name for name in walked if name)
        return watch.timed((nodes, "backward", "GradientTape"), differentiated, *arguments)

    runner.__dict__["_run"] = timed_step
    gradients.__dict__["_differentiated"] = timed_gradient
    try:
        yield
    finally:
        del runner.__dict__["_run"], gradients.__dict__["_differentiated"]


class TensorFlowDevice:
    """The devices that TensorFlow uses in this process."""

    @staticmethod
    def synchronizer() -> Callable[[], None]:
        """What waits until all devices have done what they were given."""
        return tf.test.experimental.sync_devices

    @staticmethod
    def memory() -> int:
        """The bytes in use on the first GPU.

        Raises:
            Unsupported: TensorFlow has no GPU here.
        """
        if not tf.config.list_physical_devices("GPU"):
            raise Unsupported(
                "device_memory='tensorflow', and TensorFlow has no GPU here",
                advice="leave it out, or give a function that returns the bytes in use",
            )
        return int(tf.config.experimental.get_memory_info("GPU:0")["current"])

    @staticmethod
    def asynchronous() -> str | None:
        """The devices whose calls return before the work is done; None on a CPU."""
        gpus = [device.name.rpartition("physical_device:")[2] for device in tf.config.list_physical_devices("GPU")]
        return ", ".join(gpus) or None


class KerasCallback(keras.callbacks.Callback):
    """Keras's hooks as steps with the regions ``between batches`` and ``batch``.

    With TensorFlow the function that runs the batch also fetches it, so waiting for the data is in ``batch``; with other
    backends it is in ``between batches``. Where ``steps_per_execution`` is above 1, a step is so many batches.
    """

    def __init__(self, timeline: Timeline, phase: str) -> None:
        super().__init__()
        self._training = DrivenPhase(timeline, phase)
        self._validation = DrivenPhase(timeline, "validation")

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        self._training.begin_epoch()

    def on_train_batch_begin(self, *_: Any, **__: Any) -> None:
        self._training.begin_batch("batch")

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        self._training.end_batch()

    def on_test_begin(self, *_: Any, **__: Any) -> None:
        self._training.pause()
        self._validation.begin_epoch()

    def on_test_batch_begin(self, *_: Any, **__: Any) -> None:
        self._validation.begin_batch("batch")

    def on_test_batch_end(self, *_: Any, **__: Any) -> None:
        self._validation.end_batch()

    def on_test_end(self, *_: Any, **__: Any) -> None:
        self._validation.end_epoch()

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        self._training.end_epoch()


def keras_callback(timeline: Timeline, phase: str) -> KerasCallback:
    """A callback for ``model.fit`` and ``model.evaluate``."""
    return KerasCallback(timeline, phase)

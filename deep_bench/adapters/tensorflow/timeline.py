"""What a timeline needs of TensorFlow and Keras: waiting for the device, its memory, and a callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from deep_bench.errors import Unsupported
from deep_bench.training.timeline.stamps import DrivenPhase

if TYPE_CHECKING:
    from deep_bench.training.timeline.live import Timeline


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

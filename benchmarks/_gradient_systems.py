"""The systems that ``gradient_speed.py`` compares: one forward and backward each, with respect to all weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from _gradient_cases import cases, tensorflow_losses, torch_losses
from _side_by_side import TimedCall

import deep_bench as db


def _ours(framework: str, case: str) -> TimedCall:
    def make() -> Callable[[], Any]:
        adapter = db.frameworks[framework](threads=1)
        found = cases()[case]
        executor = adapter.prepare(found.network, mode="train")
        feeds = {name: adapter.from_numpy(array) for name, array in found.feeds.items()}
        names = list(found.weights)
        return lambda: executor.gradients(feeds, "loss", wrt=names)

    return TimedCall(make)


def onnxruntime(case: str) -> TimedCall:
    """ONNX Runtime, through the derived network."""
    return _ours("onnxruntime", case)


def torch(case: str) -> TimedCall:
    """deep_bench's adapter for PyTorch, by autograd."""
    return _ours("torch", case)


def tensorflow(case: str) -> TimedCall:
    """deep_bench's adapter for TensorFlow, by its own autograd."""
    return _ours("tensorflow", case)


def hand_torch(case: str) -> TimedCall:
    """PyTorch's own functions and ``torch.autograd.grad``."""

    def make() -> Callable[[], Any]:
        import torch

        torch.set_num_threads(1)
        found, loss = cases()[case], torch_losses()[case]
        weights = {name: torch.from_numpy(array).requires_grad_() for name, array in found.weights.items()}
        feeds = {name: torch.from_numpy(array) for name, array in found.feeds.items()}
        held = list(weights.values())

        def call() -> Any:
            result = loss(**feeds, **weights)
            return result, torch.autograd.grad(result, held)

        return call

    return TimedCall(make)


def hand_tensorflow(case: str) -> TimedCall:
    """TensorFlow's own functions and a tape in one traced function."""

    def make() -> Callable[[], Any]:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        found, loss = cases()[case], tensorflow_losses()[case]
        weights = {name: tf.Variable(array) for name, array in found.weights.items()}
        names = list(found.feeds)

        def step(*feeds: Any) -> Any:
            with tf.GradientTape() as tape:
                result = loss(**dict(zip(names, feeds, strict=True)), **weights)
            return result, tape.gradient(result, list(weights.values()))

        signature = [tf.TensorSpec(a.shape, a.dtype) for a in found.feeds.values()]
        concrete = tf.function(step, input_signature=signature).get_concrete_function()
        tensors = [tf.constant(a) for a in found.feeds.values()]
        return lambda: concrete(*tensors)

    return TimedCall(make)

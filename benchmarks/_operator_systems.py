"""The systems that ``operator_speed.py`` compares: each operator by deep_bench, and by a hand-written call.

A hand-written call does the same job on the same arrays: tensors come and go in ONNX's layout, weights are constants, and
one thread computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from _operator_cases import OperatorCase, cases
from _side_by_side import TimedCall

import deep_bench as db


def _bound(framework: str, case: str, **options: Any) -> TimedCall:
    def make() -> Callable[[], Any]:
        adapter = db.frameworks[framework](**options)
        found = cases()[case]
        executor = adapter.prepare(found.network)
        return executor.bind({name: adapter.from_numpy(array) for name, array in found.feeds.items()})

    return TimedCall(make)


def reference(case: str) -> TimedCall:
    """The reference executor of deep_bench."""
    return _bound("reference", case)


def standard(case: str) -> TimedCall:
    """``onnx.reference``."""

    def make() -> Callable[[], Any]:
        from onnx.reference import ReferenceEvaluator

        found = cases()[case]
        evaluator, feeds = ReferenceEvaluator(found.proto), found.feeds
        return lambda: evaluator.run(None, feeds)

    return TimedCall(make)


def ours_torch(case: str) -> TimedCall:
    """deep_bench's adapter for PyTorch."""
    return _bound("torch", case, threads=1)


def ours_tensorflow(case: str) -> TimedCall:
    """deep_bench's adapter for TensorFlow."""
    return _bound("tensorflow", case, threads=1)


def ours_onnxruntime(case: str) -> TimedCall:
    """deep_bench's adapter for ONNX Runtime."""
    return _bound("onnxruntime", case, threads=1)


def hand_onnxruntime(case: str) -> TimedCall:
    """A session with inputs and outputs bound beforehand."""

    def make() -> Callable[[], Any]:
        import onnxruntime as ort

        found = cases()[case]
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = ort.InferenceSession(found.proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for name, array in found.feeds.items():
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
        for name, array in zip(found.output_names, session.run(None, found.feeds), strict=True):
            binding.bind_ortvalue_output(name, ort.OrtValue.ortvalue_from_numpy(array))
        return lambda: session.run_with_iobinding(binding)

    return TimedCall(make)


def hand_torch(case: str) -> TimedCall:
    """PyTorch's own functions."""

    def make() -> Callable[[], Any]:
        import torch

        torch.set_num_threads(1)
        torch.inference_mode().__enter__()  # for good: entering it in each call would be charged to the hand-written call
        found = cases()[case]
        constants = [None if c is None else torch.from_numpy(c) for c in found.constants]
        call = _torch_functions()[case](found, *constants)
        tensors = [torch.from_numpy(a) for a in found.fed]
        return lambda: call(*tensors)

    return TimedCall(make)


def _torch_functions() -> dict[str, Callable[..., Any]]:
    """Name of the case to a function of its constants that gives a function of what is fed."""
    import torch
    from torch.nn import functional

    conv, mean = functional.conv2d, (2, 3)
    return {
        "Conv 3x3": lambda _, w, b: lambda x: conv(x, w, b, padding=1),
        "Conv strided, dilated, grouped": lambda _, w, b: lambda x: conv(x, w, b, 2, 2, 2, 4),
        "MaxPool": lambda _: lambda x: functional.max_pool2d(x, 3, 2, 1),
        "AveragePool": lambda _: lambda x: functional.avg_pool2d(x, 3, 2, 1),
        "ConvTranspose": lambda _, w, b: lambda x: functional.conv_transpose2d(x, w, b, 2, 1),
        "BatchNormalization": lambda _, w, b, m, v: lambda x: functional.batch_norm(x, m, v, w, b),
        "Gemm": lambda _, w, b: lambda x: torch.addmm(b, x, w),
        "MatMul, batched": lambda _: torch.matmul,
        "Softmax": lambda _: lambda x: torch.softmax(x, -1),
        "LayerNormalization": lambda _, w, b: lambda x: functional.layer_norm(x, (256,), w, b),
        "Add, broadcast": lambda _, c: lambda x: x + c,
        "Relu": lambda _: torch.relu,
        "Sigmoid": lambda _: torch.sigmoid,
        "ReduceMean": lambda *_: lambda x: torch.mean(x, mean, keepdim=True),
        "Gather": lambda _: lambda table, indices: functional.embedding(indices, table),
        "Resize": lambda *_: lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
        "Transpose": lambda _: lambda x: x.permute(0, 2, 3, 1),
        "Concat": lambda _: lambda *xs: torch.cat(xs, 1),
        "TopK": lambda *_: lambda x: torch.topk(x, 10),
        "LSTM": _torch_lstm,
    }


def _torch_lstm(_: OperatorCase, w: Any, r: Any, b: Any) -> Callable[..., Any]:
    import torch

    def reordered(gates: torch.Tensor) -> torch.Tensor:
        """ONNX's order of gates, input output forget cell, in PyTorch's."""
        i, o, f, c = gates[0].chunk(4)
        return torch.cat((i, f, c, o))

    module = torch.nn.LSTM(w.shape[2], r.shape[2]).requires_grad_(False)
    first, second = b.chunk(2, 1)
    for parameter, value in zip(module.parameters(), map(reordered, (w, r, first, second)), strict=True):
        parameter.copy_(value)
    return module.forward


def hand_tensorflow(case: str) -> TimedCall:
    """TensorFlow's own functions, traced to a concrete function."""

    def make() -> Callable[[], Any]:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        found = cases()[case]
        function = _tensorflow_functions()[case](found, *found.constants)
        signature = [tf.TensorSpec(a.shape, a.dtype) for a in found.fed]
        concrete = tf.function(function, input_signature=signature).get_concrete_function()
        tensors = [tf.constant(a) for a in found.fed]
        return lambda: concrete(*tensors)

    return TimedCall(make)


def _tensorflow_functions() -> dict[str, Callable[..., Any]]:
    """As `_torch_functions`; plain signatures, since a call through another one takes milliseconds."""
    import tensorflow as tf

    def convolved(w: np.ndarray, b: np.ndarray, pad: int, **settings: Any) -> Callable[..., Any]:
        kernel, pads = tf.constant(w.transpose(2, 3, 1, 0)), [[0, 0], [pad, pad], [pad, pad], [0, 0]]
        return _in_nhwc(lambda x: tf.nn.bias_add(tf.nn.conv2d(x, kernel, padding=pads, **settings), b))

    def transposed(_: OperatorCase, w: np.ndarray, b: np.ndarray) -> Callable[..., Any]:
        kernel = tf.constant(w.transpose(2, 3, 1, 0))
        return _in_nhwc(lambda x: tf.nn.bias_add(tf.nn.conv2d_transpose(x, kernel, (8, 28, 28, 8), 2), b))

    def pooled(kind: str, fill: float) -> Callable[..., Any]:
        edge = [[0, 0], [1, 1], [1, 1], [0, 0]]
        return _in_nhwc(lambda x: tf.nn.pool(tf.pad(x, edge, constant_values=fill), [3, 3], kind, [2, 2], padding="VALID"))

    def normalized(_: OperatorCase, w: Any, b: Any, m: Any, v: Any) -> Callable[..., Any]:
        along = [tf.constant(a.reshape(-1, 1, 1)) for a in (m, v, b, w)]
        return lambda x: tf.nn.batch_normalization(x, *along, 1e-5)

    def layer(_: OperatorCase, w: Any, b: Any) -> Callable[..., Any]:
        def run(x: Any) -> Any:
            mean, variance = tf.nn.moments(x, [-1], keepdims=True)
            return tf.nn.batch_normalization(x, mean, variance, b, w, 1e-5)

        return run

    return {
        "Conv 3x3": lambda _, w, b: convolved(w, b, 1, strides=1),
        "Conv strided, dilated, grouped": lambda _, w, b: convolved(w, b, 2, strides=2, dilations=2),
        "MaxPool": lambda _: pooled("MAX", -np.inf),
        "AveragePool": lambda _: pooled("AVG", 0.0),
        "ConvTranspose": transposed,
        "BatchNormalization": normalized,
        "Gemm": lambda _, w, b: lambda x: tf.nn.bias_add(tf.matmul(x, w), b),
        "MatMul, batched": lambda _: lambda a, b: tf.matmul(a, b),
        "Softmax": lambda _: lambda x: tf.nn.softmax(x),
        "LayerNormalization": layer,
        "Add, broadcast": lambda _, c: lambda x: x + c,
        "Relu": lambda _: lambda x: tf.nn.relu(x),
        "Sigmoid": lambda _: lambda x: tf.sigmoid(x),
        "ReduceMean": lambda *_: lambda x: tf.reduce_mean(x, [2, 3], keepdims=True),
        "Gather": lambda _: lambda table, indices: tf.gather(table, indices),
        "Resize": lambda *_: _in_nhwc(lambda x: tf.image.resize(x, (64, 64))),
        "Transpose": lambda _: lambda x: tf.transpose(x, (0, 2, 3, 1)),
        "Concat": lambda _: lambda a, b, c, d: tf.concat((a, b, c, d), 1),
        "TopK": lambda *_: lambda x: tf.math.top_k(x, 10),
        "LSTM": _keras_lstm,
    }


def _in_nhwc(function: Callable[..., Any]) -> Callable[..., Any]:
    """Into the layout that TensorFlow's kernels want, and back."""
    import tensorflow as tf

    return lambda x: tf.transpose(function(tf.transpose(x, (0, 2, 3, 1))), (0, 3, 1, 2))


def _keras_lstm(_: OperatorCase, w: np.ndarray, r: np.ndarray, b: np.ndarray) -> Callable[..., Any]:
    import tensorflow as tf

    def reordered(gates: np.ndarray) -> np.ndarray:
        """ONNX's order of gates, input output forget cell, in Keras's."""
        i, o, f, c = np.split(gates, 4)
        return np.concatenate((i, f, c, o))

    layer = tf.keras.layers.LSTM(r.shape[2], return_sequences=True, return_state=True)
    layer.build((None, None, w.shape[2]))
    layer.set_weights([reordered(w[0]).T, reordered(r[0]).T, sum(map(reordered, np.split(b[0], 2)))])

    def run(x: Any) -> Any:
        y, h, c = layer(tf.transpose(x, (1, 0, 2)))
        return tf.transpose(y, (1, 0, 2))[:, None], h[None], c[None]

    return run

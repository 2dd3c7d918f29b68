"""The systems that ``bind_cost.py`` compares: each network bound by deep_bench, and by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from _side_by_side import TimedCall

import deep_bench as db

BATCH = 8
RELU_SIZE = 1024


def image(batch: int = BATCH) -> np.ndarray:
    return np.random.default_rng(0).random((batch, 1, 8, 8), dtype=np.float32)


def page() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((1, 3, 160, 160)).astype(np.float32)


def digits() -> db.Network:
    return db.load("digits-cnn").with_sizes({"batch": BATCH})


def relu() -> db.Network:
    """One node, to see what a call costs."""
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"], name="relu")],
        "relu",
        [value("x", onnx.TensorProto.FLOAT, [RELU_SIZE])],
        [value("y", onnx.TensorProto.FLOAT, [RELU_SIZE])],
    )
    return db.Network.from_proto(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    )


def vector() -> np.ndarray:
    return np.random.default_rng(0).standard_normal(RELU_SIZE).astype(np.float32)


def first_stage(file: str) -> db.Network:
    """The stem of PP-OCR's detector: five convolutions and a pool."""
    network = db.load(file)
    sizes = dict(zip(network.open_dimensions, (1, 160, 160), strict=True))
    return network.with_sizes(sizes).with_outputs(["p2o.pd_op.relu.4.0"])


def bound(framework: str, network: db.Network, array: np.ndarray) -> TimedCall:
    """``executor.bind`` of deep_bench."""

    def make() -> Callable[[], Any]:
        adapter = db.frameworks[framework](threads=1)
        executor = adapter.prepare(network)
        (spec,) = executor.inputs
        return executor.bind({spec.name: adapter.from_numpy(array)})

    return TimedCall(make)


# deep_bench


def ours_onnxruntime_digits() -> TimedCall:
    return bound("onnxruntime", digits(), image())


def ours_torch_digits() -> TimedCall:
    return bound("torch", digits(), image())


def ours_tensorflow_digits() -> TimedCall:
    return bound("tensorflow", digits(), image())


def ours_torch_relu() -> TimedCall:
    return bound("torch", relu(), vector())


def ours_torch_stage(file: str) -> TimedCall:
    return bound("torch", first_stage(file), page())


# By hand: ONNX Runtime


def _session() -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(digits().to_proto().SerializeToString(), options, providers=["CPUExecutionProvider"])


def hand_onnxruntime_binding() -> TimedCall:
    def make() -> Callable[[], Any]:
        import onnxruntime as ort

        session = _session()
        binding = session.io_binding()
        binding.bind_ortvalue_input("image", ort.OrtValue.ortvalue_from_numpy(image()))
        binding.bind_ortvalue_output("logits", ort.OrtValue.ortvalue_from_numpy(np.empty((BATCH, 10), np.float32)))
        return lambda: session.run_with_iobinding(binding)

    return TimedCall(make)


def hand_onnxruntime_run() -> TimedCall:
    def make() -> Callable[[], Any]:
        session, array = _session(), image()
        return lambda: session.run(None, {"image": array})

    return TimedCall(make)


# By hand: PyTorch


def hand_torch_digits() -> TimedCall:
    def make() -> Callable[[], Any]:
        import torch
        from torch import nn

        class DigitsCnn(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.stem = nn.Conv2d(1, 16, 3, padding=1, bias=False)
                self.stem_norm = nn.BatchNorm2d(16)
                self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)
                self.depthwise_norm = nn.BatchNorm2d(16)
                self.pointwise = nn.Conv2d(16, 32, 1)
                self.pool = nn.MaxPool2d(2)
                self.first = nn.Conv2d(32, 32, 3, padding=1, bias=False)
                self.first_norm = nn.BatchNorm2d(32)
                self.second = nn.Conv2d(32, 32, 3, padding=1, bias=False)
                self.second_norm = nn.BatchNorm2d(32)
                self.strided = nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False)
                self.strided_norm = nn.BatchNorm2d(64)
                self.head = nn.Linear(64, 10)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                x = torch.relu(self.stem_norm(self.stem(x)))
                x = torch.relu(self.depthwise_norm(self.depthwise(x)))
                x = self.pool(torch.relu(self.pointwise(x)))
                y = torch.relu(self.first_norm(self.first(x)))
                x = torch.relu(self.second_norm(self.second(y)) + x)
                x = torch.relu(self.strided_norm(self.strided(x)))
                return self.head(x.mean((2, 3)))

        module = DigitsCnn().eval()
        module.load_state_dict({n: torch.from_numpy(a.copy()) for n, a in digits().initializers.items()}, strict=False)
        return _torch_call(module, image())

    return TimedCall(make)


def hand_torch_relu() -> TimedCall:
    def make() -> Callable[[], Any]:
        from torch import nn

        return _torch_call(nn.ReLU(), vector())

    return TimedCall(make)


def hand_torch_stage(file: str) -> TimedCall:
    def make() -> Callable[[], Any]:
        import torch
        from torch import nn
        from torch.nn import functional

        class Stem(nn.Module):
            def __init__(self, weights: list[torch.Tensor], biases: list[torch.Tensor]) -> None:
                super().__init__()
                self.weights, self.biases = nn.ParameterList(weights), nn.ParameterList(biases)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                w, b = self.weights, self.biases
                x = torch.relu(functional.conv2d(x, w[0], b[0], stride=2, padding=1))
                y = torch.relu(functional.conv2d(functional.pad(x, (0, 1, 0, 1)), w[1], b[1]))
                y = torch.relu(functional.conv2d(functional.pad(y, (0, 1, 0, 1)), w[2], b[2]))
                # After a relu, zeros in the border are as good as minus infinity for a maximum.
                x = functional.max_pool2d(functional.pad(x, (0, 1, 0, 1)), 2, 1)
                x = torch.relu(functional.conv2d(torch.cat((x, y), 1), w[3], b[3], stride=2, padding=1))
                return torch.relu(functional.conv2d(x, w[4], b[4]))

        network = first_stage(file)
        weights, biases = [], []
        for node in network.nodes:
            if node.op_type == "Conv" and len(weights) < 5:
                weights.append(torch.from_numpy(network.initializers[node.inputs[1].name].copy()))
                (add,) = (use.node for use in node.outputs[0].uses())
                biases.append(torch.from_numpy(network.initializers[add.inputs[1].name].reshape(-1).copy()))
        return _torch_call(Stem(weights, biases), page())

    return TimedCall(make)


def _torch_call(module: Any, array: np.ndarray) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(1)
    torch.inference_mode().__enter__()  # for good: entering it in each call would be charged to the hand-written module
    module = module.eval().requires_grad_(False)
    x = torch.from_numpy(array)
    return lambda: module(x)


# By hand: Keras


def hand_tensorflow_digits() -> TimedCall:
    def make() -> Callable[[], Any]:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        layers = tf.keras.layers
        inputs = tf.keras.Input((8, 8, 1), batch_size=BATCH)
        x = _normed(layers, layers.Conv2D(16, 3, padding="same", use_bias=False)(inputs))
        x = _normed(layers, layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x))
        x = layers.MaxPool2D(2)(layers.ReLU()(layers.Conv2D(32, 1)(x)))
        y = _normed(layers, layers.Conv2D(32, 3, padding="same", use_bias=False)(x))
        y = layers.BatchNormalization(epsilon=1e-5)(layers.Conv2D(32, 3, padding="same", use_bias=False)(y))
        x = layers.ReLU()(layers.Add()([x, y]))
        x = layers.ZeroPadding2D(1)(x)
        x = _normed(layers, layers.Conv2D(64, 3, strides=2, use_bias=False)(x))
        model = tf.keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))
        function = tf.function(lambda x: model(x, training=False))
        x = tf.constant(image().transpose(0, 2, 3, 1))
        return lambda: function(x)

    return TimedCall(make)


def _normed(layers: Any, x: Any) -> Any:
    return layers.ReLU()(layers.BatchNormalization(epsilon=1e-5)(x))

"""The networks whose gradients ``gradient_speed.py`` times: as ONNX, and as a function of a framework's own operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx

import deep_bench as db

HEAD = '<ir_version: 10, opset_import: ["" : 21]> '
_CLASSES = "loss = SoftmaxCrossEntropyLoss(logits, label)"


@dataclass(frozen=True)
class GradientCase:
    """A network with a loss.

    Args:
        text: In ONNX's textual form, without weights.
        weights: Name to array.
        feeds: Name to input.
    """

    text: str
    weights: Mapping[str, np.ndarray]
    feeds: Mapping[str, np.ndarray]

    @property
    def network(self) -> db.Network:
        """The network."""
        proto = onnx.parser.parse_model(HEAD + self.text)
        proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, name) for name, a in self.weights.items())
        return db.Network.from_proto(proto)


_CNN = (
    "cnn (float[16,3,32,32] x, int64[16] label) => (float loss) {"
    " c1 = Conv<pads = [1,1,1,1]>(x, w1, b1)  r1 = Relu(c1)  p1 = MaxPool<kernel_shape = [2,2], strides = [2,2]>(r1)"
    " c2 = Conv<pads = [1,1,1,1]>(p1, w2, b2)  r2 = Relu(c2)  p2 = MaxPool<kernel_shape = [2,2], strides = [2,2]>(r2)"
    " c3 = Conv<pads = [1,1,1,1]>(p2, w3, b3)  r3 = Relu(c3)  g = GlobalAveragePool(r3)  f = Flatten(g)"
    f" logits = Gemm(f, w4, b4)  {_CLASSES} }}"
)
_MLP = (
    "mlp (float[64,784] x, int64[64] label) => (float loss) {"
    " a1 = Gemm(x, w1, b1)  h1 = Relu(a1)  a2 = Gemm(h1, w2, b2)  h2 = Relu(a2)"
    f" logits = Gemm(h2, w3, b3)  {_CLASSES} }}"
)
_BLOCK = (
    "block (float[8,128,256] x, float[8,128,256] target) => (float loss)"
    " <int64[4] heads = {8, 128, 4, 64}, int64[3] flat = {8, 128, 256}, float scale = {0.125}> {"
    " n1 = LayerNormalization(x, s1, t1)"
    " q0 = MatMul(n1, wq)  q1 = Reshape(q0, heads)  q = Transpose<perm = [0,2,1,3]>(q1)"
    " k0 = MatMul(n1, wk)  k1 = Reshape(k0, heads)  k = Transpose<perm = [0,2,3,1]>(k1)"
    " v0 = MatMul(n1, wv)  v1 = Reshape(v0, heads)  v = Transpose<perm = [0,2,1,3]>(v1)"
    " s0 = MatMul(q, k)  s = Mul(s0, scale)  p = Softmax(s)  o0 = MatMul(p, v)  o1 = Transpose<perm = [0,2,1,3]>(o0)"
    " o = Reshape(o1, flat)  a = MatMul(o, wo)  x1 = Add(x, a)  n2 = LayerNormalization(x1, s2, t2)"
    " f0 = MatMul(n2, w1)  f1 = Add(f0, b1)  f2 = Gelu(f1)  f3 = MatMul(f2, w2)  f4 = Add(f3, b2)  y = Add(x1, f4)"
    " d = Sub(y, target)  dd = Mul(d, d)  loss = ReduceMean<keepdims = 0>(dd) }"
)


@cache
def cases() -> Mapping[str, GradientCase]:
    """Name to case."""
    rng = np.random.default_rng(0)

    def weights(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
        made = {}
        for name, shape in shapes.items():
            fan = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
            scale = 0.1 if len(shape) == 1 else (2 / fan) ** 0.5
            made[name] = (rng.standard_normal(shape) * scale).astype(np.float32)
        return made

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)

    convolutions = weights(
        w1=(32, 3, 3, 3), b1=(32,), w2=(64, 32, 3, 3), b2=(64,), w3=(64, 64, 3, 3), b3=(64,), w4=(64, 10), b4=(10,)
    )
    dense = weights(w1=(784, 512), b1=(512,), w2=(512, 512), b2=(512,), w3=(512, 10), b3=(10,))
    block = weights(
        s1=(256,), t1=(256,), wq=(256, 256), wk=(256, 256), wv=(256, 256), wo=(256, 256), s2=(256,), t2=(256,),
        w1=(256, 1024), b1=(1024,), w2=(1024, 256), b2=(256,),
    )  # fmt: skip
    return {
        "CNN": GradientCase(_CNN, convolutions, {"x": normal(16, 3, 32, 32), "label": rng.integers(0, 10, 16)}),
        "MLP": GradientCase(_MLP, dense, {"x": normal(64, 784), "label": rng.integers(0, 10, 64)}),
        "transformer block": GradientCase(_BLOCK, block, {"x": normal(8, 128, 256), "target": normal(8, 128, 256)}),
    }


def torch_losses() -> Mapping[str, Callable[..., Any]]:
    """Name of the case to the loss in PyTorch's own functions, of the weights and the feeds by name."""
    from torch.nn import functional as f

    def cnn(x: Any, label: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, w4: Any, b4: Any) -> Any:
        x = f.max_pool2d(f.relu(f.conv2d(x, w1, b1, padding=1)), 2)
        x = f.max_pool2d(f.relu(f.conv2d(x, w2, b2, padding=1)), 2)
        x = f.relu(f.conv2d(x, w3, b3, padding=1)).mean((2, 3))
        return f.cross_entropy(x @ w4 + b4, label)

    def mlp(x: Any, label: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
        import torch

        x = f.relu(torch.addmm(b1, x, w1))
        x = f.relu(torch.addmm(b2, x, w2))
        return f.cross_entropy(torch.addmm(b3, x, w3), label)

    def block(x: Any, target: Any, **w: Any) -> Any:
        def heads(y: Any) -> Any:
            return y.view(8, 128, 4, 64).transpose(1, 2)

        n = f.layer_norm(x, (256,), w["s1"], w["t1"])
        q, k, v = (heads(n @ w[name]) for name in ("wq", "wk", "wv"))
        p = ((q @ k.transpose(2, 3)) * 0.125).softmax(-1)
        x = x + (p @ v).transpose(1, 2).reshape(8, 128, 256) @ w["wo"]
        n = f.layer_norm(x, (256,), w["s2"], w["t2"])
        y = x + f.gelu(n @ w["w1"] + w["b1"]) @ w["w2"] + w["b2"]
        d = y - target
        return (d * d).mean()

    return {"CNN": cnn, "MLP": mlp, "transformer block": block}


def tensorflow_losses() -> Mapping[str, Callable[..., Any]]:
    """As `torch_losses`, in TensorFlow's."""
    import tensorflow as tf

    def crossed(logits: Any, label: Any) -> Any:
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits))

    def cnn(x: Any, label: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, w4: Any, b4: Any) -> Any:
        def conv(y: Any, w: Any, b: Any) -> Any:
            return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(y, tf.transpose(w, (2, 3, 1, 0)), 1, "SAME"), b))

        x = tf.nn.max_pool2d(conv(tf.transpose(x, (0, 2, 3, 1)), w1, b1), 2, 2, "VALID")
        x = tf.nn.max_pool2d(conv(x, w2, b2), 2, 2, "VALID")
        x = tf.reduce_mean(conv(x, w3, b3), (1, 2))
        return crossed(tf.matmul(x, w4) + b4, label)

    def mlp(x: Any, label: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
        x = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w1), b1))
        x = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w2), b2))
        return crossed(tf.nn.bias_add(tf.matmul(x, w3), b3), label)

    def block(x: Any, target: Any, **w: Any) -> Any:
        def normal(y: Any, scale: Any, shift: Any) -> Any:
            mean, variance = tf.nn.moments(y, [-1], keepdims=True)
            return tf.nn.batch_normalization(y, mean, variance, shift, scale, 1e-5)

        def times(y: Any, m: Any) -> Any:
            return tf.tensordot(y, m, 1)

        def heads(y: Any) -> Any:
            return tf.transpose(tf.reshape(y, (8, 128, 4, 64)), (0, 2, 1, 3))

        n = normal(x, w["s1"], w["t1"])
        q, k, v = (heads(times(n, w[name])) for name in ("wq", "wk", "wv"))
        p = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * 0.125)
        o = tf.reshape(tf.transpose(tf.matmul(p, v), (0, 2, 1, 3)), (8, 128, 256))
        x = x + times(o, w["wo"])
        n = normal(x, w["s2"], w["t2"])
        y = x + times(tf.nn.gelu(times(n, w["w1"]) + w["b1"]), w["w2"]) + w["b2"]
        return tf.reduce_mean(tf.square(y - target))

    return {"CNN": cnn, "MLP": mlp, "transformer block": block}

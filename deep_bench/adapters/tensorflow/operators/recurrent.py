"""RNN, GRU and LSTM: the inputs' product at once, then a loop over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of
from deep_bench.adapters.tensorflow.graph import with_gradient
from deep_bench.adapters.tensorflow.operators._site import HALF, scalar, tf_dtype

__all__ = ["GRU", "LSTM", "RNN"]

UNROLLED = 8
"""Up to this many steps the loop is written out."""

Step: TypeAlias = Callable[[Any, list[Any]], list[Any]]
"""From the input's product and the state to the next state, of which the first is the output."""


def _tanh_gradient(dy: Any, _: Any, x: Any) -> Any:
    """``dy / cosh(x) ** 2``; TensorFlow's ``1 - y ** 2`` has no digits left where ``y`` is almost 1."""
    return dy * scalar(4, x) * tf.sigmoid(scalar(2, x) * x) * tf.sigmoid(scalar(-2, x) * x)


def _affine(x: Any, a: float, b: float) -> Any:
    return scalar(a, x) * x + scalar(b, x)


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "Sigmoid": tf.sigmoid,
    "Tanh": with_gradient(tf.tanh, _tanh_gradient),
    "Relu": tf.nn.relu,
    "Softsign": tf.math.softsign,
    "Softplus": tf.math.softplus,
}
_ALPHA: dict[str, tuple[float, Callable[[Any, float], Any]]] = {
    "LeakyRelu": (0.01, lambda x, a: tf.where(x < 0, scalar(a, x) * x, x)),
    "ThresholdedRelu": (1.0, lambda x, a: tf.where(x >= scalar(a, x), x, tf.zeros_like(x))),
    "Elu": (1.0, lambda x, a: tf.where(x < 0, scalar(a, x) * tf.math.expm1(tf.minimum(x, scalar(0, x))), x)),
}
_ALPHA_BETA: dict[str, tuple[float, float, Callable[[Any, float, float], Any]]] = {
    "Affine": (1.0, 0.0, _affine),
    "ScaledTanh": (1.0, 1.0, lambda x, a, b: scalar(a, x) * tf.tanh(scalar(b, x) * x)),
    "HardSigmoid": (0.2, 0.5, lambda x, a, b: tf.clip_by_value(_affine(x, a, b), scalar(0, x), scalar(1, x))),
}
"""Name to default ``alpha`` and ``beta``, and function."""


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Callable[[Any], Any]:
    canonical = {n.lower(): n for n in (*_PLAIN, *_ALPHA, *_ALPHA_BETA)}.get(name.lower())
    if canonical in _PLAIN:
        return _PLAIN[canonical]
    if canonical in _ALPHA:
        default, function = _ALPHA[canonical]
        alpha = next(alphas, default)
        return lambda x: function(x, alpha)
    if canonical in _ALPHA_BETA:
        first, second, both = _ALPHA_BETA[canonical]
        a, b = next(alphas, first), next(betas, second)
        return lambda x: both(x, a, b)
    raise NotNative(f"unknown activation {name}")


def _activations(site: Site, default: Sequence[str], directions: int) -> list[list[Callable[[Any], Any]]]:
    names = list(site.attribute("activations") or list(default) * directions)
    alphas, betas = iter(site.attribute("activation_alpha") or ()), iter(site.attribute("activation_beta") or ())
    functions = [_activation(name, alphas, betas) for name in names]
    n = len(default)
    return [functions[i * n : (i + 1) * n] for i in range(directions)]


@dataclass(frozen=True)
class RecurrentCell:
    """One kind of recurrent network.

    Args:
        gates: How many there are.
        states: How many tensors the state has.
        activations: ONNX's defaults.
        make: Given the activations, ``R`` (transposed), the recurrent bias and the peepholes, returns the step.
        adds_recurrent_bias: Whether the recurrent bias is simply added to the input's.
    """

    gates: int
    states: int
    activations: tuple[str, ...]
    make: Callable[..., Step]
    adds_recurrent_bias: bool = True


def _build(site: Site, cell: RecurrentCell) -> Callable[..., Any]:
    direction = site.attribute("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    functions = _activations(site, cell.activations, directions)
    limit, batch_first = site.attribute("clip"), site.attribute("layout", 0)
    native = tf_dtype(dtype_of(site))
    inner = tf.float32 if dtype_of(site) in HALF else native

    def clipped(x: Any) -> Any:
        return x if limit is None else tf.clip_by_value(x, scalar(-limit, x), scalar(limit, x))

    def one_direction(index: int, x: Any, tensors: list[Any], lengths: Any) -> tuple[Any, list[Any]]:
        w, r = tensors[0][index], tensors[1][index]
        b, p, *start = (None if t is None else t[index] for t in tensors[2:])
        size = r.shape[-1]
        halves = (None, None) if b is None else tf.split(b, 2)
        step = cell.make(functions[index], r, size, halves[1], p, clipped, site)
        bias = sum(halves) if b is not None and cell.adds_recurrent_bias else halves[0]
        # ``x @ w.T + bias`` for all times at once
        count, batch = _dim(x, 0), _dim(x, 1)
        flat = tf.matmul(tf.reshape(x, [-1, w.shape[-1]]), w, transpose_b=True)
        flat = flat if bias is None else tf.nn.bias_add(flat, bias)
        products = tf.reshape(flat, [count, batch, w.shape[0]])
        back = direction == "reverse" or index == 1
        state = [_started(s, x, size) for s in start]
        return _scan(products, state, step, lengths, back=back)

    def run(x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, *extra: Any) -> Any:
        states, p = [*extra, None, None][: cell.states], (extra[2] if len(extra) > 2 else None)
        states = [None if t is None else tf.ensure_shape(t, [None] * 3) for t in states]
        tensors = [None if t is None else tf.cast(t, inner) for t in (w, r, b, p, *states)]
        x = tf.cast(tf.ensure_shape(x, [None] * 3), inner)
        if batch_first:
            x = tf.transpose(x, [1, 0, 2])
            tensors[4:] = [None if t is None else tf.transpose(t, [1, 0, 2]) for t in tensors[4:]]
        results = [one_direction(i, x, tensors, lengths) for i in range(directions)]
        y = tf.stack([o for o, _ in results], 1)
        finals = [tf.stack(parts, 0) for parts in zip(*(s for _, s in results), strict=True)]
        if batch_first:
            y, finals = tf.transpose(y, [2, 0, 1, 3]), [tf.transpose(f, [1, 0, 2]) for f in finals]
        outputs = tuple(tf.cast(t, native) for t in (y, *finals))[: len(site.outputs)]
        return outputs if len(outputs) > 1 else outputs[0]

    return run


def _dim(x: Any, axis: int) -> Any:
    size = x.shape[axis]
    return tf.shape(x)[axis] if size is None else size


def _started(state: Any, x: Any, size: int) -> Any:
    return tf.zeros([_dim(x, 1), size], x.dtype) if state is None else state


def _scan(products: Any, state: list[Any], step: Step, lengths: Any, *, back: bool) -> tuple[Any, list[Any]]:
    """The step over time; beyond a sequence's length its state stays and its output is zero."""
    count = products.shape[0]

    def advance(time: Any, current: list[Any]) -> tuple[Any, list[Any]]:
        new = step(products[time], current)
        if lengths is None:
            return new[0], new
        valid = (tf.cast(time, lengths.dtype) < lengths)[:, None]
        return tf.where(valid, new[0], tf.zeros_like(new[0])), [
            tf.where(valid, n, o) for n, o in zip(new, current, strict=True)
        ]

    if count is not None and 0 < count <= UNROLLED:
        outputs = [None] * count
        for time in reversed(range(count)) if back else range(count):
            outputs[time], state = advance(time, state)
        return tf.stack(outputs), state
    return _looped(products, state, advance, back=back)


def _looped(products: Any, state: list[Any], advance: Callable[..., Any], *, back: bool) -> tuple[Any, list[Any]]:
    total = _dim(products, 0)
    stack = tf.TensorArray(products.dtype, total, element_shape=state[0].shape)

    def body(i: Any, current: list[Any], outputs: Any) -> Any:
        time = total - 1 - i if back else i
        output, current = advance(time, current)
        return i + 1, current, outputs.write(time, output)

    invariants = (tf.TensorShape([]), [s.shape for s in state], tf.TensorShape(None))
    start = (tf.constant(0), state, stack)
    _, final, outputs = tf.while_loop(lambda i, *_: i < total, body, start, shape_invariants=invariants)
    return outputs.stack(), final


def _rnn(functions: Any, r: Any, size: int, _bias: Any, _p: Any, clipped: Any, _site: Site) -> Step:
    del size
    return lambda x, state: [functions[0](clipped(x + tf.matmul(state[0], r, transpose_b=True)))]


def _gru(functions: Any, r: Any, size: int, bias: Any, _p: Any, clipped: Any, site: Site) -> Step:
    before = site.attribute("linear_before_reset", 0)
    gates, hidden = r[: 2 * size], r[2 * size :]
    gate_bias, hidden_bias = (None, None) if bias is None else (bias[: 2 * size], bias[2 * size :])
    f, g = functions

    def plus(x: Any, b: Any) -> Any:
        return x if b is None else x + b

    def step(x: Any, state: list[Any]) -> list[Any]:
        h = state[0]
        both = plus(x[:, : 2 * size] + tf.matmul(h, gates, transpose_b=True), gate_bias)
        z, reset = tf.split(f(clipped(both)), 2, -1)
        if before:
            inner = reset * plus(tf.matmul(h, hidden, transpose_b=True), hidden_bias)
        else:
            inner = plus(tf.matmul(reset * h, hidden, transpose_b=True), hidden_bias)
        new = g(clipped(x[:, 2 * size :] + inner))
        return [(1 - z) * new + z * h]

    return step


def _lstm(functions: Any, r: Any, size: int, _bias: Any, p: Any, clipped: Any, site: Site) -> Step:
    coupled = site.attribute("input_forget", 0)
    f, g, h = functions
    pi, po, pf = (None, None, None) if p is None else tf.split(p, 3)

    def peeked(x: Any, c: Any, weight: Any) -> Any:
        return x if weight is None else x + weight * c

    def step(x: Any, state: list[Any]) -> list[Any]:
        hidden, c = state
        i, o, forget, new = tf.split(x + tf.matmul(hidden, r, transpose_b=True), 4, -1)
        i = f(clipped(peeked(i, c, pi)))
        forget = 1 - i if coupled else f(clipped(peeked(forget, c, pf)))
        c = forget * c + i * g(clipped(new))
        o = f(clipped(peeked(o, c, po)))
        return [o * h(clipped(c)), c]

    del size
    return step


def RNN(site: Site) -> Callable[..., Any]:
    """The simple recurrent network."""
    return _build(site, RecurrentCell(1, 1, ("Tanh",), _rnn))


def GRU(site: Site) -> Callable[..., Any]:
    """The gated recurrent unit, with the reset before or after the recurrent product."""
    return _build(site, RecurrentCell(3, 1, ("Sigmoid", "Tanh"), _gru, adds_recurrent_bias=False))


def LSTM(site: Site) -> Callable[..., Any]:
    """Long short-term memory, with peepholes."""
    return _build(site, RecurrentCell(4, 2, ("Sigmoid", "Tanh", "Tanh"), _lstm))

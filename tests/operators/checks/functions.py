"""Kernels that compute NumPy functions, each with a factor by which its gradients are off: at 1 they are right."""

from __future__ import annotations

from typing import Any

import numpy as np

import deep_bench as db


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def affine(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return x @ w + b


def hinge(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) + 2 * np.abs(x)


def largest(x: np.ndarray) -> np.ndarray:
    return x.max(axis=-1)


def moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x.mean(axis=-1), (x * x).mean(axis=-1)


def hyperbolic(x: np.ndarray) -> np.ndarray:
    return np.tanh(x)


def normalized(x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)


def weighted(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    return x * index


class Factor(db.Operator):
    """What they share: by what the gradients are off."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def forward(self, *inputs: Any) -> Any:
        return self.target(*inputs)

    def scaled(self, *gradients: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(g * g.dtype.type(self.factor) for g in gradients)


class Softmax(Factor):
    computes = softmax

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        (y,) = outputs
        return self.scaled(y * (grads[0] - (grads[0] * y).sum(axis=-1, keepdims=True)))


class Affine(Factor):
    computes = affine

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        x, w, _ = inputs
        return (*self.scaled(grads[0] @ w.T), x.T @ grads[0], grads[0].sum(axis=0))


class Hinge(Factor):
    computes = hinge

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        (x,) = inputs
        return self.scaled((grads[0] * ((x > 0) + 2 * np.sign(x))).astype(x.dtype))


class Largest(Factor):
    computes = largest

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        (x,) = inputs
        first = np.arange(x.shape[-1]) == x.argmax(axis=-1)[..., None]
        return self.scaled((first * grads[0][..., None]).astype(x.dtype))


class Moments(Factor):
    computes = moments

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        (x,) = inputs
        mean, square = (np.zeros(x.shape[:-1], x.dtype) if g is None else g for g in grads)
        second = 2 * x * square[..., None] * x.dtype.type(self.factor)
        return ((mean[..., None] + second) / x.dtype.type(x.shape[-1]),)


class Hyperbolic(Factor):
    computes = hyperbolic

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        return self.scaled(grads[0] * (1 - outputs[0] * outputs[0]))


class Normalized(Factor):
    computes = normalized

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        (x,), (y,) = inputs, outputs
        deviation = np.sqrt(x.var(axis=-1, keepdims=True) + x.dtype.type(1e-5))
        g = grads[0]
        mean, along = g.mean(axis=-1, keepdims=True), (g * y).mean(axis=-1, keepdims=True)
        return self.scaled((g - mean - y * along) / deviation)


class Weighted(Factor):
    """Its second input is of whole numbers, and has no gradient."""

    computes = weighted

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        return (*self.scaled((grads[0] * inputs[1]).astype(inputs[0].dtype)), None)


class Spoiler(Hyperbolic):
    """Writes into the gradient that it is given."""

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        grads[0][...] = grads[0] * (1 - outputs[0] * outputs[0])
        return grads[0]


class Widening(Hyperbolic):
    """Gives its gradient in float64."""

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        return super().backward(grads, inputs, outputs)[0].astype(np.float64)


class Raising(Hyperbolic):
    """Has a gradient that raises."""

    def backward(self, grads: Any, inputs: Any, outputs: Any) -> Any:
        raise ValueError("on purpose")

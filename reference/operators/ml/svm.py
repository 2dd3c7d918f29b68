"""Support vector machines."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators._arguments import check_choice
from deep_bench.reference.operators.activation import Sigmoid
from deep_bench.reference.operators.ml._models import class_labels, rows, transformed, two_classes, weights

__all__ = ["SVMClassifier", "SVMRegressor"]


def _kernel(x, vectors, kind, parameters):
    """``k(x, v)`` of every row with every vector: ``[N, V]``.

    ``LINEAR``: ``x v``; ``POLY``: ``(gamma x v + c) ** degree``; ``RBF``: ``exp(-gamma |x - v|^2)``; ``SIGMOID``:
    ``tanh(gamma x v + c)``.
    """
    check_choice("a support vector machine", "kernel_type", kind, ("LINEAR", "POLY", "RBF", "SIGMOID"))
    gamma, c, degree = parameters or (0.0, 0.0, 0.0)
    if kind == "RBF":
        difference = np.expand_dims(x, 1) - vectors
        return np.exp(-gamma * np.sum(np.square(difference), axis=2))
    products = np.matmul(x, vectors.T)
    if kind == "LINEAR":
        return products
    scaled = gamma * products + c
    return np.tanh(scaled) if kind == "SIGMOID" else np.power(scaled, degree)


def SVMRegressor(
    x,
    *,
    coefficients=None,
    kernel_params=None,
    kernel_type="LINEAR",
    n_supports=0,
    one_class=0,
    post_transform="NONE",
    rho=None,
    support_vectors=None,
):
    """``sum of coefficient * k(x, v)`` over the support vectors ``v``, plus ``rho``; without any, a linear model.

    With ``one_class`` the result is 1 where that is positive, else -1: whether the row is like those seen in training.

    Source:
        ONNX SVMRegressor, ai.onnx.ml 1; Smola and Schölkopf, 2004; Schölkopf et al., 2001 for one class.
    """
    x = rows(x)
    if n_supports:
        features = _kernel(x, weights(support_vectors, x, (n_supports, -1)), kernel_type, kernel_params)
    else:
        features = x
    y = np.matmul(features, weights(coefficients, x, (features.shape[1], 1))) + weights(rho, x)[:1]
    if one_class:
        return np.where(y > 0, 1, -1).astype(np.float32)
    return transformed(y, post_transform).astype(np.float32)


def SVMClassifier(
    x,
    *,
    classlabels_ints=None,
    classlabels_strings=None,
    coefficients=None,
    kernel_params=None,
    kernel_type="LINEAR",
    post_transform="NONE",
    prob_a=None,
    prob_b=None,
    rho=None,
    support_vectors=None,
    vectors_per_class=None,
):
    """The class that wins most of the duels between two classes each, and the duels' scores or the classes' probabilities.

    In the duel of ``i < j`` class ``i`` wins where ``s = sum of coefficient * k(x, v) + rho`` over both classes' support
    vectors is positive. The scores are those of the duels ``(0, 1), (0, 2), … (1, 2), …``; for two classes ``-s`` and ``s``.
    With ``prob_a`` and ``prob_b`` they are the probabilities of the classes. Without support vectors the scores are linear
    in ``x``, one for each class, and the largest wins.

    Source:
        ONNX SVMClassifier, ai.onnx.ml 1; LIBSVM (Chang and Lin, 2011), sections 4.1 and 8; ONNX Runtime for the order of
        scores.
    """
    x = rows(x)
    labels = class_labels(classlabels_ints, classlabels_strings)
    if not sum(vectors_per_class or ()):
        scores = np.matmul(x, weights(coefficients, x, (len(labels), x.shape[1])).T) + weights(rho, x)[:1]
        return labels[np.argmax(scores, axis=1)], transformed(scores, post_transform).astype(np.float32)
    if len(vectors_per_class) != len(labels) or len(labels) < 2:
        raise InvalidInput(f"support vectors of {len(vectors_per_class)} classes for {len(labels)} labels", "two or more")
    kernel = _kernel(x, weights(support_vectors, x, (sum(vectors_per_class), -1)), kernel_type, kernel_params)
    scores = _duels(kernel, weights(coefficients, x, (-1, sum(vectors_per_class))), vectors_per_class)
    scores = scores + weights(rho, x, (scores.shape[1],))
    count = len(labels)
    votes = np.zeros((len(scores), count), dtype=np.int64)
    for duel, (i, j) in enumerate(combinations(range(count), 2)):
        first = scores[:, duel] > 0
        votes[:, i] += first
        votes[:, j] += ~first
    chosen = np.argmax(votes, axis=1)
    if prob_a:
        z = transformed(_probabilities(scores, prob_a, prob_b, len(labels)), post_transform)
    elif len(labels) == 2:
        z = two_classes(scores[:, 0], post_transform, probability=False)
    else:
        z = transformed(scores, post_transform)
    return labels[chosen], z.astype(np.float32)


def _duels(kernel, coefficients, vectors_per_class):
    """The sums of the duels, ``[N, C (C - 1) / 2]``.

    A support vector of class ``i`` has a coefficient for each other class; row ``j - 1`` is for ``j > i``, row ``j`` for
    ``j < i``.
    """
    starts = np.cumsum((0, *vectors_per_class))
    of = [slice(a, b) for a, b in pairwise(starts.tolist())]
    return np.stack(
        [
            np.matmul(kernel[:, of[i]], coefficients[j - 1, of[i]]) + np.matmul(kernel[:, of[j]], coefficients[i, of[j]])
            for i, j in combinations(range(len(of)), 2)
        ],
        axis=1,
    )


def _probabilities(scores, a, b, count):
    """Each class's probability, from those of the duels: ``1 / (1 + exp(a s + b))`` that the first one wins."""
    first = np.clip(Sigmoid(-(scores * weights(a, scores) + weights(b, scores))), 1e-7, 1 - 1e-7)
    duels = np.zeros_like(scores, shape=(len(scores), count, count))
    for duel, (i, j) in enumerate(combinations(range(count), 2)):
        duels[:, i, j], duels[:, j, i] = first[:, duel], 1 - first[:, duel]
    return np.stack([_coupled(r) for r in duels]) if len(duels) else np.zeros_like(scores, shape=(0, count))


def _coupled(r):
    """Probabilities ``p`` of the classes that come close to ``r[i, j] = p[i] / (p[i] + p[j])``.

    They minimize the sum of ``(r[j, i] p[i] - r[i, j] p[j])^2``, which is ``2 p Q p``. One coordinate after the other is
    moved to where ``(Q p)[t] = p Q p`` and the sum made 1 again, until all of these differ by less than ``0.005 / C``.

    Source:
        Wu, Lin and Weng, 2004, algorithm 2, with the stopping rule of LIBSVM.
    """
    count = len(r)
    q = -(r * r.T)
    np.fill_diagonal(q, np.sum(np.square(r), axis=0))
    p = np.full_like(r, 1 / count, shape=(count,))
    for _ in range(max(100, count)):
        qp = np.matmul(q, p)
        pqp = np.sum(p * qp)
        if np.max(np.abs(qp - pqp)) < 0.005 / count:
            break
        for t in range(count):
            step = (pqp - qp[t]) / q[t, t]
            p[t] = p[t] + step
            pqp = (pqp + step * (step * q[t, t] + 2 * qp[t])) / np.square(1 + step)
            qp = (qp + step * q[t]) / (1 + step)
            p = p / (1 + step)
    return p

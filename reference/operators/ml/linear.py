"""Linear models: one weighted sum of the features for each class or target."""

from __future__ import annotations

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators.ml._models import class_labels, rows, transformed, two_classes, weights

__all__ = ["LinearClassifier", "LinearRegressor"]


def _sums(x, coefficients, intercepts, count):
    """``x W^T + b`` for ``count`` rows of ``W``."""
    w = weights(coefficients, x, (count, x.shape[1]))
    b = weights(intercepts, x, (count,)) if intercepts else 0
    return np.matmul(x, w.T) + b


def LinearRegressor(x, *, coefficients=None, intercepts=None, post_transform="NONE", targets=1):
    """The transform of ``x W^T + b``, one column per target. Source: ONNX LinearRegressor, ai.onnx.ml 1."""
    x = rows(x)
    return transformed(_sums(x, coefficients, intercepts, targets), post_transform).astype(np.float32)


def LinearClassifier(
    x,
    *,
    coefficients,
    classlabels_ints=None,
    classlabels_strings=None,
    intercepts=None,
    multi_class=0,
    post_transform="NONE",
):
    """The class with the largest of the scores ``x W^T + b``, and their transform.

    If ``W`` has one row for two classes, that is the second one's score ``s``: the second class is chosen where ``s > 0``,
    and the scores are ``1 - s`` and ``s``. What ``multi_class`` says of the training makes no difference.

    Source:
        ONNX LinearClassifier, ai.onnx.ml 1; ONNX Runtime for one row of weights.
    """
    x = rows(x)
    labels = class_labels(classlabels_ints, classlabels_strings)
    one_row = len(labels) == 2 and len(coefficients) == x.shape[1]
    if not one_row and len(coefficients) != len(labels) * x.shape[1]:
        raise InvalidInput(
            f"{len(coefficients)} coefficients for {len(labels)} classes and {x.shape[1]} features",
            "one for each class and feature",
        )
    scores = _sums(x, coefficients, intercepts, 1 if one_row else len(labels))
    if one_row:
        score = scores[:, 0]
        chosen, z = (score > 0).astype(np.int64), two_classes(score, post_transform, probability=True)
    else:
        chosen, z = np.argmax(scores, axis=1), transformed(scores, post_transform)
    return labels[chosen], z.astype(np.float32)

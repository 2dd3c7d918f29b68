"""Linear models and support vectors; and what models have in common: features, class labels, scores, forests.

A forest is decision trees as arrays of nodes, and which leaf each row of features falls into.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from scipy import special

from deep_bench.errors import InvalidInput, InvalidNetwork
from deep_bench.reference.operators._arguments import check_choice
from deep_bench.reference.operators.activation import Sigmoid, Softmax
from deep_bench.tensor import is_float

__all__ = ["LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor"]


def real(x: Any) -> Any:
    """``x`` in floating point: integers, for which the models of this domain have no arithmetic, in float64.

    Example:
        >>> real(np.array([2**40])).tolist(), real(np.ones(1, np.float32)).dtype
        ([1099511627776.0], dtype('float32'))
    """
    return x if is_float(x.dtype) else x.astype(np.float64)


def rows(x: Any) -> Any:
    """``x`` in floating point as ``[N, F]``; a vector is one row."""
    x = real(x)
    return x.reshape(1, -1) if x.ndim < 2 else x


def weights(values: Any, like: Any, shape: tuple[int, ...] = (-1,)) -> np.ndarray:
    """A list attribute as an array of the element type of ``like``, none as nothing.

    Raises:
        InvalidInput: They do not fill the shape.
    """
    array = np.asarray(() if values is None else values, dtype=like.dtype)
    try:
        return array.reshape(shape)
    except ValueError:
        raise InvalidInput(f"{array.size} weights", f"as many as fill the shape {list(shape)}") from None


def class_labels(integers: Any, strings: Any) -> np.ndarray:
    """The labels of the classes, int64 or strings: the one attribute that has any.

    Raises:
        InvalidInput: Neither or both have some.
    """
    if bool(integers) == bool(strings):
        raise InvalidInput("class labels in neither or both of the two attributes", "integers or strings")
    return np.asarray(strings, dtype=object) if strings else np.asarray(integers, dtype=np.int64)


TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""The transforms in the order of TreeEnsemble's codes for them."""


_ZERO = 1e-7  # what ONNX Runtime takes for a score of zero


def transformed(scores: Any, kind: str) -> Any:
    """The transform of scores ``[N, E]``, along the last axis where it takes several together.

    ================  =====================================================================
    ``NONE``          the scores
    ``SOFTMAX``       ``exp(s) / sum of exp(s)``
    ``LOGISTIC``      ``1 / (1 + exp(-s))``
    ``SOFTMAX_ZERO``  the softmax of those that are not zero; zeros stay zero
    ``PROBIT``        ``sqrt(2) * erfinv(2 s - 1)``: NaN outside of [0, 1]
    ================  =====================================================================

    Raises:
        Unsupported: The standard knows no such transform.

    Example:
        >>> transformed(np.array([[0.0, 1.0, 1.0]]), "SOFTMAX_ZERO").tolist()
        [[0.0, 0.5, 0.5]]
    """
    check_choice("a model", "post_transform", kind, TRANSFORMS)
    if kind == "SOFTMAX":
        return Softmax(scores)
    if kind == "LOGISTIC":
        return Sigmoid(scores)
    if kind == "SOFTMAX_ZERO":
        counted = np.abs(scores) > _ZERO
        largest = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
        powers = np.where(counted, np.exp(scores - largest), 0)
        total = np.sum(powers, axis=-1, keepdims=True)
        return powers / np.where(total == 0, 1, total)
    return math.sqrt(2) * special.erfinv(2 * scores - 1) if kind == "PROBIT" else scores


def two_classes(score: Any, kind: str, *, probability: bool) -> Any:
    """The transformed scores ``[N, 2]`` of two classes of which only the second one's ``[N]`` is known.

    The first class has ``1 - s`` if ``s`` is a probability, and ``-s`` if not. Where the transform makes a probability of
    any score it is given ``-s``, where it takes a probability ``1 - s``.
    """
    complement = kind == "PROBIT" or (kind == "NONE" and probability)
    return transformed(np.stack((1 - score if complement else -score, score), axis=-1), kind)


COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}
"""What a node asks of a feature and its threshold, in the order of TreeEnsemble's codes; the next one is MEMBER."""


MEMBER, LEAF = "BRANCH_MEMBER", "LEAF"


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees, one entry per node in each field.

    Args:
        mode: What the node asks: one of `COMPARISONS`, `MEMBER` or `LEAF`.
        feature: Which feature it looks at.
        threshold: What it compares that with.
        missing: Whether NaN goes the way of "true" whatever the comparison says.
        true: The node where "true" leads.
        false: The node where "false" leads.
        roots: The first node of each tree.
        members: The set of a `MEMBER` node, by its number.
        votes: Of each vote: the node, the target and the weight. A leaf may have none or several.
    """

    mode: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing: np.ndarray
    true: np.ndarray
    false: np.ndarray
    roots: np.ndarray
    members: Mapping[int, np.ndarray]
    votes: tuple[np.ndarray, np.ndarray, np.ndarray]

    def leaves(self, x: Any) -> np.ndarray:
        """The leaf of each row in each tree, ``[N, trees]``.

        Raises:
            InvalidNetwork: A branch leads back.
        """
        at = np.tile(self.roots, (len(x), 1))
        for _ in range(len(self.mode)):
            inner = self.mode[at] != LEAF
            if not inner.any():
                return at
            step = np.where(self._holds(x, at), self.true[at], self.false[at])
            at = np.where(inner, step, at)
        if (self.mode[at] != LEAF).any():
            raise InvalidNetwork("a decision tree whose branches lead back", "a leaf at the end of each")
        return at

    def _holds(self, x: Any, at: np.ndarray) -> np.ndarray:
        feature = np.where(self.mode[at] == LEAF, 0, self.feature[at])
        values = np.take_along_axis(x, feature, axis=1)
        holds = np.zeros(at.shape, dtype=np.bool_)
        for mode in np.unique(self.mode[at]):
            if mode in COMPARISONS:
                holds = np.where(self.mode[at] == mode, COMPARISONS[mode](values, self.threshold[at]), holds)
        for node, members in self.members.items():
            holds = np.where(at == node, np.isin(values, members), holds)
        return holds | (self.missing[at] & np.isnan(values))


def aggregated(forest: Forest, x: Any, targets: int, function: str) -> Any:
    """The votes that the rows ``x`` reach, by target: ``[N, targets]``; 0 for a target without any.

    Args:
        forest: The trees.
        x: Features in floating point, ``[N, F]``.
        targets: How many there are.
        function: ``SUM``; ``AVERAGE``: the sum divided by the number of trees; ``MIN`` or ``MAX`` of the votes.

    Raises:
        InvalidInput: A node looks at a feature that ``x`` lacks, or votes for a target that is none.
    """
    check_choice("a tree ensemble", "aggregate_function", function, ("AVERAGE", "SUM", "MIN", "MAX"))
    node, target, weight = forest.votes
    if node.size and not 0 <= target.min() <= target.max() < targets:
        raise InvalidInput(f"votes for target {target.max()} of {targets}", f"targets 0 to {targets - 1}")
    used = forest.feature[forest.mode != LEAF]
    if used.size and not 0 <= used.min() <= used.max() < x.shape[1]:
        raise InvalidInput(f"a decision tree that looks at feature {used.max()} of {x.shape[1]}", "enough features")
    at = forest.leaves(x)
    combine = {"MIN": np.minimum, "MAX": np.maximum}.get(function, np.add)
    start = {"MIN": np.inf, "MAX": -np.inf}.get(function, 0)
    table = np.full((len(forest.mode), targets), start, dtype=np.result_type(weight, x.dtype))
    combine.at(table, (node, target), weight)
    y = np.full_like(x, start, shape=(len(x), targets))
    for leaf in at.T:
        y = combine(y, table[leaf])
    if function == "AVERAGE":
        return y / len(forest.roots)
    return y if function == "SUM" else np.where(_voted(forest, at, targets), y, 0)


def _voted(forest: Forest, at: np.ndarray, targets: int) -> np.ndarray:
    has = np.zeros((len(forest.mode), targets), dtype=np.bool_)
    has[forest.votes[0], forest.votes[1]] = True
    return has[at].any(axis=1)


def listed_forest(
    nodes: Sequence[tuple[int, int]], fields: Mapping[str, Any], votes: tuple[Sequence[tuple[int, int]], Any, Any]
) -> Forest:
    """The trees of TreeEnsembleClassifier and TreeEnsembleRegressor, whose nodes are named by tree and number.

    Args:
        nodes: Tree and number of each node.
        fields: The attributes ``nodes_*`` without that prefix.
        votes: Tree and number of the node of each vote, its target and its weight.

    Raises:
        InvalidNetwork: A branch or a vote names a node that is not there.
    """
    position = {name: i for i, name in enumerate(nodes)}
    mode = np.asarray(fields["modes"], dtype=object)

    def find(tree: int, number: int) -> int:
        if (tree, number) not in position:
            raise InvalidNetwork(f"node {number} of decision tree {tree} is not there", "a node in the list")
        return position[tree, number]

    def children(numbers: Sequence[int]) -> np.ndarray:
        pairs = zip(nodes, mode, numbers, strict=True)
        return np.array([0 if m == LEAF else find(tree, n) for (tree, _), m, n in pairs], dtype=np.int64)

    true, false = children(fields["truenodeids"]), children(fields["falsenodeids"])
    inner = mode != LEAF
    below = {*true[inner].tolist(), *false[inner].tolist()}
    roots = np.array([i for i in range(len(nodes)) if i not in below], dtype=np.int64)
    where, target, weight = votes
    at = np.array([find(*name) for name in where], dtype=np.int64)
    feature = np.asarray(fields["featureids"], dtype=np.int64)
    missing = np.asarray(fields["missing_value_tracks_true"] or np.zeros(len(nodes)), dtype=np.bool_)
    threshold = np.asarray(fields["values"])
    return Forest(mode, feature, threshold, missing, true, false, roots, {}, (at, np.asarray(target, np.int64), weight))


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

"""What the models of this domain have in common: rows of features, class labels, scores, ``post_transform``; and forests.

A forest is decision trees as arrays of nodes, and which leaf each row of features falls into.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from deep_bench.errors import InvalidInput, InvalidNetwork
from deep_bench.reference.operators._arguments import check_choice
from deep_bench.reference.operators.activation import Sigmoid, Softmax
from deep_bench.tensor import is_float


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

    ==============  =====================================================================
    ``NONE``        the scores
    ``SOFTMAX``     ``exp(s) / sum of exp(s)``
    ``LOGISTIC``    ``1 / (1 + exp(-s))``
    ``SOFTMAX_ZERO``  the softmax of those that are not zero; zeros stay zero
    ``PROBIT``      ``sqrt(2) * erfinv(2 s - 1)``: NaN outside of [0, 1]
    ==============  =====================================================================

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

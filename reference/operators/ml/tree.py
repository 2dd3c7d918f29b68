"""Ensembles of decision trees."""

from __future__ import annotations

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators._arguments import in_float32
from deep_bench.reference.operators.ml.models import (
    COMPARISONS,
    LEAF,
    MEMBER,
    TRANSFORMS,
    Forest,
    aggregated,
    class_labels,
    listed_forest,
    rows,
    transformed,
    two_classes,
)

__all__ = ["TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"]

_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_MODES = (*COMPARISONS, MEMBER)


def _coded(codes, code, attribute):
    if not 0 <= code < len(codes):
        raise InvalidInput(f"TreeEnsemble with {attribute}={code}", f"0 to {len(codes) - 1}")
    return codes[code]


@in_float32
def TreeEnsemble(
    x,
    *,
    leaf_targetids,
    leaf_weights,
    nodes_falseleafs,
    nodes_falsenodeids,
    nodes_featureids,
    nodes_modes,
    nodes_splits,
    nodes_trueleafs,
    nodes_truenodeids,
    tree_roots,
    aggregate_function=1,
    membership_values=None,
    n_targets=None,
    nodes_hitrates=None,
    nodes_missing_value_tracks_true=None,
    post_transform=0,
):
    """What the leaves that a row reaches say of each target: added up, averaged over the trees, or the extreme.

    Each inner node compares one feature with its threshold, or asks whether it is in a set; NaN goes the way of "true" only
    where that is said. A target without a leaf is 0.

    Source:
        ONNX TreeEnsemble, ai.onnx.ml 5.
    """
    inner, count = len(nodes_modes), len(leaf_weights)
    modes = [_coded(_MODES, int(code), "nodes_modes") for code in nodes_modes]

    def children(numbers, leaf):
        at = np.where(np.asarray(leaf, np.bool_), np.add(numbers, inner), numbers)
        return np.concatenate((at, np.zeros(count))).astype(np.int64)

    def padded(values, dtype):
        return np.concatenate((np.asarray(values, dtype), np.zeros(count, dtype)))

    forest = Forest(
        mode=np.array([*modes, *[LEAF] * count], dtype=object),
        feature=padded(nodes_featureids, np.int64),
        threshold=padded(nodes_splits, x.dtype),
        missing=padded(nodes_missing_value_tracks_true or [0] * inner, np.bool_),
        true=children(nodes_truenodeids, nodes_trueleafs),
        false=children(nodes_falsenodeids, nodes_falseleafs),
        roots=np.asarray(tree_roots, dtype=np.int64),
        members=_members(modes, membership_values),
        votes=(inner + np.arange(count), np.asarray(leaf_targetids, np.int64), leaf_weights.astype(x.dtype)),
    )
    targets = max(leaf_targetids) + 1 if n_targets is None else n_targets
    y = aggregated(forest, x, targets, _coded(_AGGREGATES, aggregate_function, "aggregate_function"))
    return transformed(y, _coded(TRANSFORMS, post_transform, "post_transform"))


def _members(modes, values):
    """The sets of the nodes that have one, in the order of the nodes; NaN ends each."""
    nodes = [i for i, mode in enumerate(modes) if mode == MEMBER]
    if not nodes:
        return {}
    listed = np.asarray(() if values is None else values)
    sets = np.split(listed, np.flatnonzero(np.isnan(listed)) + 1)
    if len([s for s in sets if s.size]) < len(nodes):
        raise InvalidInput(f"membership_values of fewer sets than the {len(nodes)} nodes that ask", "one for each")
    return {node: s[~np.isnan(s)] for node, s in zip(nodes, sets, strict=False)}


def _either(listed, tensor):
    """A list attribute, whose elements are float32, or the tensor that may stand instead."""
    return np.asarray(() if listed is None else listed, dtype=np.float32) if tensor is None else tensor


def _forest(
    where,
    targets,
    weights,
    *,
    nodes_falsenodeids,
    nodes_featureids,
    nodes_modes,
    nodes_nodeids,
    nodes_treeids,
    nodes_truenodeids,
    nodes_hitrates=None,
    nodes_hitrates_as_tensor=None,
    nodes_missing_value_tracks_true=None,
    nodes_values=None,
    nodes_values_as_tensor=None,
):
    """The trees that the attributes ``nodes_*`` of both older operators list, with votes at leaves ``where``."""
    fields = {
        "modes": nodes_modes,
        "featureids": nodes_featureids,
        "values": _either(nodes_values, nodes_values_as_tensor),
        "truenodeids": nodes_truenodeids,
        "falsenodeids": nodes_falsenodeids,
        "missing_value_tracks_true": nodes_missing_value_tracks_true,
    }
    trees, numbers = where
    votes = list(zip(trees or (), numbers or (), strict=True))
    return listed_forest(list(zip(nodes_treeids, nodes_nodeids, strict=True)), fields, (votes, targets or (), weights))


def _with_base(scores, base):
    if base.size not in (0, scores.shape[1]):
        raise InvalidInput(f"{base.size} base values for {scores.shape[1]} scores", "as many, or none")
    return scores + base.astype(scores.dtype) if base.size else scores


def TreeEnsembleRegressor(
    x,
    *,
    aggregate_function="SUM",
    base_values=None,
    base_values_as_tensor=None,
    n_targets=None,
    post_transform="NONE",
    target_ids=None,
    target_nodeids=None,
    target_treeids=None,
    target_weights=None,
    target_weights_as_tensor=None,
    **nodes,
):
    """What the leaves say of each target, as in TreeEnsemble, plus its base value; then the transform.

    Source: ONNX TreeEnsembleRegressor, ai.onnx.ml 5, 3 and 1.
    """
    x = rows(x)
    weights = _either(target_weights, target_weights_as_tensor)
    forest = _forest((target_treeids, target_nodeids), target_ids, weights, **nodes)
    targets = max(target_ids) + 1 if n_targets is None else n_targets
    y = _with_base(aggregated(forest, x, targets, aggregate_function), _either(base_values, base_values_as_tensor))
    return transformed(y, post_transform).astype(np.float32)


def TreeEnsembleClassifier(
    x,
    *,
    base_values=None,
    base_values_as_tensor=None,
    class_ids=None,
    class_nodeids=None,
    class_treeids=None,
    class_weights=None,
    class_weights_as_tensor=None,
    classlabels_int64s=None,
    classlabels_strings=None,
    post_transform="NONE",
    **nodes,
):
    """The class with the largest sum of votes and base value, and the transform of these scores.

    If there are two classes and all votes are for one of them, with at most one base value, the sum ``s`` is the score of
    the second class. It is a probability if no weight is negative: then that class is chosen where ``s > 0.5``, else where
    ``s > 0``. The first class's score is ``1 - s`` or ``-s``, or 0 where the votes name the second class.

    Source:
        ONNX TreeEnsembleClassifier, ai.onnx.ml 5, 3 and 1; ONNX Runtime for votes for one class only.
    """
    x = rows(x)
    labels = class_labels(classlabels_int64s, classlabels_strings)
    weights, base = _either(class_weights, class_weights_as_tensor), _either(base_values, base_values_as_tensor)
    forest = _forest((class_treeids, class_nodeids), class_ids, weights, **nodes)
    scores = aggregated(forest, x, len(labels), "SUM")
    voted = set(class_ids or ())
    if len(labels) == 2 and len(voted) == 1 and base.size < 2:
        score = _with_base(scores[:, [*voted]], base)
        chosen, z = _one_of_two(score, voted == {0}, post_transform, probability=bool(np.all(weights >= 0)))
    else:
        scores = _with_base(scores, base)
        chosen, z = np.argmax(scores, axis=1), transformed(scores, post_transform)
    return labels[chosen], z.astype(np.float32)


def _one_of_two(score, named_first, kind, *, probability):
    chosen = (score[:, 0] > (0.5 if probability else 0)).astype(np.int64)
    if named_first:
        return chosen, two_classes(score[:, 0], kind, probability=probability)
    return chosen, transformed(np.concatenate((np.zeros_like(score), score), axis=1), kind)

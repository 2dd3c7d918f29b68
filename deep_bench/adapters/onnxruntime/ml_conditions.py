"""Which nodes may meet the known faults of ONNX Runtime in ai.onnx.ml: what is not known of a node may be so."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir

from deep_bench.adapters.onnxruntime.conditions import computes_in_double, may_hold_nan, shape_of, value_of
from deep_bench.graph import attributes

__all__ = ["computes_in_double"]

_PROBIT = ("PROBIT", 4)
_SOFTMAX = ("SOFTMAX", "SOFTMAX_ZERO")


def imputes_another_number(node: ir.Node) -> bool:
    """Whether the number of values may be neither 1 nor that of the columns."""
    settings, shape = attributes(node), shape_of(node, 0)
    values = settings.get("imputed_value_floats") or settings.get("imputed_value_int64s") or ()
    return len(values) != 1 and (not shape or shape[-1] != len(values))


def has_a_key_that_is_nan(node: ir.Node) -> bool:
    """Whether NaN is encoded, by a version before 4."""
    version = node.graph.opset_imports.get(node.domain) if isinstance(node.graph, ir.Graph) else None
    return (version is None or version < 4) and bool(np.any(np.isnan(attributes(node).get("keys_floats", ()))))


def squares_integers(node: ir.Node) -> bool:
    """Whether integers may be divided by the root of the sum of their squares."""
    value = value_of(node, 0)
    is_integer = value is None or value.dtype is None or not value.dtype.is_floating_point()
    return is_integer and attributes(node).get("norm", "MAX") == "L2"


def divides_by_the_largest(node: ir.Node) -> bool:
    """Whether numbers that may be infinite are divided by the largest."""
    return may_hold_nan(node) and attributes(node).get("norm", "MAX") == "MAX"


def transforms_one_score(node: ir.Node) -> bool:
    """Whether a single score is transformed other than by PROBIT, or at all by a support vector machine."""
    is_svm, kind = node.op_type == "SVMRegressor", _transform(node)
    return (is_svm or _targets(node) == 1) and kind not in ("NONE", 0) and (is_svm or kind not in _PROBIT)


def transforms_several_scores_by_code(node: ir.Node) -> bool:
    """Whether several scores are transformed by SOFTMAX or LOGISTIC."""
    return _targets(node) != 1 and _transform(node) in (1, 2)


def takes_quantiles(node: ir.Node) -> bool:
    """Whether scores are transformed by PROBIT."""
    return _transform(node) in _PROBIT


def takes_the_softmax_of_two_from_one(node: ir.Node) -> bool:
    """Whether two scores made from one are transformed by SOFTMAX or SOFTMAX_ZERO."""
    return _makes_two_of_one(node) and _transform(node) in _SOFTMAX


def takes_quantiles_of_two_from_one(node: ir.Node) -> bool:
    """Whether two scores made from one are transformed by PROBIT."""
    return _makes_two_of_one(node) and _transform(node) in _PROBIT


def is_linear_with_two_labels(node: ir.Node) -> bool:
    """Whether a support vector machine has two classes and no support vectors."""
    return _labels(node) == 2 and not attributes(node).get("vectors_per_class")


def has_bases_of_targets_without_votes(node: ir.Node) -> bool:
    """Whether an example may reach no leaf that votes for a target with a base value."""
    bases = _numbers(node, "base_values")
    return any(bases[target] for target in _unsure(node, "target", len(bases)))


def votes_against_classes(node: ir.Node) -> bool:
    """Whether there are three classes or more, one of which may have no votes and others negative scores."""
    count = _labels(node)
    return count > 2 and bool(np.any(_numbers(node, "class_weights") < 0)) and bool(_unsure(node, "class", count))


def has_large_members(node: ir.Node) -> bool:
    """Whether a number above 30 is a member of a set."""
    return bool(np.any(np.asarray(attributes(node).get("membership_values", ())) > 30))


def has_one_integer_label(node: ir.Node) -> bool:
    """Whether there is one class, with an integer label."""
    return _labels(node) == 1 and "classlabels_int64s" in attributes(node)


def has_one_string_label(node: ir.Node) -> bool:
    """Whether there is one class, with a string for its label."""
    return _labels(node) == 1 and "classlabels_strings" in attributes(node)


def has_two_labels_and_bases(node: ir.Node) -> bool:
    """Whether there are two classes with base values."""
    return _labels(node) == 2 and _numbers(node, "base_values").size > 0


def has_two_labels_with_votes(node: ir.Node) -> bool:
    """Whether there are two classes, and leaves vote for both."""
    return _labels(node) == 2 and set(attributes(node).get("class_ids", ())) == {0, 1}


def _makes_two_of_one(node: ir.Node) -> bool:
    """Whether a classifier has two classes and computes one score."""
    settings = attributes(node)
    if _labels(node) != 2:
        return False
    if node.op_type == "LinearClassifier":
        return len(settings.get("intercepts", ())) == 1
    if node.op_type == "SVMClassifier":
        return bool(settings.get("vectors_per_class")) and not settings.get("prob_a")
    return set(settings.get("class_ids", ())) == {0}


def _unsure(node: ir.Node, kind: str, count: int) -> set[int]:
    """The classes or targets that have no tree all of whose leaves vote for them."""
    settings = attributes(node)
    trees, modes = settings.get("nodes_treeids", ()), settings.get("nodes_modes", ())
    leaves = Counter(tree for tree, mode in zip(trees, modes, strict=False) if mode == "LEAF")
    voting = (settings.get(f"{kind}_{part}", ()) for part in ("treeids", "nodeids", "ids"))
    votes = Counter((tree, voted) for tree, _, voted in set(zip(*voting, strict=False)))
    return set(range(count)) - {voted for (tree, voted), number in votes.items() if number == leaves[tree]}


def _labels(node: ir.Node) -> int:
    settings = attributes(node)
    return max(len(settings.get(f"classlabels_{kind}", ())) for kind in ("int64s", "ints", "strings"))


def _targets(node: ir.Node) -> int:
    settings = attributes(node)
    return int(settings.get("targets", settings.get("n_targets", 1)))


def _transform(node: ir.Node) -> str | int:
    kind: str | int = attributes(node).get("post_transform", "NONE")
    return kind


def _numbers(node: ir.Node, name: str) -> np.ndarray:
    """An attribute that may be stated as floats or as a tensor."""
    settings = attributes(node)
    return np.ravel(settings.get(f"{name}_as_tensor", settings.get(name, ())))

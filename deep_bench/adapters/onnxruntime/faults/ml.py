"""Faults of the operators of ai.onnx.ml: forests, linear models, support vector machines, encoders and scalers.

What is not known of a node may be so: it may meet the fault.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir

from deep_bench.adapters.onnxruntime.faults import conditions
from deep_bench.adapters.onnxruntime.faults.conditions import may_hold_nan, shape_of, value_of
from deep_bench.fault import KnownFault
from deep_bench.graph import attributes

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


_DOMAIN = "ai.onnx.ml"
_CLASSIFIERS = (f"{_DOMAIN}:LinearClassifier", f"{_DOMAIN}:SVMClassifier", f"{_DOMAIN}:TreeEnsembleClassifier")
_REGRESSORS = (
    f"{_DOMAIN}:LinearRegressor",
    f"{_DOMAIN}:SVMRegressor",
    f"{_DOMAIN}:TreeEnsemble",
    f"{_DOMAIN}:TreeEnsembleRegressor",
)

FAULTS = (
    KnownFault(
        "ml_imputer_lengths",
        (f"{_DOMAIN}:Imputer",),
        "wrong values",
        "There may be one value or one for each column; of any other number ONNX Runtime takes the first for all columns, "
        "without an error.",
        applies=imputes_another_number,
    ),
    KnownFault(
        "ml_label_encoder_nan",
        (f"{_DOMAIN}:LabelEncoder",),
        "wrong values",
        "In version 2 keys are compared bit by bit, 'so even a float NaN can be mapped'; ONNX Runtime does not find it.",
        applies=has_a_key_that_is_nan,
    ),
    KnownFault(
        "ml_normalizer_double",
        (f"{_DOMAIN}:Normalizer",),
        "less accurate",
        "float64 is allowed, and only the quotient is rounded to float32; ONNX Runtime rounds the input, so that digits are "
        "lost, and numbers above 3.4e38 are infinite.",
        applies=conditions.computes_in_double,
    ),
    KnownFault(
        "ml_normalizer_integer_squares",
        (f"{_DOMAIN}:Normalizer",),
        "wrong values",
        "L2 divides by the root of the sum of the squares; ONNX Runtime squares integers in their own type, where they "
        "overflow.",
        applies=squares_integers,
    ),
    KnownFault(
        "ml_normalizer_max_infinite",
        (f"{_DOMAIN}:Normalizer",),
        "wrong values",
        "MAX is X / max(X), which is NaN where all elements are minus infinity; ONNX Runtime gives infinity.",
        applies=divides_by_the_largest,
    ),
    KnownFault(
        "ml_post_transform_one_score",
        _REGRESSORS,
        "wrong values",
        "post_transform is applied to the scores; where there is one target ONNX Runtime ignores all but PROBIT, and that "
        "too in SVMRegressor.",
        applies=transforms_one_score,
    ),
    KnownFault(
        "ml_post_transform_two_classes",
        _CLASSIFIERS,
        "wrong values",
        "post_transform is applied to the scores; where those of two classes are made from one, ONNX Runtime applies no "
        "SOFTMAX, nor SOFTMAX_ZERO.",
        applies=takes_the_softmax_of_two_from_one,
    ),
    KnownFault(
        "ml_probit_digits",
        tuple(sorted((*_CLASSIFIERS, *_REGRESSORS))),
        "less accurate",
        "PROBIT is the quantile function of the normal distribution; ONNX Runtime's approximation has three or four digits.",
        applies=takes_quantiles,
    ),
    KnownFault(
        "ml_probit_two_classes",
        _CLASSIFIERS,
        "wrong values",
        "PROBIT is applied to the scores; where those of two classes are made from one, ONNX Runtime writes the results to "
        "wrong places and leaves what the memory held before.",
        applies=takes_quantiles_of_two_from_one,
    ),
    KnownFault(
        "ml_svm_linear_labels",
        (f"{_DOMAIN}:SVMClassifier",),
        "wrong values",
        "There is a score for each class, and one class for each example; of two classes without support vectors ONNX "
        "Runtime gives the second wherever a score is positive, also where the first has the higher one.",
        applies=is_linear_with_two_labels,
    ),
    KnownFault(
        "ml_tree_base_dropped",
        (f"{_DOMAIN}:TreeEnsembleRegressor",),
        "wrong values",
        "Base values are added to the final prediction; ONNX Runtime drops that of a target for which none of the leaves "
        "votes that an example reaches.",
        applies=has_bases_of_targets_without_votes,
    ),
    KnownFault(
        "ml_tree_class_without_votes",
        (f"{_DOMAIN}:TreeEnsembleClassifier",),
        "wrong values",
        "Every class has a score, 0 where no leaf votes for it, and the class with the highest is given; of three and more "
        "ONNX Runtime never gives one without votes, even if all others have negative scores.",
        applies=votes_against_classes,
    ),
    KnownFault(
        "ml_tree_member_fraction",
        (f"{_DOMAIN}:TreeEnsemble",),
        "wrong values",
        "BRANCH_MEMBER tests membership of the number itself; where a member is above 30 ONNX Runtime drops the fraction "
        "first, and refuses members that have one.",
        applies=has_large_members,
    ),
    KnownFault(
        "ml_tree_one_label",
        (f"{_DOMAIN}:TreeEnsembleClassifier",),
        "wrong values",
        "The first output is the top class; where there is one, with an integer label, ONNX Runtime gives 1 and 0 by the "
        "sign of the score.",
        applies=has_one_integer_label,
    ),
    KnownFault(
        "ml_tree_one_string",
        (f"{_DOMAIN}:TreeEnsembleClassifier",),
        "crashes",
        "The first output is the top class; where there is one, with a string for its label, ONNX Runtime reads a second "
        "label that is not there and the process ends.",
        applies=has_one_string_label,
    ),
    KnownFault(
        "ml_tree_post_transform_codes",
        (f"{_DOMAIN}:TreeEnsemble",),
        "wrong values",
        "1 stands for SOFTMAX and 2 for LOGISTIC; ONNX Runtime takes them the other way around.",
        applies=transforms_several_scores_by_code,
    ),
    KnownFault(
        "ml_tree_two_bases",
        (f"{_DOMAIN}:TreeEnsembleClassifier",),
        "wrong values",
        "Base values are added to the final scores; of two classes ONNX Runtime gives the sum of the first score and the "
        "second base value, and the opposite of it, or adds none where leaves vote for one class only.",
        applies=has_two_labels_and_bases,
    ),
    KnownFault(
        "ml_tree_two_labels",
        (f"{_DOMAIN}:TreeEnsembleClassifier",),
        "wrong values",
        "The first output is the class with the highest score; of two that both have votes ONNX Runtime gives the second "
        "wherever its score is positive, and of integer labels 1 and 0 instead of them.",
        applies=has_two_labels_with_votes,
    ),
)

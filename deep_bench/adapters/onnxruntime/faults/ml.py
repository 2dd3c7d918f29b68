"""Faults of the operators of ai.onnx.ml: forests, linear models, support vector machines, encoders and scalers."""

from __future__ import annotations

from deep_bench.adapters.onnxruntime import ml_conditions as conditions
from deep_bench.fault import KnownFault

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
        applies=conditions.imputes_another_number,
    ),
    KnownFault(
        "ml_label_encoder_nan",
        (f"{_DOMAIN}:LabelEncoder",),
        "wrong values",
        "In version 2 keys are compared bit by bit, 'so even a float NaN can be mapped'; ONNX Runtime does not find it.",
        applies=conditions.has_a_key_that_is_nan,
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
        applies=conditions.squares_integers,
    ),
    KnownFault(
        "ml_normalizer_max_infinite",
        (f"{_DOMAIN}:Normalizer",),
        "wrong values",
        "MAX is X / max(X), which is NaN where all elements are minus infinity; ONNX Runtime gives infinity.",
        applies=conditions.divides_by_the_largest,
    ),
    KnownFault(
        "ml_post_transform_one_score",
        _REGRESSORS,
        "wrong values",
        "post_transform is applied to the scores; where there is one target ONNX Runtime ignores all but PROBIT, and that "
        "too in SVMRegressor.",
        applies=conditions.transforms_one_score,
    ),
    KnownFault(
        "ml_post_transform_two_classes",
        _CLASSIFIERS,
        "wrong values",
        "post_transform is applied to the scores; where those of two classes are made from one, ONNX Runtime applies no "
        "SOFTMAX, nor SOFTMAX_ZERO.",
        applies=conditions.takes_the_softmax_of_two_from_one,
    ),
    KnownFault(
        "ml_probit_digits",
        tuple(sorted((*_CLASSIFIERS, *_REGRESSORS))),
        "less accurate",
        "PROBIT is the quantile function of the normal distribution; ONNX Runtime's approximation has three or four digits.",
        applies=conditions.takes_quantiles,
    ),
    KnownFault(
        "ml_probit_two_classes",
        _CLASSIFIERS,
        "wrong values",
        "PROBIT is applied to the scores; where those of two classes are made from one, ONNX Runtime writes the results to "
        "wrong places and leaves what the memory held before.",
        applies=conditions.takes_quantiles_of_two_from_one,
    ),
    KnownFault(
        "ml_svm_linear_labels",
        (f"{_DOMAIN}:SVMClassifier",),
        "wrong values",
        "There is a score for each class, and one class for each example; of two classes without support vectors ONNX "
        "Runtime gives the second wherever a score is positive, also where the first has the higher one.",
        applies=conditions.is_linear_with_two_labels,
    ),
    KnownFault(
        "ml_tree_base_dropped",
        (f"{_DOMAIN}:TreeEnsembleRegressor",),
        "wrong values",
        "Base values are added to the final prediction; ONNX Runtime drops that of a target for which none of the leaves "
        "votes that an example reaches.",
        applies=conditions.has_bases_of_targets_without_votes,
    ),
    KnownFault(
        "ml_tree_class_without_votes",
        (f"{_DOMAIN}:TreeEnsembleClassifier",),
        "wrong values",
        "Every class has a score, 0 where no leaf votes for it, and the class with the highest is given; of three and more "
        "ONNX Runtime never gives one without votes, even if all others have negative scores.",
        applies=conditions.votes_against_classes,
    ),
    KnownFault(
        "ml_tree_member_fraction",
        (f"{_DOMAIN}:TreeEnsemble",),
        "wrong values",
        "BRANCH_MEMBER tests membership of the number itself; where a member is above 30 ONNX Runtime drops the fraction "
        "first, and refuses members that have one.",
        applies=conditions.has_large_members,
    ),
    KnownFault(
        "ml_tree_one_label",
        (f"{_DOMAIN}:TreeEnsembleClassifier",),
        "wrong values",
        "The first output is the top class; where there is one, with an integer label, ONNX Runtime gives 1 and 0 by the "
        "sign of the score.",
        applies=conditions.has_one_integer_label,
    ),
    KnownFault(
        "ml_tree_one_string",
        (f"{_DOMAIN}:TreeEnsembleClassifier",),
        "crashes",
        "The first output is the top class; where there is one, with a string for its label, ONNX Runtime reads a second "
        "label that is not there and the process ends.",
        applies=conditions.has_one_string_label,
    ),
    KnownFault(
        "ml_tree_post_transform_codes",
        (f"{_DOMAIN}:TreeEnsemble",),
        "wrong values",
        "1 stands for SOFTMAX and 2 for LOGISTIC; ONNX Runtime takes them the other way around.",
        applies=conditions.transforms_several_scores_by_code,
    ),
    KnownFault(
        "ml_tree_two_bases",
        (f"{_DOMAIN}:TreeEnsembleClassifier",),
        "wrong values",
        "Base values are added to the final scores; of two classes ONNX Runtime gives the sum of the first score and the "
        "second base value, and the opposite of it, or adds none where leaves vote for one class only.",
        applies=conditions.has_two_labels_and_bases,
    ),
    KnownFault(
        "ml_tree_two_labels",
        (f"{_DOMAIN}:TreeEnsembleClassifier",),
        "wrong values",
        "The first output is the class with the highest score; of two that both have votes ONNX Runtime gives the second "
        "wherever its score is positive, and of integer labels 1 and 0 instead of them.",
        applies=conditions.has_two_labels_with_votes,
    ),
)

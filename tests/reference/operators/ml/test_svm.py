"""Support vector machines against ONNX Runtime, and by hand where it does not do what the standard says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from deep_bench.errors import InvalidInput, Unsupported
from deep_bench.reference.operators.ml.models import SVMClassifier, SVMRegressor

KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
FEATURES = 3


def machine(seed, classes, *, probability=False):
    """Attributes of a classifier with one to three support vectors for each class."""
    rng = np.random.default_rng(seed)
    per_class = rng.integers(1, 4, classes).tolist()
    vectors, duels = sum(per_class), classes * (classes - 1) // 2

    def draw(count):
        return rng.standard_normal(count).astype(np.float32).tolist()

    stated = {
        "vectors_per_class": per_class,
        "support_vectors": draw(vectors * FEATURES),
        "coefficients": draw(vectors * (classes - 1)),
        "rho": draw(duels),
        "kernel_params": [0.4, 0.2, 3.0],
        "classlabels_ints": list(range(10, 10 + classes)),
    }
    if probability:
        stated |= {"prob_a": [-abs(a) for a in draw(duels)], "prob_b": draw(duels)}
    return stated


def rows(seed=0, count=8):
    return np.random.default_rng(100 + seed).standard_normal((count, FEATURES)).astype(np.float32)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("probability", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_classifier(judge, classes, probability, kernel) -> None:
    for seed, transform in enumerate(TRANSFORMS):
        if classes == 2 and not probability and transform.startswith("SOFTMAX"):
            continue
        stated = machine(seed, classes, probability=probability) | {"kernel_type": kernel, "post_transform": transform}
        judge("SVMClassifier", [rows(seed)], n_outputs=2, **stated, rtol=1e-4, atol=1e-5)


def test_classifier_of_other_inputs(judge) -> None:
    stated = machine(7, 3, probability=True)
    for x in (rows()[0], rows()[:0], rows().astype(np.float64), (3 * rows()).astype(np.int64), rows().astype(np.int32)):
        judge("SVMClassifier", [x], n_outputs=2, **stated, atol=1e-5, rtol=1e-4)
    del stated["classlabels_ints"]
    judge("SVMClassifier", [rows()], n_outputs=2, **stated, classlabels_strings=["a", "b", "c"], atol=1e-5, rtol=1e-4)


def test_duels_that_end_in_a_circle_go_to_the_first_class(judge) -> None:
    vectors = np.eye(3, dtype=np.float32)
    stated = {"vectors_per_class": [1, 1, 1], "support_vectors": vectors.ravel().tolist(), "coefficients": [0.0] * 6}
    stated |= {"rho": [1.0, -1.0, 1.0], "classlabels_ints": [7, 8, 9], "kernel_params": [0.0, 0.0, 0.0]}
    judge("SVMClassifier", [vectors], n_outputs=2, **stated)
    assert SVMClassifier(vectors, **stated)[0].tolist() == [7, 7, 7]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_classifier(judge, transform) -> None:
    stated = {"coefficients": rows(3, 4).ravel().tolist(), "rho": [0.3], "kernel_params": [0.0, 0.0, 0.0]}
    stated |= {"classlabels_strings": ["a", "b", "c", "d"], "post_transform": transform}
    judge("SVMClassifier", [rows()], n_outputs=2, **stated)


def test_linear_classifier_of_two_classes_takes_the_larger_score() -> None:
    x = np.array([[1.0], [-1.0]])
    chosen, z = SVMClassifier(x, coefficients=(0.5, -0.25), rho=(0.0,), classlabels_ints=(4, 5))
    assert chosen.tolist() == [4, 5]
    assert z.tolist() == [[0.5, -0.25], [-0.5, 0.25]]


@pytest.mark.parametrize("transform", ["SOFTMAX", "SOFTMAX_ZERO"])
def test_softmax_of_the_only_duel(transform) -> None:
    stated = machine(1, 2)
    _, raw = SVMClassifier(rows(), **stated)
    _, z = SVMClassifier(rows(), **stated, post_transform=transform)
    assert z == pytest.approx(np.exp(raw) / np.sum(np.exp(raw), 1, keepdims=True))


def test_two_classes_have_the_probabilities_of_their_duel() -> None:
    stated = machine(2, 2) | {"prob_a": (-1.0,), "prob_b": (0.3,)}
    _, z = SVMClassifier(rows(), **stated)
    _, raw = SVMClassifier(rows(), **machine(2, 2))
    assert z[:, 0] == pytest.approx(1 / (1 + np.exp(0.3 - raw[:, 1])), abs=0.005)


def test_coupled_probabilities_reproduce_those_that_fit(judge) -> None:
    stated = machine(3, 4) | {"prob_a": (-1.0,) * 6, "prob_b": (0.0,) * 6}
    p = np.array([0.1, 0.2, 0.3, 0.4])
    stated["coefficients"] = [0.0] * len(stated["coefficients"])
    stated["rho"] = [float(np.log(p[i] / p[j])) for i, j in itertools.combinations(range(4), 2)]
    judge("SVMClassifier", [rows()], n_outputs=2, **stated)
    _, z = SVMClassifier(rows(), **stated)
    assert z == pytest.approx(np.tile(p, (8, 1)), abs=0.01)


def test_what_a_classifier_needs() -> None:
    with pytest.raises(InvalidInput, match="support vectors of 3 classes for 2 labels"):
        SVMClassifier(rows(), **machine(0, 3) | {"classlabels_ints": (1, 2)})
    with pytest.raises(Unsupported, match="kernel_type='COSINE'"):
        SVMClassifier(rows(), **machine(0, 3), kernel_type="COSINE")
    with pytest.raises(InvalidInput, match="2 weights"):
        SVMClassifier(rows(), **machine(0, 3) | {"rho": (1.0, 2.0)})


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("degree", [2.0, 3.0, 1.5])
def test_regressor(judge, kernel, one_class, degree) -> None:
    stated = {"coefficients": [0.5, -0.2, 0.7, 0.1], "support_vectors": rows(5, 4).ravel().tolist(), "n_supports": 4}
    stated |= {"rho": [-0.1], "kernel_params": [0.3, 0.1, degree], "kernel_type": kernel, "one_class": one_class}
    for x in (rows(), rows()[0], rows()[:0]):
        judge("SVMRegressor", [x], **stated, rtol=1e-4)


def test_linear_regressor(judge) -> None:
    stated = {"coefficients": [0.5, -0.2, 0.7], "rho": [0.25], "kernel_params": [0.0, 0.0, 0.0], "n_supports": 0}
    judge("SVMRegressor", [rows()], **stated)
    judge("SVMRegressor", [rows()], **stated, kernel_type="RBF")  # there are no vectors to take it of


def test_regressor_is_transformed_and_takes_every_type() -> None:
    x = np.array([[1, 2]])
    y = SVMRegressor(x, coefficients=(0.5, 0.25), rho=(-1.0,), post_transform="LOGISTIC")
    assert (y.dtype, y.tolist()) == (np.float32, [[0.5]])
    assert SVMRegressor(x, coefficients=(0.5, 0.25), rho=(-1.0,), one_class=1).tolist() == [[-1]]

"""Linear models against ONNX Runtime, and by hand where it does not do what the standard says."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import InvalidInput, Unsupported
from deep_bench.reference.operators.ml.models import LinearClassifier, LinearRegressor

RNG = np.random.default_rng(4)
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
COARSE = {"rtol": 6e-3, "atol": 1e-3}  # ONNX Runtime's inverse error function has three digits


def random(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def labels(strings, count):
    names = [f"class {i}" for i in range(count)]
    return {"classlabels_strings": names} if strings else {"classlabels_ints": list(range(10, 10 + count))}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("count", [2, 3, 7])
def test_classifier(judge, transform, count) -> None:
    w = 0.2 * random(count, 4)
    options = {"coefficients": w.ravel().tolist(), "intercepts": (random(count) / 10 + 0.5).tolist()}
    coarse = COARSE if transform == "PROBIT" else {}
    for dtype in (np.float32, np.float64, np.int64, np.int32):
        x = np.clip(random(6, 4), -1, 1).astype(dtype)
        stated = {**options, **labels(dtype == np.float32, count), "post_transform": transform}
        judge("LinearClassifier", [x], n_outputs=2, **stated, **coarse)
        judge("LinearClassifier", [x[0]], n_outputs=2, **stated, **coarse)
        judge("LinearClassifier", [x[:0]], n_outputs=2, **stated)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
def test_classifier_with_one_row_for_two_classes(judge, transform) -> None:
    x = random(9, 3)
    x[0] = 0
    stated = {"coefficients": random(3).tolist(), "intercepts": [0.0], "post_transform": transform}
    judge("LinearClassifier", [x], n_outputs=2, **stated, **labels(True, 2))


def test_one_row_with_the_other_transforms() -> None:
    x = np.array([[0.25], [0.75]], np.float32)

    def scores(transform):
        _, z = LinearClassifier(x, coefficients=(1.0,), classlabels_ints=(4, 5), post_transform=transform)
        return z

    e = np.exp(2 * x[:, 0])
    assert scores("SOFTMAX")[:, 1] == pytest.approx(e / (1 + e))
    assert scores("PROBIT") == pytest.approx(np.array([[0.6744898, -0.6744898], [-0.6744898, 0.6744898]]))
    assert scores("SOFTMAX_ZERO") == pytest.approx(scores("SOFTMAX"))


def test_ties_go_to_the_first_class(judge) -> None:
    x = np.zeros((2, 2), np.float32)
    judge("LinearClassifier", [x], n_outputs=2, coefficients=[1.0] * 6, intercepts=[0.0] * 3, **labels(False, 3))


def test_softmax_of_zeros_only() -> None:
    _, z = LinearClassifier(
        np.zeros((1, 1)), coefficients=(1.0, 2.0), classlabels_ints=(0, 1), post_transform="SOFTMAX_ZERO"
    )
    assert z.tolist() == [[0, 0]]


def test_what_a_classifier_needs() -> None:
    x = random(2, 3)
    with pytest.raises(InvalidInput, match="5 coefficients for 2 classes and 3 features"):
        LinearClassifier(x, coefficients=(1.0,) * 5, classlabels_ints=(0, 1))
    with pytest.raises(InvalidInput, match="neither or both"):
        LinearClassifier(x, coefficients=(1.0,) * 3)
    with pytest.raises(Unsupported, match="SIGMOID"):
        LinearClassifier(x, coefficients=(1.0,) * 6, classlabels_ints=(0, 1), post_transform="SIGMOID")


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("intercepts", [None, [0.5, 0.25]])
def test_regressor(judge, transform, intercepts) -> None:
    x = np.clip(random(5, 3), -1, 1)
    stated = {"coefficients": (0.2 * random(6)).tolist(), "targets": 2, "post_transform": transform}
    if intercepts:
        stated["intercepts"] = intercepts
    coarse = COARSE if transform == "PROBIT" else {}
    for rows in (x, x[0], x[:0]):
        judge("LinearRegressor", [rows], **stated, **coarse)


def test_regressor_with_one_target_is_transformed() -> None:
    x = np.array([[1, 2]])
    assert LinearRegressor(x, coefficients=(0.5, 0.25), post_transform="LOGISTIC")[0, 0] == pytest.approx(0.7310586)
    assert LinearRegressor(x, coefficients=(0.5, 0.25), intercepts=(3.0,)).tolist() == [[4]]

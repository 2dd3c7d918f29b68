"""Scores at their edges: nothing, NaN, ties, labels that are none, layouts."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from deep_bench.errors import InvalidArgument, InvalidInput
from deep_bench.training import scores as s

CLASSIFIED = (s.Accuracy, s.ConfusionMatrix, s.NatsPerToken, s.Perplexity)
NUMBERS = (s.MeanSquaredError, s.MeanAbsoluteError, s.RootMeanSquaredError, s.RelativeError, s.R2)


@pytest.mark.parametrize("make", [*CLASSIFIED, *NUMBERS, s.HitRate, s.NDCG])
def test_of_no_samples_there_is_no_value(make: Callable[..., s.Score]) -> None:
    assert np.isnan(make("z", "y").value())


@pytest.mark.parametrize("make", CLASSIFIED)
def test_an_empty_batch_changes_nothing(make: Callable[..., s.Score]) -> None:
    score = make("z", "y")
    score.add({"z": np.zeros((0, 3))}, {"y": np.zeros(0, int)})
    assert np.isnan(score.value())


def test_mean_output_and_sample_losses_of_nothing() -> None:
    assert np.isnan(s.MeanOutput().value())
    assert np.isnan(s.SampleLosses(s.squared_errors("y", "t")).value())


def test_nan_is_never_right() -> None:
    logits = np.array([[np.nan, 1.0], [np.nan, np.nan], [0.0, 1.0]])
    accuracy, confusion, nats = (make("z", "y") for make in (s.Accuracy, s.ConfusionMatrix, s.NatsPerToken))
    for score in (accuracy, confusion, nats):
        score.add({"z": logits}, {"y": np.array([1, 0, 1])})
    assert accuracy.value() == pytest.approx(1 / 3)
    assert isinstance(confusion, s.ConfusionMatrix)
    assert (confusion.matrix.tolist(), confusion.unpredicted.tolist()) == ([[0, 0], [0, 1]], [1, 1])
    assert confusion.recall.tolist() == [0, 0.5]
    assert np.isnan(nats.value())


@pytest.mark.parametrize("make", NUMBERS)
def test_nan_and_infinity_show(make: Callable[..., s.Score]) -> None:
    for bad in (np.nan, np.inf):
        score = make("y", "t")
        score.add({"y": np.array([bad, 1.0])}, {"t": np.array([0.0, 2.0])})
        score.add({"y": np.array([1.0])}, {"t": np.array([1.0])})
        assert not np.isfinite(score.value())


def test_ties_go_to_the_lowest_class() -> None:
    score = s.Accuracy("z", "y")
    score.add({"z": np.zeros((3, 3))}, {"y": np.array([0, 1, 2])})
    assert score.value() == pytest.approx(1 / 3)


def test_equal_scores_rank_nothing_first() -> None:
    hit, gain = s.HitRate("z", "g", 2), s.NDCG("z", "g", 2)
    for score in (hit, gain):
        score.add({"z": np.zeros((1, 3))}, {"g": np.array([[1, 0, 0]])})
        assert score.value() == 0


def test_candidates_without_a_score_come_last() -> None:
    hit = s.HitRate("z", "g", 1)
    hit.add({"z": np.array([[np.nan, -np.inf], [np.nan, 3.0]])}, {"g": np.array([[1, 0], [0, 1]])})
    assert hit.value() == 0.5


@pytest.mark.parametrize("label", [3, -1])
@pytest.mark.parametrize("make", CLASSIFIED)
def test_a_label_that_is_no_class_names_its_sample(make: Callable[..., s.Score], label: int) -> None:
    score = make("z", "y")
    score.add({"z": np.zeros((4, 3))}, {"y": np.zeros(4, int)})
    with pytest.raises(InvalidInput, match=rf"sample 5: label {label} in 'y'\nExpected: 0 to 2"):
        score.add({"z": np.zeros((2, 3))}, {"y": np.array([0, label])})


@pytest.mark.parametrize("make", CLASSIFIED)
def test_ignored_labels_do_not_count(make: Callable[..., s.Score]) -> None:
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(5, 4, 6)), random.integers(0, 4, (5, 6))
    labels[:, 1::2] = -100
    plain, ignoring = make("z", "y", axis=2), make("z", "y", ignore=-100)
    plain.add({"z": np.moveaxis(logits, 1, 2)[:, ::2]}, {"y": labels[:, ::2]})
    ignoring.add({"z": logits}, {"y": labels})
    assert ignoring.value() == pytest.approx(plain.value(), rel=1e-15)


def test_all_labels_ignored_is_no_value() -> None:
    score = s.Accuracy("z", "y", ignore=0)
    score.add({"z": np.zeros((4, 3))}, {"y": np.zeros(4, int)})
    assert np.isnan(score.value())


def test_half_precision_is_summed_in_float64() -> None:
    for dtype in (np.float16, ml_dtypes.bfloat16):
        score = s.NatsPerToken("z", "y")
        score.add({"z": np.zeros((9000, 8), dtype)}, {"y": np.zeros(9000, int)})
        assert score.value() == pytest.approx(np.log(8), rel=1e-14)


def test_masked_and_huge_logits() -> None:
    score = s.NatsPerToken("z", "y")
    score.add({"z": np.array([[-np.inf, 0.0], [1e300, -1e300]])}, {"y": np.array([1, 0])})
    assert score.value() == 0
    score.add({"z": np.array([[-np.inf, 0.0]])}, {"y": np.array([0])})
    assert score.value() == np.inf
    perplexity = s.Perplexity("z", "y")
    perplexity.add({"z": np.array([[0.0, 5000.0]])}, {"y": np.array([0])})
    assert perplexity.value() == np.inf


def test_undefined_is_nan_and_not_perfect() -> None:
    same, zero = np.ones(3), np.zeros(3)
    r2, relative = s.R2("y", "t"), s.RelativeError("y", "t")
    r2.add({"y": same}, {"t": same})
    relative.add({"y": zero}, {"t": zero})
    assert np.isnan(r2.value())
    assert np.isnan(relative.value())


def test_the_loss_of_batches_of_different_size() -> None:
    score = s.MeanOutput()
    for loss, n in ((1.0, 3), (4.0, 1)):
        score.add({"loss": np.array(loss)}, {"x": np.zeros(n)})
    assert (score.value(), score.direction) == (1.75, "lower")


BAD = {
    "no output": (s.Accuracy("z", "y"), {"q": np.zeros((2, 3))}, {"y": np.zeros(2, int)}, "no 'z' among the outputs"),
    "no label": (s.Accuracy("z", "y"), {"z": np.zeros((2, 3))}, {"q": np.zeros(2)}, "no 'y' among the samples' arrays"),
    "one-hot": (s.Accuracy("z", "y"), {"z": np.zeros((2, 3))}, {"y": np.zeros((2, 3), int)}, r"axis 1"),
    "real labels": (s.Accuracy("z", "y"), {"z": np.zeros((2, 3))}, {"y": np.zeros(2)}, "float64"),
    "k": (s.Accuracy("z", "y", 5), {"z": np.zeros((2, 3))}, {"y": np.zeros(2, int)}, "first 5 of 3"),
    "broadcast": (s.MeanSquaredError("y", "t"), {"y": np.zeros((2, 1))}, {"t": np.zeros(2)}, r"\[2, 1\] beside 't'"),
    "no number": (s.MeanOutput(), {"loss": np.zeros(2)}, {"x": np.zeros(2)}, "a single number"),
    "nothing relevant": (s.NDCG("z", "g", 1), {"z": np.zeros((2, 3))}, {"g": np.array([[1, 0, 0], [0] * 3])}, "list 1"),
    "less than nothing": (
        s.NDCG("z", "g", 1),
        {"z": np.zeros((1, 3))},
        {"g": np.array([[1, -1, 0]])},
        "no relevance below 0",
    ),
    "all candidates": (s.HitRate("z", "g", 3), {"z": np.zeros((1, 3))}, {"g": np.ones((1, 3))}, "more candidates"),
    "losses": (s.SampleLosses(lambda o, b: np.zeros(1)), {}, {"x": np.zeros(2)}, "for 2 samples"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_refused(name: str) -> None:
    score, outputs, batch, message = BAD[name]
    with pytest.raises(InvalidInput, match=message):
        score.add(outputs, batch)


def test_a_list_that_ends_too_early_is_no_result() -> None:
    score = s.HitRate("z", "g", 1, candidates=3)
    score.add({"z": np.zeros(4)}, {"g": np.array([1, 0, 0, 1])})
    with pytest.raises(InvalidInput, match="a last list of 1 candidates"):
        score.value()


def test_settings_that_make_no_sense() -> None:
    for make in (
        lambda: s.Accuracy("z", "y", 0),
        lambda: s.Accuracy("z", "y", axis=0),
        lambda: s.HitRate("z", "g", 0),
        lambda: s.NDCG("z", "g", 10, candidates=10),
    ):
        with pytest.raises(InvalidArgument):
            make()

"""Scores against scikit-learn's, on data that hypothesis makes up, whatever the batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from deep_bench.training import scores as s

seeds = st.integers(0, 2**32 - 1)
counts = st.integers(2, 60)
class_counts = st.integers(3, 7)
parts = st.integers(1, 9)

COMMON = settings(max_examples=40, deadline=None)


def fed(score: s.Score, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray], parts: int) -> s.Score:
    """A score after all samples, in so many batches, some of them empty."""
    size = len(next(iter(batch.values())))
    ends = [0, *sorted(np.random.default_rng(parts).integers(0, size + 1, parts - 1)), size]
    for begin, end in pairwise(ends):
        rows = slice(begin, end)
        score.add({n: a[rows] for n, a in outputs.items()}, {n: a[rows] for n, a in batch.items()})
    return score


def classified(seed: int, n: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(n, classes)), random.integers(0, classes, n)


@COMMON
@given(seeds, counts, class_counts, parts)
def test_accuracy(seed: int, n: int, classes: int, parts: int) -> None:
    logits, labels = classified(seed, n, classes)
    for k in (1, 2):
        found = fed(s.Accuracy("z", "y", k), {"z": logits}, {"y": labels}, parts)
        expected = metrics.top_k_accuracy_score(labels, logits, k=k, labels=range(classes))
        assert found.value() == pytest.approx(expected, rel=1e-14)


@COMMON
@given(seeds, counts, class_counts, parts)
def test_confusion(seed: int, n: int, classes: int, parts: int) -> None:
    logits, labels = classified(seed, n, classes)
    found = fed(s.ConfusionMatrix("z", "y"), {"z": logits}, {"y": labels}, parts)
    assert isinstance(found, s.ConfusionMatrix)
    predicted = logits.argmax(1)
    np.testing.assert_array_equal(found.matrix, metrics.confusion_matrix(labels, predicted, labels=range(classes)))
    for ours, theirs in ((found.precision, metrics.precision_score), (found.recall, metrics.recall_score)):
        expected = theirs(labels, predicted, labels=range(classes), average=None, zero_division=np.nan)
        np.testing.assert_allclose(ours, expected)
    present = metrics.recall_score(labels, predicted, labels=np.unique(labels), average="macro")
    assert found.value() == pytest.approx(present, rel=1e-14)


@COMMON
@given(seeds, counts, class_counts, parts)
def test_nats_and_perplexity(seed: int, n: int, classes: int, parts: int) -> None:
    logits, labels = classified(seed, n, classes)
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = metrics.log_loss(labels, p, labels=range(classes))
    outputs, batch = {"z": logits}, {"y": labels}
    assert fed(s.NatsPerToken("z", "y"), outputs, batch, parts).value() == pytest.approx(expected, rel=1e-12)
    assert fed(s.Perplexity("z", "y"), outputs, batch, parts).value() == pytest.approx(np.exp(expected), rel=1e-12)
    each = fed(s.SampleLosses(s.cross_entropies("z", "y")), outputs, batch, parts)
    assert isinstance(each, s.SampleLosses)
    np.testing.assert_allclose(each.losses, -np.log(p[np.arange(n), labels]))
    assert each.value() == pytest.approx(expected, rel=1e-12)


@COMMON
@given(seeds, counts, st.integers(1, 3), parts, st.sampled_from([0.0, 1.0, 1e6]))
def test_regression(seed: int, n: int, width: int, parts: int, offset: float) -> None:
    random = np.random.default_rng(seed)
    t = random.normal(size=(n, width)) + offset
    y = t + random.normal(size=(n, width)) / 3
    expected = {
        s.MeanSquaredError: metrics.mean_squared_error(t, y),
        s.MeanAbsoluteError: metrics.mean_absolute_error(t, y),
        s.RootMeanSquaredError: metrics.mean_squared_error(t, y) ** 0.5,
        s.RelativeError: np.linalg.norm(y - t) / np.linalg.norm(t),
        s.R2: metrics.r2_score(t, y),
    }
    for make, value in expected.items():
        assert fed(make("y", "t"), {"y": y}, {"t": t}, parts).value() == pytest.approx(value, rel=1e-9)


@COMMON
@given(seeds, st.integers(1, 20), st.integers(4, 12), parts, st.integers(1, 3))
def test_ranking(seed: int, n: int, candidates: int, parts: int, k: int) -> None:
    random = np.random.default_rng(seed)
    scores = random.normal(size=(n, candidates))
    gains = random.integers(0, 3, (n, candidates))
    gains[np.arange(n), random.integers(0, candidates, n)] = 1 + random.integers(0, 2, n)
    ideal = metrics.ndcg_score(gains, scores, k=k)
    heads = np.argsort(-scores, axis=1)[:, :k]
    hits = (np.take_along_axis(gains, heads, 1) > 0).any(1).mean()
    makers: tuple[Callable[..., s.Score], ...] = (s.NDCG, s.HitRate)
    for make, expected in zip(makers, (ideal, hits), strict=True):
        assert fed(make("z", "g", k), {"z": scores}, {"g": gains}, parts).value() == pytest.approx(expected, rel=1e-12)
        flat = fed(make("z", "g", k, candidates=candidates), {"z": scores.ravel()}, {"g": gains.ravel()}, parts)
        assert flat.value() == pytest.approx(expected, rel=1e-12)


def test_r2_keeps_its_digits_far_from_zero() -> None:
    random = np.random.default_rng(0)
    t = random.normal(size=4000)
    y = t + random.normal(size=4000) / 10
    near, far = (fed(s.R2("y", "t"), {"y": y + c}, {"t": t + c}, 8).value() for c in (0.0, 2.0**20))
    naive = 1 - ((y - t) ** 2).sum() / (((t + 2.0**20) ** 2).sum() - 4000 * (t + 2.0**20).mean() ** 2)
    assert far == pytest.approx(near, rel=1e-9)
    assert abs(naive - near) > 1e-7 * near  # so the data would show it

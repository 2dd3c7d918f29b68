"""What every sampler promises, on drawn sizes; `AS_PROMISED` has one that can be made from any set of labels."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidData, Unsupported
from deep_bench.training.dataset import checked_numbers, labels_of, lengths_of
from deep_bench.training.samplers import (
    Bucketed,
    Infinite,
    Sampler,
    Sequential,
    Shuffled,
    Stratified,
    Weighted,
    WithReplacement,
)

Make = Callable[[np.ndarray, int, int, bool], Sampler]

EACH_ONCE: dict[str, Make] = {
    "sequential": lambda values, size, seed, drop: Sequential(len(values), size, drop_last=drop),
    "shuffled": lambda values, size, seed, drop: Shuffled(len(values), size, seed=seed, drop_last=drop),
    "stratified": lambda values, size, seed, drop: Stratified(values, size, seed=seed, drop_last=drop),
    "bucketed": lambda values, size, seed, drop: Bucketed(values, size, pool=2, seed=seed, drop_last=drop),
}
DRAWN: dict[str, Make] = {
    "with-replacement": lambda values, size, seed, drop: WithReplacement(len(values), size, seed=seed, drop_last=drop),
    "weighted": lambda values, size, seed, drop: Weighted(values + 1, size, seed=seed, drop_last=drop),
}
ALL = {**EACH_ONCE, **DRAWN}
LABELS = st.lists(st.integers(0, 4), min_size=1, max_size=60).map(np.array)
SEEDS, SIZES, EPOCHS = st.integers(0, 2**70), st.integers(1, 70), st.integers(0, 10)


@pytest.mark.parametrize("name", ALL)
@given(values=LABELS, size=SIZES, seed=SEEDS, epoch=EPOCHS, drop=st.booleans())
def test_batches_are_numbers_of_samples_of_the_size_asked_for(
    name: str, values: np.ndarray, size: int, seed: int, epoch: int, drop: bool
) -> None:
    drop = drop and size <= len(values)
    sampler = ALL[name](values, size, seed, drop)
    batches = list(sampler.epoch(epoch))
    sizes = sorted((len(batch) for batch in batches), reverse=True)
    assert len(batches) == len(sampler)
    assert sizes[:-1] == [size] * (len(sizes) - 1)
    assert sizes[-1] == (size if drop or len(values) % size == 0 else len(values) % size)
    assert all(batch.dtype == np.int64 and batch.min() >= 0 and batch.max() < len(values) for batch in batches)
    if name in EACH_ONCE:
        seen = np.concatenate(batches)
        assert len(set(seen.tolist())) == len(seen) == len(values) - drop * (len(values) % size)


@pytest.mark.parametrize("name", ALL)
@given(values=LABELS, size=SIZES, seed=SEEDS, epoch=EPOCHS)
def test_an_epoch_is_a_function_of_seed_and_number(name: str, values: np.ndarray, size: int, seed: int, epoch: int) -> None:
    made = ALL[name](values, size, seed, False)
    first = [batch.copy() for batch in made.epoch(epoch)]
    list(made.epoch(epoch + 1))
    again = ALL[name](values.copy(), size, seed, False).epoch(epoch)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("name", sorted(set(ALL) - {"sequential"}))
def test_other_seeds_and_other_epochs_give_other_orders(name: str) -> None:
    values = np.arange(200) % 7
    made = [ALL[name](values, 8, seed, False) for seed in range(5)]
    orders = {tuple(np.concatenate(list(sampler.epoch(e))).tolist()) for sampler in made for e in range(5)}
    assert len(orders) == 25


@given(values=LABELS, size=SIZES, seed=SEEDS)
def test_stratified_batches_have_each_class_by_its_share(values: np.ndarray, size: int, seed: int) -> None:
    classes, counts = np.unique(values, return_counts=True)
    for batch in Stratified(values, size, seed=seed).epoch(0):
        share = counts / len(values)
        seen = np.array([(values[batch] == c).sum() for c in classes])
        assert (abs(seen - share * len(batch)) <= 1 + share * len(classes) + 1e-9).all()


def test_stratified_spreads_what_shuffling_does_not() -> None:
    values = np.repeat([0, 1], [950, 50])

    def spread(sampler: Sampler) -> int:
        seen = [int(values[batch].sum()) for batch in sampler.epoch(0)]
        return max(seen) - min(seen)

    assert spread(Stratified(values, 100)) <= 1 < spread(Shuffled(1000, 100))


def test_buckets_pad_less_than_shuffling() -> None:
    lengths = np.random.default_rng(0).integers(1, 500, 3000)

    def padding(sampler: Sampler) -> int:
        return sum(int((lengths[batch].max() - lengths[batch]).sum()) for batch in sampler.epoch(0))

    assert padding(Bucketed(lengths, 16)) * 10 < padding(Shuffled(3000, 16))


def test_buckets_do_not_come_sorted_by_length() -> None:
    lengths = np.arange(640)
    means = [lengths[batch].mean() for batch in Bucketed(lengths, 16).epoch(0)]
    assert means != sorted(means)


def test_weights_are_the_odds() -> None:
    seen = np.concatenate(list(Weighted([1, 0, 3], 1000, per_epoch=40_000).epoch(0)))
    counts = np.bincount(seen, minlength=3)
    assert counts[1] == 0
    assert abs(counts[2] - 30_000) < 6 * np.sqrt(40_000 * 0.75 * 0.25)


def test_a_last_sample_without_weight_is_never_drawn() -> None:
    tiny = np.nextafter(0, 1)  # the product with a draw below 1 rounds up to the total
    assert set(np.concatenate(list(Weighted([tiny, 0], 8, per_epoch=64).epoch(0))).tolist()) == {0}


def test_shuffling_gives_every_order_as_often() -> None:
    orders = [tuple(np.concatenate(list(Shuffled(3, 3, seed=s).epoch(0))).tolist()) for s in range(3000)]
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert counts.size == 6
    assert abs(counts - 500).max() < 6 * np.sqrt(3000 / 6 * 5 / 6)


@given(count=st.integers(1, 9), size=st.integers(1, 5), batches=st.integers(1, 9))
def test_a_stream_cut_into_epochs_is_the_stream(count: int, size: int, batches: int) -> None:
    inner = Shuffled(count, size, seed=3)
    cut = Infinite(inner, batches=batches)
    pieces = [batch.tolist() for epoch in range(4) for batch in cut.epoch(epoch)]
    assert len(cut) == batches
    assert pieces == [batch.tolist() for batch in islice(Infinite(inner).epoch(0), 4 * batches)]


def test_a_stream_without_end_starts_at_any_epoch_and_has_no_length() -> None:
    inner = Shuffled(5, 2, seed=3)
    assert next(Infinite(inner).epoch(4)).tolist() == next(inner.epoch(4)).tolist()
    with pytest.raises(Unsupported, match="no length"):
        len(Infinite(inner))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sequential(0, 1), "number of samples 0"),
        (lambda: Shuffled([], 1), "number of samples 0"),
        (lambda: Shuffled(3, 0), "batch_size 0"),
        (lambda: Shuffled(3, 2.0), r"batch_size 2\.0"),
        (lambda: Shuffled(3, True), "batch_size True"),
        (lambda: Shuffled(3, 4, drop_last=True), "none is left"),
        (lambda: Shuffled(3, 1, seed=-1), "seed -1"),
        (lambda: Shuffled(3, 1).epoch(-1), "epoch -1"),
        (lambda: Sequential(3, 1).epoch(-1), "epoch -1"),
        (lambda: WithReplacement(3, 1, per_epoch=0), "per_epoch 0"),
        (lambda: Weighted([0, 0], 1), "weights"),
        (lambda: Weighted([1, -1], 1), "weights"),
        (lambda: Weighted([1, np.nan], 1), "weights"),
        (lambda: Weighted([], 1), "weights"),
        (lambda: Stratified([0.5, 1], 1), "classes"),
        (lambda: Bucketed([[1]], 1), "lengths"),
        (lambda: Bucketed([1], 1, pool=0), "pool 0"),
        (lambda: Infinite(Sequential(3, 1), batches=0), "batches 0"),
    ],
)
def test_what_cannot_be_sampled_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()


@pytest.mark.parametrize("name", ALL)
def test_memory_is_some_numbers_for_each_sample(name: str) -> None:
    values = np.arange(100_000) % 10
    sampler = ALL[name](values, 64, 0, False)
    tracemalloc.start()
    for _ in sampler.epoch(0):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000 * 8 * 8


@pytest.mark.parametrize("name", db.samplers)
def test_every_sampler_is_in_the_registry_and_keeps_the_protocol(name: str) -> None:
    assert all(hasattr(db.samplers[name], method) for method in ("epoch", "__len__", "facts"))


def test_facts_name_the_sampler_and_are_plain() -> None:
    assert Shuffled(5, 2, seed=3).facts() == {"sampler": "shuffled", "batch_size": 2, "drop_last": False, "seed": 3}
    assert Infinite(Sequential(5, 2), 3).facts()["of"]["sampler"] == "sequential"


class Named:
    """A set that says what it is told to say."""

    specs = (db.TensorSpec("label", (), np.dtype("uint8")),)

    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)

    def __len__(self) -> int:
        return 5000

    def __getitem__(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        return {"label": (indices % 7).astype(np.uint8)}


def test_labels_are_read_where_the_set_does_not_list_them() -> None:
    labels = labels_of(Named())
    assert labels.dtype == np.int64
    assert np.array_equal(labels, np.arange(5000) % 7)
    assert len(Stratified(Named(), 64)) == 79


def test_what_a_set_does_not_know_is_not_guessed() -> None:
    with pytest.raises(Unsupported, match="has no classes"):
        labels_of(Named(specs=(db.TensorSpec("label", (), np.dtype("float32")),)))
    with pytest.raises(Unsupported, match="lengths"):
        Bucketed(Named(), 4)
    with pytest.raises(InvalidData, match="5000 integers"):
        labels_of(Named(labels=[1, 2]))
    with pytest.raises(InvalidData, match="float64"):
        lengths_of(Named(lengths=np.zeros(5000)))


@pytest.mark.parametrize("numbers", [3, [[1]], [0.5], [-1], [4], ["a"]])
def test_numbers_that_are_none_of_the_set_are_refused(numbers: object) -> None:
    with pytest.raises(InvalidArgument, match="sample"):
        checked_numbers(numbers, 4)
    assert checked_numbers([], 4).dtype == np.int64

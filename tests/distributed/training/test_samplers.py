"""Which rank trains on which samples: each exactly once, for any numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.distributed.training.samplers import Replicated, Reshuffled, Sharded, sharded_files
from deep_bench.errors import InvalidArgument

COMBINATIONS = 1000


def _cases() -> Iterator[tuple[int, int, int, int]]:
    """Samples, ranks, batch size, epoch: as many ranks as samples and single ones are among them."""
    draws = np.random.default_rng(7)
    for _ in range(COMBINATIONS):
        size = int(draws.integers(1, 17))
        count = size + int(draws.choice([0, 1, draws.integers(0, 3 * size), draws.integers(0, 90)]))
        yield count, size, int(draws.integers(1, 33)), int(draws.integers(3))


def _faults(parts: list[list[np.ndarray]], count: int) -> list[str]:
    """What is wrong with one epoch of all ranks."""
    found = []
    if len({len(batches) for batches in parts}) != 1:
        found.append("ranks have different numbers of batches")
    if sorted(np.concatenate([b for batches in parts for b in batches]).tolist()) != list(range(count)):
        found.append("not every sample exactly once")
    for batches in zip(*parts, strict=False):
        lengths = [len(batch) for batch in batches]
        if min(lengths) == 0:
            found.append("a rank without samples")
        if max(lengths) - min(lengths) > 1:
            found.append("parts that differ by more than one sample")
    return found


def test_every_sample_once_in_a_thousand_combinations() -> None:
    for count, size, batch, epoch in _cases():
        whole = db.samplers["shuffled"](count, batch, seed=count)
        sharded = [Sharded(whole, rank, size) for rank in range(size)]
        if batch < size:
            with pytest.raises(InvalidArgument, match=f"for {size} ranks"):
                sharded[0].remarks()
            continue
        parts = [list(one.epoch(epoch)) for one in sharded]
        assert not _faults(parts, count), (count, size, batch, epoch)
        assert {len(one) for one in sharded} == {len(parts[0])}
        if batch >= size:
            reshuffled = [Reshuffled(count, batch, rank=rank, size=size, seed=3) for rank in range(size)]
            parts = [list(one.epoch(epoch)) for one in reshuffled]
            assert not _faults(parts, count), (count, size, batch, epoch)
            assert {len(one) for one in reshuffled} == {len(parts[0])}


def test_whole_batches_are_those_of_one_process() -> None:
    whole = db.samplers["shuffled"](1442, 64, seed=5)
    parts = [list(Sharded(whole, rank, 3).epoch(2)) for rank in range(3)]
    for batch, *own in zip(whole.epoch(2), *parts, strict=True):
        assert np.array_equal(batch, np.concatenate(own))


def test_what_is_left_over_is_joined_and_told_and_smaller_batches_are_refused() -> None:
    def sharded(count: int, batch: int, size: int) -> Sharded:
        return Sharded(db.samplers["sequential"](count, batch), 0, size)

    assert [len(b) for b in sharded(18, 8, 4).whole(0)] == [8, 10]  # the last one, of 2, to the one before it
    (told,) = sharded(18, 8, 4).remarks()
    assert "one batch of an epoch has 2 samples for 4 ranks" in told
    assert "2 batches of 3" in told
    assert sharded(20, 8, 4).remarks() == sharded(18, 8, 1).remarks() == []
    for count in (12, 13):
        with pytest.raises(InvalidArgument, match="batches of 2 samples for 4 ranks") as refused:
            next(sharded(count, 2, 4).whole(0))
        assert "--scaling weak" in refused.value.advice
        assert "at most 2 ranks" in refused.value.advice
    with pytest.raises(InvalidArgument, match="an epoch of 3 samples for 4 ranks"):
        next(sharded(3, 3, 4).whole(0))


def test_what_is_left_over_is_joined_wherever_it_comes() -> None:
    lengths = np.arange(21)
    places = set()
    for seed in range(8):
        whole = db.samplers["bucketed"](lengths, 5, seed=seed)
        places.add([len(batch) for batch in whole.epoch(0)].index(1))
        found = list(Sharded(whole, 0, 3).whole(0))
        assert sorted(len(batch) for batch in found) == [5, 5, 5, 6]
        assert sorted(np.concatenate(found).tolist()) == list(range(21))
    assert len(places) > 2


def _wrong(change: Any) -> list[str]:
    whole = db.samplers["sequential"](10, 5)
    parts = []
    for rank in range(2):
        sampler = Sharded(whole, rank, 2)
        parts.append([change(batch, own, rank) for batch, own in zip(whole.epoch(0), sampler.epoch(0), strict=True)])
    return _faults(parts, 10)


def test_wrong_shards_are_caught() -> None:
    assert not _wrong(lambda batch, own, rank: own)
    assert _wrong(lambda batch, own, rank: batch[len(batch) * rank // 2 + 1 : len(batch) * (rank + 1) // 2 + 1])
    assert _wrong(lambda batch, own, rank: batch[: len(batch) // 2] if rank == 0 else batch[len(batch) // 2 + 1 :])
    assert _wrong(lambda batch, own, rank: batch)  # the same batches on all ranks
    assert _wrong(lambda batch, own, rank: batch[:1] if rank == 0 else batch[1:])
    assert _wrong(lambda batch, own, rank: batch[:0] if rank == 0 else batch)


def test_reshuffled_parts_change_from_epoch_to_epoch() -> None:
    first, second = (np.sort(np.concatenate(list(Reshuffled(100, 10, rank=0, size=2).epoch(e)))) for e in (0, 1))
    assert len(first) == len(second) == 50
    assert not np.array_equal(first, second)
    kept = [list(Reshuffled(23, 10, rank=rank, size=2, drop_last=True).epoch(0)) for rank in range(2)]
    assert sum(len(b) for batches in kept for b in batches) == 20
    with pytest.raises(InvalidArgument, match="for 4 ranks"):
        Reshuffled(100, 3, rank=0, size=4)


def test_files_go_to_one_rank_each() -> None:
    for count in range(1, 30):
        for size in range(1, count + 1):
            parts = [sharded_files([f"part_{n}" for n in range(count)], rank, size) for rank in range(size)]
            assert [name for part in parts for name in part] == [f"part_{n}" for n in range(count)]
            assert {len(part) for part in parts} <= {count // size, count // size + 1}
    for paths in (["a"], ["a", "a"]):
        with pytest.raises(InvalidArgument, match="different files"):
            sharded_files(paths, 0, 2)


def test_facts_are_the_same_for_any_number_of_ranks() -> None:
    whole = db.samplers["shuffled"](100, 10, seed=4)
    assert Sharded(whole, 0, 2).facts() == Sharded(whole, 3, 5).facts()
    assert Sharded(whole, 0, 2).facts()["of"] == whole.facts()
    assert Replicated(whole).facts()["of"] == whole.facts()
    assert all(np.array_equal(a, b) for a, b in pairwise([next(Replicated(whole).of(r).epoch(1)) for r in range(3)]))
    for rank, size in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(InvalidArgument):
            Sharded(whole, rank, size)

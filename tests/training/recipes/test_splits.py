"""How sets are divided: nothing that is held out is trained on, and what is drawn is drawn rightly."""

import pickle

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.training.recipes.splits import from_last, last, leave_one_out, parts, random
from deep_bench.training.sets import ArrayDataset


def numbered(count=100):
    return ArrayDataset({"x": np.arange(count), "label": np.arange(count) % 4})


def read(dataset):
    return dataset[np.arange(len(dataset))]


def test_parts_are_the_set_s_own():
    found = parts(db.datasets["digits"])
    assert (len(found.train), len(found.held_out)) == (1442, 355)
    other = parts(db.datasets["digits"], train={"part": "all"}, held_out="train")
    assert (len(other.train), len(other.held_out)) == (1797, 1442)


@pytest.mark.parametrize("stratified", [False, True])
def test_samples_are_held_out_at_random_and_the_same_ones_always(stratified):
    found, again = (random(numbered, 0.2, stratified=stratified) for _ in range(2))
    train, held_out = read(found.train)["x"], read(found.held_out)["x"]
    assert sorted([*train, *held_out]) == list(range(100))
    assert len(held_out) == 20
    assert np.array_equal(read(again.held_out)["x"], held_out)
    assert not np.array_equal(read(random(numbered, 0.2, seed=1).held_out)["x"], held_out)
    if stratified:
        assert np.bincount(read(found.held_out)["label"]).tolist() == [5, 5, 5, 5]


def test_the_last_samples_are_held_out_without_those_that_overlap_them():
    found = last(numbered, 0.25, gap=5)
    assert read(found.train)["x"].tolist() == list(range(70))
    assert read(found.held_out)["x"].tolist() == list(range(75, 100))


@pytest.mark.parametrize(("share", "gap"), [(0.0, 0), (1.0, 0), (0.5, 50), (-0.1, 0)])
def test_a_split_that_leaves_a_part_empty_is_refused(share, gap):
    with pytest.raises(InvalidArgument):
        last(numbered, share, gap)


def test_series_count_from_their_last_known_value():
    known, following = np.float32([[1, 3, 5], [2, 2, 4]]), np.float32([[7, 9], [4, 0]])

    def make(part):
        return ArrayDataset({"history": known, "future": following, "part": np.array([part, part])})

    batch = read(from_last(make, scale=2).train)
    assert batch["history"][..., 0].tolist() == [[-2, -1, 0], [-1, -1, 0]]
    assert batch["future"].tolist() == [[1, 2], [0, -2]]
    assert batch["history"].dtype == np.float32
    with pytest.raises(InvalidArgument):
        from_last(make, scale=0)


USERS, ITEMS = 30, 60


def choices(seed=0):
    """Each user chose 5 to 20 items, in random order of time."""
    generator = np.random.default_rng(seed)
    rows = [(user, item) for user in range(USERS) for item in generator.permutation(ITEMS)[: generator.integers(5, 21)]]
    order = generator.permutation(len(rows))
    user, item = np.array(rows).T[:, order]
    return ArrayDataset({"user": user, "item": item, "timestamp": generator.permutation(len(rows))})


def test_the_last_choice_of_each_user_is_held_out_among_others():
    whole, found = read(choices()), leave_one_out(choices, candidates=20)
    train, held = read(found.train), read(found.held_out)
    assert len(found.train) == len(whole["user"]) - USERS
    assert len(found.held_out) == 20 * USERS
    for user in range(USERS):
        mine = np.flatnonzero(whole["user"] == user)
        latest = whole["item"][mine[whole["timestamp"][mine].argmax()]]
        users, items, labels = (held[name].reshape(USERS, 20)[user] for name in ("user", "item", "label"))
        assert set(users) == {user}
        assert items[0] == latest
        assert labels.tolist() == [1] + [0] * 19
        assert len(set(items)) == 20
        assert not set(items[1:]) & set(whole["item"][mine])
        assert latest not in train["item"][train["user"] == user]
    assert held["label"].dtype == np.float32


def test_what_is_ranked_depends_on_the_split_s_seed_only():
    one, same, other = (read(leave_one_out(choices, candidates=20, seed=s).held_out)["item"] for s in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_items_beside_a_choice_are_drawn_anew_in_each_epoch_and_never_chosen():
    whole, found = read(choices()), leave_one_out(choices, candidates=20, negatives=3)
    chosen = set(zip(whole["user"].tolist(), whole["item"].tolist(), strict=True))
    numbers = np.arange(len(found.train))
    prepare, batch = found.prepare(7), found.train[numbers]
    drawn = [prepare(batch, numbers, epoch) for epoch in range(200)]
    first = drawn[0]
    rows = {name: array.reshape(-1, 4) for name, array in first.items()}
    assert np.array_equal(rows["item"][:, 0], batch["item"])
    assert np.array_equal(rows["user"], np.repeat(batch["user"][:, None], 4, 1))
    assert np.all(rows["label"] == [1, 0, 0, 0])
    pairs = zip(rows["user"][:, 1:].ravel().tolist(), rows["item"][:, 1:].ravel().tolist(), strict=True)
    assert not set(pairs) & chosen
    assert not np.array_equal(first["item"], drawn[1]["item"])
    assert not np.array_equal(first["item"], found.prepare(8)(batch, numbers, 0)["item"])
    beside = np.concatenate([d["item"].reshape(-1, 4)[batch["user"] == 0, 1:].ravel() for d in drawn])
    free = [item for item in range(ITEMS) if (0, item) not in chosen]
    counts = np.bincount(beside, minlength=ITEMS)[free]
    assert np.abs(counts / counts.mean() - 1).max() < 5 / np.sqrt(counts.mean())  # each equally often


def test_a_sample_has_the_same_items_beside_it_in_whatever_batch_it_comes():
    found = leave_one_out(choices, candidates=20)
    prepare = pickle.loads(pickle.dumps(found.prepare(1)))
    numbers = np.arange(10)
    together = prepare(found.train[numbers], numbers, 3)["item"].reshape(10, 5)
    alone = prepare(found.train[numbers[[6]]], numbers[[6]], 3)["item"]
    assert np.array_equal(together[6], alone)


def test_choices_that_cannot_be_split_are_refused():
    with pytest.raises(InvalidData, match="without 'timestamp'"):
        leave_one_out(lambda: ArrayDataset({"user": np.arange(3), "item": np.arange(3)}))
    with pytest.raises(InvalidData, match="items that they never chose"):
        leave_one_out(choices, candidates=100)
    with pytest.raises(InvalidData, match="one number from 0"):
        leave_one_out(lambda: ArrayDataset({n: np.arange(-1.0, 2) for n in ("user", "item", "timestamp")}))
    with pytest.raises(InvalidArgument):
        leave_one_out(choices, candidates=1)

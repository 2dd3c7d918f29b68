"""Sets of arrays and sets made from sets."""

from __future__ import annotations

import pickle
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidData, Unsupported
from deep_bench.training.dataset import Dataset, Description, content_sha256, description_of, facts, labels_of, lengths_of
from deep_bench.training.sets import ArrayDataset, Mapped, Subset, split

NUMBERS = st.lists(st.integers(0, 19), max_size=25)


@pytest.fixture
def points() -> ArrayDataset:
    x = np.arange(60, dtype=np.float32).reshape(20, 3)
    return ArrayDataset({"x": x, "label": (np.arange(20) % 4).astype(np.uint8)}, lengths=np.arange(20))


@given(numbers=NUMBERS)
def test_rows_come_as_asked_for(numbers: list[int]) -> None:
    x = np.arange(60).reshape(20, 3)
    assert np.array_equal(ArrayDataset({"x": x})[numbers]["x"], x[np.array(numbers, np.int64)])


@pytest.mark.parametrize("numbers", [[3, 4, 5], [3], [3, 5], [4, 3], [3, 3], [3, 5, 4, 6], []])
def test_batches_are_fresh(points: ArrayDataset, numbers: list[int]) -> None:
    before = points[numbers]["x"].copy()
    points[numbers]["x"][:] = -1
    assert np.array_equal(points[numbers]["x"], before)


def test_a_set_of_arrays_keeps_the_protocol(points: ArrayDataset) -> None:
    assert isinstance(points, Dataset)
    assert [str(spec) for spec in points.specs] == ["x: float32[3]", "label: uint8[]"]
    assert labels_of(points).dtype == np.int64
    assert lengths_of(points)[7] == 7
    with pytest.raises(InvalidArgument, match="sample 20 of 'arrays'"):
        points[[20]]


@pytest.mark.parametrize("arrays", [{}, {"x": 3.0}, {"x": [1, 2], "y": [1]}, {"x": [1], "y": 1}])
def test_arrays_that_are_no_samples_are_refused(arrays: dict[str, object]) -> None:
    with pytest.raises(InvalidData, match="no samples"):
        ArrayDataset(arrays)


def test_a_mapped_file_is_mapped_again_in_a_copy(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(30_000.0).reshape(100, 300))
    mapped = ArrayDataset({"x": np.load(tmp_path / "x.npy", mmap_mode="r")}, description=Description("mapped"))
    sent = pickle.dumps(mapped)
    assert len(sent) < 2000
    copy = pickle.loads(sent)
    assert type(copy[[3]]["x"]) is np.ndarray
    assert np.array_equal(copy[[99, 3]]["x"], mapped[[99, 3]]["x"])
    assert copy.description.name == "mapped"


def test_a_part_of_a_mapped_file_travels_by_value(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(100.0))
    part = ArrayDataset({"x": np.load(tmp_path / "x.npy", mmap_mode="r")[10:20]})
    assert pickle.loads(pickle.dumps(part))[[0]]["x"].tolist() == [10]


def test_a_part_knows_what_its_set_knows(points: ArrayDataset) -> None:
    part = Subset(points, [7, 3, 3])
    assert part[[1, 0]]["x"][:, 0].tolist() == [9, 21]
    assert labels_of(part).tolist() == [3, 3, 3]
    assert lengths_of(part).tolist() == [7, 3, 3]
    assert part.description.name == "arrays/3 of 20"
    with pytest.raises(InvalidArgument, match="sample 3 of"):
        part[[3]]
    with pytest.raises(InvalidArgument, match="sample 20 of"):
        Subset(points, [20])
    with pytest.raises(Unsupported):
        labels_of(Subset(ArrayDataset({"x": np.zeros(3)}), [0]))


def test_a_changed_set_has_the_specs_of_what_comes_out(points: ArrayDataset) -> None:
    doubled = Mapped(points, lambda batch: {"y": batch["x"].astype(np.float64) * 2, "label": batch["label"] + 1}, "doubled")
    assert [str(spec) for spec in doubled.specs] == ["y: float64[3]", "label: uint8[]"]
    assert doubled[[1]]["y"].tolist() == [[6, 8, 10]]
    assert labels_of(doubled).tolist() == (labels_of(points) + 1).tolist()
    assert doubled.description.name == "arrays/doubled"
    with pytest.raises(InvalidArgument, match="empty"):
        Mapped(Subset(points, []), dict)


@given(labels=st.lists(st.integers(0, 3), min_size=10, max_size=80), seed=st.integers(0, 9), stratified=st.booleans())
def test_parts_hold_each_sample_once(labels: list[int], seed: int, stratified: bool) -> None:
    whole = ArrayDataset({"number": np.arange(len(labels)), "label": np.array(labels)})
    parts = split(whole, {"a": 0.5, "b": 0.3, "c": 0.2}, seed=seed, stratified=stratified)
    numbers = [part[np.arange(len(part))]["number"].tolist() for part in parts.values()]
    assert sorted(chain(*numbers)) == list(range(len(labels)))
    assert abs(len(parts["b"]) - 0.3 * len(labels)) <= 1
    assert all(group == sorted(group) for group in numbers)


def test_stratified_parts_keep_the_balance_of_classes() -> None:
    digits = db.datasets["digits"]()
    part = split(digits, {"train": 0.8, "test": 0.2})["test"]
    share = np.bincount(labels_of(digits)) / len(digits)
    assert (abs(np.bincount(labels_of(part)) - share * len(part)) <= 3).all()


@pytest.mark.parametrize("parts", [{}, {"a": 0.5}, {"a": 1.5, "b": -0.5}, {"a": 0.999, "b": 0.001}])
def test_parts_that_are_none_are_refused(points: ArrayDataset, parts: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument, match="part"):
        split(points, parts)


def test_the_checksum_is_of_contents(points: ArrayDataset) -> None:
    x, labels = points[np.arange(20)].values()
    same = ArrayDataset({"label": labels, "x": np.asfortranarray(x)}, description=Description("other"))
    big_endian = ArrayDataset({"x": x.astype(">f4"), "label": labels})
    assert content_sha256(same) == content_sha256(points)
    assert content_sha256(big_endian) == content_sha256(points)
    for changed in ({"x": x + 1, "label": labels}, {"x": x, "label": labels[::-1]}, {"y": x, "label": labels}, {"x": x}):
        assert content_sha256(ArrayDataset(changed)) != content_sha256(points)
    assert content_sha256(ArrayDataset({"x": x.reshape(20, 3, 1), "label": labels})) != content_sha256(points)


def test_the_checksum_of_bytes_sees_where_one_sample_ends() -> None:
    def sum_of(*items: bytes) -> str:
        column = np.empty(len(items), object)
        column[:] = items
        return content_sha256(ArrayDataset({"x": column}))

    assert sum_of(b"ab", b"c") != sum_of(b"a", b"bc")


def test_digits_are_described_for_a_record() -> None:
    test = db.datasets["digits"]("test")
    assert facts(test) == {
        "name": "digits/test",
        "source": "Alpaydin and Kaynak (1998), UCI Machine Learning Repository, https://doi.org/10.24432/C50P49",
        "licence": "CC BY 4.0",
        "synthetic": False,
        "samples": 355,
        "specs": ["image: float32[1, 8, 8]", "label: int64[]"],
        "sha256": content_sha256(test),
    }
    assert facts(test, contents=False)["sha256"] is None


def test_a_set_without_a_description_is_named_by_its_type() -> None:
    class Bare:
        specs = (db.TensorSpec("x", (), np.dtype("int64")),)

        def __len__(self) -> int:
            return 0

        def __getitem__(self, indices: object) -> dict[str, np.ndarray]:
            return {}

    assert description_of(Bare()) == Description("Bare")


@pytest.mark.parametrize("name", db.datasets)
def test_every_name_leads_to_something_that_makes_a_set(name: str) -> None:
    assert callable(db.datasets[name])

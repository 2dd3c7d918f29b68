"""What is written to a container is read from it."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument, InvalidData, Unsupported
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers import RecordContainer, convert, guess, in_memory, memory, open_container
from deep_bench.training.dataset import Dataset, labels_of, lengths_of
from tests.training.containers.examples import (
    COUNT,
    KINDS,
    NUMBERS,
    assert_same,
    images,
    numbers,
    uneven,
    written,
)

pytest.importorskip("PIL")
pytest.importorskip("google_crc32c")

IDX_TYPES = {"uint8", "int8", "int16", "int32", "float32", "float64"}
OF_ONE_SIZE = ("cifar", "hdf5", "idx", "npy")


@pytest.mark.parametrize("text", [kind for kind in KINDS if kind.partition(":")[0] not in ("cifar", "folder")])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers_of_all_types(tmp_path: Path, text: str, dtype: str) -> None:
    wanted = numbers(dtype)
    if text.startswith("idx") and dtype not in IDX_TYPES:
        with pytest.raises(Unsupported, match=rf"x: {dtype}.*cannot be kept in IDX"):
            written(tmp_path, text, wanted)
        assert list(tmp_path.iterdir()) == []
        return
    path = written(tmp_path, text, wanted)
    with open_container(path, verify=True) as found:
        assert_same(found, wanted)


@pytest.mark.parametrize("text", [kind for kind in KINDS if kind != "cifar"])
@pytest.mark.parametrize("count", [0, 1, COUNT])
@pytest.mark.parametrize("shape", [(8, 9, 3), (8, 9)], ids=["colours", "gray"])
def test_images(tmp_path: Path, text: str, count: int, shape: tuple[int, ...]) -> None:
    wanted = images(*shape, count=count)
    with open_container(written(tmp_path, text, wanted), verify=True) as found:
        assert_same(found, wanted)
        assert found.labels.tolist() == labels_of(wanted).tolist()
        assert isinstance(found, Dataset)


@pytest.mark.parametrize("count", [0, 1, COUNT])
def test_cifar_keeps_its_own_form(tmp_path: Path, count: int) -> None:
    ten = images(3, 32, 32, count=count)
    hundred = memory({**ten[np.arange(count)], "coarse_label": np.arange(count)})
    for name, wanted in (("ten", ten), ("hundred", hundred)):
        with open_container(written(tmp_path, "cifar", wanted, name), verify=True) as found:
            assert found.labels.tolist() == labels_of(wanted).tolist()
            batch = found[np.arange(count)]
            assert all(np.array_equal(batch[key], array) for key, array in wanted[np.arange(count)].items())


@pytest.mark.parametrize("text", [kind for kind in KINDS if kind != "cifar"])
def test_any_order_with_repeats(tmp_path: Path, text: str) -> None:
    wanted, order = images(4, 5, 3), np.array([6, 0, 0, 5, 2, 6, 1])
    with open_container(written(tmp_path, text, wanted)) as found:
        batch = found[order]
        assert np.array_equal(batch["image"], wanted[order]["image"])
        assert batch["label"].tolist() == wanted[order]["label"].tolist()
        assert found[np.array([], np.int64)]["image"].shape == (0, 4, 5, 3)
        batch["image"][:] = 0  # a copy: the container is as it was
        assert np.array_equal(found[order]["image"], wanted[order]["image"])
        for beyond in ([COUNT], [-1], [0, 1 << 40]):
            with pytest.raises(InvalidArgument, match=f"sample {beyond[-1]}"):
                found[np.array(beyond)]


@pytest.mark.parametrize("text", [kind for kind in KINDS if kind.partition(":")[0] not in OF_ONE_SIZE])
def test_samples_of_different_sizes(tmp_path: Path, text: str) -> None:
    wanted = uneven()
    path = written(tmp_path, text, wanted)
    with open_container(path, verify=True) as found:
        assert found.specs[0] == TensorSpec("image", ("image_0", 5, 3), np.dtype(np.uint8))
        assert_same(found, wanted)
        assert found[np.array([0, 2])]["image"].shape == (2, 4, 5, 3)
        mixed = found[np.array([0, 1])]["image"]
        assert [image.shape for image in mixed] == [(4, 5, 3), (6, 5, 3)]
    assert_same(in_memory(open_container(path)), wanted)


@pytest.mark.parametrize("text", OF_ONE_SIZE)
def test_formats_of_one_size_refuse_others(tmp_path: Path, text: str) -> None:
    with pytest.raises(Unsupported, match=r"image: uint8\[image_0, 5, 3\]"):
        written(tmp_path, text, uneven())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["tar", "webdataset", "tfrecord", "recordio"])
def test_rows_of_different_lengths(tmp_path: Path, text: str) -> None:
    wanted = memory({"tokens": [np.arange(n) for n in (3, 0, 5)]})
    with open_container(written(tmp_path, text, wanted)) as found:
        assert_same(found, wanted)
        assert lengths_of(found).tolist() == lengths_of(wanted).tolist() == [3, 0, 5]


@pytest.mark.parametrize("text", ["hdf5", "idx", "npy", "tar", "tfrecord", "webdataset"])
def test_several_fields_and_scalars(tmp_path: Path, text: str) -> None:
    random = np.random.default_rng(3)
    wanted = memory(
        {"a": random.normal(size=COUNT), "b": random.normal(size=(COUNT, 2)).astype("f"), "label": np.arange(COUNT)}
    )
    with open_container(written(tmp_path, text, wanted), verify=True) as found:
        assert_same(found, wanted)


@pytest.mark.parametrize("text", [kind for kind in KINDS if kind != "cifar"])
def test_a_container_travels_to_another_process(tmp_path: Path, text: str) -> None:
    with open_container(written(tmp_path, text, images(4, 5))) as found, pickle.loads(pickle.dumps(found)) as copy:
        assert copy.kind == found.kind == guess(found.path)
        assert_same(copy, found)
    with pytest.raises(InvalidArgument, match="closed"):
        found[np.array([0])]


def test_images_are_carried_over_as_they_are(tmp_path: Path) -> None:
    first = written(tmp_path, "folder:image=jpeg", images(16, 16, 3), "first")
    with open_container(first) as source:
        pixels = source[np.arange(COUNT)]["image"]
    before = first
    for kind in ("tar", "tfrecord", "recordio", "webdataset", "folder"):
        after = convert(before, tmp_path / kind, kind)
        with open_container(after, decode=False) as files, open_container(after) as decoded:
            assert all(data.startswith(b"\xff\xd8\xff") for data in files[np.arange(COUNT)]["image"])
            assert np.array_equal(decoded[np.arange(COUNT)]["image"], pixels)
        before = after
    assert sorted(f.read_bytes() for f in first.rglob("*.jpg")) == sorted(f.read_bytes() for f in before.rglob("*.jpg"))


def test_decoding_apart(tmp_path: Path) -> None:
    path = written(tmp_path, "tar", images(8, 9, 3))
    with open_container(path) as found, open_container(path, decode=False) as files:
        assert isinstance(found, RecordContainer)
        whole = found[np.array([2, 4])]
        parts = found.decoded(found.fetch([2, 4]), [2, 4])
        assert all(np.array_equal(whole[name], parts[name]) for name in whole)
        batch = files[np.array([2])]
        assert str(files.specs[0]) == "image: string[]"
        assert batch["image"][0].startswith(b"\x89PNG")
        assert batch["label"].tolist() == [2]
        with pytest.raises(Unsupported, match="image"):
            written(tmp_path, "npy", files, "other")


def test_names_of_classes_are_kept(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for number, name in enumerate(("cat", "dog", "elk")):
        (source / name).mkdir(parents=True)
        written(tmp_path, "folder", images(4, 4, 3, count=2), f"drawn {number}")
        for file in sorted((tmp_path / f"drawn {number}").rglob("*.png")):
            file.rename(source / name / file.name)
    with open_container(source) as found:
        assert (found.kind, found.classes, found.labels.tolist()) == ("folder", ("cat", "dog", "elk"), [0, 0, 1, 1, 2, 2])
        assert str(found.specs[0]) == "image: uint8[height, width, 3]"
    for kind in ("tar", "folder"):
        with open_container(convert(source, tmp_path / kind, kind)) as copy:
            assert (copy.classes, copy.labels.tolist()) == (("cat", "dog", "elk"), [0, 0, 1, 1, 2, 2])


def test_memory(tmp_path: Path) -> None:
    path = written(tmp_path, "npy", images(4, 5))
    with open_container(path, "memory") as found:
        assert_same(found, images(4, 5))
        assert_same(pickle.loads(pickle.dumps(found)), found)
    with pytest.raises(InvalidData, match="no checksums"):
        found.verify()
    with pytest.raises(InvalidArgument, match="not kept in files"):
        written(tmp_path, "memory", images(4, 5), "other")
    with pytest.raises(InvalidArgument, match="x 2, y 3"):
        memory({"x": np.zeros(2), "y": np.zeros(3)})

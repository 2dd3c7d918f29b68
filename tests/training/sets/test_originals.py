"""Original files: fetched, resumed, checked and read. The files are made here and served from this machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.training.dataset import facts, labels_of
from deep_bench.training.download import MIRRORS, VARIABLE

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 28, 28)).astype(np.uint8)
LABELS = np.arange(7, dtype=np.uint8)
PIXELS = np.random.default_rng(1).integers(0, 256, (6, 3, 32, 32)).astype(np.uint8)
TRAIN = "train-images-idx3-ubyte.gz"


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return gzip.compress(head + array.tobytes(), mtime=0)


def archive(folder: str, files: dict[str, bytes]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as made:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    return whole.getvalue()


def records(*columns: np.ndarray) -> bytes:
    return np.concatenate([*(column[:, None] for column in columns), PIXELS.reshape(6, -1)], axis=1).tobytes()


@cache
def files_of(name: str) -> dict[str, bytes]:
    labels = np.arange(6, dtype=np.uint8)
    if name == "cifar10":
        batches = {f"data_batch_{number}.bin": records(labels) for number in range(1, 6)}
        return {"cifar-10-binary.tar.gz": archive("cifar-10-batches-bin", {**batches, "test_batch.bin": records(labels)})}
    if name == "cifar100":
        both = {"train.bin": records(labels // 2, labels), "test.bin": records(labels // 2, labels)}
        return {"cifar-100-binary.tar.gz": archive("cifar-100-binary", both)}
    return {
        TRAIN: idx(IMAGES),
        "train-labels-idx1-ubyte.gz": idx(LABELS),
        "t10k-images-idx3-ubyte.gz": idx(IMAGES[:3]),
        "t10k-labels-idx1-ubyte.gz": idx(LABELS[:3]),
    }


def sums(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def opened(name: str, part: str, root: Path, *mirrors: Any, **options: Any) -> Any:
    arguments = {"mirrors": [mirror.url for mirror in mirrors], "sha256": sums(files_of(name)), **options}
    return db.datasets[name](part, root=root, **arguments)


def left_over(root: Path) -> list[str]:
    return sorted(file.name for file in root.rglob("*") if "partial" in file.name or file.name.startswith("tmp"))


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_images_and_labels_are_read(name: str, mirror: Any, tmp_path: Path) -> None:
    mirror.files = files_of(name)
    train, test = opened(name, "train", tmp_path, mirror), opened(name, "test", tmp_path)
    assert np.array_equal(train[np.arange(7)]["image"], IMAGES[:, None])
    assert train[[6, 2]]["label"].tolist() == labels_of(train)[[6, 2]].tolist() == [6, 2]
    assert len(test) == 3
    assert [str(spec) for spec in train.specs] == ["image: uint8[1, 28, 28]", "label: int64[]"]
    described = facts(test)
    assert (described["name"], described["samples"], described["synthetic"]) == (f"{name}/test", 3, False)
    assert "http" in described["source"]
    assert sorted(asked for asked, _, _ in mirror.asked) == sorted(files_of(name))
    assert left_over(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "count", "labels"), [("cifar10", 30, {"label"}), ("cifar100", 6, {"label", "coarse_label"})]
)
def test_photographs_are_read(name: str, count: int, labels: set[str], mirror: Any, tmp_path: Path) -> None:
    mirror.files = files_of(name)
    train = opened(name, "train", tmp_path, mirror)
    batch = train[[count - 1, 0]]
    assert len(train) == count
    assert set(batch) == {"image", *labels}
    assert np.array_equal(batch["image"], PIXELS[[5, 0]])
    assert batch["label"].tolist() == [5, 0]
    assert labels_of(train)[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert len(opened(name, "test", tmp_path)) == 6
    assert len(mirror.asked) == 1
    assert left_over(tmp_path) == []


def test_an_interrupted_download_goes_on_where_it_ended(mirror: Any, tmp_path: Path) -> None:
    mirror.files, mirror.cut = files_of("mnist"), {TRAIN: 1000}
    with pytest.raises(InvalidData, match=f"(?s){TRAIN} is missing, and cannot be fetched.*IncompleteRead"):
        opened("mnist", "train", tmp_path, mirror)
    assert not (tmp_path / "mnist" / TRAIN).exists()
    opened("mnist", "train", tmp_path, mirror)
    assert [asked[1:] for asked in mirror.asked if asked[0] == TRAIN] == [(None, 200), ("bytes=1000-", 206)]
    assert left_over(tmp_path) == []


def test_another_mirror_goes_on_where_one_broke_off(mirror: Any, other_mirror: Any, tmp_path: Path) -> None:
    mirror.files, mirror.cut = files_of("mnist"), {TRAIN: 500}
    other_mirror.files = files_of("mnist")
    assert len(opened("mnist", "train", tmp_path, mirror, other_mirror)) == 7
    assert other_mirror.asked == [(TRAIN, "bytes=500-", 206)]


def test_a_mirror_that_cannot_resume_is_read_from_the_start(mirror: Any, tmp_path: Path) -> None:
    mirror.files, mirror.cut, mirror.resumes = files_of("mnist"), {TRAIN: 500}, False
    with pytest.raises(InvalidData):
        opened("mnist", "train", tmp_path, mirror)
    assert len(opened("mnist", "train", tmp_path, mirror)) == 7


@pytest.mark.parametrize("begun", [b"something else altogether", b"x" * 100_000])
def test_what_was_begun_as_another_file_is_dropped(begun: bytes, mirror: Any, tmp_path: Path) -> None:
    mirror.files = files_of("mnist")
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / f".{TRAIN}.partial").write_bytes(begun)
    assert len(opened("mnist", "train", tmp_path, mirror)) == 7
    assert left_over(tmp_path) == []


def test_a_mirror_with_another_file_is_passed_over(mirror: Any, other_mirror: Any, tmp_path: Path) -> None:
    mirror.files, other_mirror.files = {**files_of("mnist"), TRAIN: b"changed"}, files_of("mnist")
    assert len(opened("mnist", "train", tmp_path, mirror, other_mirror)) == 7


def test_files_that_no_mirror_has_are_named_with_each_reason(mirror: Any, other_mirror: Any, tmp_path: Path) -> None:
    other_mirror.files = {TRAIN: b"changed"}
    with pytest.raises(InvalidData) as caught:
        opened("mnist", "train", tmp_path, mirror, other_mirror)
    message = str(caught.value)
    assert str(tmp_path / "mnist" / TRAIN) in message
    assert f"{mirror.url}{TRAIN}: HTTPError: 404" in message
    assert f"{other_mirror.url}{TRAIN}: a file with another SHA-256" in message
    assert [file.name for file in (tmp_path / "mnist").iterdir()] == [".lock"]
    with pytest.raises(InvalidData, match="no mirror is named"):
        opened("mnist", "train", tmp_path)


def test_a_damaged_file_is_named_and_kept(mirror: Any, tmp_path: Path) -> None:
    mirror.files = files_of("mnist")
    opened("mnist", "train", tmp_path, mirror)
    damaged = tmp_path / "mnist" / TRAIN
    damaged.write_bytes(damaged.read_bytes()[:-9])
    with pytest.raises(InvalidData, match=f"{damaged} has SHA-256"):
        opened("mnist", "train", tmp_path, mirror)
    assert damaged.exists()


@pytest.mark.parametrize("content", [b"no gzip", idx(IMAGES)[:-20], gzip.compress(b"\0\0\x08\3" + b"\0\0\0\7" * 3, mtime=0)])
def test_a_file_that_is_no_idx_is_named(content: bytes, tmp_path: Path) -> None:
    files = {**files_of("mnist"), TRAIN: content}
    (tmp_path / "mnist").mkdir()
    for name, made in files.items():
        (tmp_path / "mnist" / name).write_bytes(made)
    with pytest.raises(InvalidData, match=TRAIN):
        opened("mnist", "train", tmp_path, sha256=sums(files))


@pytest.mark.parametrize("content", [b"no tar", files_of("cifar10")["cifar-10-binary.tar.gz"][:-3000], archive("other", {})])
def test_an_archive_that_cannot_be_unpacked_is_named(content: bytes, tmp_path: Path) -> None:
    files = {"cifar-10-binary.tar.gz": content}
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "cifar-10-binary.tar.gz").write_bytes(content)
    with pytest.raises(InvalidData, match=r"cifar-10-binary\.tar\.gz cannot be unpacked"):
        opened("cifar10", "train", tmp_path, sha256=sums(files))
    assert {file.name for file in (tmp_path / "cifar10").iterdir()} == {".lock", "cifar-10-binary.tar.gz"}


def test_an_unpacked_file_that_was_cut_is_named(mirror: Any, tmp_path: Path) -> None:
    mirror.files = files_of("cifar10")
    opened("cifar10", "train", tmp_path, mirror)
    cut = tmp_path / "cifar10" / "cifar-10-batches-bin" / "data_batch_3.bin"
    cut.write_bytes(cut.read_bytes()[:-1])
    with pytest.raises(InvalidData, match=r"data_batch_3\.bin"):
        opened("cifar10", "train", tmp_path)


def test_the_folder_and_the_mirrors_may_be_configured(mirror: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror.files = files_of("mnist")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / MIRRORS).write_text(f'mnist = ["http://127.0.0.1:1/nobody", "{mirror.url}"]')
    assert len(db.datasets["mnist"]("test", sha256=sums(files_of("mnist")))) == 3
    assert (tmp_path / "data" / "mnist" / TRAIN).exists()


@pytest.mark.parametrize("text", ["mnist = ", "mnist = 3", "mnist = [3]"])
def test_mirrors_that_are_no_list_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / MIRRORS).write_text(text)
    with pytest.raises(InvalidData, match=MIRRORS):
        opened("mnist", "train", tmp_path, mirrors=None)


def test_other_parts_and_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="part 'validation' of mnist"):
        opened("mnist", "validation", tmp_path)
    with pytest.raises(InvalidArgument, match="SHA-256 of train"):
        opened("mnist", "train", tmp_path, sha256={"train": "0"})


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "mnist").write_text("a file in the way")
    with pytest.raises(InvalidData, match=f"{tmp_path / 'mnist'} cannot be written to"):
        opened("mnist", "train", tmp_path)


def test_those_that_fetch_at_once_fetch_once(mirror: Any, tmp_path: Path) -> None:
    mirror.files = files_of("cifar10")
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: len(opened("cifar10", "train", tmp_path, mirror)), range(3)))
    assert made == [30, 30, 30]
    assert len(mirror.asked) == 1

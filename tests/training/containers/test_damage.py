"""Damaged files: an error that names the file and the place, or the right data; never anything else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deep_bench.errors import InvalidData
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers import Container, guess, open_container
from tests.training.containers.examples import COUNT, KINDS, images, numbers, written

pytest.importorskip("PIL")
pytest.importorskip("google_crc32c")

ROUNDS = 40
CHECKSUMS = ("hdf5:layout=chunked", "idx:compress=true", "tfrecord")
"""The formats with checksums of all samples, which reading looks at; in others only `verify` tells damage to the numbers."""
ALL = (*KINDS, "folder:image=jpeg", "recordio of numbers", "tar of numbers")


def example(folder: Path, text: str) -> Path:
    kind = text.removesuffix(" of numbers")
    dataset = images(3, 32, 32) if kind == "cifar" else images(6, 5, 3) if kind == text else numbers("float32")
    return written(folder, kind, dataset)


def samples(container: Container) -> list[dict[str, tuple[Any, ...]]]:
    found = []
    for number in range(len(container)):
        batch = container[np.array([number])]
        assert all(batch[spec.name].dtype == spec.dtype for spec in container.specs)
        found.append({name: (array.shape, array.tobytes()) for name, array in batch.items()})
    return found


def outcome(path: Path, verify: bool) -> str | tuple[list[dict[str, tuple[Any, ...]]], tuple[TensorSpec, ...]]:
    """The samples and what they should be; or the error's text."""
    try:
        with open_container(path, verify=verify) as container:
            _ = container.labels
            return samples(container), container.specs
    except InvalidData as error:
        return str(error)


def harm(file: Path, random: np.random.Generator) -> None:
    """Cut a file off, flip bits, change a byte near its begin, or put bytes in between."""
    data = bytearray(file.read_bytes())
    place = int(random.integers(len(data)))
    match random.integers(4):
        case 0:
            del data[place:]
        case 1:
            for _ in range(random.integers(1, 4)):
                data[random.integers(len(data))] ^= 1 << random.integers(8)
        case 2:
            data[place % 200] ^= int(random.integers(1, 256))
        case _:
            data[place:place] = random.bytes(random.integers(1, 20))
    file.write_bytes(data)


@pytest.mark.parametrize("text", ALL)
def test_damage_is_found_or_does_no_harm(tmp_path: Path, text: str) -> None:
    (tmp_path / "whole").mkdir()
    with open_container(example(tmp_path / "whole", text)) as container:
        right, specs = samples(container), container.specs
    random = np.random.default_rng(len(text))
    told = 0
    for round_ in range(ROUNDS):
        copy = tmp_path / str(round_)
        shutil.copytree(tmp_path / "whole", copy)
        if round_ % 4 == 3:
            for file in copy.rglob("*deep_bench.json"):
                file.unlink()
        files = sorted(file for file in copy.rglob("*") if file.is_file())
        harm(files[random.integers(len(files))], random)
        for verify in (True, False):
            found = outcome(copy / "set", verify)
            if isinstance(found, str):
                told += verify
                assert str(copy) in found
            elif verify or (text.startswith(CHECKSUMS) and round_ % 4 != 3):
                assert found == (right, specs)
    assert told > ROUNDS / 2


@pytest.mark.parametrize("text", ALL)
def test_files_that_are_missing_empty_or_folders(tmp_path: Path, text: str) -> None:
    (tmp_path / "whole").mkdir()
    example(tmp_path / "whole", text)
    whole = sorted(file.relative_to(tmp_path / "whole") for file in (tmp_path / "whole").rglob("*") if file.is_file())
    for number, name in enumerate(name for name in whole if name.name != "set.deep_bench.json"):
        for what in ("missing", "empty", "folder"):
            copy = tmp_path / f"{what}{number}"
            shutil.copytree(tmp_path / "whole", copy)
            (copy / name).unlink()
            if what == "empty":
                (copy / name).touch()
            elif what == "folder":
                (copy / name).mkdir()
            with pytest.raises(InvalidData, match=copy.name):
                open_container(copy / "set", verify=True)


def test_what_is_no_container(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("no container at all")
    (tmp_path / "folder").mkdir()
    for name, words in (("nothing", "no such file"), ("empty", "empty file"), ("text", "none of"), ("folder", "none of")):
        with pytest.raises(InvalidData, match=words) as caught:
            guess(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)
    for kind in ("cifar", "folder", "hdf5", "idx", "npy", "recordio", "tar", "tfrecord", "webdataset"):
        for name in ("nothing", "empty", "text", "folder"):
            with pytest.raises(InvalidData, match=name):
                open_container(tmp_path / name, kind)


def test_the_wrong_kind(tmp_path: Path) -> None:
    path = written(tmp_path, "tar", images(4, 4, 3))
    with pytest.raises(InvalidData, match="is of kind tar"):
        open_container(path, "tfrecord")
    (tmp_path / "set.deep_bench.json").unlink()
    with pytest.raises(InvalidData, match="record 0 at offset 0"):
        open_container(path, "tfrecord")
    with pytest.raises(InvalidData, match="no checksums"):
        open_container(path, verify=True)


def changed(path: Path, place: int, value: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[place : place + len(value)] = value
    path.write_bytes(data)


def test_errors_name_the_record_and_its_offset(tmp_path: Path) -> None:
    path = written(tmp_path, "tfrecord", images(4, 4, 3))
    size = path.stat().st_size // COUNT
    changed(path, 3 * size + 20, b"xx")
    with open_container(path) as found:
        assert found[np.array([2])]["image"].shape == (1, 4, 4, 3)
        with pytest.raises(InvalidData, match=rf"set, record 3 at offset {3 * size} is damaged: .*checksum"):
            found[np.array([2, 3])]


def test_a_sample_of_another_size_is_named(tmp_path: Path) -> None:
    small, large = (written(tmp_path, "folder", images(n, n, 3), f"set{n}") for n in (4, 6))
    (small / "deep_bench.json").unlink()
    (small / "000001" / "000000001.png").write_bytes((large / "000001" / "000000001.png").read_bytes())
    with open_container(small) as found:  # of files that came from elsewhere, sizes are open
        assert {image.shape for image in found[np.arange(COUNT)]["image"]} == {(4, 4, 3), (6, 6, 3)}
    described = written(tmp_path, "tar", images(4, 4, 3), "set.tar")
    other = written(tmp_path, "tar", images(4, 4, 3), "other.tar")
    data = described.read_bytes().replace(b"\x89PNG", b"\x89QNG")
    other.write_bytes(data)
    with open_container(other) as found, pytest.raises(InvalidData, match=r"other\.tar, sample 0 at offset 512"):
        found[np.array([0])]


def test_cifar_files_that_are_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "test_batch.bin"
    file.write_bytes(bytes(3073 * 2 + 5))
    with pytest.raises(InvalidData, match=r"sample 2 at offset 6146 is cut off"):
        open_container(file)


def test_python_objects_are_not_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(InvalidData, match=r"x\.npy is damaged: ValueError: object"):
        open_container(tmp_path)

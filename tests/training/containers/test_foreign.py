"""Files that others wrote: their own readers and writers are the judges."""

from __future__ import annotations

import gzip
import struct
import tarfile
import zlib
from io import BytesIO
from pathlib import Path

import h5py
import numpy as np
import pytest

from deep_bench.errors import InvalidArgument, InvalidData, Unsupported
from deep_bench.training.containers import convert, guess, memory, open_container
from deep_bench.training.containers.records import encode_image
from tests.training.containers.examples import images, written

pytest.importorskip("PIL")
pytest.importorskip("google_crc32c")


def test_tensorflow_reads_what_is_written(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    wanted = memory({**images(4, 5, 3)[np.arange(7)], "weight": np.arange(7, dtype=np.float32) / 3})
    path = written(tmp_path, "tfrecord", wanted)
    form = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "image/shape": tf.io.FixedLenFeature([3], tf.int64),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "weight": tf.io.FixedLenFeature([], tf.float32),
    }
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    assert len(records) == 7
    for number, record in enumerate(records):
        found = tf.io.parse_single_example(record, form)
        sample = wanted[np.array([number])]
        assert found["label"].numpy() == sample["label"][0]
        assert found["weight"].numpy() == sample["weight"][0]
        pixels = np.frombuffer(found["image"].numpy(), np.uint8).reshape(found["image/shape"].numpy())
        assert np.array_equal(pixels, sample["image"][0])


def test_what_tensorflow_writes_is_read(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    pixels = images(8, 6, 3)[np.arange(3)]["image"]
    with tf.io.TFRecordWriter(str(tmp_path / "train.tfrecord-00000-of-00001")) as writer:
        for number, image in enumerate(pixels):
            feature = {
                "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[tf.io.encode_png(image).numpy()])),
                "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
                "box": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5] * (number + 2))),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    assert guess(tmp_path) == "tfrecord"
    with open_container(tmp_path) as found:
        batch = found[np.array([2, 0])]
        assert np.array_equal(batch["image/encoded"], pixels[[2, 0]])
        assert batch["image/class/label"].tolist() == [2, 0]
        assert [box.tolist() for box in batch["box"]] == [[0.5] * 4, [0.5] * 2]
        assert [str(spec) for spec in found.specs] == [
            "box: float32[box_0]",
            "image/class/label: int64[]",
            "image/encoded: uint8[height, width, 3]",
        ]


def test_bytes_that_say_not_what_they_are(tmp_path: Path) -> None:
    path = written(tmp_path, "tfrecord", images(4, 5))
    (tmp_path / "set.deep_bench.json").unlink()
    with open_container(path) as found:  # sizes and types are in the records
        assert np.array_equal(found[np.arange(7)]["image"], images(4, 5)[np.arange(7)]["image"])
    from deep_bench.training.containers.tfrecord import Example, crc32c, framed

    example = Example()
    example.features.feature["text"].bytes_list.value.append(b"plain")
    path.write_bytes(framed(example.SerializeToString(), crc32c()))
    with pytest.raises(Unsupported, match="feature 'text'"):
        open_container(path)


@pytest.mark.parametrize("packed", [False, True])
def test_mnist(tmp_path: Path, packed: bool) -> None:
    pixels = images(28, 28, count=5)[np.arange(5)]["image"]
    for part in ("train", "t10k"):
        for name, array in (("images-idx3", pixels), ("labels-idx1", np.arange(5, dtype=np.uint8))):
            content = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
            file = tmp_path / f"{part}-{name}-ubyte{'.gz' if packed else ''}"
            file.write_bytes(gzip.compress(content) if packed else content)
    first = next(tmp_path.glob("train-images*"))
    for path, options in ((tmp_path, {"part": "t10k"}), (first, {})):
        assert guess(path) == "idx"
        with open_container(path, **options) as found:
            assert np.array_equal(found[np.arange(5)]["image"], pixels)
            assert found.labels.tolist() == list(range(5))
    with pytest.raises(InvalidArgument, match="t10k, train"):
        open_container(tmp_path)
    if packed:
        data = bytearray(first.read_bytes())
        data[-6] ^= 1  # its checksum
        first.write_bytes(data)
        with pytest.raises(InvalidData, match=r"train-images.*CRC"):
            open_container(first)


def test_cifar(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    files = [random.integers(0, 10, 3 * 3073, dtype=np.uint8).tobytes() for _ in range(3)]
    for number, name in enumerate(("data_batch_1.bin", "data_batch_2.bin", "test_batch.bin")):
        (tmp_path / name).write_bytes(files[number])
    (tmp_path / "batches.meta.txt").write_text("\n".join(f"class {n}" for n in range(10)) + "\n\n")
    rows = np.frombuffer(b"".join(files[:2]), np.uint8).reshape(6, 3073)
    with open_container(tmp_path, part="train") as found:
        assert (len(found), found.classes) == (6, tuple(f"class {n}" for n in range(10)))
        batch = found[np.array([5, 0, 3])]
        assert batch["label"].tolist() == rows[[5, 0, 3], 0].tolist()
        assert np.array_equal(batch["image"].reshape(3, -1), rows[[5, 0, 3], 1:])
    with pytest.raises(InvalidArgument, match="part=train"):
        open_container(tmp_path)


def test_a_tar_file_of_folders(tmp_path: Path) -> None:
    pixels = images(6, 7, 3, count=4)[np.arange(4)]["image"]
    with tarfile.open(tmp_path / "train.tar", "w") as tar:
        for number, name in enumerate(("dog/b.png", "cat/a.png", "cat/c.jpg", "dog/d.PNG")):
            data = encode_image(pixels[number], "jpeg" if name.endswith("jpg") else "png", 95)
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(data)
            tar.addfile(member, BytesIO(data))
    with open_container(tmp_path / "train.tar") as found:
        assert (found.classes, found.labels.tolist()) == (("cat", "dog"), [1, 0, 0, 1])
        assert np.array_equal(found[np.array([3, 0])]["image"], pixels[[3, 0]])
    data = (tmp_path / "train.tar").read_bytes()
    for name, harmed, words in (
        ("header", data[:1024] + b"x" + data[1025:], "no header, and no end, at offset"),
        ("end", data[:1540], "cut off"),
    ):
        (tmp_path / f"{name}.tar").write_bytes(harmed)
        with pytest.raises(InvalidData, match=words):
            open_container(tmp_path / f"{name}.tar")
    (tmp_path / "train.tar.gz").write_bytes(gzip.compress(data))
    with pytest.raises(Unsupported, match="decompress"):
        open_container(tmp_path / "train.tar.gz")


def test_hdf5_as_others_write_it(tmp_path: Path) -> None:
    values = np.arange(24, dtype=">f4").reshape(6, 4)
    with h5py.File(tmp_path / "x.h5", "w", userblock_size=0) as file:
        file["big"] = values
        file.create_dataset("packed", data=values.astype("<i2"), chunks=(2, 4), compression="lzf", shuffle=True)
        file["inner/other"] = np.zeros(99)  # in a group: no field
    with open_container(tmp_path / "x.h5") as found:
        batch = found[np.array([5, 1, 1])]
        assert np.array_equal(batch["big"], values[[5, 1, 1]])
        assert np.array_equal(batch["packed"], values[[5, 1, 1]])
        assert batch["big"].dtype == np.float32
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["a"], file["b"] = np.zeros(3), np.zeros(4)
    with pytest.raises(InvalidData, match=r"y\.h5: a 3, b 4"):
        open_container(tmp_path / "y.h5")
    with h5py.File(tmp_path / "z.h5", "w") as file:
        file["names"] = ["a", "b"]
    with pytest.raises(Unsupported, match="names"):
        open_container(tmp_path / "z.h5")


def test_npy_files_as_numpy_writes_them(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.asfortranarray(np.arange(12.0).reshape(3, 4)))
    np.save(tmp_path / "label.npy", np.arange(3, dtype=">i8"))
    with open_container(tmp_path) as found:
        assert found[np.array([2])]["x"].tolist() == [[8.0, 9.0, 10.0, 11.0]]
        assert found.labels.tolist() == [0, 1, 2]
    with open_container(tmp_path / "x.npy") as found:
        assert len(found) == 3
    assert np.array_equal(np.load(written(tmp_path, "npy", images(2, 2), "set") / "label.npy"), np.arange(7) % 3)


def test_numpy_and_h5py_read_what_is_written(tmp_path: Path) -> None:
    wanted = images(4, 5)
    convert(wanted, tmp_path / "x.h5", "hdf5")
    with h5py.File(tmp_path / "x.h5") as file:
        assert np.array_equal(file["image"][:], wanted[np.arange(7)]["image"])
    data = (tmp_path / "x.h5").read_bytes()
    place = data.find(wanted[np.array([0])]["image"].tobytes())
    (tmp_path / "x.h5").write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    with pytest.raises(InvalidData, match="dataset image has the CRC-32"):
        open_container(tmp_path / "x.h5", verify=True)
    assert zlib.crc32(b"") == 0

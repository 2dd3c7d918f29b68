"""Writing: nothing half-written under the final name, nothing lost, and plain refusals."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument, InvalidData, UnknownName, Unsupported
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers import KINDS, convert, memory, open_container, parse_kind, write_container
from tests.training.containers.examples import images, numbers, written

pytest.importorskip("PIL")
pytest.importorskip("google_crc32c")

_KILLED = """
import os, signal, sys
import numpy as np
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers import write_container

class Deadly:
    specs = TensorSpec("image", (4, 4, 3), np.dtype("uint8")), TensorSpec("label", (), np.dtype("int64"))
    def __len__(self):
        return 1000
    def __getitem__(self, indices):
        if indices[0] >= 500:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"image": np.zeros((len(indices), 4, 4, 3), np.uint8), "label": np.asarray(indices) % 9}

for kind in sys.argv[2:]:
    if not (child := os.fork()):
        write_container(f"{sys.argv[1]}/{kind}", Deadly(), kind)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
HAVE_FILES = [kind for kind in KINDS if kind not in ("memory", "cifar")]


class Wrong:
    """Its second sample is not what it says."""

    specs = (TensorSpec("image", (4, 4, 3), np.dtype("uint8")), TensorSpec("label", (), np.dtype("int64")))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        return {"image": np.zeros((len(indices), 4, 5, 3), np.uint8), "label": np.asarray(indices) % 256}


def test_a_killed_writer_leaves_nothing_under_the_name(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _KILLED, str(tmp_path), *HAVE_FILES]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.stdout.split() == [str(-signal.SIGKILL)] * len(HAVE_FILES), done.stderr
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) == len(HAVE_FILES)
    assert all(name.startswith(".") and name.endswith(".part") for name in left)


@pytest.mark.parametrize("kind", HAVE_FILES)
def test_an_error_leaves_nothing_at_all(tmp_path: Path, kind: str) -> None:
    with pytest.raises(InvalidData, match=r"image of samples 0 to 1 is uint8\[2, 4, 5, 3\]"):
        write_container(tmp_path / "set", Wrong(), kind)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", HAVE_FILES)
def test_what_is_there_stays(tmp_path: Path, kind: str) -> None:
    (tmp_path / "set").write_text("mine")
    with pytest.raises(InvalidArgument, match="exists"):
        write_container(tmp_path / "set", images(4, 4, 3), kind)
    assert (tmp_path / "set").read_text() == "mine"
    with pytest.raises(InvalidArgument, match="does not exist"):
        write_container(tmp_path / "nowhere" / "set", images(4, 4, 3), kind)


def test_the_index_of_another_set_stays(tmp_path: Path) -> None:
    (tmp_path / "set.idx").write_text("mine")
    with pytest.raises(InvalidArgument, match=r"set\.idx exists"):
        write_container(tmp_path / "set.rec", images(4, 4, 3), "recordio")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"set.idx": "mine"}


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("tarr", UnknownName, "did you mean 'tar'"),
        ("hdf5:layuot=chunked", UnknownName, "did you mean 'layout'"),
        ("hdf5:layout", InvalidArgument, "option=value"),
        ("hdf5:layout=round", InvalidArgument, "layout=round"),
        ("hdf5:chunk=4", InvalidArgument, "contiguous"),
        ("hdf5:layout=chunked,chunk=0", InvalidArgument, "chunk=0"),
        ("tar:image=gif", InvalidArgument, "image=gif"),
        ("folder:image=jpeg,quality=0", InvalidArgument, "quality=0"),
        ("webdataset:shard=0", InvalidArgument, "shard=0"),
    ],
)
def test_options_that_are_none(tmp_path: Path, text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        written(tmp_path, text, images(4, 4, 3))
    assert list(tmp_path.iterdir()) == []


def test_kinds_and_options_are_read() -> None:
    assert parse_kind("hdf5:layout=chunked,chunk=32") == ("hdf5", {"layout": "chunked", "chunk": 32})
    assert parse_kind("idx:compress=true") == ("idx", {"compress": True})
    with pytest.raises(UnknownName, match="when reading"):
        open_container("x", "npy", decode=False)


@pytest.mark.parametrize(
    ("kind", "arrays", "words"),
    [
        ("idx", {"label": np.array([300])}, "300"),
        ("idx", {"label": np.array([1], np.uint8)}, r"label: uint8\[\]"),
        ("idx", {"a-b": np.zeros(1, "f")}, "a-b"),
        ("cifar", {"image": np.zeros((1, 3, 32, 32), np.uint8), "label": np.array([256])}, "label"),
        ("cifar", {"image": np.zeros((1, 32, 32, 3), np.uint8), "label": np.array([1])}, "image"),
        ("folder", {"image": np.zeros((1, 4, 4), "f"), "label": np.array([1])}, "image: float32"),
        ("folder", {"image": np.zeros((1, 4, 4), np.uint8), "label": np.array([-1])}, "is -1"),
        ("folder", {"image": np.zeros((1, 4, 4), np.uint8), "label": np.array([1]), "x": np.zeros(1)}, "x: float64"),
        ("recordio", {"image": np.zeros((1, 4, 4)), "label": np.array([(1 << 24) + 1])}, "16777217"),
        ("recordio", {"image": np.zeros((1, 4, 4)), "x": np.zeros(1)}, "x: float64"),
        ("recordio", {"image": np.zeros((1, 4, 4)), "label": np.zeros(1)}, "label: float64"),
        ("hdf5", {"a/b": np.zeros(1)}, "a/b"),
        ("tar", {"a.b": np.zeros(1)}, "a.b"),
        ("tfrecord", {"a": np.zeros(1), "a/shape": np.zeros(1)}, "a/shape"),
    ],
)
def test_what_a_format_cannot_hold_is_named(tmp_path: Path, kind: str, arrays: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        write_container(tmp_path / "set", memory(arrays), kind)
    assert list(tmp_path.iterdir()) == []


def test_only_numbers() -> None:
    with pytest.raises(Unsupported, match="x: string"):
        memory({"x": np.array(["a"], object)})


def test_a_message_that_looks_like_the_magic_number(tmp_path: Path) -> None:
    magic = np.frombuffer(b"\x0a\x23\xd7\xce", np.uint32)
    wanted = memory({"x": np.tile(magic, (3, 5)), "label": np.arange(3)})
    with open_container(written(tmp_path, "recordio", wanted)) as found:
        assert np.array_equal(found[np.arange(3)]["x"], wanted[np.arange(3)]["x"])
    (tmp_path / "set.idx").unlink()
    (tmp_path / "set.deep_bench.json").unlink()
    with open_container(tmp_path / "set") as found:
        assert np.array_equal(found[np.arange(3)]["image"], wanted[np.arange(3)]["x"])


def test_converting_through_all_kinds(tmp_path: Path) -> None:
    before, wanted = images(3, 32, 32), images(3, 32, 32)
    for kind in ("cifar", "npy", "tfrecord", "idx", "hdf5", "tar", "webdataset", "recordio"):
        before = convert(before, tmp_path / kind, kind)  # type: ignore[assignment]
    with open_container(before) as found:
        assert np.array_equal(found[np.arange(7)]["image"], wanted[np.arange(7)]["image"])
    assert numbers("float32").specs[0].dtype == np.float32

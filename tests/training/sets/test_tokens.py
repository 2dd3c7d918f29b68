"""Text as mapped tokens."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.training.sets import Tokens, byte_tokens

ROW = np.arange(100, 120)


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "row.bin"
    ROW.astype("<u4").tofile(path)
    return path


@given(context=st.integers(1, 19), stride=st.none() | st.integers(1, 25))
def test_samples_are_pieces_and_what_comes_next(row: Path, context: int, stride: int | None) -> None:
    text = Tokens(row, context, stride=stride, dtype="uint32")
    step = stride or context
    starts = [start for start in range(0, len(ROW), step) if start + context + 1 <= len(ROW)]
    assert len(text) == len(starts)
    batch = text[np.arange(len(text))[::-1]]
    assert np.array_equal(batch["input"], [ROW[s : s + context] for s in starts[::-1]])
    assert np.array_equal(batch["target"], [ROW[s + 1 : s + context + 1] for s in starts[::-1]])
    assert all(array.dtype == np.int64 for array in batch.values())


def test_a_text_is_read_byte_by_byte(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("naïve " * 20, encoding="utf-8")
    path = byte_tokens(tmp_path / "text", tmp_path / "text.npy")
    text = db.datasets["tokens"](path, 6, stride=7, vocabulary=256)
    assert bytes(text[[1]]["input"][0].tolist()).decode() == "naïve"[:6]
    assert np.load(path).dtype == np.uint16
    assert {file.name for file in tmp_path.iterdir()} == {"text", "text.npy"}


def test_a_copy_maps_the_file_again(row: Path) -> None:
    text = Tokens(row, 4, dtype="uint32")
    sent = pickle.dumps(text)
    assert len(sent) < 1000
    assert np.array_equal(pickle.loads(sent)[[1]]["target"], text[[1]]["target"])


def test_a_token_beyond_the_vocabulary_is_named(row: Path) -> None:
    with pytest.raises(InvalidData, match=r"sample 3, .*row\.bin at token 15: 115"):
        Tokens(row, 4, dtype="uint32", vocabulary=115)[[0, 3]]
    assert len(Tokens(row, 4, dtype="uint32", vocabulary=115)[[0]]["input"]) == 1


def test_negative_tokens_are_none_of_a_vocabulary(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([0, -1, 2], np.int32))
    with pytest.raises(InvalidData, match="at token 1: -1"):
        Tokens(tmp_path / "x.npy", 2, vocabulary=5)[[0]]


def test_files_that_are_no_tokens_are_refused(row: Path, tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(b"123")
    (tmp_path / "empty").touch()
    (tmp_path / "bad.npy").write_bytes(b"no header")
    np.save(tmp_path / "real.npy", np.zeros(9))
    for path, message in [
        (tmp_path / "cut", "cut has 3 bytes"),
        (tmp_path / "empty", "empty has 0 bytes"),
        (tmp_path / "none", "none cannot be read"),
        (tmp_path / "bad.npy", "bad.npy cannot be read"),
        (row, "row.bin has 20 tokens"),
    ]:
        with pytest.raises(InvalidData, match=message):
            Tokens(path, 20, dtype="uint32")
    with pytest.raises(InvalidArgument, match="type float64"):
        Tokens(tmp_path / "real.npy", 2)
    with pytest.raises(InvalidArgument, match="without the type"):
        Tokens(row, 2)
    with pytest.raises(InvalidArgument, match="context 0"):
        Tokens(row, 0, dtype="uint32")


def test_what_cannot_be_tokenised_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for text, target, error in [
        ("empty", "x.npy", InvalidData),
        ("none", "x.npy", InvalidData),
        ("empty", "x", InvalidArgument),
    ]:
        with pytest.raises(error):
            byte_tokens(tmp_path / text, tmp_path / target)
    assert [file.name for file in tmp_path.iterdir()] == ["empty"]

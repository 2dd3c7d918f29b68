"""What all pictures share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument

pytest.importorskip("matplotlib")
from deep_bench.records.pictures import COLOURS, MARKERS, colour, marker, new_figure, shrunk, tidy, write


def test_many_series_look_different() -> None:
    looks = {(colour(n), marker(n)) for n in range(len(COLOURS) * len(MARKERS))}
    assert len(looks) == len(COLOURS) * len(MARKERS)  # the two counts have no factor in common
    assert len({colour(n) for n in range(2 * len(COLOURS))}) == 2 * len(COLOURS)  # violins have nothing but their colour


@pytest.mark.parametrize("name", ["a.png", "a.pdf", "a.svg"])
def test_the_name_tells_the_format(name: str, tmp_path: Path) -> None:
    figure = new_figure(3)
    tidy(figure.subplots())
    begin = {"a.png": b"\x89PNG", "a.pdf": b"%PDF", "a.svg": b"<?xml"}[name]
    assert write(figure, tmp_path / name).read_bytes().startswith(begin)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a.unknown", "Expected: a path that ends in .png"),
        ("missing/a.png", "the folder .*missing does not exist\\nWhat to do: make it, or name another"),
        ("file/a.png", ".*file is no folder"),
        ("folder.png", "Is a directory"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused(name: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(InvalidArgument, match=f"cannot be written: .*{why}" if "Expected" not in why else why):
        write(new_figure(3), tmp_path / name)


def test_a_small_picture_loses_no_large_element() -> None:
    matrix = np.zeros((1000, 300))
    matrix[777, 123], matrix[3, 299] = 5, 2
    small = shrunk(matrix, 64)
    assert small.shape == (64, 64)
    assert sorted(small[small > 0].tolist()) == [2, 5]
    assert shrunk(matrix, 1000) is matrix

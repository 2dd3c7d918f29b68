from __future__ import annotations

from pathlib import Path

from deep_bench.measure.timing import CacheFlush, last_level_bytes


def write(folder: Path, *sizes: str) -> None:
    for number, size in enumerate(sizes):
        (folder / f"index{number}").mkdir()
        (folder / f"index{number}" / "size").write_text(size + "\n", encoding="ascii")


def test_the_largest_cache_counts(tmp_path: Path) -> None:
    write(tmp_path, "32K", "1M", "300")
    assert last_level_bytes(tmp_path) == 2**20


def test_a_system_that_does_not_tell(tmp_path: Path) -> None:
    assert last_level_bytes(tmp_path / "absent") is None


def test_a_flush_writes_all_of_its_array() -> None:
    flush = CacheFlush(8_000)
    flush()
    flush()
    assert (flush._array == 2).all()
    assert flush._array.nbytes == flush.nbytes == 8_000
    known = last_level_bytes()
    assert CacheFlush().nbytes == (2 * known if known is not None and known <= 2**29 else CacheFlush().nbytes)

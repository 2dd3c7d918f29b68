"""The logs of a folder: that of the runs of one benchmark on one system, or a submission's with several such."""

from __future__ import annotations

import re
from pathlib import Path

from deep_bench.errors import InvalidRecord
from deep_bench.mlperf.training.events import Log, read_run

_MOST_FOLDERS = 1000


def result_folders(folder: str | Path) -> list[Path]:
    """The folders of logs: those of a submission, or the folder itself.

    Raises:
        InvalidRecord: There are too many.
    """
    root = Path(folder)
    folders = sorted({path.parent for path in root.glob("results/*/*/result_*.txt")}) or [root]
    if len(folders) > _MOST_FOLDERS:
        raise InvalidRecord(f"{len(folders)} folders of logs in {root}", f"at most {_MOST_FOLDERS}")
    return folders


def result_files(folder: str | Path) -> list[Path]:
    """The logs of runs in a folder, by their numbers.

    Raises:
        InvalidRecord: There is none.
    """
    files = [p for p in Path(folder).glob("result_*.txt") if re.fullmatch(r"result_\d+\.txt", p.name)]
    if not files:
        raise InvalidRecord(
            f"no result_0.txt, result_1.txt, … in {folder}",
            "the folder of the logs of some runs, or a submission's with results/SYSTEM/BENCHMARK",
        )
    return sorted(files, key=lambda path: int(path.stem.rpartition("_")[2]))


def read_runs(folder: str | Path) -> tuple[Log, ...]:
    """The logs of the runs of a folder. A file that holds no event is the log of a run that failed.

    Raises:
        InvalidRecord: There is none, or one cannot be read or is too large.
    """
    return tuple(read_run(path) for path in result_files(folder))

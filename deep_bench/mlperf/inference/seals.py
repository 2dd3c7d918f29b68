"""Checksums of what a run left, kept in its record: whoever takes these files on sees first that they are that run's."""

from __future__ import annotations

from pathlib import Path

from deep_bench.errors import InvalidRecord
from deep_bench.measure.storage import digest
from deep_bench.mlperf.inference.child import USER_CONF
from deep_bench.mlperf.inference.folder import ACCURACY_TEXT, VERIFY_ACCURACY, VERIFY_PERFORMANCE
from deep_bench.mlperf.inference.logs import ACCURACY, DETAIL, SUMMARY, read_detail, read_summary
from deep_bench.mlperf.inference.record import AccuracyRecord, InferenceRecord
from deep_bench.mlperf.inference.sameness import BASELINE_ACCURACY, COMPLIANCE_ACCURACY

_LOGS = (SUMMARY, DETAIL, ACCURACY)
_SEALED = (*(*_LOGS, USER_CONF, ACCURACY_TEXT, VERIFY_ACCURACY, VERIFY_PERFORMANCE, BASELINE_ACCURACY, COMPLIANCE_ACCURACY),)


def seals(home: Path) -> dict[str, str]:
    """File to SHA-256, of all that a run left beside its record."""
    return {name: digest(home / name) for name in _SEALED if (home / name).is_file()}


def accuracy_text(one: AccuracyRecord, home: Path) -> str:
    """What ``accuracy.txt`` says: the accuracy, and the checksum of the log that it was counted from.

    Args:
        one: Of accuracy mode.
        home: The folder with the log.
    """
    return f"accuracy={100 * one.accuracy:.3f}%, good={one.correct}, total={one.total}\n" + hash_line(home / ACCURACY)


def hash_line(log: Path) -> str:
    """The checksum of a whole accuracy log, in the words of MLPerf's own scripts."""
    return f"hash={digest(log)}\n"


def check_seals(home: Path, record: InferenceRecord) -> None:
    """See that the files beside a record are those that its run left.

    Args:
        home: The folder of the run.
        record: What is in it.

    Raises:
        InvalidRecord: A file is another than the run left, is missing, or was not there then.
    """
    sealed = record.loadgen.logs
    for name in _SEALED:
        file = home / name
        if file.is_symlink():
            raise InvalidRecord(f"{file} is a link", "a file in the folder of the run")
        if name in sealed and not file.is_file():
            raise InvalidRecord(f"{file} is missing", f"the file of SHA-256 {sealed[name]}, as the run left it")
        if file.is_file() and digest(file) != sealed.get(name):
            expected = f"SHA-256 {sealed[name]}" if name in sealed else "no such file: its record knows of none"
            raise InvalidRecord(f"{file} is not what the run left", expected, "take the folder as it was after the run")
    missing = [name for name in _LOGS if name not in sealed]
    if missing:
        raise InvalidRecord(f"{home} has no checksum of {missing[0]}", "a record with those of LoadGen's logs")
    detail = read_detail(home)
    if dict(detail.values) != record.loadgen.values or list(detail.errors) != record.loadgen.errors:
        raise InvalidRecord(f"{home / DETAIL} says something else than the record", "a record of these logs")
    if read_summary(home) != record.loadgen.summary:
        raise InvalidRecord(f"{home / SUMMARY} says something else than the record", "a record of these logs")

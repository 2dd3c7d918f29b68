"""The folder of a run: clean before it, and holding nothing else afterwards."""

from __future__ import annotations

from pathlib import Path

from deep_bench.errors import InvalidArgument
from deep_bench.measure.folder import output_folder
from deep_bench.mlperf.inference.child import AUDIT_CONF, USER_CONF
from deep_bench.mlperf.inference.faults import FILE as FAULT
from deep_bench.mlperf.inference.logs import ACCURACY, DETAIL, SUMMARY, TRACE
from deep_bench.mlperf.inference.sameness import BASELINE_ACCURACY, COMPLIANCE_ACCURACY
from deep_bench.mlperf.inference.storage import ARRAYS, FILE

LOG, ACCURACY_TEXT = "system.log", "accuracy.txt"
VERIFY_ACCURACY, VERIFY_PERFORMANCE = "verify_accuracy.txt", "verify_performance.txt"
_OURS = frozenset(
    {FILE, ARRAYS, LOG, FAULT, USER_CONF, AUDIT_CONF, ACCURACY_TEXT, VERIFY_ACCURACY, VERIFY_PERFORMANCE}
    | {BASELINE_ACCURACY, COMPLIANCE_ACCURACY, SUMMARY, DETAIL, ACCURACY, TRACE}
)


def clean_folder(path: str | Path, overwrite: bool) -> Path:
    """A folder without files, made if it is not there.

    Args:
        path: The folder.
        overwrite: Remove what an earlier run left in it.

    Raises:
        InvalidArgument: It has files that may not be removed, or cannot be made or written.
    """
    folder = output_folder(path)
    names = sorted(file.name for file in folder.iterdir())
    if names and not overwrite:
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        advice = f"name another folder, or say that its run may go: --overwrite {path}"
        raise InvalidArgument(f"{folder} has files: {shown}", "a folder without any: logs of two runs would mix", advice)
    if foreign := sorted(set(names) - _OURS):
        raise InvalidArgument(f"{folder} has files that no run under LoadGen left: {foreign[0]}", "a folder of such a run")
    for name in names:
        (folder / name).unlink()
    return folder

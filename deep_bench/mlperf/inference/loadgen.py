"""The one file that imports LoadGen (``mlperf_loadgen``), MLPerf's generator of queries."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import FrameworkMissing, InvalidArgument
from deep_bench.mlperf.inference.settings import Mode, ScenarioName

_MODES = {
    "performance": "PerformanceOnly",
    "accuracy": "AccuracyOnly",
    "submission": "SubmissionRun",
    "find-peak": "FindPeakPerformance",
}
_USER_CONF = 1


@dataclass(frozen=True)
class Callbacks:
    """What LoadGen calls. None of them may raise: an exception that reaches LoadGen is a segmentation fault.

    Args:
        issue: Takes the ids and the indices of a query's samples.
        flush: There will be no more queries for a while.
        load, unload: Take the indices of samples.
    """

    issue: Callable[[list[int], list[int]], None]
    flush: Callable[[], None]
    load: Callable[[list[int]], None]
    unload: Callable[[list[int]], None]


def require() -> None:
    """See that LoadGen is installed.

    Raises:
        FrameworkMissing: It is not.
    """
    if find_spec("mlperf_loadgen") is None:
        raise FrameworkMissing(
            "LoadGen (mlperf_loadgen) is not installed", "MLPerf's own LoadGen", "pip install 'deep-bench[mlperf]'"
        )


def loadgen_version() -> str:
    """The version of the package."""
    return version("mlcommons-loadgen")


def sender() -> Callable[[Sequence[int], NDArray[np.generic]], None]:
    """What hands answers to LoadGen, which copies what it keeps.

    Returns:
        A function of the samples' ids and of an array with one row of bytes for each.
    """
    import mlperf_loadgen as lg

    answer, complete, first_byte = lg.QuerySampleResponse, lg.QuerySamplesComplete, ctypes.c_char.from_buffer

    def send(ids: Sequence[int], rows: NDArray[np.generic]) -> None:
        if not (rows.flags.c_contiguous and rows.flags.writeable):
            rows = rows.copy()
        start = ctypes.addressof(first_byte(rows.data))  # takes a fifth of what rows.ctypes.data does
        size = rows.nbytes // len(ids)
        complete([answer(number, start + place * size, size) for place, number in enumerate(ids)])

    return send


def run_test(
    model: str,
    scenario: ScenarioName,
    mode: Mode,
    *,
    callbacks: Callbacks,
    samples: int,
    in_memory: int,
    folder: Path,
    user_conf: Path,
    audit_conf: Path,
    trace: bool,
) -> None:
    """Run LoadGen, once in a process: the second reading of settings would skip its built-in ``mlperf.conf``.

    Args:
        model: Name that the lines of ``user_conf`` and of ``mlperf.conf`` may begin with.
        scenario: How queries come.
        mode: What the run is for.
        callbacks: What LoadGen calls.
        samples: In the library.
        in_memory: Of these, how many may be in memory at once.
        folder: For LoadGen's logs.
        user_conf: The settings, read by LoadGen itself, after its built-in ``mlperf.conf``.
        audit_conf: Settings of an audit; read if there is such a file. (By default LoadGen looks for one in the working
            folder, where it silently overrides everything.)
        trace: Whether to write what happened to each sample.

    Raises:
        InvalidArgument: LoadGen refuses the settings.
    """
    import mlperf_loadgen as lg

    settings = lg.TestSettings()
    settings.scenario = getattr(lg.TestScenario, scenario)
    settings.mode = getattr(lg.TestMode, _MODES[mode])
    if status := settings.FromConfig(str(user_conf), model, scenario, _USER_CONF):
        raise InvalidArgument(f"LoadGen cannot read {user_conf} (status {status})", "lines of model.scenario.key = number")
    settings.mode = getattr(lg.TestMode, _MODES[mode])
    logs = lg.LogSettings()
    output = lg.LogOutputSettings()
    output.outdir = str(folder)
    output.copy_summary_to_stdout = False
    logs.log_output = output
    logs.enable_trace = trace
    system = lg.ConstructSUT(_issuing(callbacks.issue), callbacks.flush)
    library = lg.ConstructQSL(samples, in_memory, callbacks.load, callbacks.unload)
    try:
        lg.StartTestWithLogSettings(system, library, settings, logs, str(audit_conf))
    finally:
        lg.DestroyQSL(library)
        lg.DestroySUT(system)
        sys.stdout.flush()


def _issuing(issue: Callable[[list[int], list[int]], None]) -> Callable[[list[Any]], None]:
    def called(query: list[Any]) -> None:
        issue([sample.id for sample in query], [sample.index for sample in query])

    return called

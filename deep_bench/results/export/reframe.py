"""Results as ReFrame keeps them: a run report, and a performance log.

Source:
    ReFrame 4.10, CSCS: *Run reports* and ``reframe/schemas/runreport.json`` (data version 4.2); *Logging*, the ``filelog``
    handler with ``general/perflog_multiline``, whose header has the names of the fields without ``check_``.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deep_bench import __version__
from deep_bench.results.export.names import distinct_names, word
from deep_bench.results.export.rows import finite, reason
from deep_bench.results.result import Figure, Result

if TYPE_CHECKING:
    from deep_bench.results.gathering import Results

DATA_VERSION = "4.2"
PARTITION = "default"
_MOMENT = "%Y-%m-%dT%H:%M:%S%z"
_FIELDS = (
    "result", "job_completion_time", "name", "system", "partition", "environ", "num_tasks",
    "perf_var", "perf_value", "perf_unit", "perf_ref", "perf_lower_thres", "perf_upper_thres",
)  # fmt: skip
_DELIMITER = "|"


def run_report(results: Results) -> str:
    """A session of one run, each result a test case of it.

    The problem is the test, the host its system, and the framework with its options its environment. A test whose result
    failed or was found wrong has failed, one whose run did not come to its end was aborted. Labels are further fields of
    the test case. A figure that is not finite is left out, as are intervals, for which there is no place.

    Args:
        results: What was read.
    """
    session = str(uuid.uuid4())
    names = distinct_names(results)
    cases = [_case(result, name, f"{session}:0:{i}") for i, (result, name) in enumerate(zip(results, names, strict=True))]
    moments = [result.created.timestamp() for result in results] or [datetime.now(UTC).timestamp()]
    counts = {
        "num_cases": len(cases),
        "num_failures": sum(case["result"] == "fail" for case in cases),
        "num_aborted": sum(case["result"] == "abort" for case in cases),
        "num_skipped": 0,
    }
    info = {
        "data_version": DATA_VERSION,
        "hostname": _host(results[0]) if results else "unknown",
        "uuid": session,
        "version": f"deep-bench {__version__}",
        "time_start": _moment(min(moments)),
        "time_start_unix": min(moments),
        "time_end": _moment(max(moments)),
        "time_end_unix": max(moments),
        "time_elapsed": max(moments) - min(moments),
        **counts,
    }
    runs = [{**counts, "run_index": 0, "testcases": cases}]
    return json.dumps({"session_info": info, "runs": runs, "restored_cases": []}, indent=1, allow_nan=False) + "\n"


def performance_log(results: Results) -> str:
    """A line for each figure, below a header; results without figures have none.

    Args:
        results: What was read.
    """
    return "".join(_DELIMITER.join(map(_field, line)) + "\n" for line in [_FIELDS, *_lines(results)])


def _lines(results: Results) -> Iterator[Sequence[Any]]:
    for result, name in zip(results, distinct_names(results), strict=True):
        where = (name, _host(result), PARTITION, _environ(result), result.labels.get("ranks", "1"))
        for figure in _finite(result):
            values = (word(figure.name), figure.median, figure.unit, None, None, None)
            yield (_outcome(result), _moment(result.created.timestamp()), *where, *values)


def _field(value: Any) -> str:
    """A value without what would end the field or the line; ReFrame writes ``null`` for none.

    Example:
        >>> _field("a|b"), _field(None), _field(0.5)
        ('a/b', 'null', '0.5')
    """
    return "null" if value is None else " ".join(str(value).replace(_DELIMITER, "/").splitlines())


def _case(result: Result, name: str, identity: str) -> dict[str, Any]:
    host, outcome = _host(result), _outcome(result)
    labels = {word(label): value for label, value in result.labels.items()}
    ended = result.created.timestamp()
    return labels | {
        "name": name,
        "unique_name": name,
        "display_name": name,
        "system": host,
        "partition": PARTITION,
        "environ": _environ(result),
        "filename": str(result.file),
        "result": outcome,
        "fail_phase": {"fail": "sanity", "abort": "run"}.get(outcome),
        "fail_reason": reason(result) or result.outcome if outcome != "pass" else None,
        "job_completion_time": _moment(ended),
        "job_completion_time_unix": ended,
        "job_nodelist": [host],
        "num_tasks": int(result.labels.get("ranks", "1")),
        "run_index": 0,
        "session_uuid": identity.partition(":")[0],
        "perfvalues": {f"{host}:{PARTITION}:{word(f.name)}": _perfvalue(f) for f in _finite(result)},
        "time_total": None,
        "uuid": identity,
    }


def _perfvalue(figure: Figure) -> list[Any]:
    """Value, reference with its two thresholds, unit, and how it compares with the reference: there is none."""
    return [figure.median, 0, None, None, figure.unit or None, "pass"]


def _finite(result: Result) -> list[Figure]:
    return [figure for figure in result.figures.values() if finite(figure.median) is not None]


def _outcome(result: Result) -> str:
    if not result.ok:
        return "fail"
    return "pass" if result.complete else "abort"


def _host(result: Result) -> str:
    return word(result.labels.get("host", "unknown"))


def _environ(result: Result) -> str:
    return word(result.labels.get("system", "none"))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(_MOMENT)

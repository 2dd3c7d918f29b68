"""Results as other programs read them: rows of plain values, and the forms of ReFrame, JUBE and Ramble.

There is a row for each figure, or for each sample. ReFrame keeps a run report and a performance log, JUBE a table, and
Ramble experiments with their figures of merit, which is what Benchpark analyses.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from math import isnan
from typing import TYPE_CHECKING, Any, TypeAlias

from deep_bench import __version__
from deep_bench.results.result import Figure, Result

if TYPE_CHECKING:
    from deep_bench.results.results import Results

Row: TypeAlias = dict[str, Any]

BEFORE: dict[str, type] = {"record": str, "created": str}
"""Columns before the labels."""


ABOUT: dict[str, type] = {
    "verdict": str, "reason": str, "significant bits": float, "errors": str, "complete": bool,
    "figure": str, "unit": str, "direction": str, "remark": str,
}  # fmt: skip
"""Columns after the labels, of every row."""


SUMMARY: dict[str, type] = {"value": float, "low": float, "high": float, "basis": str, "n": int, "censored": int}
"""Further columns of a row for a figure: the median, its 95 % interval, over what that was taken, the number of samples, and
how many launches did not reach what the figure is the time to."""


SAMPLE: dict[str, type] = {"launch": int, "block": int, "sample": int, "value": float, "censored": bool}
"""Further columns of a row for a sample."""


_COLUMN_NAMES = frozenset({*BEFORE, *ABOUT, *SUMMARY, *SAMPLE})
_FORMULA = re.compile(r"[=+@\t\r-]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def columns(results: Iterable[Result], samples: bool = False) -> dict[str, type]:
    """All columns of the rows, in their order, with the types of their values; each may be ``None`` too.

    Args:
        results: What was read.
        samples: Of the rows of samples.
    """
    names = sorted({name for result in results for name in result.labels})
    return BEFORE | {_label_column(name): str for name in names} | ABOUT | (SAMPLE if samples else SUMMARY)


def rows(results: Iterable[Result]) -> Iterator[Row]:
    """One row for each figure of each result, and one for a result without figures.

    Yields:
        Columns to values: the record's file, all labels, the verdict, the figure, and `SUMMARY`. A label that is called as
        another column has ``label.`` before its name.
    """
    for result in results:
        figures: list[Figure | None] = [*result.figures.values()]
        for figure in figures or [None]:
            yield _about_result(result, figure) | (_summary_values(figure) if figure is not None else {})


def sample_rows(results: Iterable[Result]) -> Iterator[Row]:
    """One row for each sample: as `rows`, with `SAMPLE` in the place of `SUMMARY`."""
    for result in results:
        for figure in result.figures.values():
            shared, late = _about_result(result, figure), figure.censored or (False,) * len(figure.launches)
            for launch, (groups, never) in enumerate(zip(figure.launches, late, strict=True)):
                for block, group in enumerate(groups):
                    for sample, value in enumerate(group.tolist()):
                        at = {"launch": launch, "block": block, "sample": sample}
                        yield shared | at | {"value": value, "censored": never}


def as_json(result: Result) -> dict[str, Any]:
    """A result as plain JSON types, without samples; what is not finite is ``None``."""
    return {
        "record": str(result.file),
        "created": result.created.isoformat(),
        "kind": result.kind,
        "name": result.name,
        "labels": dict(result.labels),
        "verdict": result.outcome,
        "reason": failure_reason(result),
        "complete": result.complete,
        "figures": {
            name: {"unit": figure.unit, "direction": figure.direction, "remark": figure.remark}
            | {key: finite(value) for key, value in _summary_values(figure).items()}
            for name, figure in result.figures.items()
        },
        "notes": list(result.notes),
    }


def failure_reason(result: Result) -> str:
    """Why the outcome is what it is: the first line of the first error, or the verdict's reason."""
    if result.errors:
        return next(iter(result.errors[0].message.splitlines()), result.errors[0].kind)
    return result.verdict.reason if result.verdict is not None else ""


def finite(value: Any) -> Any:
    """A value as JSON has it: ``None`` for a number that is not finite.

    Example:
        >>> finite(1.5), finite(float("inf")), finite("right")
        (1.5, None, 'right')
    """
    return None if isinstance(value, float) and (isnan(value) or abs(value) == float("inf")) else value


def cell_value(value: Any) -> Any:
    """A value as a table has it: spreadsheets run what begins as a formula, so that text gets a quote before it.

    Example:
        >>> cell_value("=HYPERLINK(1)"), cell_value("-1.5"), cell_value(-1.5), cell_value(True), cell_value(None)
        ("'=HYPERLINK(1)", '-1.5', -1.5, 'true', '')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return "" if value is None else value


def _label_column(label: str) -> str:
    return f"label.{label}" if label in _COLUMN_NAMES else label


def _about_result(result: Result, figure: Figure | None) -> Row:
    row = {
        "record": str(result.file),
        "created": result.created.isoformat(),
        **{_label_column(name): value for name, value in result.labels.items()},
        "verdict": result.outcome,
        "reason": failure_reason(result),
        "significant bits": result.verdict.significant_bits if result.verdict is not None else None,
        "errors": "; ".join(f"{error.kind}: {error.message}" for error in result.errors),
        "complete": result.complete,
        "figure": figure.name if figure is not None else None,
        "unit": figure.unit if figure is not None else None,
        "direction": figure.direction if figure is not None else None,
        "remark": figure.remark if figure is not None else None,
    }
    return {name: _encodable(value) for name, value in row.items()}


def _encodable(value: Any) -> Any:
    """A text without halves of characters, which JSON may have and UTF-8 cannot."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _summary_values(figure: Figure) -> Row:
    interval = figure.interval
    return {
        "value": figure.median,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "basis": None if interval is None else interval.basis,
        "n": figure.count,
        "censored": sum(figure.censored),
    }


_OF_ONE_RUN = frozenset({"cell", "factor.seed", "launches", "seed", "version"})


def one_word(text: str) -> str:
    """A text as one word of letters, digits, dots, dashes and underscores.

    Example:
        >>> one_word("time to target"), one_word("torch:threads=1"), one_word("")
        ('time_to_target', 'torch_threads_1', '_')
    """
    return re.sub(r"[^\w.-]+", "_", text) or "_"


def exported_problem(result: Result) -> str:
    """What was run, as one word.

    Example:
        >>> from datetime import datetime
        >>> from pathlib import Path
        >>> labels = {"case": "8 x 8", "operator": "Gelu", "ranks": "4"}
        >>> exported_problem(Result("operators", Path("r"), datetime(2026, 1, 1), labels, {}))
        'operators_Gelu_8_x_8_ranks_4'
    """
    of = result.labels
    case, operator = of.get("case", ""), of.get("operator", "").rpartition("::")[2]
    words = [of[key] for key in ("recipe", "network", "data") if of.get(key)]
    words += [case] if case.startswith(operator) else [operator, case]
    words += [f"ranks {of['ranks']}"] if of.get("ranks", "1") != "1" else []
    words += [f"{key} {value}" for key, value in of.items() if key.startswith("size.")]
    return one_word(" ".join(filter(None, [result.kind, *dict.fromkeys(words)])))


def distinct_names(results: Sequence[Result]) -> list[str]:
    """What was run, as one word; where one system on one host ran it with other settings too, with the labels that differ.

    The same run made again, or with another seed, has the same name.

    Args:
        results: All that are named together.

    Example:
        >>> from datetime import datetime
        >>> from pathlib import Path
        >>> both = [Result("training", Path("r"), datetime(2026, 1, 1), {"recipe": "digits", "lr": lr}, {}) for lr in "12"]
        >>> distinct_names(both)
        ['training_digits_lr_1', 'training_digits_lr_2']
    """
    names = [exported_problem(result) for result in results]
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, (result, name) in enumerate(zip(results, names, strict=True)):
        key = (name, result.labels.get("host", ""), result.labels.get("system", ""))
        groups.setdefault(key, []).append(number)
    for indices in groups.values():
        labels = dict.fromkeys(label for i in indices for label in results[i].labels if label not in _OF_ONE_RUN)
        differ = [label for label in labels if len({results[i].labels.get(label) for i in indices}) > 1]
        for i in indices:
            parts = [one_word(f"{label} {results[i].labels[label]}") for label in differ if label in results[i].labels]
            names[i] = "_".join([names[i], *parts])
    return names


def unique_names(names: Iterable[str]) -> list[str]:
    """Names of which each is there once: a second one of a name gets a number.

    Example:
        >>> unique_names(["a", "b", "a"])
        ['a', 'b', 'a.2']
    """
    counts: Counter[str] = Counter()
    unique = []
    for name in names:
        counts[name] += 1
        unique.append(name if counts[name] == 1 else f"{name}.{counts[name]}")
    return unique


JUBE_SEPARATOR = ","
_JUBE_REPLACEMENTS = ";"


def jube_table(results: Results) -> str:
    """A row for each result: its labels, its verdict, and for each figure the median and the ends of its 95 % interval.

    Args:
        results: What was read.
    """
    labels = list(results.labels())
    figures = {name: figure for result in results for name, figure in result.figures.items()}
    head = ["record", "created", *labels, "verdict", "reason", "complete"]
    head += [title for name, figure in figures.items() for title in _jube_titles(name, figure)]
    lines = [head, *(_jube_cells(result, labels, list(figures)) for result in results)]
    return "".join(JUBE_SEPARATOR.join(map(_jube_cell, line)) + "\n" for line in lines)


def _jube_titles(name: str, figure: Figure) -> list[str]:
    unit = f"[{figure.unit}]" if figure.unit else ""
    return [f"{title}{unit}" for title in (name, f"{name} low", f"{name} high")]


def _jube_cells(result: Result, labels: list[str], figures: list[str]) -> list[Any]:
    cells = [result.file, result.created.isoformat(), *(result.labels.get(name) for name in labels)]
    cells += [result.outcome, failure_reason(result), str(result.complete).lower()]
    for name in figures:
        figure = result.figures.get(name)
        interval = None if figure is None else figure.interval
        cells.append(None if figure is None else finite(figure.median))
        cells += [None, None] if interval is None else [finite(interval.low), finite(interval.high)]
    return cells


def _jube_cell(value: Any) -> str:
    """JUBE has no quotes: what would be read as the end of a cell is replaced.

    Example:
        >>> _jube_cell("a,b"), _jube_cell(None), _jube_cell(0.1)
        ('a;b', '', '0.1')
    """
    text = str(cell_value(value)).replace(JUBE_SEPARATOR, _JUBE_REPLACEMENTS)
    return " ".join(text.splitlines())


RAMBLE_APPLICATION = "deep-bench"
_FOM_TYPES = {"s": "TIME", "samples/s": "THROUGHPUT", "B/s": "THROUGHPUT", "FLOP/s": "THROUGHPUT"}


def ramble_json(results: Results) -> str:
    """An experiment for each result: ``application.workload.experiment`` is deep-bench, the problem and the system.

    What failed, was found wrong or did not come to its end has the status ``FAILED``. A figure that is not finite, such as
    the time to a target that was never reached, is left out.

    Args:
        results: What was read.
    """
    workloads, systems = distinct_names(results), [one_word(r.labels.get("system", "none")) for r in results]
    names = unique_names(f"{RAMBLE_APPLICATION}.{of}.{system}" for of, system in zip(workloads, systems, strict=True))
    experiments = [_experiment(result, name, of) for result, name, of in zip(results, names, workloads, strict=True)]
    return json.dumps({"experiments": experiments}, indent=1, allow_nan=False) + "\n"


def _experiment(result: Result, name: str, workload: str) -> dict[str, Any]:
    status = "SUCCESS" if result.ok and result.complete else "FAILED"
    variables = {one_word(key): value for key, value in result.labels.items()} | {
        "application_name": RAMBLE_APPLICATION,
        "workload_name": workload,
        "experiment_name": name,
        "simplified_workload_namespace": f"{RAMBLE_APPLICATION}_{workload}",
        "simplified_experiment_namespace": one_word(name),
        "repeat_index": "0",
        "n_ranks": result.labels.get("ranks", "1"),
        "n_nodes": result.labels.get("nodes", "1"),
        "verdict": result.outcome,
        "reason": failure_reason(result),
        "record": str(result.file),
        "created": result.created.isoformat(),
    }
    return {
        "name": name,
        "EXPERIMENT_STATUS": status,
        "RAMBLE_STATUS": status,
        "N_REPEATS": 0,
        "application_name": RAMBLE_APPLICATION,
        "workload_name": workload,
        "experiment_name": name,
        "CONTEXTS": [{"name": "null", "display_name": "null", "foms": list(_foms(result))}],
        "SOFTWARE": {},
        "RAMBLE_VARIABLES": variables,
        "RAMBLE_RAW_VARIABLES": {},
        "TAGS": [result.kind],
        "VARIANTS": [],
        "EXPERIMENT_CHAIN": [],
        "SUCCESS_CRITERIA": {},
        "OBJECT_DEFINITIONS": [],
    }


def _foms(result: Result) -> Iterator[dict[str, Any]]:
    yield _fom("verdict", result.outcome, "", "CATEGORY", "INAPPLICABLE")
    for figure in result.figures.values():
        interval = figure.interval
        ends = [] if interval is None else [("low", interval.low), ("high", interval.high)]
        for name, value in [(figure.name, figure.median), *((f"{figure.name} {end}", value) for end, value in ends)]:
            if finite(value) is not None:
                yield _fom(name, value, figure.unit, _FOM_TYPES.get(figure.unit, "MEASURE"), figure.direction.upper())


def _fom(name: str, value: Any, unit: str, kind: str, direction: str) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "units": unit,
        "origin": RAMBLE_APPLICATION,
        "origin_type": "application",
        "fom_type": {"name": kind, "better_direction": direction},
    }


REFRAME_DATA_VERSION = "4.2"
REFRAME_PARTITION = "default"
_REFRAME_MOMENT = "%Y-%m-%dT%H:%M:%S%z"
_REFRAME_FIELDS = (
    "result", "job_completion_time", "name", "system", "partition", "environ", "num_tasks",
    "perf_var", "perf_value", "perf_unit", "perf_ref", "perf_lower_thres", "perf_upper_thres",
)  # fmt: skip
_REFRAME_DELIMITER = "|"


def reframe_report(results: Results) -> str:
    """A session of one run, each result a test case of it.

    The problem is the test, the host its system, and the framework with its options its environment. A test whose result
    failed or was found wrong has failed, one whose run did not come to its end was aborted. Labels are further fields of
    the test case. A figure that is not finite is left out, as are intervals, for which there is no place.

    Args:
        results: What was read.
    """
    session = str(uuid.uuid4())
    names = distinct_names(results)
    cases = [
        _reframe_case(result, name, f"{session}:0:{i}") for i, (result, name) in enumerate(zip(results, names, strict=True))
    ]
    moments = [result.created.timestamp() for result in results] or [datetime.now(UTC).timestamp()]
    counts = {
        "num_cases": len(cases),
        "num_failures": sum(case["result"] == "fail" for case in cases),
        "num_aborted": sum(case["result"] == "abort" for case in cases),
        "num_skipped": 0,
    }
    info = {
        "data_version": REFRAME_DATA_VERSION,
        "hostname": _reframe_host(results[0]) if results else "unknown",
        "uuid": session,
        "version": f"deep-bench {__version__}",
        "time_start": _reframe_moment(min(moments)),
        "time_start_unix": min(moments),
        "time_end": _reframe_moment(max(moments)),
        "time_end_unix": max(moments),
        "time_elapsed": max(moments) - min(moments),
        **counts,
    }
    runs = [{**counts, "run_index": 0, "testcases": cases}]
    return json.dumps({"session_info": info, "runs": runs, "restored_cases": []}, indent=1, allow_nan=False) + "\n"


def reframe_log(results: Results) -> str:
    """A line for each figure, below a header; results without figures have none.

    Args:
        results: What was read.
    """
    return "".join(_REFRAME_DELIMITER.join(map(_log_field, line)) + "\n" for line in [_REFRAME_FIELDS, *_log_lines(results)])


def _log_lines(results: Results) -> Iterator[Sequence[Any]]:
    for result, name in zip(results, distinct_names(results), strict=True):
        where = (name, _reframe_host(result), REFRAME_PARTITION, _reframe_environ(result), result.labels.get("ranks", "1"))
        for figure in _finite(result):
            values = (one_word(figure.name), figure.median, figure.unit, None, None, None)
            yield (_reframe_outcome(result), _reframe_moment(result.created.timestamp()), *where, *values)


def _log_field(value: Any) -> str:
    """A value without what would end the field or the line; ReFrame writes ``null`` for none.

    Example:
        >>> _log_field("a|b"), _log_field(None), _log_field(0.5)
        ('a/b', 'null', '0.5')
    """
    return "null" if value is None else " ".join(str(value).replace(_REFRAME_DELIMITER, "/").splitlines())


def _reframe_case(result: Result, name: str, identity: str) -> dict[str, Any]:
    host, outcome = _reframe_host(result), _reframe_outcome(result)
    labels = {one_word(label): value for label, value in result.labels.items()}
    ended = result.created.timestamp()
    return labels | {
        "name": name,
        "unique_name": name,
        "display_name": name,
        "system": host,
        "partition": REFRAME_PARTITION,
        "environ": _reframe_environ(result),
        "filename": str(result.file),
        "result": outcome,
        "fail_phase": {"fail": "sanity", "abort": "run"}.get(outcome),
        "fail_reason": failure_reason(result) or result.outcome if outcome != "pass" else None,
        "job_completion_time": _reframe_moment(ended),
        "job_completion_time_unix": ended,
        "job_nodelist": [host],
        "num_tasks": int(result.labels.get("ranks", "1")),
        "run_index": 0,
        "session_uuid": identity.partition(":")[0],
        "perfvalues": {f"{host}:{REFRAME_PARTITION}:{one_word(f.name)}": _perfvalue(f) for f in _finite(result)},
        "time_total": None,
        "uuid": identity,
    }


def _perfvalue(figure: Figure) -> list[Any]:
    """Value, reference with its two thresholds, unit, and how it compares with the reference: there is none."""
    return [figure.median, 0, None, None, figure.unit or None, "pass"]


def _finite(result: Result) -> list[Figure]:
    return [figure for figure in result.figures.values() if finite(figure.median) is not None]


def _reframe_outcome(result: Result) -> str:
    if not result.ok:
        return "fail"
    return "pass" if result.complete else "abort"


def _reframe_host(result: Result) -> str:
    return one_word(result.labels.get("host", "unknown"))


def _reframe_environ(result: Result) -> str:
    return one_word(result.labels.get("system", "none"))


def _reframe_moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(_REFRAME_MOMENT)

"""Results as Ramble writes them, which is what Benchpark analyses: experiments with their figures of merit.

Source:
    Ramble, Google: ``lib/ramble/ramble/experiment_result.py`` (the keys of an experiment; what it calls
    ``EXPERIMENT_STATUS`` was ``RAMBLE_STATUS`` in versions of 2025, and both are written), ``util/foms.py`` (``fom_type``)
    and ``reports.py`` (what ``ramble results report -f FILE`` takes of them), as of 2025 and 2026.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deep_bench.results.export.names import distinct_names, numbered, word
from deep_bench.results.export.rows import finite, reason
from deep_bench.results.result import Figure, Result

if TYPE_CHECKING:
    from deep_bench.results.gathering import Results

APPLICATION = "deep-bench"
_TYPES = {"s": "TIME", "samples/s": "THROUGHPUT", "B/s": "THROUGHPUT", "FLOP/s": "THROUGHPUT"}


def results_json(results: Results) -> str:
    """An experiment for each result: ``application.workload.experiment`` is deep-bench, the problem and the system.

    What failed, was found wrong or did not come to its end has the status ``FAILED``. A figure that is not finite, such as
    the time to a target that was never reached, is left out.

    Args:
        results: What was read.
    """
    workloads, systems = distinct_names(results), [word(r.labels.get("system", "none")) for r in results]
    names = numbered(f"{APPLICATION}.{of}.{system}" for of, system in zip(workloads, systems, strict=True))
    experiments = [_experiment(result, name, of) for result, name, of in zip(results, names, workloads, strict=True)]
    return json.dumps({"experiments": experiments}, indent=1, allow_nan=False) + "\n"


def _experiment(result: Result, name: str, workload: str) -> dict[str, Any]:
    status = "SUCCESS" if result.ok and result.complete else "FAILED"
    variables = {word(key): value for key, value in result.labels.items()} | {
        "application_name": APPLICATION,
        "workload_name": workload,
        "experiment_name": name,
        "simplified_workload_namespace": f"{APPLICATION}_{workload}",
        "simplified_experiment_namespace": word(name),
        "repeat_index": "0",
        "n_ranks": result.labels.get("ranks", "1"),
        "n_nodes": result.labels.get("nodes", "1"),
        "verdict": result.outcome,
        "reason": reason(result),
        "record": str(result.file),
        "created": result.created.isoformat(),
    }
    return {
        "name": name,
        "EXPERIMENT_STATUS": status,
        "RAMBLE_STATUS": status,
        "N_REPEATS": 0,
        "application_name": APPLICATION,
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
                yield _fom(name, value, figure.unit, _type(figure), figure.direction.upper())


def _type(figure: Figure) -> str:
    return _TYPES.get(figure.unit, "MEASURE")


def _fom(name: str, value: Any, unit: str, kind: str, direction: str) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "units": unit,
        "origin": APPLICATION,
        "origin_type": "application",
        "fom_type": {"name": kind, "better_direction": direction},
    }

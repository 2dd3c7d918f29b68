"""Whether a folder is laid out as a submission to MLPerf Inference: what can be told without MLCommons' own checker.

That checker is no package: it is a program in the repository mlcommons/inference, ``tools/submission``. It has to be run
there before anything is submitted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deep_bench.errors import InvalidRecord
from deep_bench.mlperf.inference.child import USER_CONF
from deep_bench.mlperf.inference.folder import ACCURACY_TEXT, VERIFY_ACCURACY, VERIFY_PERFORMANCE
from deep_bench.mlperf.inference.logs import ACCURACY, DETAIL, SUMMARY, read_detail
from deep_bench.mlperf.inference.sameness import BASELINE_ACCURACY, COMPLIANCE_ACCURACY
from deep_bench.mlperf.inference.scenario import FULL_DURATION_S, SCENARIOS
from deep_bench.mlperf.system import UNKNOWN
from deep_bench.mlperf.system.fields import fields_of

_MEASUREMENTS = (
    "input_data_types",
    "retraining",
    "starting_weights_filename",
    "weight_data_types",
    "weight_transformations",
)
_STATUSES, _TYPES = ("available", "preview", "rdi"), ("datacenter", "edge", "datacenter,edge", "edge,datacenter")
_LARGEST_BYTES = 2**20


@dataclass(frozen=True)
class Finding:
    """Something that the rules ask for and is not so.

    Args:
        place: Below the submission's folder.
        text: What is missing or wrong.
    """

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def check_submission(root: Path) -> Iterator[Finding]:
    """Look through the folder of a submission to the open division.

    Args:
        root: The folder that ``open/`` is in.

    Source:
        mlcommons/inference, ``tools/submission/submission_structure.md`` and the checks of ``submission_checker`` (v6.0).
    """
    submitters = _folders(root / "open")
    if not submitters:
        yield Finding("open", "no folder of a submitter")
    for home in submitters:
        for name in ("results", "systems", "src"):
            if not (home / name).is_dir():
                yield _at(root, home / name, "no such folder")
        for system in _folders(home / "results"):
            yield from _check_system(root, home, system.name)
            scenarios = [folder for benchmark in _folders(system) for folder in _folders(benchmark)]
            for scenario in scenarios:
                yield from _check_scenario(root, scenario)
            if not scenarios:
                yield _at(root, system, "no results of a benchmark")


def _check_system(root: Path, home: Path, name: str) -> Iterator[Finding]:
    path = home / "systems" / f"{name}.json"
    content, fault = _json(path)
    if content is None:
        yield _at(root, path, fault)
        return
    for field in fields_of("inference"):
        value = content.get(field.name)
        if value is None:
            yield _at(root, path, f"field {field.name} is missing")
        elif field.meaningful and value in ("", UNKNOWN):
            yield _at(root, path, f"field {field.name} says nothing: {field.how}")
    expected = {"division": "open", "submitter": home.name}
    for key, value in expected.items():
        if str(content.get(key)).lower() != value.lower():
            yield _at(root, path, f"{key} is {content.get(key)!r}, the folder says {value!r}")
    for key, allowed in (("status", _STATUSES), ("system_type", _TYPES)):
        if content.get(key) not in (*allowed, UNKNOWN, None):
            yield _at(root, path, f"{key} is {content.get(key)!r}: one of {', '.join(allowed)}")


def _check_scenario(root: Path, place: Path) -> Iterator[Finding]:
    if place.name not in SCENARIOS:
        yield _at(root, place, f"no scenario: one of {', '.join(SCENARIOS)}")
        return
    performance, accuracy = place / "performance" / "run_1", place / "accuracy"
    needed = [performance / SUMMARY, performance / DETAIL, place / USER_CONF, place / "README.md"]
    needed += [accuracy / name for name in (SUMMARY, DETAIL, ACCURACY, ACCURACY_TEXT)]
    for audit in (folder for folder in _folders(place) if folder.name.startswith("TEST")):
        needed += [audit / "performance" / "run_1" / name for name in (SUMMARY, DETAIL)]
        needed += [audit / VERIFY_PERFORMANCE, *([audit / VERIFY_ACCURACY] if audit.name == "TEST01" else [])]
        if audit.name == "TEST01" and _differs(audit / VERIFY_ACCURACY):
            needed += [audit / "accuracy" / name for name in (BASELINE_ACCURACY, COMPLIANCE_ACCURACY)]
    for path in needed:
        if not path.is_file() or not path.stat().st_size:
            yield _at(root, path, "missing or empty")
    content, fault = _json(place / "measurements.json")
    if content is None:
        yield _at(root, place / "measurements.json", fault)
    else:
        for key in _MEASUREMENTS:
            if content.get(key) in (None, "", UNKNOWN):
                yield _at(root, place / "measurements.json", f"field {key} says nothing")
    yield from _check_log(root, performance, place.name)


def _differs(verified: Path) -> bool:
    """Whether answers of TEST01 were not the same: the rules then ask for two accuracies."""
    small = verified.is_file() and verified.stat().st_size <= _LARGEST_BYTES
    return small and "TEST PASS" not in verified.read_text(encoding="utf-8", errors="replace")


def _check_log(root: Path, folder: Path, scenario: str) -> Iterator[Finding]:
    if not (folder / DETAIL).is_file():
        return
    try:
        detail = read_detail(folder)
    except InvalidRecord as error:
        yield _at(root, folder / DETAIL, error.came)
        return
    duration = detail.values.get("effective_min_duration_ms")
    if detail.values.get("effective_scenario") != scenario:
        yield _at(root, folder / DETAIL, f"is of the scenario {detail.values.get('effective_scenario')!r}")
    if detail.validity != "VALID" or detail.errors:
        yield _at(root, folder / DETAIL, f"LoadGen says {detail.validity!r}, with {len(detail.errors)} errors")
    if not isinstance(duration, int | float) or duration < FULL_DURATION_S * 1e3:
        yield _at(root, folder / DETAIL, f"a run of at least {duration} ms: the rules ask for {FULL_DURATION_S * 1e3:g}")


def _json(path: Path) -> tuple[dict[str, Any] | None, str]:
    """What a small JSON file holds, or why that cannot be told."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return None, f"{path.stat().st_size} bytes"
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return None, f"cannot be read: {error}"
    return (content, "") if isinstance(content, dict) else (None, "no object")


def _folders(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir()) if path.is_dir() else []


def _at(root: Path, path: Path, text: str) -> Finding:
    return Finding(path.relative_to(root).as_posix(), text)

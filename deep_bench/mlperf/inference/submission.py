"""The folder of a submission to the open division, as MLPerf's rules lay it out, made of the folders of runs.

What can be told of it without MLCommons' own checker is checked. That checker is no package: it is a program in the
repository mlcommons/inference, ``tools/submission``. It has to be run there before anything is submitted.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.mlperf.inference.audit import (
    ACCURACY_TEXT,
    BASELINE_ACCURACY,
    COMPLIANCE_ACCURACY,
    VERIFY_ACCURACY,
    VERIFY_PERFORMANCE,
    check_seals,
)
from deep_bench.mlperf.inference.child import USER_CONF
from deep_bench.mlperf.inference.logs import ACCURACY, DETAIL, SUMMARY, read_detail
from deep_bench.mlperf.inference.record import ARRAYS, FILE, InferenceRecord, load_inference
from deep_bench.mlperf.inference.settings import FULL_DURATION_S, SCENARIOS, TOO_SHORT, UNVERIFIED
from deep_bench.mlperf.system import UNKNOWN, describe, fields_of
from deep_bench.records.folders import output_folder

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
class SubmissionFinding:
    """Something that the rules ask for and is not so.

    Args:
        place: Below the submission's folder.
        text: What is missing or wrong.
    """

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def check_submission(root: Path) -> Iterator[SubmissionFinding]:
    """Look through the folder of a submission to the open division.

    Args:
        root: The folder that ``open/`` is in.

    Source:
        mlcommons/inference, ``tools/submission/submission_structure.md`` and the checks of ``submission_checker`` (v6.0).
    """
    submitters = _folders(root / "open")
    if not submitters:
        yield SubmissionFinding("open", "no folder of a submitter")
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


def _check_system(root: Path, home: Path, name: str) -> Iterator[SubmissionFinding]:
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


def _check_scenario(root: Path, place: Path) -> Iterator[SubmissionFinding]:
    if place.name not in SCENARIOS:
        yield _at(root, place, f"no scenario: one of {', '.join(SCENARIOS)}")
        return
    performance, accuracy = place / "performance" / "run_1", place / "accuracy"
    needed = [performance / SUMMARY, performance / DETAIL, place / USER_CONF, place / "README.md"]
    needed += [accuracy / name for name in (SUMMARY, DETAIL, ACCURACY, ACCURACY_TEXT)]
    for audit in (folder for folder in _folders(place) if folder.name.startswith("TEST")):
        needed += [audit / "performance" / "run_1" / name for name in (SUMMARY, DETAIL)]
        needed += [audit / VERIFY_PERFORMANCE, *([audit / VERIFY_ACCURACY] if audit.name == "TEST01" else [])]
        verified = audit / VERIFY_ACCURACY
        small = verified.is_file() and verified.stat().st_size <= _LARGEST_BYTES
        if audit.name == "TEST01" and small and "TEST PASS" not in verified.read_text(encoding="utf-8", errors="replace"):
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


def _check_log(root: Path, folder: Path, scenario: str) -> Iterator[SubmissionFinding]:
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


def _at(root: Path, path: Path, text: str) -> SubmissionFinding:
    return SubmissionFinding(path.relative_to(root).as_posix(), text)


_NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}")
_LARGEST_ACCURACY_BYTES = 10 * 2**10
"""The rules want longer accuracy logs cut, with the checksum of the whole one in ``accuracy.txt``."""


@dataclass(frozen=True)
class InferenceSubmission:
    """What was laid out.

    Args:
        folder: The root: ``open/`` is in it.
        scenarios: Folders of scenarios that results were copied to.
        unknown: Fields of the system's description that nobody told.
        findings: What the rules ask for and is not there.
    """

    folder: Path
    scenarios: tuple[Path, ...]
    unknown: tuple[str, ...]
    findings: tuple[SubmissionFinding, ...]


def lay_out(
    runs: Sequence[str | Path],
    folder: str | Path,
    *,
    submitter: str,
    system: str,
    facts: Mapping[str, Any] | None = None,
    benchmark: str | None = None,
) -> InferenceSubmission:
    """Copy runs into the folder of an open-division submission, and check it.

    Args:
        runs: Folders of VALID runs: for each scenario one of accuracy and one of performance mode (or one of submission
            mode), and audits.
        folder: A new or empty one.
        submitter: The organization.
        system: The name of the system's description.
        facts: Fields of the description, which go before what the machine tells; see `deep_bench.mlperf.system`.
            The description calls the submitter as the folder does.
        benchmark: By default the network's name.

    Returns:
        Where all is, and what is missing. Only members of MLCommons can submit, and only what MLCommons has reviewed is
        verified.

    Raises:
        InvalidArgument: A name that no path may have, another submitter in the facts, a folder with files or one that cannot
            be written, runs that are not VALID or do not go together.
        InvalidRecord: A folder that holds no run, or other logs than the run left.
    """
    records = [(Path(run), load_inference(run)) for run in runs]
    _check(records)
    for run, record in records:
        check_seals(run, record)
    first = records[0][1]
    benchmark = benchmark or first.network.name
    for field, name in (("submitter", submitter), ("system", system), ("benchmark", benchmark)):
        if not _NAME.fullmatch(name):
            raise InvalidArgument(f"{field} {name!r}", "letters, digits and any of . _ + -, at most 100, no folder's path")
    in_facts = str((facts or {}).get("submitter", submitter))
    if _plain(in_facts) != _plain(submitter):
        raise InvalidArgument(
            f"the submitter {submitter!r}, who is {in_facts!r} in the facts",
            "the same name, but for characters that no folder may have",
            "mend one of them: My Lab in the facts goes with --submitter My_Lab",
        )
    framework = f"{first.framework.partition(':')[0]} {str(first.facts.get('version', '')).strip()}".strip()
    defaults = {"framework": framework, "division": "open", "system_name": system}
    root = Path(folder)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise InvalidArgument(f"{root} is there already", "a new folder, or one without files")
    output_folder(root)
    description = describe(first.environment, {**defaults, **(facts or {}), "submitter": submitter}, "inference")
    try:
        home = root / "open" / submitter
        by_scenario: dict[Path, list[InferenceRecord]] = {}
        for run, record in records:
            place = home / "results" / system / benchmark / record.scenario
            _copy_run(run, record, place)
            by_scenario.setdefault(place, []).append(record)
        for place, of_scenario in by_scenario.items():
            _describe_scenario(place, of_scenario)
        _describe_code(home, benchmark, records)
        _write_json(home / "systems" / f"{system}.json", description)
    except OSError as error:
        raise InvalidArgument(
            f"cannot write {error.filename or root}: {error.strerror}", "a folder with space that can be written"
        ) from error
    scenarios = tuple(by_scenario)
    unknown = tuple(name for name, value in description.items() if value == UNKNOWN)
    findings = [*check_submission(root)]
    for place in scenarios:
        remarks = [text for _, record in records if record.scenario == place.name for text in record.remarks]
        findings += [_at(root, place, text) for text in dict.fromkeys(remarks) if not text.startswith(TOO_SHORT)]
    return InferenceSubmission(root, scenarios, unknown, tuple(findings))


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()


def _check(records: Sequence[tuple[Path, InferenceRecord]]) -> None:
    if not records:
        raise InvalidArgument("no runs", "at least one folder of a run under LoadGen")
    first = records[0][1]
    runs_by_part: dict[tuple[str, str], Path] = {}
    for run, record in records:
        if not record.valid:
            word = record.judgement.word if record.judgement else "unfinished"
            raise InvalidArgument(f"{run} is {word}", "VALID runs", "see `deep-bench show`")
        if record.mode == "find-peak":
            raise InvalidArgument(f"{run} is of mode find-peak", "runs of performance, accuracy or submission mode")
        ours, theirs = ((side.network.sha256, side.framework, side.system) for side in (record, first))
        if ours != theirs:
            raise InvalidArgument(f"{run} is of another network, framework or system than {records[0][0]}", "runs of one")
        parts = ["performance", "accuracy"] if record.mode == "submission" else [record.mode]
        for part in [record.audit.name] if record.audit else parts:
            if previous := runs_by_part.get((record.scenario, part)):
                raise InvalidArgument(f"{previous} and {run} both are {part} of {record.scenario}", "one of each")
            runs_by_part[record.scenario, part] = run


def _copy_run(run: Path, record: InferenceRecord, place: Path) -> None:
    if record.audit is not None:
        home = place / record.audit.name
        _copy(run, home / "performance" / "run_1", (SUMMARY, DETAIL))
        if record.audit.name == "TEST01":
            _copy(run, home / "accuracy", (ACCURACY, BASELINE_ACCURACY, COMPLIANCE_ACCURACY))
        _copy(run, home, (VERIFY_ACCURACY, VERIFY_PERFORMANCE))
        return
    if record.mode in ("performance", "submission"):
        _copy(run, place / "performance" / "run_1", (SUMMARY, DETAIL))
    if record.mode in ("accuracy", "submission"):
        _copy(run, place / "accuracy", (SUMMARY, DETAIL, ACCURACY, ACCURACY_TEXT))
        log = place / "accuracy" / ACCURACY
        if log.stat().st_size > _LARGEST_ACCURACY_BYTES:
            content = log.read_bytes()
            half = _LARGEST_ACCURACY_BYTES // 2 - 16
            log.write_bytes(content[:half] + b"\n\n...\n\n" + content[-half:])
    _copy(run, place, (USER_CONF,))


def _copy(run: Path, place: Path, names: Sequence[str]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (run / name).is_symlink():
            raise InvalidArgument(f"{run / name} is a link", "a file in the folder of the run")
        if (run / name).is_file():
            shutil.copyfile(run / name, place / name)


def _describe_scenario(place: Path, records: Sequence[InferenceRecord]) -> None:
    first = records[0]
    _write_json(
        place / "measurements.json",
        {
            "input_data_types": ", ".join(sorted({spec.dtype for spec in first.network.inputs})),
            "retraining": "no",
            "starting_weights_filename": f"{first.network.name}.onnx, SHA-256 {first.network.sha256}",
            "weight_data_types": str(first.facts.get("precision", UNKNOWN)),
            "weight_transformations": "none" if not first.system else UNKNOWN,
        },
    )
    lines = [f"# {first.network.name}, {first.scenario}", "", f"Unverified. {UNVERIFIED}", "", "How each part was made:", ""]
    for record in records:
        lines += [f"    {' '.join(shlex.quote(word) for word in record.command)}", ""]
        lines += [f"- {remark}" for remark in record.remarks]
    (place / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _describe_code(home: Path, benchmark: str, records: Sequence[tuple[Path, InferenceRecord]]) -> None:
    """What was run: the version of deep_bench, which holds all of it, and each run's record."""
    for name in ("code", "src"):  # the rules' text says code, their checker of v6.0 looks for src
        folder = home / name / benchmark
        folder.mkdir(parents=True)
        text = f"# {benchmark}\n\nRun by deep_bench {records[0][1].deep_bench}; see the records of the runs in code/.\n"
        (folder / "README.md").write_text(text, encoding="utf-8")
    for run, record in records:
        label = record.audit.name if record.audit is not None else record.mode
        _copy(run, home / "code" / benchmark / f"{record.scenario}-{label}", (FILE, ARRAYS))


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(dict(content), indent=2) + "\n", encoding="utf-8")

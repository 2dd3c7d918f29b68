"""Audits: TEST01, that answers in performance mode are those of accuracy mode; TEST04, that nothing is cached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deep_bench.errors import InvalidArgument
from deep_bench.mlperf.inference.folder import VERIFY_ACCURACY, VERIFY_PERFORMANCE
from deep_bench.mlperf.inference.logs import read_answers
from deep_bench.mlperf.inference.record import AuditRecord, InferenceRecord
from deep_bench.mlperf.inference.sameness import sameness
from deep_bench.mlperf.inference.seals import check_seals
from deep_bench.mlperf.inference.settings import Audit, Settings
from deep_bench.mlperf.inference.storage import load_inference
from deep_bench.mlperf.inference.workload import Work

_USUAL, _SHORT = 0.10, 0.20
"""How far apart the results of two runs may be, as a share; and where the latencies are short (`_SHORT_BELOW`)."""

_SHORT_BELOW = {"SingleStream": 200e-6, "MultiStream": 1600e-6}


@dataclass(frozen=True)
class References:
    """The runs that an audit is about.

    Args:
        performance: Of performance mode (or of submission mode).
        accuracy: Of accuracy mode (or of submission mode), which TEST01 needs as well.
    """

    performance: tuple[InferenceRecord, Path] | None = None
    accuracy: tuple[InferenceRecord, Path] | None = None

    @classmethod
    def of(cls, folders: Sequence[str | Path], settings: Settings) -> References:
        """Read them.

        Raises:
            InvalidArgument: A run is missing, invalid, itself an audit, or of another scenario.
            InvalidRecord: A folder that holds no run, or other logs than the run left.
        """
        if settings.audit is None:
            if folders:
                raise InvalidArgument("against, without an audit", "an audit: TEST01 or TEST04")
            return cls()
        runs: dict[str, tuple[InferenceRecord, Path]] = {}
        for folder in map(Path, folders):
            record = load_inference(folder)
            if not record.valid or record.audit is not None or record.settings.get("audit"):
                raise InvalidArgument(f"{folder} holds an audit, or a run that is not VALID", "a VALID run, no audit")
            if record.scenario != settings.scenario:
                raise InvalidArgument(f"{folder} is of {record.scenario}", f"a run of {settings.scenario}")
            check_seals(folder, record)
            if record.mode in ("performance", "submission"):
                runs["performance"] = (record, folder)
            if record.mode in ("accuracy", "submission"):
                runs["accuracy"] = (record, folder)
        needed = ("performance", "accuracy") if settings.audit == "TEST01" else ("performance",)
        for mode in needed:
            if mode not in runs:
                came = f"audit {settings.audit} without a run in mode {mode} to compare with"
                raise InvalidArgument(
                    came, f"the folders of runs in mode {' and '.join(needed)}", "--against FOLDER, repeated"
                )
        return cls(**runs)


def audited(record: InferenceRecord, home: Path, references: References, work: Work) -> AuditRecord:
    """Compare an audit with the runs that it is about, and write what the rules' own scripts would have written.

    Args:
        record: Of the audit.
        home: Its folder, with LoadGen's logs.
        references: The runs.
        work: What was run.

    Raises:
        InvalidRecord: A log that cannot be read.

    Source:
        mlcommons/inference, ``compliance/``, the descriptions of TEST01 and TEST04.
    """
    name: Audit = "TEST01" if record.settings["audit"] == "TEST01" else "TEST04"
    assert references.performance is not None
    checks = {"same work": _same_work(record, references)}
    if name == "TEST01":
        assert references.accuracy is not None
        logged = read_answers(home), read_answers(references.accuracy[1])
        comparison = sameness(*logged, work.labels, work.settings.target_share)
        checks["accuracy"] = comparison.passed, comparison.text()
        _note(home / VERIFY_ACCURACY, (comparison.exact, comparison.text()))
        for file, text in comparison.accuracies().items():
            (home / file).write_text(text, encoding="utf-8")
    checks["performance"] = _performance(name, record, references.performance[0])
    _note(home / VERIFY_PERFORMANCE, checks["performance"])
    against = [str(reference[1]) for reference in (references.performance, references.accuracy) if reference is not None]
    passed = all(good for good, _ in checks.values())
    return AuditRecord(name=name, checks=checks, passed=passed, against=list(dict.fromkeys(against)))


def compared(name: str, scenario: str, reference: float, result: float) -> tuple[bool, str]:
    """Whether a result is as near to that of the performance run as an audit asks for.

    Args:
        name: TEST01: they must be alike. TEST04: the audit, whose queries are all the same, may not be faster.
        scenario: Of both.
        reference, result: In the scenario's unit: seconds, or samples a second.

    Example:
        >>> compared("TEST04", "Offline", 100.0, 120.0)
        (False, '120 beside 100 samples/s: 20.0 % faster, at most 10 % allowed')
        >>> compared("TEST04", "Offline", 100.0, 50.0)[0], compared("TEST01", "Offline", 100.0, 50.0)[0]
        (True, False)
    """
    latency = scenario in _SHORT_BELOW
    allowed = _SHORT if latency and reference <= _SHORT_BELOW[scenario] else _USUAL
    if not (reference > 0 and result > 0):
        return False, f"{result:.6g} beside {reference:g}: no results"
    change = (reference / result if latency else result / reference) - 1
    good = change <= allowed if name == "TEST04" else abs((result - reference) / reference) <= allowed
    unit = "s" if latency else "samples/s"
    word = "faster" if change >= 0 else "slower"
    return (
        good,
        f"{result:.6g} beside {reference:g} {unit}: {abs(change):.1%} {word}, at most {allowed:.0%} allowed".replace(
            "%", " %"
        ),
    )


def _performance(name: str, record: InferenceRecord, reference: InferenceRecord) -> tuple[bool, str]:
    first, second = reference.result, record.result
    if first is None or second is None:
        return False, "a run without a result"
    if record.loadgen.validity != "VALID":
        return False, f"LoadGen says {record.loadgen.validity}"
    key = "effective_target_latency_ns"
    if record.scenario == "Server" and record.loadgen.values.get(key) != reference.loadgen.values.get(key):
        return False, "the bounds of the latency differ"
    return compared(name, record.scenario, first, second)


def _same_work(record: InferenceRecord, references: References) -> tuple[bool, str]:
    for reference in (references.performance, references.accuracy):
        if reference is not None:
            reference_record = reference[0]
            ours, theirs = (
                (r.network.sha256, r.framework, r.system, r.data.get("name")) for r in (record, reference_record)
            )
            if ours != theirs:
                return False, f"{reference[1]} is of another network, framework, system or data set"
    return True, "network, framework, system and data set are the same"


def _note(path: Path, check: tuple[bool, str]) -> None:
    path.write_text(f"{check[1]}\nTEST {'PASS' if check[0] else 'FAIL'}\n", encoding="utf-8")

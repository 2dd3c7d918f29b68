"""Audits: TEST01, that answers in performance mode are those of accuracy mode; TEST04, that nothing is cached.

The accuracy of a classification is found beside that of the reference executor on the same samples. The folder of a run is
clean before it, and holds nothing else afterwards; checksums of what it left are kept in its record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from deep_bench import frameworks
from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.mlperf.inference.child import AUDIT_CONF, NO_CLASS, NOT_ASKED, USER_CONF
from deep_bench.mlperf.inference.logs import (
    ACCURACY,
    DETAIL,
    SUMMARY,
    TRACE,
    LoggedAnswers,
    read_answers,
    read_detail,
    read_summary,
)
from deep_bench.mlperf.inference.record import ARRAYS, FILE, AccuracyRecord, AuditRecord, InferenceRecord, load_inference
from deep_bench.mlperf.inference.settings import TARGET_SHARE, Audit, Settings
from deep_bench.mlperf.inference.system import ANSWER, Work
from deep_bench.mlperf.inference.system import FILE as FAULT
from deep_bench.records.folders import output_folder
from deep_bench.records.store import digest

MOST_REFERENCE_SAMPLES = 10_000
"""The reference, which is slow, is asked of no more."""


_AT_ONCE = 64


class AccuracyJudge:
    """Compares classes with those of the data set, and with the reference executor's.

    Args:
        work: What was run; its samples are classified.

    Raises:
        InvalidArgument: The data set is too large for the reference to be asked, and its accuracy is not stated; or one
            class for all samples reaches the target.

    Example:
        >>> from deep_bench.mlperf.inference.settings import Settings
        >>> from deep_bench.mlperf.inference.system import make_work
        >>> judge = AccuracyJudge(make_work("digits-cnn", "reference", None, Settings()))
        >>> found = judge.performance(np.where(np.arange(355) < 100, judge.reference, -1))
        >>> found.total, found.differing, found.met
        (100, 0, True)
    """

    def __init__(self, work: Work) -> None:
        assert work.labels is not None
        self._work, self._labels = work, work.labels
        self._stated = work.settings.reference_accuracy
        self._classes: NDArray[np.int64] | None = None
        if self._stated is None and len(self._labels) > MOST_REFERENCE_SAMPLES:
            came = f"{len(self._labels)} samples, on which the reference, which is slow, would have to be asked"
            raise InvalidArgument(came, f"at most {MOST_REFERENCE_SAMPLES}, or its accuracy", "--reference-accuracy 0.7646")
        check_target(work.settings, self._labels)

    @property
    def reference(self) -> NDArray[np.int64]:
        """The class of each sample by the reference executor, asked once."""
        if self._classes is None:
            work = self._work
            executor = frameworks["reference"]().prepare(work.network)
            size, count = work.fixed_batch or _AT_ONCE, len(self._labels)
            predictions = []
            for start in range(0, count, size):
                numbers = np.arange(start, start + size if work.fixed_batch else min(start + size, count)) % count
                batch = work.dataset[numbers]
                outputs = executor({spec.name: batch[spec.name] for spec in work.network.inputs})
                predictions.append(work.answers(outputs[work.output]))
            self._classes = np.concatenate(predictions)[:count].astype(np.int64)
        return self._classes

    def accuracy(self, answers: LoggedAnswers) -> AccuracyRecord:
        """Of accuracy mode: the samples that LoadGen logged, which are all of the data set.

        Raises:
            InvalidRecord: An answer that is no class, to no sample of the data set, or a sample without one.
        """
        classes = np.full(len(self._labels), NOT_ASKED, np.int64)
        predictions = decoded(answers.data)
        classes[checked(answers.index, len(self._labels))] = np.where(predictions < 0, NO_CLASS, predictions)
        if missing := int(np.sum(classes == NOT_ASKED)):
            raise InvalidRecord(f"{missing} samples without an answer in the accuracy log", f"{len(classes)} answers")
        return self._compared("accuracy mode", classes)

    def performance(self, classes: NDArray[np.int64]) -> AccuracyRecord | None:
        """Of performance mode.

        Args:
            classes: The class of the last answer to each sample of the data set, as `Ledger.answers` gives them.

        Returns:
            ``None`` where none was asked for, or the reference's accuracy was stated and not all were.
        """
        mask = classes != NOT_ASKED
        if not mask.any() or (self._stated is not None and not mask.all()):
            return None
        return self._compared("performance mode", classes)

    def _compared(self, of: Literal["accuracy mode", "performance mode"], classes: NDArray[np.int64]) -> AccuracyRecord:
        mask = classes != NOT_ASKED
        predictions, labels = classes[mask], self._labels[mask]
        reference = None if self._stated is not None else self.reference[mask]
        measured = 0.0 if reference is None else float(np.mean(reference == labels))
        return AccuracyRecord(
            of=of,
            correct=int(np.sum(predictions == labels)),
            total=len(predictions),
            reference=measured if self._stated is None else self._stated,
            reference_from="measured" if self._stated is None else "stated",
            share=self._work.settings.target_share,
            differing=None if reference is None else int(np.sum(predictions != reference)),
            unclassed=int(np.sum((predictions < 0) | (predictions >= self._classes_known))),
            constant=_of_one_class(labels),
        )

    @property
    def _classes_known(self) -> int:
        """How many classes there are: of the network, or else of the data set."""
        size = self._work.network.outputs[0].shape[1]
        return max(size if isinstance(size, int) else 0, int(self._labels.max()) + 1)


def check_target(settings: Settings, labels: NDArray[np.int64]) -> None:
    """See that a target that was stated is not one that any answer reaches.

    Raises:
        InvalidArgument: One class for all samples does.
    """
    reference_accuracy = settings.reference_accuracy
    if reference_accuracy is None and settings.target_share >= TARGET_SHARE:
        return
    target = settings.target_share * (1.0 if reference_accuracy is None else reference_accuracy)
    constant = _of_one_class(labels)
    if len(np.unique(labels)) > 1 and target <= constant:
        of = "at best" if reference_accuracy is None else f"of the stated {reference_accuracy:g}"
        raise InvalidArgument(
            f"a target of accuracy of {target:.4g}, {100 * settings.target_share:g} % {of}",
            f"more than {constant:.4f}, which one class for all samples gives",
            "leave --target-share and --reference-accuracy out, or state what is asked for",
        )


def _of_one_class(labels: NDArray[np.int64]) -> float:
    """The accuracy of the best answer that is the same whatever the sample."""
    return float(np.unique(labels, return_counts=True)[1].max() / len(labels))


def decoded(data: Iterable[bytes]) -> NDArray[np.int64]:
    """Answers as classes.

    Raises:
        InvalidRecord: One is not of 8 bytes.
    """
    parts = list(data)
    for part in parts:
        if len(part) != ANSWER.itemsize:
            raise InvalidRecord(f"an answer of {len(part)} bytes", f"a class, {ANSWER.itemsize} bytes")
    return np.frombuffer(b"".join(parts), ANSWER).astype(np.int64)


def checked(index: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Numbers of samples, all of a data set of so many.

    Raises:
        InvalidRecord: One is not.
    """
    if index.size and not 0 <= int(index.min()) <= int(index.max()) < count:
        raise InvalidRecord(f"an answer to sample {int(index.max())}", f"samples 0 to {count - 1}")
    return index


BASELINE_ACCURACY, COMPLIANCE_ACCURACY = "baseline_accuracy.txt", "compliance_accuracy.txt"


@dataclass(frozen=True)
class Sameness:
    """What came of a comparison of logged answers.

    Args:
        total: Answers that the audit logged.
        differing: Of these, those that differ from accuracy mode in a byte.
        missing: Those to samples that accuracy mode has no answer to.
        right: How many of accuracy mode's answers to the same samples are right, and of the audit's; ``None`` where none
            differs, one is missing, or nothing is classified.
        allowed: How far apart the two accuracies may be, as a share of the first.
    """

    total: int
    differing: int
    missing: int
    right: tuple[int, int] | None
    allowed: float

    @property
    def exact(self) -> bool:
        """Whether all are the same."""
        return self.total > 0 and not self.missing and not self.differing

    @property
    def passed(self) -> bool:
        """Whether all are the same, or equally often right."""
        return self.exact or (self.right is not None and self._apart <= self.allowed)

    @property
    def _apart(self) -> float:
        assert self.right is not None
        baseline, audit = self.right
        return abs(audit - baseline) / baseline if baseline else float(audit != baseline)

    def text(self) -> str:
        """What was found."""
        summary = f"{self.total} logged answers, {self.differing} differ from accuracy mode, {self.missing} are not there"
        if self.exact or self.missing or not self.total:
            return summary
        if self.right is None:
            return f"{summary}; nothing is classified, so there are no accuracies to compare instead"
        baseline, audit = self.right
        return (
            f"{summary}; {audit} are right, {baseline} of accuracy mode's to the same samples: "
            f"{100 * self._apart:.2g} % apart, at most {100 * self.allowed:.2g} % allowed"
        )

    def accuracies(self) -> dict[str, str]:
        """Name of each file that the rules ask for where answers differ, to its text; none where all are the same."""
        if self.right is None:
            return {}
        texts = [f"accuracy={100 * right / self.total:.3f}%, good={right}, total={self.total}\n" for right in self.right]
        return dict(zip((BASELINE_ACCURACY, COMPLIANCE_ACCURACY), texts, strict=True))


def sameness(audit: LoggedAnswers, accuracy: LoggedAnswers, labels: NDArray[np.int64] | None, share: float) -> Sameness:
    """Compare the answers that an audit logged with those of accuracy mode to the same samples.

    Rounding may differ from run to run, with the sizes of batches or the order of threads: then the rules take the
    accuracies instead, which may be 1 - x apart where x is the share of the reference's accuracy that is asked for. Each
    logged answer counts, also where a sample has several.

    Args:
        audit: Of the audit.
        accuracy: Of accuracy mode.
        labels: The class of each sample; ``None`` where nothing is classified.
        share: x.

    Raises:
        InvalidRecord: An answer that is no class, or to no sample of the data set.

    Example:
        >>> def classes(*found):
        ...     return LoggedAnswers(np.arange(len(found)), tuple(int(one).to_bytes(8, "little") for one in found))
        >>> labels = np.zeros(200, np.int64)
        >>> found = sameness(classes(*[0] * 199, 1), classes(*[0] * 200), labels, 0.99)
        >>> found.exact, found.passed, found.right
        (False, True, (200, 199))

    Source:
        mlcommons/inference, ``compliance/TEST01``, on non-determinism.
    """
    reference = accuracy.by_index()
    pairs = [(index, data, reference.get(index)) for index, data in zip(audit.index.tolist(), audit.data, strict=True)]
    missing = sum(counterpart is None for _, _, counterpart in pairs)
    differing = sum(counterpart is not None and counterpart != data for _, data, counterpart in pairs)
    right = None
    if differing and not missing and labels is not None:
        expected = labels[checked(audit.index, len(labels))]
        answers = ([counterpart for _, _, counterpart in pairs if counterpart is not None], audit.data)
        baseline, audit_count = (int(np.sum(decoded(answer_set) == expected)) for answer_set in answers)
        right = (baseline, audit_count)
    return Sameness(len(pairs), differing, missing, right, 1 - share)


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


_USUAL, _SHORT = 0.10, 0.20
"""How far apart the results of two runs may be, as a share; and where the latencies are short (`_SHORT_BELOW`)."""


_SHORT_BELOW = {"SingleStream": 200e-6, "MultiStream": 1600e-6}


References = dict[str, tuple[InferenceRecord, Path]]
"""The runs that an audit is about, with their folders: ``performance``; and ``accuracy``, which TEST01 needs as well."""


def references_of(folders: Sequence[str | Path], settings: Settings) -> References:
    """Read the runs that an audit is about; one of submission mode is both.

    Raises:
        InvalidArgument: A run is missing, invalid, itself an audit, or of another scenario.
        InvalidRecord: A folder that holds no run, or other logs than the run left.
    """
    if settings.audit is None:
        if folders:
            raise InvalidArgument("against, without an audit", "an audit: TEST01 or TEST04")
        return {}
    runs: References = {}
    for folder in map(Path, folders):
        record = load_inference(folder)
        if not record.valid or record.audit is not None or record.settings.get("audit"):
            raise InvalidArgument(f"{folder} holds an audit, or a run that is not VALID", "a VALID run, no audit")
        if record.scenario != settings.scenario:
            raise InvalidArgument(f"{folder} is of {record.scenario}", f"a run of {settings.scenario}")
        check_seals(folder, record)
        modes = ("performance", "accuracy") if record.mode == "submission" else (record.mode,)
        runs |= dict.fromkeys(modes, (record, folder))
    needed = ("performance", "accuracy") if settings.audit == "TEST01" else ("performance",)
    for mode in needed:
        if mode not in runs:
            came = f"audit {settings.audit} without a run in mode {mode} to compare with"
            raise InvalidArgument(came, f"the folders of runs in mode {' and '.join(needed)}", "--against FOLDER, repeated")
    return {mode: runs[mode] for mode in ("performance", "accuracy") if mode in runs}


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
    same_work, baseline = (True, "network, framework, system and data set are the same"), references["performance"][0]
    for run, folder in references.values():
        if _work_of(run) != _work_of(record):
            same_work = False, f"{folder} is of another network, framework, system or data set"
            break
    checks = {"same work": same_work}
    if name == "TEST01":
        logged = read_answers(home), read_answers(references["accuracy"][1])
        comparison = sameness(*logged, work.labels, work.settings.target_share)
        checks["accuracy"] = comparison.passed, comparison.text()
        _note(home / VERIFY_ACCURACY, (comparison.exact, comparison.text()))
        for file, text in comparison.accuracies().items():
            (home / file).write_text(text, encoding="utf-8")
    bound = "effective_target_latency_ns"
    if baseline.result is None or record.result is None:
        checks["performance"] = False, "a run without a result"
    elif record.loadgen.validity != "VALID":
        checks["performance"] = False, f"LoadGen says {record.loadgen.validity}"
    elif record.scenario == "Server" and record.loadgen.values.get(bound) != baseline.loadgen.values.get(bound):
        checks["performance"] = False, "the bounds of the latency differ"
    else:
        checks["performance"] = compared(name, record.scenario, baseline.result, record.result)
    _note(home / VERIFY_PERFORMANCE, checks["performance"])
    against = [str(folder) for _, folder in references.values()]
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


def _work_of(record: InferenceRecord) -> tuple[object, ...]:
    return record.network.sha256, record.framework, record.system, record.data.get("name")


def _note(path: Path, check: tuple[bool, str]) -> None:
    path.write_text(f"{check[1]}\nTEST {'PASS' if check[0] else 'FAIL'}\n", encoding="utf-8")

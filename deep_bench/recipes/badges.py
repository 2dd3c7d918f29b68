"""Badges: lists of checks in the terms of ACM, and of a proposal for MLPerf's submissions.

They are judged by a bundle, what its author claims, and what came of repeating it. Each check passes, fails, or cannot be
told, and says why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.recipes.manifest import MANIFEST, Manifest, check_folder, unpack, variables_not_set
from deep_bench.recipes.repetition import RepetitionRecord, read_repetition
from deep_bench.records.store import digest
from deep_bench.results import Result, gather
from deep_bench.results.change import severity

_DOI = re.compile(r"10\.\d{4,9}/[^\s\"<>]+")


@dataclass(frozen=True)
class Claims:
    """What nobody but people can know.

    Args:
        doi: The identifier that an archive gave the bundle, such as ``"10.5281/zenodo.1234567"``.
        archive: Where it lies for good.
        paper: What it belongs to.

    Raises:
        InvalidArgument: A DOI that is none.
    """

    doi: str = ""
    archive: str = ""
    paper: str = ""

    def __post_init__(self) -> None:
        if self.doi and not _DOI.fullmatch(self.doi):
            raise InvalidArgument(f"the DOI {self.doi!r}", "such as 10.5281/zenodo.1234567")


@dataclass(frozen=True)
class BundleEvidence:
    """All of it.

    Args:
        folder: The unpacked bundle, whose files are as its manifest says.
        manifest: The manifest.
        results: Of its records.
        repetitions: What came of repeating it.
        claims: What is claimed.
    """

    folder: Path
    manifest: Manifest
    results: tuple[Result, ...]
    repetitions: tuple[RepetitionRecord, ...] = ()
    claims: Claims = field(default_factory=Claims)

    @classmethod
    def of(cls, folder: Path, repetitions: Sequence[str | Path] = (), claims: Claims | None = None) -> BundleEvidence:
        """Read a bundle's folder.

        Args:
            folder: What it was unpacked to.
            repetitions: Files or folders of what `repeat` left.
            claims: What is claimed.

        Raises:
            InvalidRecord: A file is missing or was altered; no repetition, or one of another bundle.
        """
        manifest, bundle_digest = check_folder(folder), digest(folder / MANIFEST)
        records = tuple(read_repetition(path) for path in repetitions)
        for path, record in zip(repetitions, records, strict=True):
            if record.bundle != bundle_digest:
                raise InvalidRecord(
                    f"{path} is a repetition of another bundle, whose {MANIFEST} has SHA-256 {record.bundle}",
                    f"one of this bundle, whose {MANIFEST} has {bundle_digest}",
                    "leave it out, or repeat this bundle: a bundle that is made anew with another licence is another one",
                )
        results = tuple(gather(*(folder / path for path in manifest.records)))
        return cls(folder, manifest, results, records, claims or Claims())

    @property
    def clean(self) -> tuple[RepetitionRecord, ...]:
        """The repetitions in environments that were built from the lock."""
        return tuple(repetition for repetition in self.repetitions if repetition.clean)

    @property
    def elsewhere(self) -> Mapping[str, RepetitionRecord]:
        """Repetitions that went well on other machines, by what they are."""
        hostnames = {result.environment.hostname for result in self.results if result.environment is not None}
        return {
            f"{repetition.environment.cpu_model} ({repetition.environment.hostname})": repetition
            for repetition in self.repetitions
            if repetition.repeated and repetition.environment.hostname not in hostnames
        }


State: TypeAlias = Literal["pass", "fail", "unknown"]
CheckResult: TypeAlias = tuple[State, str]


@dataclass(frozen=True)
class BadgeCheck:
    """One check.

    Args:
        name: What is asked.
        state: Whether it is so.
        reason: Why.
    """

    name: str
    state: State
    reason: str


BadgeQuestion: TypeAlias = tuple[str, Callable[[BundleEvidence], CheckResult]]
"""What is asked, and what looks at the evidence."""


def check_licence(evidence: BundleEvidence) -> CheckResult:
    """Whether others may use it."""
    if evidence.manifest.licence:
        text = " with its text" if evidence.manifest.of("licence") else ""
        return "pass", f"{evidence.manifest.licence}{text}"
    return "fail", "no licence was given: bundle it with --licence"


def check_whole(evidence: BundleEvidence) -> CheckResult:
    """Whether every file is as it was packed. Reading the evidence has compared all digests."""
    return "pass", f"all {len(evidence.manifest.files)} files have the digests of the manifest"


def check_complete(evidence: BundleEvidence) -> CheckResult:
    """Whether nothing is missing that is needed."""
    omissions = evidence.manifest.left
    if bare := [omission.what for omission in omissions if not omission.source]:
        return "fail", f"neither in it nor told where it can be had: {', '.join(bare[:5])}"
    if unhashed := [omission.what for omission in omissions if not omission.sha256 and not omission.files]:
        return "unknown", f"from elsewhere, without a digest: {', '.join(unhashed[:5])}"
    if omissions:
        description = ", ".join(f"{omission.what} ({omission.source})" for omission in omissions[:5])
        return (
            "pass",
            f"{len(omissions)} things are not in it, and can be had elsewhere, each with its digest: {description}",
        )
    return "pass", "everything is in it"


def check_archive(evidence: BundleEvidence) -> CheckResult:
    """Whether it lies in an archive that keeps it. That can be claimed here, and is verified by whoever looks there."""
    if evidence.claims.doi:
        return "unknown", f"claimed, not verified: https://doi.org/{evidence.claims.doi}"
    if evidence.claims.archive:
        return "fail", f"{evidence.claims.archive} without a DOI: archives such as Zenodo give one"
    return "fail", "no archive and no DOI were named"


def check_readme(evidence: BundleEvidence) -> CheckResult:
    """Whether a reader is told what it is and how it is used."""
    parts = {"a title": evidence.manifest.title, "a command": evidence.manifest.command}
    missing = [name for name, part in parts.items() if not part]
    if missing:
        return "fail", f"without {' and '.join(missing)}"
    paper = f"; it belongs to {evidence.claims.paper}" if evidence.claims.paper else ""
    return "pass", f"README.md tells contents, environment and one command{paper}"


def check_command(evidence: BundleEvidence) -> CheckResult:
    """Whether one command repeats it, with nothing that only its author has."""
    command = evidence.manifest.command
    if not command:
        return "fail", "there is none"
    absolute = [word for word in command if any(PurePath(part).is_absolute() for part in word.split("="))]
    if absolute:
        return "fail", f"it names places of one machine: {', '.join(absolute[:3])}"
    how = "deep-bench repeat BUNDLE, with relative paths and declared variables only"
    hidden = ", ".join(variables_not_set(evidence.manifest)[:5])
    if not hidden:
        return "pass", how
    if any(repetition.repeated for repetition in evidence.clean):
        return "pass", f"{how}; a repetition did without {hidden}, which the run had"
    return "unknown", f"the run had variables that a repetition is not given: {hidden}; one will tell whether it needs them"


def check_lock(evidence: BundleEvidence) -> CheckResult:
    """Whether the environment of the run is known exactly."""
    if drifted := evidence.manifest.lock.drifted:
        return "fail", f"the lock is of another environment than the run: {', '.join(drifted)}"
    return "pass", f"exact versions of all packages, Python {evidence.manifest.lock.python}"


def check_clean_run(evidence: BundleEvidence) -> CheckResult:
    """Whether it ran in an environment built from the lock."""
    if not evidence.clean:
        return "unknown", "it was not repeated in a clean environment yet: deep-bench repeat BUNDLE"
    good = [repetition for repetition in evidence.clean if repetition.repeated]
    if not good:
        return "fail", f"{len(evidence.clean)} tries in a clean environment: {evidence.clean[-1].verdict}"
    return "pass", f"{len(good)} of {len(evidence.clean)} tries in a clean environment: {good[-1].verdict}"


def check_valid(evidence: BundleEvidence) -> CheckResult:
    """Whether its own results are checked, right and whole."""
    if unfinished := [result.name for result in evidence.results if not result.complete]:
        return "fail", f"not finished: {', '.join(unfinished[:3])}"
    if bad := [f"{result.name} ({result.outcome})" for result in evidence.results if severity(result.outcome) >= 2]:
        return "fail", f"not right: {', '.join(bad[:3])}"
    unchecked = [result.name for result in evidence.results if result.verdict is None]
    if len(unchecked) == len(evidence.results):
        return "unknown", "no result was checked"
    return (
        "pass",
        f"{len(evidence.results) - len(unchecked)} of {len(evidence.results)} results were checked, and none is wrong",
    )


def check_adaptable(evidence: BundleEvidence) -> CheckResult:
    """Whether it has parameters that another purpose can set."""
    recipes = [file.path for file in evidence.manifest.of("input") if file.path.endswith((".yaml", ".yml"))]
    if recipes:
        return "pass", f"a recipe whose fields can be set: {', '.join(recipes[:3])}"
    if evidence.manifest.command[:1] == ["deep-bench"]:
        return "pass", f"deep-bench {' '.join(evidence.manifest.command[1:2])} takes other networks, systems and sizes"
    return "unknown", "a script of its own: whether it can be adapted is for a reader to say"


def check_second_place(evidence: BundleEvidence) -> CheckResult:
    """Whether there is evidence beyond one backend in one place."""
    frameworks = sorted({result.labels["framework"] for result in evidence.results if "framework" in result.labels})
    if elsewhere := evidence.elsewhere:
        return "pass", f"repeated elsewhere: {', '.join(list(elsewhere)[:3])}"
    if len(frameworks) > 1:
        return "pass", f"several backends: {', '.join(frameworks)}"
    return "unknown", "one backend on one machine: repeat it elsewhere, or with a second one"


def check_others(evidence: BundleEvidence) -> CheckResult:
    """Whether other people obtained the results. No program of the author can know."""
    remark = (
        f"; {len(evidence.elsewhere)} repetitions on other machines may serve them as evidence" if evidence.elsewhere else ""
    )
    return "unknown", f"other people award it, never the author{remark}"


def check_logs(evidence: BundleEvidence) -> CheckResult:
    """Whether the logs that a submission to MLPerf needs are in it."""
    kinds = {result.kind for result in evidence.results}
    if "mlperf" not in kinds:
        return "fail", "no run under MLPerf's tools is in it"
    return "pass", f"{sum(result.kind == 'mlperf' for result in evidence.results)} runs under MLPerf's tools"


def check_reruns(least: int, margin: float) -> Callable[[BundleEvidence], CheckResult]:
    """Whether so many repetitions are within a tolerance of the first."""

    def judge(evidence: BundleEvidence) -> CheckResult:
        good = [repetition for repetition in evidence.repetitions if repetition.repeated]
        if len(evidence.repetitions) < least:
            return "unknown", f"repeated {len(evidence.repetitions)} times; {least} are asked for"
        if len(good) < len(evidence.repetitions):
            return (
                "fail",
                f"{len(evidence.repetitions) - len(good)} of {len(evidence.repetitions)} repetitions: not repeated",
            )
        off = [
            f"{f.name} {f.metric}"
            for repetition in good
            for f in repetition.figures
            if (f.scale == "ratio" and not 1 / (1 + margin) <= f.value <= 1 + margin)
        ]
        if off:
            return "fail", f"more than {100 * margin:g} % from the first: {', '.join(dict.fromkeys(off))}"
        return "pass", f"{len(good)} repetitions, all figures within {100 * margin:g} %"

    return judge


@dataclass(frozen=True)
class Badge:
    """A badge, and whether it is earned.

    Args:
        name: As whoever defines it calls it.
        source: Who does.
        checks: What it takes.
    """

    name: str
    source: str
    checks: tuple[BadgeCheck, ...]

    @property
    def state(self) -> State:
        """*Pass* if all checks do; *fail* if one fails; else *unknown*."""
        states = {check.state for check in self.checks}
        return "fail" if "fail" in states else "unknown" if "unknown" in states else "pass"


ACM = "ACM, Artifact review and badging, version 1.1 (2020)"
MLPERF = "a proposal for MLPerf submissions: mlcommons/ck, issue 1080 (2024)"

_WHOLE: BadgeQuestion = ("every file is as it was packed", check_whole)
_COMPLETE: BadgeQuestion = ("complete", check_complete)
_CLEAN: BadgeQuestion = ("runs in a clean environment", check_clean_run)

_AVAILABLE = (
    _WHOLE,
    ("a licence that lets others use it", check_licence),
    _COMPLETE,
    ("in an archive, with a DOI", check_archive),
)
_FUNCTIONAL = (
    _WHOLE,
    ("documented", check_readme),
    _COMPLETE,
    ("exercisable: one command, no paths or variables of the author's", check_command),
    ("the environment is known exactly", check_lock),
    _CLEAN,
    ("results are checked, right and finished", check_valid),
)
_REUSABLE = (
    *_FUNCTIONAL,
    ("can be adapted: parameters", check_adaptable),
    ("a second backend or environment", check_second_place),
)
_RERUNS, _TOLERANCE = 3, 0.05


def badges(
    source: str | Path,
    *,
    repetitions: Sequence[str | Path] = (),
    claims: Claims | None = None,
    reruns: int = _RERUNS,
    tolerance: float = _TOLERANCE,
) -> list[Badge]:
    """Which badges a bundle has earned, which it has not, and which cannot be told.

    Results that others reproduced are never awarded here: that is for other people.

    Args:
        source: A bundle, or the folder that it was unpacked to.
        repetitions: Folders of what `repeat` left, as evidence.
        claims: What the author claims of the archive and its DOI.
        reruns: How many repetitions the proposal for MLPerf is judged by,
        tolerance: and the relative difference that is allowed to them.

    Raises:
        InvalidRecord: No bundle, one that was altered; no repetition, or one of another bundle.

    Example:
        >>> import tempfile
        >>> import deep_bench as db
        >>> from deep_bench.recipes.bundles import bundle
        >>> with tempfile.TemporaryDirectory() as place:
        ...     run = db.run("digits-cnn", on=["reference"], budget=0.3, twin=False, progress=False, output=place)
        ...     made = bundle([place], f"{place}/run.zip", command=["deep-bench", "run", "digits-cnn", "--on", "reference"])
        ...     found = badges(f"{place}/run.zip")
        >>> [(badge.name, badge.state) for badge in found[:2]]
        [('artifacts available', 'fail'), ('artifacts evaluated - functional', 'unknown')]

    Source:
        ACM and the proposal, as `ACM` and `MLPERF` name them.
    """
    if Path(source).is_dir():
        return _judge_badges(BundleEvidence.of(Path(source), repetitions, claims), reruns, tolerance)
    with TemporaryDirectory() as folder:
        unpack(source, folder)
        return _judge_badges(BundleEvidence.of(Path(folder), repetitions, claims), reruns, tolerance)


def _judge_badges(evidence: BundleEvidence, reruns: int, tolerance: float) -> list[Badge]:
    independence: BadgeQuestion = ("obtained by other people", check_others)
    logs: BadgeQuestion = ("the logs of a submission", check_logs)
    again: BadgeQuestion = (f"{reruns} reruns within {100 * tolerance:g} %", check_reruns(reruns, tolerance))
    lists: tuple[tuple[str, str, tuple[BadgeQuestion, ...]], ...] = (
        ("artifacts available", ACM, _AVAILABLE),
        ("artifacts evaluated - functional", ACM, _FUNCTIONAL),
        ("artifacts evaluated - reusable", ACM, _REUSABLE),
        ("results reproduced", ACM, (independence,)),
        ("results replicated", ACM, (independence,)),
        ("submission available", MLPERF, (logs, *_AVAILABLE)),
        ("submission functional / repeatable", MLPERF, (logs, *_FUNCTIONAL, again)),
    )
    return [
        Badge(name, whose, tuple(BadgeCheck(question, *judge(evidence)) for question, judge in questions))
        for name, whose, questions in lists
    ]

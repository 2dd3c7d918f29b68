"""The checks that badges are made of; each passes, fails, or cannot be told, and says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, TypeAlias

from deep_bench.repeating.environment import not_set
from deep_bench.repeating.evidence import Evidence
from deep_bench.results.comparing.comparison import severity

State: TypeAlias = Literal["pass", "fail", "unknown"]
Judged: TypeAlias = tuple[State, str]


@dataclass(frozen=True)
class Check:
    """One check.

    Args:
        name: What is asked.
        state: Whether it is so.
        reason: Why.
    """

    name: str
    state: State
    reason: str


@dataclass(frozen=True)
class Question:
    """A check before it is made.

    Args:
        name: What is asked.
        judge: Looks at the evidence.
    """

    name: str
    judge: Callable[[Evidence], Judged]

    def asked(self, found: Evidence) -> Check:
        """The check."""
        return Check(self.name, *self.judge(found))


def licensed(found: Evidence) -> Judged:
    """Whether others may use it."""
    if found.manifest.licence:
        text = " with its text" if found.manifest.of("licence") else ""
        return "pass", f"{found.manifest.licence}{text}"
    return "fail", "no licence was given: bundle it with --licence"


def whole(found: Evidence) -> Judged:
    """Whether every file is as it was packed. Reading the evidence has compared all digests."""
    return "pass", f"all {len(found.manifest.files)} files have the digests of the manifest"


def complete(found: Evidence) -> Judged:
    """Whether nothing is missing that is needed."""
    omissions = found.manifest.left
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


def archived(found: Evidence) -> Judged:
    """Whether it lies in an archive that keeps it. That can be claimed here, and is verified by whoever looks there."""
    if found.claims.doi:
        return "unknown", f"claimed, not verified: https://doi.org/{found.claims.doi}"
    if found.claims.archive:
        return "fail", f"{found.claims.archive} without a DOI: archives such as Zenodo give one"
    return "fail", "no archive and no DOI were named"


def documented(found: Evidence) -> Judged:
    """Whether a reader is told what it is and how it is used."""
    missing = [
        name for name, present in (("a title", found.manifest.title), ("a command", found.manifest.command)) if not present
    ]
    if missing:
        return "fail", f"without {' and '.join(missing)}"
    paper = f"; it belongs to {found.claims.paper}" if found.claims.paper else ""
    return "pass", f"README.md tells contents, environment and one command{paper}"


def one_command(found: Evidence) -> Judged:
    """Whether one command repeats it, with nothing that only its author has."""
    command = found.manifest.command
    if not command:
        return "fail", "there is none"
    absolute = [word for word in command if any(PurePath(part).is_absolute() for part in word.split("="))]
    if absolute:
        return "fail", f"it names places of one machine: {', '.join(absolute[:3])}"
    how = "deep-bench repeat BUNDLE, with relative paths and declared variables only"
    hidden = ", ".join(not_set(found.manifest)[:5])
    if not hidden:
        return "pass", how
    if any(repetition.repeated for repetition in found.clean):
        return "pass", f"{how}; a repetition did without {hidden}, which the run had"
    return "unknown", f"the run had variables that a repetition is not given: {hidden}; one will tell whether it needs them"


def locked(found: Evidence) -> Judged:
    """Whether the environment of the run is known exactly."""
    if drifted := found.manifest.lock.drifted:
        return "fail", f"the lock is of another environment than the run: {', '.join(drifted)}"
    return "pass", f"exact versions of all packages, Python {found.manifest.lock.python}"


def ran_clean(found: Evidence) -> Judged:
    """Whether it ran in an environment built from the lock."""
    if not found.clean:
        return "unknown", "it was not repeated in a clean environment yet: deep-bench repeat BUNDLE"
    good = [repetition for repetition in found.clean if repetition.repeated]
    if not good:
        return "fail", f"{len(found.clean)} tries in a clean environment: {found.clean[-1].verdict}"
    return "pass", f"{len(good)} of {len(found.clean)} tries in a clean environment: {good[-1].verdict}"


def valid(found: Evidence) -> Judged:
    """Whether its own results are checked, right and whole."""
    if unfinished := [result.name for result in found.results if not result.complete]:
        return "fail", f"not finished: {', '.join(unfinished[:3])}"
    if bad := [f"{result.name} ({result.outcome})" for result in found.results if severity(result.outcome) >= 2]:
        return "fail", f"not right: {', '.join(bad[:3])}"
    unchecked = [result.name for result in found.results if result.verdict is None]
    if len(unchecked) == len(found.results):
        return "unknown", "no result was checked"
    return "pass", f"{len(found.results) - len(unchecked)} of {len(found.results)} results were checked, and none is wrong"


def adaptable(found: Evidence) -> Judged:
    """Whether it has parameters that another purpose can set."""
    recipes = [file.path for file in found.manifest.of("input") if file.path.endswith((".yaml", ".yml"))]
    if recipes:
        return "pass", f"a recipe whose fields can be set: {', '.join(recipes[:3])}"
    if found.manifest.command[:1] == ["deep-bench"]:
        return "pass", f"deep-bench {' '.join(found.manifest.command[1:2])} takes other networks, systems and sizes"
    return "unknown", "a script of its own: whether it can be adapted is for a reader to say"


def second(found: Evidence) -> Judged:
    """Whether there is evidence beyond one backend in one place."""
    frameworks = sorted({result.labels["framework"] for result in found.results if "framework" in result.labels})
    if elsewhere := found.elsewhere:
        return "pass", f"repeated elsewhere: {', '.join(list(elsewhere)[:3])}"
    if len(frameworks) > 1:
        return "pass", f"several backends: {', '.join(frameworks)}"
    return "unknown", "one backend on one machine: repeat it elsewhere, or with a second one"


def others_did(found: Evidence) -> Judged:
    """Whether other people obtained the results. No program of the author can know."""
    remark = f"; {len(found.elsewhere)} repetitions on other machines may serve them as evidence" if found.elsewhere else ""
    return "unknown", f"other people award it, never the author{remark}"


def submitted_logs(found: Evidence) -> Judged:
    """Whether the logs that a submission to MLPerf needs are in it."""
    kinds = {result.kind for result in found.results}
    if "mlperf" not in kinds:
        return "fail", "no run under MLPerf's tools is in it"
    return "pass", f"{sum(result.kind == 'mlperf' for result in found.results)} runs under MLPerf's tools"


def reruns(least: int, margin: float) -> Callable[[Evidence], Judged]:
    """Whether so many repetitions are within a tolerance of the first."""

    def judge(evidence: Evidence) -> Judged:
        good = [repetition for repetition in evidence.repetitions if repetition.repeated]
        if len(evidence.repetitions) < least:
            return "unknown", f"repeated {len(evidence.repetitions)} times; {least} are asked for"
        if len(good) < len(evidence.repetitions):
            return (
                "fail",
                f"{len(evidence.repetitions) - len(good)} of {len(evidence.repetitions)} repetitions: not repeated",
            )
        off = [
            f"{f.name} {f.metric}" for repetition in good for f in repetition.figures if _beyond(f.scale, f.value, margin)
        ]
        if off:
            return "fail", f"more than {100 * margin:g} % from the first: {', '.join(dict.fromkeys(off))}"
        return "pass", f"{len(good)} repetitions, all figures within {100 * margin:g} %"

    return judge


def _beyond(scale: str, value: float, margin: float) -> bool:
    return scale == "ratio" and not 1 / (1 + margin) <= value <= 1 + margin

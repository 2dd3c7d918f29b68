"""Badges: lists of checks in the terms of ACM, and of a proposal for MLPerf's submissions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from deep_bench.repeating import checks
from deep_bench.repeating.checks import Check, Question, State
from deep_bench.repeating.evidence import Claims, Evidence
from deep_bench.repeating.unpacking import unpack


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
    checks: tuple[Check, ...]

    @property
    def state(self) -> State:
        """*Pass* if all checks do; *fail* if one fails; else *unknown*."""
        states = {check.state for check in self.checks}
        return "fail" if "fail" in states else "unknown" if "unknown" in states else "pass"


ACM = "ACM, Artifact review and badging, version 1.1 (2020)"
MLPERF = "a proposal for MLPerf submissions: mlcommons/ck, issue 1080 (2024)"

_WHOLE = Question("every file is as it was packed", checks.whole)
_COMPLETE = Question("complete", checks.complete)
_CLEAN = Question("runs in a clean environment", checks.ran_clean)

_AVAILABLE = (
    _WHOLE,
    Question("a licence that lets others use it", checks.licensed),
    _COMPLETE,
    Question("in an archive, with a DOI", checks.archived),
)
_FUNCTIONAL = (
    _WHOLE,
    Question("documented", checks.documented),
    _COMPLETE,
    Question("exercisable: one command, no paths or variables of the author's", checks.one_command),
    Question("the environment is known exactly", checks.locked),
    _CLEAN,
    Question("results are checked, right and finished", checks.valid),
)
_REUSABLE = (
    *_FUNCTIONAL,
    Question("can be adapted: parameters", checks.adaptable),
    Question("a second backend or environment", checks.second),
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
        >>> from deep_bench.repeating import bundle
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
        return _judged(Evidence.of(Path(source), repetitions, claims), reruns, tolerance)
    with TemporaryDirectory() as folder:
        unpack(source, folder)
        return _judged(Evidence.of(Path(folder), repetitions, claims), reruns, tolerance)


def _judged(evidence: Evidence, reruns: int, tolerance: float) -> list[Badge]:
    independence = Question("obtained by other people", checks.others_did)
    logs = Question("the logs of a submission", checks.submitted_logs)
    again = Question(f"{reruns} reruns within {100 * tolerance:g} %", checks.reruns(reruns, tolerance))
    lists: tuple[tuple[str, str, tuple[Question, ...]], ...] = (
        ("artifacts available", ACM, _AVAILABLE),
        ("artifacts evaluated - functional", ACM, _FUNCTIONAL),
        ("artifacts evaluated - reusable", ACM, _REUSABLE),
        ("results reproduced", ACM, (independence,)),
        ("results replicated", ACM, (independence,)),
        ("submission available", MLPERF, (logs, *_AVAILABLE)),
        ("submission functional / repeatable", MLPERF, (logs, *_FUNCTIONAL, again)),
    )
    return [
        Badge(name, whose, tuple(question.asked(evidence) for question in questions)) for name, whose, questions in lists
    ]

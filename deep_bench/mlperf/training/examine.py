"""What is to be said of logs and descriptions of systems that come from anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deep_bench.errors import InvalidRecord, shortened
from deep_bench.mlperf.training.alike import unlike
from deep_bench.mlperf.training.check import faults
from deep_bench.mlperf.training.events import ABORTED, Log, read_log
from deep_bench.mlperf.training.folder import read_runs, result_folders
from deep_bench.mlperf.training.official import check_log, check_system
from deep_bench.mlperf.training.package import official_benchmarks
from deep_bench.mlperf.training.submission import RULESET

RUN_FAILED = "it counts as a run that failed, the slowest; make that run anew if it did not fail"
"""Of a file that holds no event."""

_SHOWN = 2000
_LONGEST = 300
"""Characters of what MLPerf's checker printed, and of the reason of a log."""


@dataclass(frozen=True)
class Examined:
    """What was found of a file.

    Args:
        path: The file.
        faults: What deep_bench has against it.
        passed: Whether MLPerf's checker passes it; ``None`` where it was not asked.
        output: What that said.
        remark: What else is to be known.
        aborted: Why the run of a log was aborted; empty if it was not.
    """

    path: Path
    faults: tuple[str, ...] = ()
    passed: bool | None = None
    output: str = ""
    remark: str = ""
    aborted: str = ""

    @property
    def fine(self) -> bool:
        """Whether nobody has anything against it."""
        return not self.faults and self.passed is True

    def lines(self) -> Iterator[str]:
        """What there is to say."""
        verdict = {True: "passes", False: "FAILS", None: "was not asked"}[self.passed]
        yield f"{self.path}: MLPerf's checker {verdict}; deep_bench: {'nothing wrong' if not self.faults else 'WRONG'}"
        yield from (f"  {fault}" for fault in self.faults)
        if self.passed is False:
            yield from (f"  | {line}" for line in self.output.strip()[:_SHOWN].splitlines())
        if self.aborted:
            yield f"  the run was aborted: {self.aborted}"
        if self.remark:
            yield f"  {self.remark}"


def examined(path: str | Path, ruleset: str | None = None) -> Iterator[Examined]:
    """What there is to say of a log, of the logs of a folder, or of a whole submission.

    Args:
        path: A log, a folder with ``result_0.txt`` and so on, or a submission's folder.
        ruleset: By the rules of this round of MLPerf; of the newest by default.

    Raises:
        InvalidRecord: There are no logs, or one cannot be read.
        FrameworkMissing: ``mlperf_logging`` is not installed.
    """
    path, chosen = Path(path), ruleset or RULESET
    if path.is_file():
        yield _log(read_log(path), path, (), chosen, reported=set())
        return
    reported = set[str]()
    for folder in result_folders(path):
        logs = read_runs(folder)
        for log, beside in zip(logs, unlike(logs), strict=True):
            assert log.path is not None
            yield _log(log, log.path, beside, chosen, reported)
    for description in sorted(path.glob("systems/*.json")):
        outcome = check_system(description, chosen)
        yield Examined(description, passed=outcome.passed, output=outcome.output)


def _log(log: Log, path: Path, beside: tuple[str, ...], ruleset: str, reported: set[str]) -> Examined:
    """What there is to say of a log.

    Args:
        log: The log,
        path: and its file.
        beside: What is wrong with it beside the others of its folder.
        ruleset: By the rules of this round.
        said: Benchmarks of which it was said before that they are none of MLPerf's.
    """
    wrong, aborted = (*faults(log), *beside), shortened(log.reason, _LONGEST) if log.status == ABORTED else ""
    if not log.events:
        return Examined(path, wrong, remark=RUN_FAILED)
    try:
        outcome = check_log(path, ruleset=ruleset)
    except InvalidRecord as error:
        return Examined(path, (*wrong, str(error)), remark="not handed to MLPerf's checker", aborted=aborted)
    benchmarks, remark = official_benchmarks(ruleset), ""
    if log.benchmark not in benchmarks | reported:
        reported.add(log.benchmark)
        remark = (
            f"{log.benchmark!r} is no benchmark of MLPerf's round {ruleset} ({', '.join(sorted(benchmarks))}): "
            "as it is, MLPerf's checker refuses the name; here it was registered"
        )
    return Examined(path, wrong, outcome.passed, outcome.output, remark, aborted)

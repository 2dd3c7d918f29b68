"""MLPerf's own tools on logs and folders: its compliance checker, its result summarizer, its checker of system descriptions.

They know MLPerf's benchmarks only, by lists in their source. Work in the open division that is of no benchmark of MLPerf's
has a name that they do not know. So a copy of the package is made in a temporary folder in which that name is registered,
the way MLPerf's own were: in the list of the division's rules, with a file of rules, in the list of benchmarks and with a
number of runs. Nothing else is changed, and each tool runs in a process of its own.

What a log says becomes part of a path in these tools, and files of rules are run as code: so only logs that deep_bench can
read, with names that `checked_name` allows, are handed to them.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deep_bench.errors import InvalidRecord
from deep_bench.measure.storage import replace
from deep_bench.mlperf.training.events import Log, is_number, read_log
from deep_bench.mlperf.training.folder import read_runs
from deep_bench.mlperf.training.package import official_benchmarks, package_folder
from deep_bench.mlperf.training.submission import RULESET, checked_name

_PATIENCE_S = 600
_LARGEST_DESCRIPTION = 2**20
_REPORT = "report.csv"


@dataclass(frozen=True)
class Registered:
    """A benchmark that MLPerf does not have, as its tools are told of it.

    Args:
        name: Its name.
        target: The value of ``eval_accuracy`` that is good enough.
        direction: Whether ``"higher"`` or ``"lower"`` is better.
        runs: How many runs a result has.
    """

    name: str
    target: float
    direction: str
    runs: int

    def rules(self) -> str:
        """The file of rules for the open division, as its MLPerf's own have them."""
        good = f"v['value'] {'<=' if self.direction == 'lower' else '>='} {self.target!r}"
        return (
            "- KEY:\n    NAME:  global_batch_size\n    REQ:   EXACTLY_ONE\n"
            "    CHECK: \" is_integer(v['value']) and v['value'] > 0 \"\n\n"
            "- KEY:\n    NAME:  eval_accuracy\n    REQ:   AT_LEAST_ONE\n"
            "    CHECK:\n        - \"'epoch_num' in v['metadata']\"\n        - \"'samples_count' in v['metadata']\"\n"
            f'    ATLEAST_ONE_CHECK: "{good}"\n'
        )


@dataclass(frozen=True)
class Said:
    """What one of MLPerf's tools said.

    Args:
        passed: Whether it found nothing wrong.
        output: All that it printed.
    """

    passed: bool
    output: str


def registered(logs: Sequence[Log], ruleset: str = RULESET) -> Registered | None:
    """The benchmark of some logs, as MLPerf's tools are to be told of it; ``None`` for one of MLPerf's own.

    Raises:
        InvalidRecord: They are of several benchmarks or targets, or do not say.
        InvalidArgument: A name that no path may have.
    """
    benchmarks = {(log.benchmark, *_target(log)) for log in logs}
    if len(benchmarks) != 1:
        raise InvalidRecord(
            f"logs of {len(benchmarks)} benchmarks or targets in one folder", "runs of one benchmark to one target"
        )
    name, target, direction = next(iter(benchmarks))
    checked_name(name)
    if name in official_benchmarks(ruleset):
        return None
    if target is None:
        raise InvalidRecord(f"logs of {name} without one eval_target that is a number", "what their runs were to reach")
    return Registered(name, target, direction, max(len(logs), 1))


def _target(log: Log) -> tuple[float | None, str]:
    events = log.all("eval_target")
    if len(events) != 1 or not is_number(events[0].value):
        return None, ""
    return float(events[0].value), "lower" if events[0].metadata.get("direction") == "lower" else "higher"


def check_log(path: str | Path, *, register: bool = True, ruleset: str = RULESET) -> Said:
    """What MLPerf's compliance checker says of a log.

    Args:
        path: The log.
        register: Whether its benchmark is entered into the list of the open division, if it is not there; else the checker
            says what it has against it as it is.
        ruleset: By the rules of this round.

    Raises:
        InvalidRecord: No log that deep_bench can read: it is not handed on.
        InvalidArgument: It names a benchmark that no path may have.
        FrameworkMissing: ``mlperf_logging`` is not installed.
    """
    log = read_log(path)
    if log.broken:
        raise InvalidRecord(f"{path}: {log.broken[0]}", "a log in which each line is an event")
    with _tools(registered([log], ruleset), ruleset, listed=register) as folder:
        shutil.copyfile(path, folder / "log.txt")
        return _run(folder, "compliance_checker", "--usage", "training", "--ruleset", ruleset, "log.txt")


def check_system(path: str | Path, ruleset: str = RULESET) -> Said:
    """What MLPerf's checker says of a system description.

    Raises:
        InvalidRecord: There is no such file, or it is too large for one.
        FrameworkMissing: ``mlperf_logging`` is not installed.
    """
    _check_size(Path(path))
    with _tools(None, ruleset) as folder:
        shutil.copyfile(path, folder / "system.json")
        outcome = _run(folder, "system_desc_checker", "system.json", "training", ruleset)
        return Said(outcome.passed and "checker passed" in (folder / "system_desc_checker.log").read_text(), outcome.output)


def summarize(results: str | Path, description: str | Path, ruleset: str = RULESET) -> tuple[dict[str, str], Said]:
    """What MLPerf's result summarizer makes of the runs of a benchmark on a system.

    Args:
        results: The folder of the logs, ``result_0.txt`` and so on.
        description: The system description.
        ruleset: By the rules of this round.

    Returns:
        Its row of the table, by column; the score, in minutes, is in the column with the benchmark's name, and empty where
        there is none. And all that it said.

    Raises:
        InvalidRecord: None is a log that deep_bench can read, they are of several benchmarks, or it made no table.
        FrameworkMissing: ``mlperf_logging`` is not installed.
    """
    _check_size(Path(description))
    logs = read_runs(results)
    filled_logs = [log for log in logs if log.events]
    benchmark = registered(filled_logs, ruleset)
    name = filled_logs[0].benchmark
    with _tools(benchmark, ruleset) as folder:
        place = folder / "submission/results/system" / name
        place.mkdir(parents=True)
        (folder / "submission/systems").mkdir()
        shutil.copyfile(description, folder / "submission/systems/system.json")
        for number, log in enumerate(logs):
            assert log.path is not None
            if log.events:
                shutil.copyfile(log.path, place / f"result_{number}.txt")
            else:
                (place / f"result_{number}.txt").touch()  # of a run that failed; what else the file holds is not handed on
        outcome = _run(folder, "result_summarizer", "submission", "training", ruleset, "--csv", _REPORT)
        table = folder / _REPORT
        if not outcome.passed or not table.is_file():
            raise InvalidRecord(f"MLPerf's summarizer made no table: {outcome.output.strip()[-500:]}", "a whole submission")
        with open(table, newline="", encoding="utf-8") as file:
            return next(csv.DictReader(file)), outcome


def _check_size(description: Path) -> None:
    if not description.is_file() or description.stat().st_size > _LARGEST_DESCRIPTION:
        raise InvalidRecord(f"{description}", f"the description of a system, a file of at most {_LARGEST_DESCRIPTION} bytes")


@contextmanager
def _tools(benchmark: Registered | None, ruleset: str, *, listed: bool = True) -> Iterator[Path]:
    """A folder with a copy of the package that knows a benchmark."""
    with tempfile.TemporaryDirectory(prefix="deep_bench_mlperf_") as directory:
        folder = Path(directory)
        copy = folder / "mlperf_logging"
        shutil.copytree(package_folder(), copy, ignore=partial(_left_out, f"training_{ruleset}"))
        if benchmark is not None:
            _register(copy, benchmark, ruleset, listed=listed)
        yield folder


def _left_out(rules: str, folder: str, names: list[str]) -> list[str]:
    """What of the package is not needed: other rounds, references, examples."""
    del folder
    pattern = re.compile(r"(training|hpc)_\d.*|rcps_.*\.json|examples|__pycache__")
    return [name for name in names if pattern.fullmatch(name) and name != rules]


def _register(copy: Path, benchmark: Registered, ruleset: str, *, listed: bool) -> None:
    rules = copy / f"compliance_checker/training_{ruleset}"
    (rules / f"open_{benchmark.name}.yaml").write_text(benchmark.rules(), encoding="utf-8")
    if not listed:
        return
    _edit(rules / "open_common.yaml", r"v\['value'\] in \[", f"v['value'] in ['{benchmark.name}', ")
    entry = json.dumps(benchmark.name)
    with open(copy / "benchmark_meta.py", "a", encoding="utf-8") as file:
        file.write(f"\nget_allowed_benchmarks('training', {ruleset!r}).append({entry})\n")
        file.write(f"get_result_file_counts('training')[{entry}] = {benchmark.runs}\n")


def _edit(file: Path, pattern: str, text: str) -> None:
    """Replace what a pattern finds, which must be there once."""
    changed, count = re.subn(pattern, lambda _: text, file.read_text(encoding="utf-8"))
    if count != 1:
        raise InvalidRecord(f"{file.name} of mlperf_logging has its list of benchmarks {count} times", "version 4.1")
    replace(file, lambda temporary: temporary.write_text(changed, encoding="utf-8"))


def _run(folder: Path, tool: str, *arguments: str) -> Said:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-W", "ignore", "-m", f"mlperf_logging.{tool}", *arguments]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        return Said(False, f"{tool} was still going after {_PATIENCE_S} s")
    return Said(done.returncode == 0, (done.stdout + done.stderr).replace(str(folder) + os.sep, ""))

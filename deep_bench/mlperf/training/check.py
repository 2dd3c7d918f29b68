"""What is to be said of logs and descriptions of systems that come from anywhere: faults, and the score of runs.

deep_bench's own check of the log of a run is made before ``success`` is written, too. MLPerf's own tools are its
compliance checker, its result summarizer and its checker of system descriptions. They know MLPerf's benchmarks only, by
lists in their source. Work in the open division that is of no benchmark of MLPerf's has a name that they do not know. So a
copy of the package is made in a temporary folder in which that name is registered, the way MLPerf's own were: in the list
of the division's rules, with a file of rules, in the list of benchmarks and with a number of runs. Nothing else is
changed, and each tool runs in a process of its own.

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
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.errors import InvalidRecord, shortened
from deep_bench.mlperf.training.hyperparameters import COUNTS
from deep_bench.mlperf.training.logs import (
    ABORTED,
    END,
    RULESET,
    START,
    SUCCESS,
    Log,
    checked_name,
    is_number,
    official_benchmarks,
    package_folder,
    read_log,
    read_runs,
    result_folders,
)
from deep_bench.records.store import replace
from deep_bench.training.figures import MlperfScore, mlperf_score
from deep_bench.training.run_state import reaches

_RUN_SPECIFIC = ("init_stop", "run_start", "seed")


SUBMISSION = tuple(f"submission_{what}" for what in ("benchmark", "division", "org", "platform", "status"))

ONCE = (
    *SUBMISSION,
    "init_stop",
    "run_start",
    "seed",
    "global_batch_size",
    "gradient_accumulation_steps",
    "micro_batch_size",
    "opt_name",
    "opt_base_learning_rate",
    "train_samples",
    "eval_samples",
    "eval_target",
    "config_filename",
    *(f"lowest_numerical_precision_in_{where}" for where in ("linear", "attn", "comm")),
    *(f"{what}_parallelism" for what in ("tensor", "pipeline", "context", "expert")),
)
"""Keys that come exactly once."""


_COMMON_TO_RUNS = frozenset(ONCE) - frozenset(_RUN_SPECIFIC)
_LONGEST_VALUE = 60


def unlike(logs: Sequence[Log]) -> list[tuple[str, ...]]:
    """What is wrong with each log of a folder beside the others.

    A result is of several runs that differ in nothing but their seeds: a copy is no run, and a run with another batch size,
    optimizer, target or system is one of something else. What most of them say is taken for what it should be.

    Args:
        logs: Those of one benchmark on one system.

    Returns:
        For each log what is wrong; nothing where all is as it should be.

    Example:
        >>> from deep_bench.mlperf.training.logs import Event
        >>> sizes = enumerate((64, 64, 32))
        >>> logs = [Log((Event("seed", i), Event("global_batch_size", size, time_ms=i))) for i, size in sizes]
        >>> unlike(logs)
        [(), (), ('global_batch_size is 32, and 64 in other runs',)]
        >>> unlike([logs[0], logs[0]])
        [(), ('it is a copy of another log of this folder, with the same times: a run counts once',)]
    """
    declarations = [_common_facts(log) for log in logs]
    keys = sorted({key for declaration in declarations for key in declaration})
    usual = {
        key: Counter(declaration[key] for declaration in declarations if key in declaration).most_common(1)[0][0]
        for key in keys
    }
    findings = []
    for number, (log, declaration) in enumerate(zip(logs, declarations, strict=True)):
        deviations = (
            f"{key} is {text}, and {usual[key]} in other runs" for key, text in declaration.items() if text != usual[key]
        )
        findings.append((*_repeated(log, logs[:number]), *deviations))
    return findings


def _repeated(log: Log, before: Sequence[Log]) -> tuple[str, ...]:
    """Whether it is one of the logs before it again, or a run with the seed of one."""
    times, seed = [event.time_ms for event in log.events], _shown_value(log.value("seed"))
    for previous in before:
        name = previous.path.name if previous.path is not None else "another log of this folder"
        if times and times == [event.time_ms for event in previous.events]:
            return (f"it is a copy of {name}, with the same times: a run counts once",)
        if log.all("seed") and previous.all("seed") and seed == _shown_value(previous.value("seed")):
            return (f"seed {seed} as in {name}: each run has a seed of its own",)
    return ()


def _common_facts(log: Log) -> dict[str, str]:
    """What a log says that all have to say alike; of one that ended before it came to it, not that."""
    declaration: dict[str, str] = {}
    for event in log.events:
        if event.key in _COMMON_TO_RUNS or event.key.startswith("opt_"):
            declaration.setdefault(event.key, _shown_value(event.value))
    for event in log.all("eval_target")[:1]:
        declaration |= {
            f"the {field} of eval_target": _shown_value(event.metadata.get(field)) for field in ("score", "direction")
        }
    for event in log.all("eval_accuracy")[:1]:
        declaration["samples_count of the first evaluation"] = _shown_value(event.metadata.get("samples_count"))
    if log.all("block_start"):
        declaration["the list of optimizer settings"] = ", ".join(
            sorted(key for key in declaration if key.startswith("opt_"))
        )
    return declaration


def _shown_value(value: Any) -> str:
    return f"{float(value):.17g}" if is_number(value) else shortened(repr(value), _LONGEST_VALUE)


_ORDER = ("cache_clear", "init_start", "init_stop", "run_start", "run_stop")
_WITHIN_RUN = ("block_start", "block_stop", "epoch_start", "epoch_stop", "eval_start", "eval_stop", "eval_accuracy")
_COUNTS = (*COUNTS, "train_samples", "eval_samples")
_SHARE = re.compile(r"((balanced|top-\d+) )?accuracy|hit rate@\d+|NDCG@\d+")
"""Scores of deep_bench that lie between 0 and 1."""


_INTERVALS = ("init", "run", "block", "epoch", "eval")


def faults(log: Log) -> list[str]:
    """What is wrong with the log of a run; nothing for one that is whole, be it a success or aborted.

    An aborted one has to say as much as a success, as far as it came: all but the evaluation if training began.
    Stricter than MLPerf's checker: it also asks that intervals are closed and not within themselves, that time does not run
    backwards, that nothing follows ``run_stop``, and that a success reached the target that the log states.

    Args:
        log: The log.

    Example:
        >>> from deep_bench.mlperf.training.logs import Event
        >>> faults(Log((Event("run_stop", None, {"status": "success"}, 1),)))[0]
        'no submission_benchmark'
    """
    if not log.events:
        return list(log.broken)
    return [
        *log.broken,
        *_counts(log),
        *_order(log),
        *_intervals(log),
        *_places(log),
        *_values(log),
        *_evaluations(log),
        *_end(log),
    ]


def _counts(log: Log) -> Iterator[str]:
    aborted = log.status == ABORTED
    never_began = aborted and not log.all("block_start")
    for key in ONCE:
        count = len(log.all(key))
        if count > 1:
            yield f"{key} comes {count} times"
        elif not count and (key in SUBMISSION or not never_began):
            yield f"no {key}"
    for key in ("cache_clear", "init_start", *(() if aborted else ("eval_accuracy", "block_start"))):
        if not log.all(key):
            yield f"no {key}"


def _order(log: Log) -> Iterator[str]:
    first = {key: i for i, event in reversed(list(enumerate(log.events))) if (key := event.key) in _ORDER}
    keys = [key for key in _ORDER if key in first]
    for before, after in pairwise(keys):
        if first[before] > first[after]:
            yield f"{after} before {before}"
    for i, (current, following) in enumerate(pairwise(log.events)):
        if following.time_ms < current.time_ms:
            yield f"time runs backwards from event {i} ({current.key}) to the next ({following.key})"
    began, ended = first.get("run_start"), first.get("run_stop")
    for i, event in enumerate(log.events):
        if event.key in _WITHIN_RUN and (began is None or i < began):
            yield f"{event.key} before run_start"
        if ended is not None and i > ended:
            yield f"{event.key} after run_stop"


def _intervals(log: Log) -> Iterator[str]:
    """Each begins, ends, and only then begins anew; those that a run leaves open when it is aborted may stay so."""
    begun = dict.fromkeys(_INTERVALS, False)
    for event in log.events:
        name, _, edge = event.key.rpartition("_")
        if name not in begun or edge not in ("start", "stop"):
            continue
        if event.kind != (START if edge == "start" else END):
            yield f"{event.key} as {event.kind}"
        if begun[name] == (edge == "start"):
            yield f"{event.key} {'within' if edge == 'start' else 'without'} {name}_start"
        begun[name] = edge == "start"
    if log.status == SUCCESS:
        yield from (f"{name}_start without {name}_stop" for name, open_ in begun.items() if open_)


def _places(log: Log) -> Iterator[str]:
    for event in log.events:
        if event.key in _WITHIN_RUN and not {"epoch_num", "first_epoch_num", "samples_count"} & set(event.metadata):
            yield f"{event.key} without epoch_num or samples_count"


def _values(log: Log) -> Iterator[str]:
    """What can be no value of a key."""
    for event in log.events:
        key, value = event.key, event.value
        whole = is_number(value) and value == int(value)
        if key == "seed" and not whole:
            yield f"seed {str(value)[:40]!r}, which is no whole number"
        elif key in _COUNTS and not (whole and value >= 1):
            yield f"{key} of {str(value)[:40]!r}, which is no whole number above 0"
        elif key == "opt_base_learning_rate" and not (value is None or is_number(value)):
            yield f"opt_base_learning_rate of {str(value)[:40]!r}"
        elif key == "eval_target" and not is_number(value):
            yield f"eval_target of {str(value)[:40]!r}"


def _evaluations(log: Log) -> Iterator[str]:
    """Whether results can be, and come after ever more training; what a run that diverged ends with may be no number."""
    for event in log.all("eval_accuracy"):
        if not isinstance(event.value, int | float) or isinstance(event.value, bool):
            yield f"eval_accuracy of {str(event.value)[:40]!r}"
    for event in (*log.all("eval_target"), *log.all("eval_accuracy")):
        score = event.metadata.get("score")
        is_share = isinstance(score, str) and _SHARE.fullmatch(score) is not None and not event.metadata.get("unit")
        if is_share and is_number(event.value) and not 0 <= event.value <= 1:
            yield f"{event.key} {event.value:g} as {score}, which is a share from 0 to 1"
    for unit in ("epoch_num", "samples_count"):
        trained = [event.metadata.get(unit, nan) for event in log.all("eval_accuracy")]
        numbers = [value for value in trained if is_number(value)]
        if any(value < 0 for value in numbers) or any(b < a for a, b in pairwise(numbers)):
            yield f"{unit} of evaluations that is below 0, or becomes less"


def _end(log: Log) -> Iterator[str]:
    stops = log.all("run_stop")
    if len(stops) != 1:
        yield "no run_stop: the run did not end, or was killed" if not stops else f"run_stop comes {len(stops)} times"
        return
    status = stops[0].metadata.get("status")
    if status not in (SUCCESS, ABORTED):
        yield f"run_stop with status {str(status)[:40]!r}"
    targets = log.all("eval_target")
    if status != SUCCESS or len(targets) != 1 or log.last is None:
        return
    target, value = targets[0].value, log.last.value
    if not is_number(target) or not is_number(value):
        yield f"a success with eval_accuracy {value} and eval_target {target}"
    elif not reaches(value, target, log.direction):
        yield f"a success whose last eval_accuracy {value} does not reach the target {target}"


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
class ToolAnswer:
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
    benchmarks = set()
    for log in logs:
        events = log.all("eval_target")
        stated = len(events) == 1 and is_number(events[0].value)
        benchmarks.add((log.benchmark, float(events[0].value), log.direction) if stated else (log.benchmark, None, ""))
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


def check_log(path: str | Path, *, register: bool = True, ruleset: str = RULESET) -> ToolAnswer:
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


def check_system(path: str | Path, ruleset: str = RULESET) -> ToolAnswer:
    """What MLPerf's checker says of a system description.

    Raises:
        InvalidRecord: There is no such file, or it is too large for one.
        FrameworkMissing: ``mlperf_logging`` is not installed.
    """
    _check_size(Path(path))
    with _tools(None, ruleset) as folder:
        shutil.copyfile(path, folder / "system.json")
        outcome = _run(folder, "system_desc_checker", "system.json", "training", ruleset)
        return ToolAnswer(
            outcome.passed and "checker passed" in (folder / "system_desc_checker.log").read_text(), outcome.output
        )


def summarize(results: str | Path, description: str | Path, ruleset: str = RULESET) -> tuple[dict[str, str], ToolAnswer]:
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
            rules = copy / f"compliance_checker/training_{ruleset}"
            (rules / f"open_{benchmark.name}.yaml").write_text(benchmark.rules(), encoding="utf-8")
            if listed:
                _list(benchmark, copy, rules / "open_common.yaml", ruleset)
        yield folder


def _list(benchmark: Registered, copy: Path, common: Path, ruleset: str) -> None:
    """Let a copy of MLPerf's tools know a benchmark by its name."""
    names = f"v['value'] in ['{benchmark.name}', "
    changed, count = re.subn(r"v\['value'\] in \[", lambda _: names, common.read_text(encoding="utf-8"))
    if count != 1:
        raise InvalidRecord(f"{common.name} of mlperf_logging has its list of benchmarks {count} times", "version 4.1")
    replace(common, lambda temporary: temporary.write_text(changed, encoding="utf-8"))
    entry = json.dumps(benchmark.name)
    with open(copy / "benchmark_meta.py", "a", encoding="utf-8") as file:
        file.write(f"\nget_allowed_benchmarks('training', {ruleset!r}).append({entry})\n")
        file.write(f"get_result_file_counts('training')[{entry}] = {benchmark.runs}\n")


def _left_out(rules: str, folder: str, names: list[str]) -> list[str]:
    """What of the package is not needed: other rounds, references, examples."""
    del folder
    pattern = re.compile(r"(training|hpc)_\d.*|rcps_.*\.json|examples|__pycache__")
    return [name for name in names if pattern.fullmatch(name) and name != rules]


def _run(folder: Path, tool: str, *arguments: str) -> ToolAnswer:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-W", "ignore", "-m", f"mlperf_logging.{tool}", *arguments]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        return ToolAnswer(False, f"{tool} was still going after {_PATIENCE_S} s")
    return ToolAnswer(done.returncode == 0, (done.stdout + done.stderr).replace(str(folder) + os.sep, ""))


RUN_FAILED = "it counts as a run that failed, the slowest; make that run anew if it did not fail"
"""Of a file that holds no event."""


_SHOWN = 2000
_LONGEST_REASON = 300
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
    wrong, aborted = (*faults(log), *beside), shortened(log.reason, _LONGEST_REASON) if log.status == ABORTED else ""
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


@dataclass(frozen=True, eq=False)
class Scored:
    """Runs of one benchmark on one system.

    Args:
        folder: Of their logs.
        logs: In their order.
        faults: What is wrong with each.
        unlike: What is wrong with each beside the others; see `deep_bench.mlperf.training.check`.
    """

    folder: Path
    logs: tuple[Log, ...]
    faults: tuple[tuple[str, ...], ...]
    unlike: tuple[tuple[str, ...], ...]

    @property
    def benchmark(self) -> str:
        """What they are runs of; empty if none says it."""
        return next((log.benchmark for log in self.logs if log.benchmark), "")

    @cached_property
    def times(self) -> list[float | None]:
        """Seconds of each run that reached its target and whose log is as it should be; ``None`` of others."""
        pairs = zip(self.logs, self.faults, strict=True)
        return [log.seconds if log.status == SUCCESS and not wrong else None for log, wrong in pairs]

    @property
    def score(self) -> MlperfScore:
        """The score as MLPerf computes it, in seconds; none of logs that are not those of different runs of the same."""
        if any(self.unlike):
            return MlperfScore(None, "not valid: these are not different runs of one and the same")
        return mlperf_score(self.times)

    @property
    def quality(self) -> float | None:
        """The geometric mean of the last ``eval_accuracy`` of all runs.

        ``None`` where one has none, or none above 0, and where a log is not as it should be.

        Source:
            MLCommons, *MLPerf training rules*, quality measure: what the open division has to report.
        """
        if any(self.faults) or any(self.unlike):
            return None
        values = [log.last.value if log.last is not None else None for log in self.logs]
        numbers = [float(value) for value in values if is_number(value) and value > 0]
        return float(np.exp(np.mean(np.log(numbers)))) if len(numbers) == len(values) else None

    def lines(self) -> Iterator[str]:
        """What there is to say of each run, and of all."""
        yield f"{self.benchmark or 'of nothing'}, {len(self.logs)} runs in {self.folder}"
        for log, wrong, beside in zip(self.logs, self.faults, self.unlike, strict=True):
            assert log.path is not None
            seconds = "" if log.seconds is None else f" after {log.seconds:.3f} s"
            epochs = log.converged_at("epoch_num")
            trained = "" if epochs is None else f", {epochs:g} epochs, {log.converged_at('samples_count'):.0f} samples"
            reason = f" ({log.reason})" if log.status != SUCCESS and log.reason else ""
            yield f"  {log.path.name}: {log.status}{seconds}{trained}{reason}"
            yield from (f"    not as it should be: {fault}" for fault in (*wrong, *beside))
            if not log.events:
                yield f"    {RUN_FAILED}"
        score = self.score
        if score.seconds is not None:
            yield f"score: {score.seconds:.3f} s = {score.seconds / 60:.5f} min: {score.reason}"
        else:
            yield f"score: {score.reason}"
        if self.quality is not None:
            yield f"geometric mean of the final quality: {self.quality:.6g}"

    def official(self, ruleset: str | None = None) -> str:
        """What MLPerf's result summarizer makes of them, in a sentence.

        Raises:
            InvalidRecord: There is no description of the system where a submission has it, or no table.
            FrameworkMissing: ``mlperf_logging`` is not installed.
        """
        root, system = self.folder.resolve().parents[2], self.folder.resolve().parent.name
        description = root / "systems" / f"{system}.json"
        if not description.is_file():
            raise InvalidRecord(f"no {description}", "a submission's folder, with the description of its system")
        row, _ = summarize(self.folder, description, ruleset or RULESET)
        minutes = row.get(self.benchmark, "")
        return f"MLPerf's result summarizer: {float(minutes):.5f} min" if minutes else "MLPerf's result summarizer: no score"


def scored(folder: str | Path) -> list[Scored]:
    """The scores of a folder: that of some logs, or of all benchmarks and systems of a submission.

    Args:
        folder: One with ``result_0.txt`` and so on, or a submission's.

    Raises:
        InvalidRecord: There are no logs, or one cannot be read.
    """
    return [scored_runs(path) for path in result_folders(folder)]


def scored_runs(folder: Path) -> Scored:
    """The score of a folder with ``result_0.txt`` and so on; see `scored`."""
    logs = read_runs(folder)
    return Scored(folder, logs, tuple(tuple(faults(log)) for log in logs), tuple(unlike(logs)))

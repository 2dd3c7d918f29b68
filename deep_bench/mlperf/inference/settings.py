"""``Settings`` of a run, the ``user.conf`` that they come to, and the scenarios and modes of MLPerf Inference.

A scenario is how queries come, what is measured, and what the rules ask for. LoadGen ignores a key that it does not know
and a scenario that is misspelled in its settings files, without a word. Here they are errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from deep_bench.errors import InvalidArgument, UnknownName, nearest

ScenarioName = Literal["SingleStream", "MultiStream", "Server", "Offline"]
Mode = Literal["performance", "accuracy", "submission", "find-peak"]

MODES: tuple[Mode, ...] = ("performance", "accuracy", "submission", "find-peak")
FULL_DURATION_S = 600.0
"""What a run must last at least."""


SHORT_DURATION_S = 2.0
OFFLINE_SAMPLES = 24_576
"""The samples of the one query of Offline, at least."""


IN_MEMORY = 1024
"""Samples that are in memory at once, of a data set that has so many: what most benchmarks of the rules ask for at least."""


TARGET_SHARE = 0.99
"""Of the reference's accuracy that the rules ask for."""


TOO_SHORT = "not a valid submission duration"
"""How the remark on a run of less than `FULL_DURATION_S` begins."""


UNVERIFIED = "Result not verified by MLCommons Association."
"""What the rules ask to be said of a result that MLCommons has not reviewed."""


@dataclass(frozen=True)
class Scenario:
    """How queries come, and what counts.

    Args:
        name: LoadGen's name.
        comes: When the next query comes, in words.
        metric: What counts, in words, with places for the percentile and the samples of a query.
        unit: Of the metric.
        direction: Which is better.
        result: The key in LoadGen's detailed log.
        percentile: Of the latencies of queries that the rules look at, in ``mlperf.conf``; 0 where they look at none.
        samples: Of a query, there; 0 where that is all of them.
    """

    name: ScenarioName
    comes: str
    metric: str
    unit: str
    direction: Literal["lower", "higher"]
    result: str
    percentile: float
    samples: int


SCENARIOS = MappingProxyType(
    {
        scenario.name: scenario
        for scenario in (
            Scenario(
                "SingleStream", "when the last is answered", "{percentile} percentile latency (early-stopping estimate)",
                "s", "lower", "early_stopping_latency_ss", 0.9, 1,
            ),
            Scenario(
                "MultiStream", "when the last is answered",
                "{percentile} percentile latency of a query of {samples} samples (early-stopping estimate)",
                "s", "lower", "early_stopping_latency_ms", 0.99, 8,
            ),
            Scenario(
                "Server", "at random, as a Poisson process", "completed samples a second",
                "samples/s", "higher", "result_completed_samples_per_sec", 0.99, 1,
            ),
            Scenario(
                "Offline", "all at once", "samples a second", "samples/s", "higher", "result_samples_per_second", 0.0, 0
            ),
        )
    }
)  # fmt: skip
"""By name."""


def too_short(seconds: float) -> list[str]:
    """A remark on a run that lasts less than the rules ask for.

    Example:
        >>> too_short(2.0), too_short(600.0)
        (['not a valid submission duration: at least 2 s instead of 600 s'], [])
    """
    if seconds >= FULL_DURATION_S:
        return []
    return [f"{TOO_SHORT}: at least {seconds:g} s instead of {FULL_DURATION_S:g} s"]


def too_few_samples(count: int) -> list[str]:
    """A remark on an Offline query of fewer samples than the rules ask for.

    Example:
        >>> too_few_samples(355)
        ['not a valid submission: at least 355 samples instead of 24576']
    """
    return (
        [f"not a valid submission: at least {count} samples instead of {OFFLINE_SAMPLES}"] if count < OFFLINE_SAMPLES else []
    )


OF_SUBMITTER = frozenset(
    {
        "max_async_queries", "min_duration", "min_query_count", "performance_sample_count_override", "target_latency",
        "target_qps",
    }
)  # fmt: skip
"""Keys that a submitter chooses, durations and counts no lower than ``mlperf.conf`` has them; all others are the rules'."""


_KEYS = OF_SUBMITTER | {
    "accuracy_log_probability", "accuracy_log_rng_seed", "accuracy_log_sampling_target", "accuracy_sample_count_override",
    "coalesce_queries", "max_duration", "max_query_count", "performance_issue_same", "performance_issue_same_index",
    "performance_issue_unique", "print_timestamps", "qsl_rng_seed", "sample_concatenate_permutation",
    "sample_index_rng_seed", "samples_per_query", "schedule_rng_seed", "target_duration", "target_latency_percentile",
}  # fmt: skip

_TOKENS = "leave it out: it is about the tokens of generated text, which no workload here has"
_REFUSED_KEYS = {
    "mode": "say it by --mode",
    "infer_token_latencies": _TOKENS,
    "token_latency_scaling_factor": _TOKENS,
    "tpot_latency": _TOKENS,
    "ttft_latency": _TOKENS,
    "use_token_latencies": _TOKENS,
}
"""Keys that LoadGen knows and that have no place in a file here, and why."""


_ABOVE_0 = frozenset({"samples_per_query", "target_latency", "target_qps"})
_PERCENTS = frozenset({"accuracy_log_probability", "target_latency_percentile"})
_DECIMALS = 4
"""Of a percentage: LoadGen's log shows no more."""


_FRACTIONS = frozenset({"accuracy_log_probability", "target_latency_percentile", "target_qps"})
_EXPECTED = ("SingleStream", "MultiStream")
"""Scenarios whose ``target_latency``, which is expected and no bound, may be a fraction of a millisecond."""


_NUMBER = re.compile(r"(0|[1-9]\d{0,30})(\.\d{1,30})?([eE][+-]?\d{1,2})?")
"""LoadGen would read others as well, some of them in another base than ten."""


_LARGEST_BYTES = 64 * 2**10


@dataclass(frozen=True)
class Line:
    """One setting.

    Args:
        model: A model's name, or ``*``.
        scenario: A scenario's name, or ``*``.
        key: LoadGen's.
        value: A number, as it is written.
    """

    model: str
    scenario: str
    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.model}.{self.scenario}.{self.key} = {self.value}"


def read_conf(path: str | Path) -> list[Line]:
    """The settings of a file.

    Raises:
        InvalidArgument: It cannot be read, or a line of it is none that LoadGen takes.
    """
    path = Path(path)
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise InvalidArgument(f"{path} has {path.stat().st_size} bytes", f"settings of at most {_LARGEST_BYTES}")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read {path}: {error}", "a user.conf") from error
    return parse_conf(text, str(path))


def parse_conf(text: str, source: str = "user.conf") -> list[Line]:
    """The settings of a text.

    Raises:
        InvalidArgument: A line that LoadGen would misread or ignore.

    Example:
        >>> parse_conf("# mine\\n*.Server.target_qps = 120.5")
        [Line(model='*', scenario='Server', key='target_qps', value='120.5')]
    """
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [_line(line, f"{source}, line {number}") for number, line in lines if line and not line.startswith("#")]


def value_of(lines: Sequence[Line], model: str, scenario: str, key: str) -> str | None:
    """What LoadGen takes for a key: the last of the most exact ones; ``None`` where its built-in settings hold.

    Example:
        >>> value_of(parse_conf("*.*.min_duration = 1\\n*.Server.min_duration = 2"), "lenet", "Server", "min_duration")
        '2'
    """
    for place in ((model, scenario), ("*", scenario), (model, "*"), ("*", "*")):
        matches = [line.value for line in lines if (line.model, line.scenario) == place and line.key == key]
        if matches:
            return matches[-1]
    return None


def check_whole(line: Line, where: str) -> None:
    """See that LoadGen takes a value as it is written: it cuts most of them at the first character that is no digit.

    Args:
        line: The setting.
        where: It is stated, for messages.

    Raises:
        InvalidArgument: A fraction or an exponent, of which LoadGen would take the whole part.
    """
    fraction = line.key in _FRACTIONS or (line.key == "target_latency" and line.scenario in _EXPECTED)
    if not fraction and not line.value.isdecimal():
        came = f"{where}: {line.scenario}.{line.key} = {line.value}, of which LoadGen would take the part before the point"
        raise InvalidArgument(came, "a whole number, without an exponent; durations and latencies in ms")


def written(lines: Sequence[Line], comment: str) -> str:
    """A file's text."""
    return "\n".join([f"# {comment}", *map(str, lines)]) + "\n"


def _line(text: str, where: str) -> Line:
    name, equals, value = (part.strip() for part in text.partition("="))
    value = value.partition(" #")[0].strip()
    parts = name.rsplit(".", 2)
    if not equals or len(parts) != 3 or not all(parts) or any(c.isspace() for c in name):
        raise InvalidArgument(f"{where}: {text!r}", "model.scenario.key = number", "*.Server.target_qps = 100")
    line = Line(parts[0], parts[1], parts[2], value)
    _known_key(line.scenario, [*SCENARIOS, "*"], f"{where}: the scenario")
    if line.key in _REFUSED_KEYS:
        raise InvalidArgument(f"{where}: the key {line.key!r}", "a user.conf without it", _REFUSED_KEYS[line.key])
    _known_key(line.key, sorted(_KEYS), f"{where}: the key")
    if not _NUMBER.fullmatch(value):
        raise InvalidArgument(f"{where}: {line.key} = {value!r}", "a decimal number; durations and latencies in ms")
    check_whole(line, where)
    number, came = float(value), f"{where}: {line.scenario}.{line.key} = {value}"
    if line.key in _ABOVE_0 and not number:
        raise InvalidArgument(came, "a number above 0")
    if line.key in _PERCENTS:
        if not 0 < number < 100 and not (line.key == "accuracy_log_probability" and number in (0, 100)):
            raise InvalidArgument(came, "percent: above 0 and below 100, as in 90 or 99.9")
        if round(number, _DECIMALS) != number:
            expected = f"percent with at most {_DECIMALS} digits after the point, which LoadGen's log can show"
            raise InvalidArgument(came, expected)
    return line


def _known_key(name: str, candidates: list[str], kind: str) -> None:
    if name not in candidates:
        raise InvalidArgument(
            f"{kind} {name!r}, which LoadGen would ignore", f"one of {', '.join(candidates)}", nearest(name, candidates)
        )


AUDITS: Mapping[str, Mapping[str, str]] = {
    "TEST01": {"mode": "2", "accuracy_log_rng_seed": "720381539243781796", "accuracy_log_sampling_target": "128"},
    "TEST04": {
        "mode": "2",
        "performance_issue_unique": "0",
        "performance_issue_same": "1",
        "performance_issue_same_index": "3",
    },
}
"""Audit to the settings that make LoadGen perform it.

Source:
    The audit settings of mlcommons/inference, ``compliance/``; the sampling target of TEST01 differs by benchmark (64 to
    4,096 there).
"""


Audit = Literal["TEST01", "TEST04"]
CheckEffort = Literal["off", "quick", "full"]

REFUSED_KEYS = {
    "TEST05": "it was dropped from the rules in v5.0",
    "TEST06": "it is about texts that language models generate",
    "TEST07": "it is about the accuracy of language models in performance mode",
    "TEST08": "it is about recommendation (dlrm-v3)",
    "TEST09": "it is about the lengths of generated texts",
}
"""Audits of the rules that apply to no workload here, and why."""


MOST_THREADS = 1024
READY_STALLS = 20.0
"""Getting ready may take so many times as long as no answer."""


MOST_IN_BATCH = OFFLINE_SAMPLES
MOST_OF_QUERY = 1024
"""Samples of a query of MultiStream: all queries are made up beforehand, in memory."""


_ALLOWED: tuple[tuple[tuple[str, ...], Callable[[float], bool], str], ...] = (
    (
        ("min_duration", "target_qps", "target_latency", "stall", "batch", "performance_samples"),
        lambda value: 0 < value < inf,
        "a number above 0",
    ),
    (("workers",), lambda value: 0 <= value <= MOST_THREADS, f"0 to {MOST_THREADS}"),
    (("max_delay",), lambda value: 0 <= value < inf, "seconds, 0 or more"),
    (("target_share", "reference_accuracy"), lambda value: 0 < value <= 1, "above 0, at most 1"),
    (
        ("batch",),
        lambda value: value <= MOST_IN_BATCH,
        f"at most {MOST_IN_BATCH}, the fewest samples of Offline's query by the rules",
    ),
)
"""Numbers among the settings, which of them are allowed, and that in words."""


@dataclass(frozen=True)
class Settings:
    """How a run is made.

    Args:
        scenario: How queries come.
        mode: What the run is for: ``"performance"``, ``"accuracy"``, ``"submission"`` (both), ``"find-peak"`` (Server).
        batch: The most samples that run at once, up to 24,576; by default 64 in Offline, 8 in MultiStream, else 1.
        workers: Threads that answer, each with an executor of its own; 0 answers in the thread that LoadGen issues queries
            from, which saves two changes of threads. By default 1 in Server, else 0.
        max_delay: Seconds that a sample of Server waits at most for others to fill a batch.
        min_duration: Seconds; by default what the rules ask for, 600.
        short: 2 s instead, and in Offline no more samples than the data set has: to try things. Never a valid submission.
        target_qps: Server: the rate at which queries come. Offline: the rate that is expected, from which LoadGen makes up
            its query. By default found out by a pilot before the run.
        target_latency: Server: the bound in seconds for the 99th percentile (by default ``mlperf.conf``'s 10 ms; another
            percentile by ``user_conf``).
            SingleStream and MultiStream: what a query is expected to take, likewise found out by default.
        user_conf: A ``user.conf``, read by LoadGen itself.
        audit: ``"TEST01"`` (answers in performance mode are those of accuracy mode), ``"TEST04"`` (nothing is cached).
        performance_samples: How many samples are in memory at once; by default all, at most 1,024.
        stall: Seconds without an answer while samples wait for one, after which the run is given up.
        trace: Have LoadGen write what happened to each sample, and keep its exact latencies. By default where at most
            1,000,000 samples are expected.
        check: How hard the network's outputs are checked against the reference, after the test.
        target_share: The accuracy that is asked for, as a share of the reference's; the rules ask for 0.99.
        reference_accuracy: The reference's, where it is known; by default the reference executor is asked.

    Raises:
        InvalidArgument: A value out of range, or values that do not go together.
        UnknownName: An unknown scenario, mode or audit.

    Example:
        >>> Settings("Offline", short=True).seconds
        2.0
    """

    scenario: ScenarioName = "SingleStream"
    mode: Mode = "performance"
    batch: int | None = None
    workers: int | None = None
    max_delay: float = 0.0
    min_duration: float | None = None
    short: bool = False
    target_qps: float | None = None
    target_latency: float | None = None
    user_conf: Path | None = None
    audit: Audit | None = None
    performance_samples: int | None = None
    stall: float = 30.0
    trace: bool | None = None
    check: CheckEffort = "quick"
    target_share: float = TARGET_SHARE
    reference_accuracy: float | None = None

    def __post_init__(self) -> None:
        _among("scenario", self.scenario, list(SCENARIOS))
        _among("mode", self.mode, MODES)
        _among("check", self.check, ("off", "quick", "full"))
        if self.audit in REFUSED_KEYS:
            raise InvalidArgument(
                f"audit {self.audit}", "TEST01 or TEST04", f"no workload here has it: {REFUSED_KEYS[self.audit]}"
            )
        if self.audit is not None:
            _among("audit", self.audit, list(AUDITS))
        for names, allowed, expected in _ALLOWED:
            for name in names:
                if (value := getattr(self, name)) is not None and not allowed(value):
                    raise InvalidArgument(f"{name}={value!r}", expected)
        latency, server = self.scenario in ("SingleStream", "MultiStream"), self.scenario == "Server"
        for refused, came, expected in (
            (self.audit and self.mode != "performance", f"audit {self.audit} in mode {self.mode}", "mode performance"),
            (self.short and self.min_duration is not None, "short and min_duration", "one of the two"),
            (self.mode == "find-peak" and not server, f"mode find-peak in {self.scenario}",
             "Server, the one scenario whose load can be varied"),
            (latency and self.target_qps is not None, f"target_qps in {self.scenario}",
             "target_latency, which LoadGen asks for there"),
            (self.scenario == "Offline" and self.target_latency is not None, "target_latency in Offline",
             "target_qps, which LoadGen asks for there"),
            (self.max_delay and not server, f"max_delay in {self.scenario}", "Server: elsewhere samples come together"),
            (server and self.workers == 0, "workers=0 in Server",
             "at least 1: LoadGen's thread issues while others answer"),
        ):  # fmt: skip
            if refused:
                raise InvalidArgument(came, expected)

    @property
    def rules(self) -> Scenario:
        """What the rules say of the scenario."""
        return SCENARIOS[self.scenario]

    @property
    def most_at_once(self) -> int:
        """The most samples that run at once."""
        return self.batch or {"Offline": 64, "MultiStream": 8}.get(self.scenario, 1)

    @property
    def threads(self) -> int:
        """The number of threads that answer."""
        return self.workers if self.workers is not None else int(self.scenario == "Server")

    @property
    def ready_s(self) -> float:
        """Seconds that a system may take to be ready, and LoadGen's samples to be loaded."""
        return READY_STALLS * self.stall

    @property
    def seconds(self) -> float:
        """What a run lasts at least, by these settings alone."""
        return self.min_duration or (SHORT_DURATION_S if self.short else FULL_DURATION_S)


@dataclass(frozen=True)
class Conf:
    """The settings that LoadGen reads.

    Args:
        model: The network's name, as LoadGen knows it.
        scenario: The scenario that is run.
        lines: In their order: the user's own file first, and options after it, which win.
        open: The key that only a pilot can tell; ``None`` where it is stated.
        remarks: Where the rules are left, in words: such a run is no submission.
        notes: What of the user's file does not count.
    """

    model: str
    scenario: ScenarioName
    lines: tuple[Line, ...]
    open: str | None = None
    remarks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def value(self, key: str) -> str | None:
        """What LoadGen takes for a key in this run."""
        return value_of(self.lines, self.model, self.scenario, key)

    def with_value(self, value: float) -> Conf:
        """With what the pilot found."""
        assert self.open is not None
        line = Line(self.model, self.scenario, self.open, _text(value))
        return replace(self, lines=(*self.lines, line), open=None)

    @property
    def seconds(self) -> float:
        """What the run lasts at least."""
        duration = self.value("min_duration")
        return FULL_DURATION_S if duration is None else float(duration) / 1e3

    @property
    def of_query(self) -> int:
        """The samples of a query; 0 where that is all of them."""
        setting = self.value("samples_per_query") if self.scenario == "MultiStream" else None
        return int(setting or SCENARIOS[self.scenario].samples)

    @property
    def samples(self) -> float:
        """About how many samples LoadGen makes up its queries of."""
        count = float(self.value("min_query_count") or 0)
        if self.scenario in ("Server", "Offline"):
            return max(float(self.value("target_qps") or 1) * self.seconds, count)
        return self.of_query * max(self.seconds / (float(self.value("target_latency") or 1) / 1e3), count)


def conf_of(settings: Settings, model: str, samples: int) -> Conf:
    """What settings come to.

    Args:
        settings: As they were given.
        model: The network's name, as LoadGen knows it.
        samples: In the data set.

    Raises:
        InvalidArgument: The user's file cannot be used, or not for this run.
    """
    scenario = settings.scenario
    user_conf = Conf(model, scenario, tuple(read_conf(settings.user_conf) if settings.user_conf is not None else []))
    counted = int(user_conf.value("accuracy_sample_count_override") or 0)
    if settings.mode in ("accuracy", "submission") and counted not in (0, samples):
        came = f"accuracy_sample_count_override = {counted} in {settings.user_conf}, in mode {settings.mode}"
        raise InvalidArgument(came, f"accuracy over the whole data set, {samples} samples", "leave the line out")
    if scenario == "MultiStream" and user_conf.of_query > MOST_OF_QUERY:
        came = f"samples_per_query = {user_conf.of_query} in {settings.user_conf}"
        raise InvalidArgument(came, f"at most {MOST_OF_QUERY}: the rules have 8, and at least 662 queries", "see Offline")
    values = {
        "min_duration": _milliseconds(settings.seconds if settings.short else settings.min_duration),
        "target_qps": settings.target_qps,
        "target_latency": _milliseconds(settings.target_latency),
    }
    if scenario == "Offline" and user_conf.value("min_query_count") is None:
        values["min_query_count"] = min(OFFLINE_SAMPLES, samples) if settings.short else OFFLINE_SAMPLES
    options = [Line(model, scenario, key, _text(value)) for key, value in values.items() if value is not None]
    notes = []
    if other_models := sorted({line.model for line in user_conf.lines} - {"*", model}):
        shown = ", ".join(other_models[:3]) + (", …" if len(other_models) > 3 else "")
        notes.append(f"user.conf: lines for {shown} do not count, the model is {model}")
    for line in options:
        check_whole(line, "the option")
        before = user_conf.value(line.key)
        if before is not None and float(before) != float(line.value):
            notes.append(f"user.conf: {line.key} = {before} does not count, an option of the run has {line.value}")
    conf = replace(user_conf, lines=(*user_conf.lines, *options), notes=tuple(notes))
    needed = "target_qps" if scenario in ("Server", "Offline") else "target_latency"
    remarks = too_short(conf.seconds)
    if scenario == "Offline" and (count := conf.value("min_query_count")) is not None:
        remarks += too_few_samples(int(count))
    counting = {line.key for line in conf.lines if line.scenario in (scenario, "*") and line.model in (model, "*")}
    if ruled := sorted(counting - OF_SUBMITTER):
        remarks.append(f"not a valid submission: user.conf changes what mlperf.conf rules ({', '.join(ruled)})")
    return replace(conf, open=needed if conf.value(needed) is None else None, remarks=tuple(remarks))


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _text(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.9g}"


def _among(kind: str, value: str, candidates: Collection[str]) -> None:
    if value not in candidates:
        raise UnknownName(kind, str(value), candidates)

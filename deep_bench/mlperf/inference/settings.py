"""``Settings`` of a run, and the ``user.conf`` that they come to."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Literal

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.mlperf.inference.conf import AUDITS, OF_SUBMITTER, Line, check_whole, read_conf, value_of
from deep_bench.mlperf.inference.scenario import (
    FULL_DURATION_S,
    MODES,
    OFFLINE_SAMPLES,
    SCENARIOS,
    SHORT_DURATION_S,
    Mode,
    Scenario,
    ScenarioName,
)

Audit = Literal["TEST01", "TEST04"]
CheckEffort = Literal["off", "quick", "full"]

NOT_HERE = {
    "TEST05": "it was dropped from the rules in v5.0",
    "TEST06": "it is about texts that language models generate",
    "TEST07": "it is about the accuracy of language models in performance mode",
    "TEST08": "it is about recommendation (dlrm-v3)",
    "TEST09": "it is about the lengths of generated texts",
}
"""Audits of the rules that apply to no workload here, and why."""

MOST_THREADS = 1024


@dataclass(frozen=True)
class Settings:
    """How a run is made.

    Args:
        scenario: How queries come.
        mode: What the run is for: ``"performance"``, ``"accuracy"``, ``"submission"`` (both), ``"find-peak"`` (Server).
        batch: The most samples that run at once; by default 64 in Offline, 8 in MultiStream, else 1.
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
        target_share: The accuracy that is asked for, as a share of the reference's.
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
    target_share: float = 0.99
    reference_accuracy: float | None = None

    def __post_init__(self) -> None:
        _among("scenario", self.scenario, list(SCENARIOS))
        _among("mode", self.mode, MODES)
        _among("check", self.check, ("off", "quick", "full"))
        self._check_audit()
        self._check_numbers()
        if self.short and self.min_duration is not None:
            raise InvalidArgument("short and min_duration", "one of the two")
        if self.mode == "find-peak" and self.scenario != "Server":
            raise InvalidArgument(f"mode find-peak in {self.scenario}", "Server, the one scenario whose load can be varied")
        if self.scenario in ("SingleStream", "MultiStream") and self.target_qps is not None:
            raise InvalidArgument(f"target_qps in {self.scenario}", "target_latency, which LoadGen asks for there")
        if self.scenario == "Offline" and self.target_latency is not None:
            raise InvalidArgument("target_latency in Offline", "target_qps, which LoadGen asks for there")
        if self.max_delay and self.scenario != "Server":
            raise InvalidArgument(f"max_delay in {self.scenario}", "Server: elsewhere samples come together")
        if self.scenario == "Server" and self.workers == 0:
            raise InvalidArgument("workers=0 in Server", "at least 1: LoadGen's thread issues while others answer")

    def _check_audit(self) -> None:
        if self.audit in NOT_HERE:
            raise InvalidArgument(
                f"audit {self.audit}", "TEST01 or TEST04", f"no workload here has it: {NOT_HERE[self.audit]}"
            )
        if self.audit is not None:
            _among("audit", self.audit, list(AUDITS))
            if self.mode != "performance":
                raise InvalidArgument(f"audit {self.audit} in mode {self.mode}", "mode performance")

    def _check_numbers(self) -> None:
        positive = ("min_duration", "target_qps", "target_latency", "stall", "batch", "performance_samples")
        for name in positive:
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise InvalidArgument(f"{name}={value!r}", "a number above 0")
        if self.workers is not None and not 0 <= self.workers <= MOST_THREADS:
            raise InvalidArgument(f"workers={self.workers}", f"0 to {MOST_THREADS}")
        if not 0 <= self.max_delay < float("inf"):
            raise InvalidArgument(f"max_delay={self.max_delay}", "seconds, 0 or more")
        if not 0 < self.target_share <= 1:
            raise InvalidArgument(f"target_share={self.target_share}", "above 0, at most 1")
        given = self.reference_accuracy
        if given is not None and not (isfinite(given) and 0 <= given <= 1):
            raise InvalidArgument(f"reference_accuracy={given}", "0 to 1")

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
    def seconds(self) -> float:
        """What a run lasts at least, by these settings alone."""
        return self.min_duration or (SHORT_DURATION_S if self.short else FULL_DURATION_S)


@dataclass(frozen=True)
class Conf:
    """The settings that LoadGen reads.

    Args:
        lines: In their order: the user's own file first.
        open: The key that only a pilot can tell; ``None`` where it is stated.
        remarks: Where the rules are left, in words: such a run is no submission.
        seconds: What the run lasts at least.
    """

    lines: tuple[Line, ...]
    open: str | None
    remarks: tuple[str, ...]
    seconds: float

    def with_value(self, model: str, scenario: str, value: float) -> Conf:
        """With what the pilot found."""
        assert self.open is not None
        line = Line(model, scenario, self.open, _text(value))
        return Conf((*self.lines, line), None, self.remarks, self.seconds)

    def of_query(self, model: str, scenario: str) -> int:
        """The samples of a query; 0 where that is all of them."""
        stated = value_of(list(self.lines), model, scenario, "samples_per_query") if scenario == "MultiStream" else None
        return int(stated or SCENARIOS[scenario].samples)  # type: ignore[index]

    def samples(self, model: str, scenario: str) -> float:
        """About how many samples LoadGen makes up its queries of."""
        rate = value_of(list(self.lines), model, scenario, "target_qps")
        latency = value_of(list(self.lines), model, scenario, "target_latency")
        count = float(value_of(list(self.lines), model, scenario, "min_query_count") or 0)
        if scenario in ("Server", "Offline"):
            return max(float(rate or 1) * self.seconds, count)
        return self.of_query(model, scenario) * max(self.seconds / (float(latency or 1) / 1e3), count)


def conf_of(settings: Settings, model: str, samples: int) -> Conf:
    """What settings come to.

    Args:
        settings: As they were given.
        model: The network's name, as LoadGen knows it.
        samples: In the data set.

    Raises:
        InvalidArgument: The user's file cannot be used.
    """
    scenario = settings.scenario
    own = read_conf(settings.user_conf) if settings.user_conf is not None else []
    stated = {
        "min_duration": _milliseconds(settings.seconds if settings.short else settings.min_duration),
        "target_qps": settings.target_qps,
        "target_latency": _milliseconds(settings.target_latency),
    }
    if scenario == "Offline" and value_of(own, model, scenario, "min_query_count") is None:
        stated["min_query_count"] = min(OFFLINE_SAMPLES, samples) if settings.short else OFFLINE_SAMPLES
    options = [Line(model, scenario, key, _text(value)) for key, value in stated.items() if value is not None]
    for line in options:
        check_whole(line, "the option")
    lines = [*own, *options]
    needed = "target_qps" if scenario in ("Server", "Offline") else "target_latency"
    missing = needed if value_of(lines, model, scenario, needed) is None else None
    duration = value_of(lines, model, scenario, "min_duration")
    seconds = FULL_DURATION_S if duration is None else float(duration) / 1e3
    return Conf(tuple(lines), missing, tuple(_remarks(lines, model, scenario, seconds)), seconds)


def _remarks(lines: list[Line], model: str, scenario: str, seconds: float) -> list[str]:
    found = []
    if seconds < FULL_DURATION_S:
        found.append(f"not a valid submission duration: at least {seconds:g} s instead of {FULL_DURATION_S:g} s")
    count = value_of(lines, model, scenario, "min_query_count")
    if scenario == "Offline" and count is not None and float(count) < OFFLINE_SAMPLES:
        found.append(f"not a valid submission: at least {count} samples instead of {OFFLINE_SAMPLES}")
    ruled = sorted({line.key for line in lines if line.scenario in (scenario, "*")} - OF_SUBMITTER)
    if ruled:
        found.append(f"not a valid submission: user.conf changes what mlperf.conf rules ({', '.join(ruled)})")
    return found


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _text(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.9g}"


def _among(what: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise UnknownName(what, str(value), known)

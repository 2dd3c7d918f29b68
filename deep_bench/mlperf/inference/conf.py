"""LoadGen's settings files: ``user.conf``, read strictly before LoadGen reads it, and ``audit.config``.

LoadGen ignores a key that it does not know and a scenario that is misspelled, without a word. Here they are errors.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deep_bench.errors import InvalidArgument
from deep_bench.mlperf.inference.scenario import SCENARIOS

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
_NOT_HERE = {
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


def value_of(lines: list[Line], model: str, scenario: str, key: str) -> str | None:
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


def written(lines: list[Line], comment: str) -> str:
    """A file's text."""
    return "\n".join([f"# {comment}", *map(str, lines)]) + "\n"


def _line(text: str, where: str) -> Line:
    name, equals, value = (part.strip() for part in text.partition("="))
    value = value.partition(" #")[0].strip()
    parts = name.rsplit(".", 2)
    if not equals or len(parts) != 3 or not all(parts) or any(c.isspace() for c in name):
        raise InvalidArgument(f"{where}: {text!r}", "model.scenario.key = number", "*.Server.target_qps = 100")
    line = Line(parts[0], parts[1], parts[2], value)
    _known(line.scenario, [*SCENARIOS, "*"], f"{where}: the scenario")
    if line.key in _NOT_HERE:
        raise InvalidArgument(f"{where}: the key {line.key!r}", "a user.conf without it", _NOT_HERE[line.key])
    _known(line.key, sorted(_KEYS), f"{where}: the key")
    if not _NUMBER.fullmatch(value):
        raise InvalidArgument(f"{where}: {line.key} = {value!r}", "a decimal number; durations and latencies in ms")
    check_whole(line, where)
    _check_meaning(line, where)
    return line


def _check_meaning(line: Line, where: str) -> None:
    """Refuse numbers that LoadGen takes and computes nonsense with, such as the 150th percentile."""
    number, came = float(line.value), f"{where}: {line.scenario}.{line.key} = {line.value}"
    if line.key in _ABOVE_0 and not number:
        raise InvalidArgument(came, "a number above 0")
    if line.key not in _PERCENTS:
        return
    if not 0 < number < 100 and not (line.key == "accuracy_log_probability" and number in (0, 100)):
        raise InvalidArgument(came, "percent: above 0 and below 100, as in 90 or 99.9")
    if round(number, _DECIMALS) != number:
        raise InvalidArgument(came, f"percent with at most {_DECIMALS} digits after the point, which LoadGen's log can show")


def _known(name: str, candidates: list[str], kind: str) -> None:
    if name not in candidates:
        near = difflib.get_close_matches(name, candidates, n=1)
        advice = f"did you mean {near[0]!r}?" if near else ""
        raise InvalidArgument(f"{kind} {name!r}, which LoadGen would ignore", f"one of {', '.join(candidates)}", advice)


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

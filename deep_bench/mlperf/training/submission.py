"""What a log says of who ran what, and the names of benchmarks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from deep_bench.errors import InvalidArgument
from deep_bench.mlperf.system.fields import UNKNOWN

RULESET = "6.1.0"
"""Whose rules logs are checked by unless another round is named."""

_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")
_LONGEST = 64

_STATUSES: Mapping[str, str] = MappingProxyType(
    {"on-premise": "onprem", "cloud": "cloud", "preview": "preview", "rdi": "research"}
)


def checked_name(name: str, what: str = "benchmark") -> str:
    """A name that becomes part of paths, which MLPerf's tools make of what a log says.

    Args:
        name: Small letters and digits, with single dots, dashes or underscores between.
        what: Is named so.

    Raises:
        InvalidArgument: Another one.

    Example:
        >>> checked_name("digits-cnn")
        'digits-cnn'
        >>> checked_name("../../tmp/rules")
        Traceback (most recent call last):
            ...
        deep_bench.errors.InvalidArgument: the benchmark '../../tmp/rules'
        Expected: at most 64 small letters and digits, with single dots, dashes or underscores between
    """
    if not isinstance(name, str) or len(name) > _LONGEST or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"the {what} {str(name)[:100]!r}",
            f"at most {_LONGEST} small letters and digits, with single dots, dashes or underscores between",
        )
    return name


def slug(text: str) -> str:
    """A name for paths made of any text.

    Example:
        >>> slug("8-Ball (2x V100)"), slug("…")
        ('8-ball-2x-v100', 'unknown')
    """
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))[:_LONGEST].strip("-") or UNKNOWN


@dataclass(frozen=True)
class Submission:
    """Who ran what.

    Args:
        benchmark: What was trained. The name of one of MLPerf's benchmarks claims that data, quality measure and target are
            those of MLPerf.
        org: The organization.
        platform: The system.
        status: Of the system: ``onprem``, ``cloud``, ``preview`` or ``research``.
        note: How it deviates from MLPerf's benchmarks; in the metadata of ``submission_benchmark``.

    Raises:
        InvalidArgument: A benchmark that `checked_name` refuses.
    """

    benchmark: str
    org: str = UNKNOWN
    platform: str = UNKNOWN
    status: str = UNKNOWN
    note: str = ""

    def __post_init__(self) -> None:
        checked_name(self.benchmark)

    @classmethod
    def of(cls, benchmark: str, facts: Mapping[str, str], note: str = "") -> Submission:
        """By what a user states of the system; see `deep_bench.mlperf.system`.

        Example:
            >>> Submission.of("digits", {"submitter": "A lab", "status": "rdi"}).status
            'research'
        """
        return cls(
            benchmark,
            facts.get("submitter", UNKNOWN),
            facts.get("system_name", UNKNOWN),
            _STATUSES.get(facts.get("status", ""), UNKNOWN),
            note,
        )

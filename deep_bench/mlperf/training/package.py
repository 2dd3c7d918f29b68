"""The one file that imports MLPerf's own package for logs of training, ``mlperf_logging``."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import deep_bench
from deep_bench.errors import FrameworkMissing, InvalidArgument

_ROOT = Path(deep_bench.__file__).parents[1]
_FIRST = 4

_ALL = ("0.6", "0.7", "1.0", "1.1", "2.0", "2.1", "3.0", "3.1", "4.0", "4.1", "5.0", "5.1", "6.0", "6.1")
"""Rounds of training, all of whose benchmarks have names that are taken."""


def package_folder() -> Path:
    """Where the package lies.

    Raises:
        FrameworkMissing: It is not installed.
    """
    spec = find_spec("mlperf_logging")
    if spec is None or spec.origin is None:
        raise FrameworkMissing(
            "mlperf_logging is not installed", advice="pip install 'deep-bench[mlperf]', or pip install mlperf-logging"
        )
    return Path(spec.origin).parent


class _File(logging.FileHandler):
    """A new file, to which each line is written at once; what cannot be written is an error, and not a remark."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002 (the base class's)
        raise

    def close(self) -> None:
        """Close the file; what could not be written was told when it was tried."""
        with suppress(OSError):
            super().close()


def writer(path: Path, *, append: bool = False) -> tuple[Any, logging.Handler]:
    """The package's logger, writing to a file; and what to close in the end.

    Args:
        path: A new file, or
        append: one that is there already.

    Raises:
        FrameworkMissing: The package is not installed.
        InvalidArgument: The file exists, or cannot be made.
    """
    package_folder()
    from mlperf_logging.mllog import mllog

    try:
        handler = _File(path, mode="a" if append else "x", encoding="utf-8")
    except OSError as error:
        advice = "logs are never written over: name another folder, or move it away" if path.exists() else ""
        raise InvalidArgument(f"the log {path}: {error.strerror}", "a file that can be written", advice) from error
    logger = logging.Logger("deep_bench.mlperf", logging.INFO)  # of its own: nobody else's settings change it
    logger.addHandler(handler)
    return mllog.MLLogger(logger, default_stack_offset=2, root_dir=re.escape(str(_ROOT))), handler


def official_benchmarks(ruleset: str | None = None) -> frozenset[str]:
    """The names of MLPerf's benchmarks of training.

    Args:
        ruleset: Of this round; of all by default.

    Raises:
        FrameworkMissing: The package is not installed.
        InvalidArgument: There was no such round.

    Example:
        >>> "resnet" in official_benchmarks(), "resnet" in official_benchmarks("6.1.0")
        (True, False)
    """
    package_folder()
    from mlperf_logging.benchmark_meta import get_allowed_benchmarks

    if ruleset is not None and ruleset not in rulesets():
        raise InvalidArgument(f"the ruleset {ruleset!r}", f"one of {', '.join(rulesets())}")
    chosen = [ruleset] if ruleset is not None else _ALL
    return frozenset(name for round_name in chosen for name in get_allowed_benchmarks("training", round_name))


def rulesets() -> tuple[str, ...]:
    """The rounds of training whose rules logs are checked by: from 4.0.0, as those before count training in epochs only.

    Raises:
        FrameworkMissing: The package is not installed.
    """
    folder = package_folder() / "compliance_checker"
    rounds = (file.parent.name.partition("_")[2] for file in folder.glob("training_*/open_common.yaml"))
    return tuple(sorted(round_name for round_name in rounds if int(round_name.partition(".")[0]) >= _FIRST))

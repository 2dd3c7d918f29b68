"""A plugin for pytest: the fixture ``deep_bench_gate``, which fails a test that became slower, or wrong.

It is registered under ``pytest11``, so every pytest of an environment that has deep_bench imports this module. It imports
nothing but pytest until a test asks for the fixture, adds options and a section of the summary, and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from deep_bench.results.gate import Gate

PROPERTY = "deep_bench"
"""The property of a test's report that holds what was found; it is in the XML that ``--junitxml`` writes as well."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, all of them empty by default."""
    group = parser.getgroup("deep_bench", "deep_bench: times and results against a baseline")
    group.addoption("--deep-bench-records", metavar="DIR", help="Keep the record of each gate in this folder.")
    group.addoption("--deep-bench-baseline", metavar="DIR", help="Compare with the records of this folder.")
    group.addoption("--deep-bench-across", metavar="LABEL", action="append", default=[],
                    help="What may differ from the baseline beside the commit: machine, versions, …")  # fmt: skip
    group.addoption("--deep-bench-fail-on", metavar="CONDITION", action="append", default=[],
                    help="A further condition for all gates, such as cannot-tell.")  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Refuse folders that cannot be meant, before any test runs."""
    records, baseline = (_folder(config, name) for name in ("records", "baseline"))
    if baseline is not None and not baseline.is_dir():
        raise pytest.UsageError(f"--deep-bench-baseline {baseline}: no such folder")
    if records is not None and records.exists() and not records.is_dir():
        raise pytest.UsageError(f"--deep-bench-records {records}: not a folder")
    if records is not None and baseline is not None and records.resolve() == baseline.resolve():
        raise pytest.UsageError(
            "--deep-bench-records and --deep-bench-baseline name one folder: a test would be its own baseline"
        )


def _folder(config: pytest.Config, name: str) -> Path | None:
    option = config.getoption(f"--deep-bench-{name}")
    return config.invocation_params.dir / option if option else None


@pytest.fixture
def deep_bench_gate(request: pytest.FixtureRequest) -> Gate:
    """Measures what the test gives it, compares it with the baseline, and fails where it is slower or wrong.

    See `deep_bench.results.gate.Gate`.
    """
    from deep_bench.results.gate import Gate

    return Gate(
        test=request.node.nodeid,
        records=_folder(request.config, "records"),
        baseline=_folder(request.config, "baseline"),
        across=tuple(request.config.getoption("--deep-bench-across")),
        conditions=tuple(request.config.getoption("--deep-bench-fail-on")),
        tell=lambda line: request.node.user_properties.append((PROPERTY, line)),
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A section with what the gates found; none where no test has one."""
    lines = list(_summary_lines(terminalreporter.stats))
    if lines:
        terminalreporter.section("deep_bench gates")
        for line in lines:
            terminalreporter.write_line(line)


def _summary_lines(stats: dict[str, list[Any]]) -> Iterator[str]:
    for reports in stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                messages = [str(value) for name, value in report.user_properties if name == PROPERTY]
                yield from (f"{report.nodeid}: {value}" for value in messages)

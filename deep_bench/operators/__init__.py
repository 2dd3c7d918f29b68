"""Layer 0: one kernel, checked against a slow reference and timed beside what frameworks have.

What is imported on first use only is listed in a table, so that importing this package stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_bench.lazy import lazy

if TYPE_CHECKING:
    from deep_bench.operators.argument import Argument as Argument
    from deep_bench.operators.case import Case as Case
    from deep_bench.operators.checks.errors import error_maps as error_maps
    from deep_bench.operators.checks.finding import Finding as Finding
    from deep_bench.operators.checks.finding import Findings as Findings
    from deep_bench.operators.checks.problem import Problem as Problem
    from deep_bench.operators.checks.run import check_operator as check_operator
    from deep_bench.operators.host import Host as Host
    from deep_bench.operators.native_code import native as native
    from deep_bench.operators.operator import Operator as Operator
    from deep_bench.operators.studies.result import Study as Study
    from deep_bench.operators.studies.study import study as study
    from deep_bench.operators.suites.find import suite_of as suite_of
    from deep_bench.operators.suites.from_network import cases_of as cases_of
    from deep_bench.operators.suites.suite import Suite as Suite
    from deep_bench.operators.wrapping import wrap as wrap

_LAZY = {
    "Argument": "deep_bench.operators.argument",
    "Case": "deep_bench.operators.case",
    "Finding": "deep_bench.operators.checks.finding",
    "Findings": "deep_bench.operators.checks.finding",
    "Host": "deep_bench.operators.host",
    "Operator": "deep_bench.operators.operator",
    "Problem": "deep_bench.operators.checks.problem",
    "Study": "deep_bench.operators.studies.result",
    "Suite": "deep_bench.operators.suites.suite",
    "cases_of": "deep_bench.operators.suites.from_network",
    "check_operator": "deep_bench.operators.checks.run",
    "error_maps": "deep_bench.operators.checks.errors",
    "native": "deep_bench.operators.native_code",
    "study": "deep_bench.operators.studies.study",
    "suite_of": "deep_bench.operators.suites.find",
    "wrap": "deep_bench.operators.wrapping",
}

__all__ = [
    "Argument",
    "Case",
    "Finding",
    "Findings",
    "Host",
    "Operator",
    "Problem",
    "Study",
    "Suite",
    "cases_of",
    "check_operator",
    "error_maps",
    "native",
    "study",
    "suite_of",
    "wrap",
]

__getattr__, __dir__ = lazy(__name__, _LAZY)

"""Conformance suites that anyone's adapter, kernel, communicator or distributed optimizer can be put through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_bench.lazy import lazy

if TYPE_CHECKING:
    from deep_bench.operators.checks.finding import Finding as Finding
    from deep_bench.operators.checks.finding import Findings as Findings
    from deep_bench.operators.checks.run import CHECKS as OPERATOR_CHECKS
    from deep_bench.operators.checks.run import check_operator as check_operator
    from deep_bench.testing.adapter import ADAPTER_CHECKS as ADAPTER_CHECKS
    from deep_bench.testing.asynchronous_schemes import check_asynchronous as check_asynchronous
    from deep_bench.testing.case import Case as Case
    from deep_bench.testing.case import freeze as freeze
    from deep_bench.testing.case import standard_cases as standard_cases
    from deep_bench.testing.communicator_checks import COMMUNICATOR_CHECKS as COMMUNICATOR_CHECKS
    from deep_bench.testing.communicators import check_communicator as check_communicator
    from deep_bench.testing.schemes import SchemeFinding as SchemeFinding
    from deep_bench.testing.schemes import SchemeReport as SchemeReport
    from deep_bench.testing.schemes import check_scheme as check_scheme
    from deep_bench.testing.standard import Outcome as Outcome
    from deep_bench.testing.standard import run_case as run_case

_LAZY = {
    "ADAPTER_CHECKS": "deep_bench.testing.adapter",
    "COMMUNICATOR_CHECKS": "deep_bench.testing.communicator_checks",
    "Case": "deep_bench.testing.case",
    "Finding": "deep_bench.operators.checks.finding",
    "Findings": "deep_bench.operators.checks.finding",
    "Outcome": "deep_bench.testing.standard",
    "SchemeFinding": "deep_bench.testing.schemes",
    "SchemeReport": "deep_bench.testing.schemes",
    "check_asynchronous": "deep_bench.testing.asynchronous_schemes",
    "check_communicator": "deep_bench.testing.communicators",
    "check_operator": "deep_bench.operators.checks.run",
    "check_scheme": "deep_bench.testing.schemes",
    "freeze": "deep_bench.testing.case",
    "run_case": "deep_bench.testing.standard",
    "standard_cases": "deep_bench.testing.case",
}

__all__ = [
    "ADAPTER_CHECKS",
    "COMMUNICATOR_CHECKS",
    "OPERATOR_CHECKS",
    "Case",
    "Finding",
    "Findings",
    "Outcome",
    "SchemeFinding",
    "SchemeReport",
    "check_asynchronous",
    "check_communicator",
    "check_operator",
    "check_scheme",
    "freeze",
    "run_case",
    "standard_cases",
]

_look_up, __dir__ = lazy(__name__, _LAZY)


def __getattr__(name: str) -> Any:
    if name != "OPERATOR_CHECKS":
        return _look_up(name)
    from deep_bench.operators.checks.run import CHECKS

    return CHECKS

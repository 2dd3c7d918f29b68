"""Conformance suites that anyone's adapter or kernel can be put through."""

from deep_bench.operators.checks.finding import Finding, Findings
from deep_bench.operators.checks.run import CHECKS as OPERATOR_CHECKS
from deep_bench.operators.checks.run import check_operator
from deep_bench.testing.adapter import ADAPTER_CHECKS
from deep_bench.testing.case import Case, freeze, standard_cases
from deep_bench.testing.standard import Outcome, run_case

__all__ = [
    "ADAPTER_CHECKS",
    "OPERATOR_CHECKS",
    "Case",
    "Finding",
    "Findings",
    "Outcome",
    "check_operator",
    "freeze",
    "run_case",
    "standard_cases",
]

"""The suite for anyone's kernel, which lies in layer 0: its checks, what they find, and all of them at once."""

from deep_bench.operators.checks.finding import Finding, Findings
from deep_bench.operators.checks.run import CHECKS as OPERATOR_CHECKS
from deep_bench.operators.checks.run import check_operator

__all__ = ["OPERATOR_CHECKS", "Finding", "Findings", "check_operator"]

"""Conformance suites that anyone's adapter can be put through."""

from deep_bench.testing.adapter import ADAPTER_CHECKS
from deep_bench.testing.case import Case, freeze, standard_cases
from deep_bench.testing.standard import Outcome, run_case

__all__ = ["ADAPTER_CHECKS", "Case", "Outcome", "freeze", "run_case", "standard_cases"]

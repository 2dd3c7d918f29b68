"""Checks that anyone's kernel can be put through, each usable alone.

A check is a function of a kernel and a case, and gives a `Finding`. Instead of the case it takes a `Problem`: the case with
what is known of it, which serves several kernels and checks. `check_operator` runs them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_bench.lazy import lazy

if TYPE_CHECKING:
    from deep_bench.operators.checks.backward import backward_check as backward_check
    from deep_bench.operators.checks.contract import contract_check as contract_check
    from deep_bench.operators.checks.errors import ErrorMap as ErrorMap
    from deep_bench.operators.checks.errors import error_maps as error_maps
    from deep_bench.operators.checks.failure import KernelFailure as KernelFailure
    from deep_bench.operators.checks.finding import Finding as Finding
    from deep_bench.operators.checks.finding import Findings as Findings
    from deep_bench.operators.checks.forward import forward_check as forward_check
    from deep_bench.operators.checks.honesty import fresh_check as fresh_check
    from deep_bench.operators.checks.honesty import reuse_check as reuse_check
    from deep_bench.operators.checks.honesty import unwritten_check as unwritten_check
    from deep_bench.operators.checks.layout import layout_check as layout_check
    from deep_bench.operators.checks.memory import memory_check as memory_check
    from deep_bench.operators.checks.patches import Originals as Originals
    from deep_bench.operators.checks.patches import patches_check as patches_check
    from deep_bench.operators.checks.prepared import Prepared as Prepared
    from deep_bench.operators.checks.problem import Problem as Problem
    from deep_bench.operators.checks.remembering import remembering_check as remembering_check
    from deep_bench.operators.checks.repeatability import batch_check as batch_check
    from deep_bench.operators.checks.repeatability import reruns_check as reruns_check
    from deep_bench.operators.checks.repeatability import threads_check as threads_check
    from deep_bench.operators.checks.run import CHECKS as CHECKS
    from deep_bench.operators.checks.run import check_operator as check_operator
    from deep_bench.operators.checks.shrink import small_cases as small_cases
    from deep_bench.operators.checks.sizes import sizes_check as sizes_check
    from deep_bench.operators.checks.slopes import slopes_check as slopes_check
    from deep_bench.operators.checks.unfinished import unfinished_check as unfinished_check

_LAZY = {
    name: f"deep_bench.operators.checks.{module}"
    for module, names in {
        "backward": "backward_check",
        "contract": "contract_check",
        "errors": "ErrorMap error_maps",
        "failure": "KernelFailure",
        "finding": "Finding Findings",
        "forward": "forward_check",
        "honesty": "fresh_check reuse_check unwritten_check",
        "layout": "layout_check",
        "memory": "memory_check",
        "patches": "Originals patches_check",
        "prepared": "Prepared",
        "problem": "Problem",
        "remembering": "remembering_check",
        "repeatability": "batch_check reruns_check threads_check",
        "run": "CHECKS check_operator",
        "shrink": "small_cases",
        "sizes": "sizes_check",
        "slopes": "slopes_check",
        "unfinished": "unfinished_check",
    }.items()
    for name in names.split()
}

__all__ = [
    "CHECKS",
    "ErrorMap",
    "Finding",
    "Findings",
    "KernelFailure",
    "Originals",
    "Prepared",
    "Problem",
    "backward_check",
    "batch_check",
    "check_operator",
    "contract_check",
    "error_maps",
    "forward_check",
    "fresh_check",
    "layout_check",
    "memory_check",
    "patches_check",
    "remembering_check",
    "reruns_check",
    "reuse_check",
    "sizes_check",
    "slopes_check",
    "small_cases",
    "threads_check",
    "unfinished_check",
    "unwritten_check",
]

__getattr__, __dir__ = lazy(__name__, _LAZY)

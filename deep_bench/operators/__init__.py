"""Layer 0: one kernel, checked against a slow reference and timed beside what frameworks have.

What is imported on first use only is listed in a table, so that importing this package stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deep_bench.operators.argument import Argument as Argument
    from deep_bench.operators.case import Case as Case
    from deep_bench.operators.host import Host as Host
    from deep_bench.operators.native_code import native as native
    from deep_bench.operators.operator import Operator as Operator
    from deep_bench.operators.suites.find import suite_of as suite_of
    from deep_bench.operators.suites.from_network import cases_of as cases_of
    from deep_bench.operators.suites.suite import Suite as Suite

_LAZY = {
    "Argument": "deep_bench.operators.argument",
    "Case": "deep_bench.operators.case",
    "Host": "deep_bench.operators.host",
    "Operator": "deep_bench.operators.operator",
    "Suite": "deep_bench.operators.suites.suite",
    "cases_of": "deep_bench.operators.suites.from_network",
    "native": "deep_bench.operators.native_code",
    "suite_of": "deep_bench.operators.suites.find",
}

__all__ = ["Argument", "Case", "Host", "Operator", "Suite", "cases_of", "native", "suite_of"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})

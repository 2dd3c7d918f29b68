"""All checks of a kernel, each in a process of its own, so that what crashes or never returns costs one check only."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from deep_bench.check.oracle import SAMPLES, Effort
from deep_bench.errors import DeepBenchError, InvalidArgument, UnknownName, WorkerDied
from deep_bench.operators.case import Case
from deep_bench.operators.checks.finding import Finding, Findings
from deep_bench.operators.checks.problem import Problem, first_line
from deep_bench.operators.operator import KernelAdapter, Operator
from deep_bench.workers.pickling import dumped, loaded
from deep_bench.workers.process import Worker

if TYPE_CHECKING:
    from deep_bench.operators.checks.contract import Originals

_DEATHS = 2
"""So many checks in a row end the process of a kernel before it is given up on a case."""


CHECKS: Mapping[str, str] = {
    "contract": "deep_bench.operators.checks.contract:contract_check",
    "forward": "deep_bench.operators.checks.forward:forward_check",
    "layout": "deep_bench.operators.checks.forward:layout_check",
    "sizes": "deep_bench.operators.checks.forward:sizes_check",
    "backward": "deep_bench.operators.checks.backward:backward_check",
    "slopes": "deep_bench.operators.checks.slopes:slopes_check",
    "reruns": "deep_bench.operators.checks.repeatability:reruns_check",
    "threads": "deep_bench.operators.checks.repeatability:threads_check",
    "batch": "deep_bench.operators.checks.repeatability:batch_check",
    "fresh": "deep_bench.operators.checks.honesty:fresh_check",
    "reuse": "deep_bench.operators.checks.honesty:reuse_check",
    "unwritten": "deep_bench.operators.checks.honesty:unwritten_check",
    "unfinished": "deep_bench.operators.checks.honesty:unfinished_check",
    "remembering": "deep_bench.operators.checks.honesty:remembering_check",
    "memory": "deep_bench.operators.checks.contract:memory_check",
    "patches": "deep_bench.operators.checks.contract:patches_check",
}
"""Name of a check to its function, in the order in which they are run."""


def check_operator(
    operator: Operator[Any] | type[Operator[Any]] | str,
    cases: Iterable[Case] | Case,
    *,
    checks: Sequence[str] | None = None,
    seed: int = 0,
    effort: Effort = "quick",
    isolate: bool = True,
    limit_s: float = 120.0,
    progress: bool = True,
) -> Findings:
    """Put a kernel through all checks, case by case.

    This is done in a child process, so that a kernel that crashes or never returns costs one check, and the others go on. If
    two checks in a row end its process, it is not checked further on that case.

    Args:
        operator: The kernel, its class, or where that is: ``"my_kernels.py:FastGelu"``.
        cases: What it is checked on, such as a suite.
        checks: Some of `CHECKS`; all by default.
        seed: Names all that is drawn.
        effort: ``"quick"`` or ``"full"``: more inputs, more sizes, more directions, more reruns.
        isolate: False runs everything in this process, as a debugger wants it.
        limit_s: The most seconds that one check of one case may take; only a child process can be ended.
        progress: Whether to show a bar, on a terminal.

    Raises:
        InvalidArgument: No cases, no kernel, or one that cannot be pickled.
        UnknownName: No such check.

    Example:
        >>> class Doubled(Operator):
        ...     computes = "Add"
        ...     def forward(self, a, b):
        ...         return 2 * a
        >>> found = check_operator(Doubled(), Case.of("Add", (2, 3), (2, 3)), checks=["forward", "contract"], isolate=False)
        >>> found.ok, [f.word for f in found]
        (False, ['right', 'wrong'])
    """
    from deep_bench.operators.studies.contestants import operator_of

    for name in checks or ():
        if name not in CHECKS:
            raise UnknownName("check", name, CHECKS)
    names = [name for name in CHECKS if checks is None or name in checks]
    chosen = _cases(cases)
    operator = operator_of(operator)
    KernelAdapter(operator)  # refuses what computes nothing that is known
    findings: list[Finding] = []
    with tqdm(total=len(chosen) * len(names), desc=operator.name, leave=False, disable=None if progress else True) as bar:
        for finding in _findings(operator, chosen, names, seed, effort, limit_s if isolate else None):
            findings.append(finding)
            bar.set_postfix_str(f"{finding.case}, {finding.name}")
            bar.update()
    return Findings(operator.name, findings)


def _cases(cases: Iterable[Case] | Case) -> list[Case]:
    selected = [cases] if isinstance(cases, Case) else list(cases)
    for case in selected:
        if not isinstance(case, Case):
            raise InvalidArgument(f"a {type(case).__name__} among the cases", "objects of deep_bench.Case")
    if not selected:
        raise InvalidArgument("no cases", "at least one", "such as db.suites['transformer/gelu']")
    return selected


def _findings(
    operator: Operator[Any], cases: Sequence[Case], names: Sequence[str], seed: int, effort: Effort, limit_s: float | None
) -> Iterator[Finding]:
    if effort not in SAMPLES:
        raise InvalidArgument(f"effort {effort!r}", f"one of {', '.join(SAMPLES)}")
    if limit_s is None:
        runner = CheckRunner(operator, seed, effort)
        for case in cases:
            yield from (runner.check(name, case) for name in names)
        return
    with (
        tempfile.TemporaryDirectory(prefix="deep-bench-", ignore_cleanup_errors=True) as folder,
        Worker(
            f"{__name__}:check_runner",
            {"operator": dumped(operator, operator.name), "seed": seed, "effort": effort},
            label=operator.name,
            log=Path(folder) / "log",
            limit_s=limit_s,
            start_limit_s=max(limit_s, _START_S),
            lasting=True,
        ) as worker,
    ):
        for case in cases:
            deaths = 0
            for number, name in enumerate(names):
                finding, lived = _checked(worker, name, case)
                yield finding
                deaths = 0 if lived else deaths + 1
                if deaths == _DEATHS:
                    reason = f"{_DEATHS} checks in a row ended its process"
                    yield from (Finding(skipped, case.name, "not checked", reason) for skipped in names[number + 1 :])
                    break


class CheckRunner:
    """Runs checks in this process, and keeps what is known of the case that it is at.

    Args:
        operator: The kernel.
        seed, effort: As for `check_operator`.
        originals: The functions that results rest on, from before the kernel was imported; by default those of now.
    """

    def __init__(self, operator: Operator[Any], seed: int, effort: Effort, originals: Originals | None = None) -> None:
        from deep_bench.operators.checks.contract import Originals

        self._operator, self._seed, self._effort = operator, seed, effort
        self._originals = originals or Originals.taken()
        self._problem: Problem | None = None

    def check(self, name: str, case: Case | bytes) -> Finding:
        """One check of one case, which may be pickled."""
        case = loaded(case, "the case") if isinstance(case, bytes) else case
        if self._problem is None or self._problem.case != case:
            self._problem = Problem(case, seed=self._seed, effort=self._effort)
        function = check_of(name)
        extra = {"originals": self._originals} if name == "patches" else {}
        try:
            return function(self._operator, self._problem, **extra)
        except DeepBenchError as error:
            return Finding(name, case.name, "failed", first_line(error))


def check_of(name: str) -> Any:
    """The function of a check.

    Raises:
        UnknownName: No such check.

    Example:
        >>> check_of("forward").__name__
        'forward_check'
    """
    if name not in CHECKS:
        raise UnknownName("check", name, CHECKS)
    module, _, function = CHECKS[name].partition(":")
    return getattr(import_module(module), function)


_START_S = 120.0


def check_runner(operator: bytes, seed: int, effort: Effort) -> CheckRunner:
    """The runner as it lives in its own process, where the kernel is imported after the functions were noted.

    Args:
        operator: The kernel, pickled.
        seed, effort: As for `deep_bench.operators.checks.check_operator`.
    """
    from deep_bench.operators.checks.contract import Originals

    originals = Originals.taken()
    kernel = loaded(operator, "the operator")
    return CheckRunner(kernel, seed, effort, originals.extended())


def _checked(worker: Worker, name: str, case: Case) -> tuple[Finding, bool]:
    """One check of one case in a process, and whether that lived through it."""
    try:
        return worker.call("check", name, dumped(case, case.name)), True
    except WorkerDied as death:  # the findings carry the kernel's name
        reason = first_line(death).removeprefix(f"{worker.label}: ").removesuffix(" during 'check'")
        return Finding(name, case.name, "failed", reason), False
    except DeepBenchError as error:
        return Finding(name, case.name, "failed", first_line(error)), True

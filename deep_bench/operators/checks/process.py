"""Checks of a kernel in a process of its own, so that what crashes or never returns costs one check only."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deep_bench.check.truth import Effort
from deep_bench.errors import DeepBenchError, WorkerDied
from deep_bench.measure.workers import Worker
from deep_bench.operators.case import Case
from deep_bench.operators.checks.finding import Finding
from deep_bench.operators.checks.prepared import first_line
from deep_bench.operators.checks.run import Runner
from deep_bench.operators.operator import Operator
from deep_bench.operators.pickled import dumped, loaded

_START_S = 120.0


class Child:
    """The checker as it lives in its own process.

    Args:
        operator: The kernel, pickled.
        seed, effort: As for `deep_bench.operators.checks.check_operator`.
    """

    def __init__(self, operator: bytes, seed: int, effort: Effort) -> None:
        from deep_bench.operators.checks.patches import Originals

        originals = Originals.taken()
        kernel = loaded(operator, "the operator")
        self._runner = Runner(kernel, seed, effort, originals.extended())

    def check(self, name: str, case: bytes) -> Finding:
        """One check of one case."""
        return self._runner.check(name, loaded(case, "the case"))


class Isolated:
    """Runs checks in a child process, and starts another one when it ends.

    Args:
        operator: The kernel.
        seed, effort: As for `deep_bench.operators.checks.check_operator`.
        limit_s: The most seconds that one check of one case may take.

    Raises:
        InvalidArgument: The kernel cannot be pickled.
    """

    def __init__(self, operator: Operator[Any], seed: int, effort: Effort, limit_s: float) -> None:
        self._name = operator.name
        self._arguments = {"operator": dumped(operator, operator.name), "seed": seed, "effort": effort}
        self._limit_s = limit_s
        self._folder = Path(tempfile.mkdtemp(prefix="deep-bench-"))
        self._worker: Worker | None = None

    def check(self, name: str, case: Case) -> tuple[Finding, bool]:
        """One check of one case, and whether the process lived through it."""
        try:
            if self._worker is None:
                self._worker = self._started()
            return self._worker.call("check", name, dumped(case, case.name)), True
        except WorkerDied as death:
            self._end()
            return Finding(name, case.name, "failed", self._why(death)), False
        except DeepBenchError as error:
            return Finding(name, case.name, "failed", first_line(error)), True

    def close(self) -> None:
        """End the process."""
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Isolated:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self) -> Worker:
        worker = Worker(
            f"{__name__}:Child",
            self._arguments,
            label=self._name,
            log=self._folder / "log",
            limit_s=max(self._limit_s, _START_S),
        )
        worker.limit_s = self._limit_s
        return worker

    def _why(self, death: WorkerDied) -> str:
        """What happened, without the kernel's name, which the findings carry."""
        return first_line(death).removeprefix(f"{self._name}: ").removesuffix(" during 'check'")

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def not_checked(names: Sequence[str], case: Case, reason: str) -> list[Finding]:
    """What is said of checks that were not run."""
    return [Finding(name, case.name, "not checked", reason) for name in names]

"""What a comparison of optimizers found."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from deep_bench.check.verdict import Word
from deep_bench.measure.tables import print_note

Mode = Literal["lock-step", "free"]


@dataclass(frozen=True, slots=True)
class StepDifference:
    """One parameter after one step, against the oracle.

    Args:
        label: The optimizer's.
        mode: ``"lock-step"``: on the same gradients. ``"free"``: on those of its own trajectory.
        step: The number of the step, from 1.
        parameter: The parameter's name.
        bits: Significant bits; see `deep_bench.check`.
        error: The root mean square of what it differs by.
        estimate: The root mean square of what rounding is estimated to make of it.
        largest: The largest error in units of its own estimate.
        deficit: How many bits are missing.
        level: ``"clear"``: rounding explains it. ``"grey"``, ``"beyond"``, ``"impossible"``: it does less and less.
        reason: What is wrong with it.
    """

    label: str
    mode: Mode
    step: int
    parameter: str
    bits: float
    error: float
    estimate: float
    largest: float
    deficit: float
    level: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OptimizerVerdict:
    """What is said of one optimizer.

    Args:
        label: How it is called.
        word: *right*, *reduced precision*, *wrong*, *cannot tell* or *no information*.
        reason: Why.
        bits: Significant bits of its worst parameter and step in lock-step.
        parts: The first step at which its own trajectory is farther from the oracle's than rounding explains; ``None`` if
            none is, or it was not run.
    """

    label: str
    word: Word
    reason: str
    bits: float
    parts: int | None = None


@dataclass(frozen=True, slots=True)
class OptimizerComparison:
    """Optimizers against the first one's update.

    Args:
        reference: The first one's label: by its update, in float64, all are judged.
        dtype: The working format.
        verdicts: One for each optimizer, the first one's own computation included.
        rows: All differences.
    """

    reference: str
    dtype: str
    verdicts: tuple[OptimizerVerdict, ...]
    rows: tuple[StepDifference, ...]

    @property
    def ok(self) -> bool:
        """Whether all are right."""
        return all(v.word == "right" for v in self.verdicts)

    def __getitem__(self, label: str) -> OptimizerVerdict:
        return next(v for v in self.verdicts if v.label == label)

    def table(self, width: int = 120) -> str:
        """One line for each optimizer, and the reasons."""
        heads = ("optimizer", "role", "verdict", "bits", "worst step", "parameter", "error", "estimate", "parts at")
        table = Table(*heads, box=None)
        for verdict in self.verdicts:
            worst = self.worst(verdict.label)
            cells = [f"{verdict.bits:.1f}", str(worst.step), worst.parameter, f"{worst.error:.2g}", f"{worst.estimate:.2g}"]
            free = any(r.mode == "free" and r.label == verdict.label for r in self.rows)
            parts = "" if not free else "never" if verdict.parts is None else f"step {verdict.parts}"
            role = "reference" if verdict.label == self.reference else "judged by it"
            table.add_row(verdict.label, role, verdict.word, *cells, parts)
        out = io.StringIO()
        console = Console(file=out, width=width, highlight=False)
        print_note(console, f"{self.dtype}; the reference is {self.reference}, the first that was given")
        console.print(table)
        for verdict in self.verdicts:
            if verdict.word != "right":
                print_note(console, f"{verdict.label}: {verdict.word}: {verdict.reason}")
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())

    __str__ = table

    def worst(self, label: str, mode: Mode = "lock-step") -> StepDifference:
        """The parameter and step of an optimizer that is farthest from what rounding explains."""
        rows: Sequence[StepDifference] = [r for r in self.rows if r.label == label and r.mode == mode]
        return max(rows, key=lambda row: row.deficit)

    def to_json(self) -> dict[str, Any]:
        """All figures in plain JSON types."""
        return {
            "reference": self.reference,
            "dtype": self.dtype,
            "ok": self.ok,
            "verdicts": [asdict(v) for v in self.verdicts],
            "rows": [asdict(r) for r in self.rows],
        }

    def plot(self, file: str | Path) -> Path:
        """The error of each optimizer over the steps, beside the estimate; needs matplotlib."""
        from deep_bench.training.comparison.plot import plot

        return plot(self, Path(file))

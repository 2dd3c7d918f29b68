"""What the validation of a training found."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from deep_bench.measure.tables import columns, print_note, print_table

Word = Literal["right", "wrong", "no information"]

LOSS = "the loss"


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a system's training is from the oracle's after one step, in the quantity where that is least explained.

    Args:
        step: The number of steps taken.
        quantity: Name of the parameter, or ``"the loss"``.
        error: The Euclidean distance from the oracle's.
        rounding: That of the run with rounding errors that is farthest from the oracle's.
        ratio: ``error`` over ``rounding``.
        loss: The system's loss in this step.
        apart: Where it is finite and the oracle's is not, or the reverse; ``error`` is infinite there.
    """

    step: int
    quantity: str
    error: float
    rounding: float
    ratio: float
    loss: float
    apart: str = ""


@dataclass(frozen=True, slots=True)
class Chaos:
    """How far rounding alone carries the reference away from itself.

    Args:
        step: The number of steps taken.
        share: The distance of the farthest run with rounding errors from the plain one, over how far the parameters have
            come since the beginning; of all together that are not drowned from the first step on.
        drowned: Names of the parameters that tell nothing, since for them alone it is more than a tenth.
    """

    step: int
    share: float
    drowned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trained:
    """What is said of one system.

    Args:
        system: The system.
        word: *right*: rounding explains its distance from the oracle for as long as that can be told; *wrong*: it does not;
            *no information*: rounding drowned everything from the first step on, or nothing was finite.
        reason: Why.
        first: The first step where rounding does not explain it.
        distances: One for each step.
    """

    system: str
    word: Word
    reason: str
    first: int | None
    distances: tuple[Distance, ...]


@dataclass(frozen=True, slots=True)
class Validation:
    """Trainings of several systems against the oracle's.

    Args:
        systems: What is said of each.
        chaos: What rounding does to the reference, step by step.
        parts: The first step after which trajectories tell nothing any more, since rounding has carried the reference
            itself as far from itself; ``None`` if that did not happen.
        samples: How many runs with rounding errors there were.
        lost: The first step after which neither the oracle's loss nor any of its parameters is finite; ``None`` if that did
            not happen.
    """

    systems: tuple[Trained, ...]
    chaos: tuple[Chaos, ...]
    parts: int | None
    samples: int
    lost: int | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return all(system.word != "wrong" for system in self.systems)

    def __getitem__(self, system: str) -> Trained:
        for trained in self.systems:
            if trained.system == system:
                return trained
        raise KeyError(system)

    def table(self) -> str:
        """A row for each system, and what rounding does to the reference itself."""
        table = Table("system", "verdict")
        for name in ("worst step", "error", "by rounding", "ratio", "last loss"):
            table.add_column(name, justify="right")
        table.add_column("in")
        for trained in self.systems:
            worst = self._worst(trained)
            figures = [str(worst.step), f"{worst.error:.2g}", f"{worst.rounding:.2g}", f"{worst.ratio:.3g}"]
            table.add_row(trained.system, trained.word, *figures, f"{trained.distances[-1].loss:.4g}", worst.quantity)
        out = io.StringIO()
        console = Console(file=out, width=columns(), color_system=None)
        print_table(console, table)
        for trained in self.systems:
            if trained.reason:
                print_note(console, f"{trained.system}: {trained.reason}")
        print_note(console, self.about_chaos())
        return out.getvalue()

    __str__ = table

    def about_chaos(self) -> str:
        """From which step trajectories part for no other reason than rounding."""
        last, runs = self.chaos[-1], f"{self.samples} runs of the reference"
        if self.parts is None:
            text = f"After step {last.step} rounding alone ({runs}) makes {last.share:.2g} of the way of the parameters."
        else:
            text = (
                f"From step {self.parts} on trajectories part for no other reason than rounding: "
                f"it alone ({runs}) makes more than a tenth of the way of the parameters."
            )
        if self.lost is not None and (self.parts is None or self.lost < self.parts):
            text = f"From step {self.lost} on neither the oracle's loss nor a parameter is finite: see data and rate."
        first = self.chaos[0].drowned
        return text + (f" All of {', '.join(first)} is rounding from the first step on." if first else "")

    def told(self, distances: Sequence[Distance]) -> Sequence[Distance]:
        """Those that tell something: before trajectories part, and until nothing is finite any more."""
        parts, lost = (inf if step is None else step for step in (self.parts, self.lost))
        return [d for d in distances if d.step < parts and d.step <= lost]

    def _worst(self, trained: Trained) -> Distance:
        informative = self.told(trained.distances)
        return max(informative or trained.distances[:1], key=lambda d: d.ratio)

    def to_json(self) -> dict[str, Any]:
        """It in plain types."""
        return asdict(self)

    def save(self, path: str | Path) -> Path:
        """Write it as JSON."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
        return Path(path)

    def plot(self, path: str | Path) -> Path:
        """Draw each system's distance from the oracle over the steps, beside what rounding explains."""
        from deep_bench.training.validation.picture import draw

        return draw(self, path)

"""What is kept of a repetition, in a file beside its bundle: evidence for badges."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

import deep_bench
from deep_bench.measure.environment import Environment, capture
from deep_bench.measure.record import Model, Sha256
from deep_bench.measure.storage import digest, read_model, written
from deep_bench.repeating.manifest import MANIFEST
from deep_bench.repeating.repetition import Repetition, Word

FILE = "repetition.json"


class Figures(Model):
    """One figure of both runs: medians, the ratio or difference with its interval, and what is said of it."""

    name: str
    metric: str
    unit: str
    before: float
    after: float
    scale: Literal["ratio", "difference"]
    value: float
    interval: tuple[float, float] | None = None
    word: str


class RepetitionRecord(Model):
    """A repetition.

    Attributes:
        bundle: The SHA-256 of the manifest of what was repeated.
        command: What was run.
        status: Its exit status; ``None`` if it was ended.
        clean: Whether the environment was built from the lock.
        verdict, reasons: What came of it.
        same, differ, missing: Names of results, by whether they are equal to the last bit.
        differences: What is another in the environment: name to both values.
        dropped: Environment variables that a clean environment was not given.
        figures: Figures that both runs have.
        environment: Where it was repeated.
    """

    schema_version: Literal[1] = 1
    kind: Literal["repetition"] = "repetition"
    created: datetime = Field(default_factory=lambda: datetime.now(UTC))
    deep_bench: str
    bundle: Sha256
    command: list[str]
    status: int | None
    clean: bool
    verdict: Word
    reasons: list[str]
    same: list[str] = Field(default_factory=list)
    differ: list[str] = Field(default_factory=list)
    missing: list[str] = Field(default_factory=list)
    differences: dict[str, tuple[str, str]] = Field(default_factory=dict)
    dropped: list[str] = Field(default_factory=list)
    figures: list[Figures] = Field(default_factory=list)
    environment: Environment

    @property
    def repeated(self) -> bool:
        """Whether results are there again, as right as before."""
        return self.verdict.startswith("repeated")


def keep(found: Repetition) -> Path:
    """Write what came of a repetition into its folder, and return the file.

    Raises:
        InvalidArgument: It cannot be written.
    """
    record = RepetitionRecord(
        deep_bench=deep_bench.__version__,
        bundle=digest(found.folder / MANIFEST),
        command=list(found.command),
        status=found.status,
        clean=found.clean,
        verdict=found.verdict,
        reasons=list(found.reasons),
        same=list(found.bits.same),
        differ=list(found.bits.differ),
        missing=list(found.bits.missing),
        differences=dict(found.differences),
        dropped=list(found.dropped),
        figures=_figures(found),
        environment=capture(),
    )
    return written(found.folder / FILE, lambda file: file.write_text(record.model_dump_json(indent=1) + "\n", "utf-8"))


def read(path: str | Path) -> RepetitionRecord:
    """What was kept of a repetition.

    Args:
        path: The file, or its folder.

    Raises:
        InvalidRecord: It is none.
    """
    file = Path(path)
    return read_model(file / FILE if file.is_dir() else file, RepetitionRecord, "what `deep-bench repeat` wrote")


def _figures(repetition: Repetition) -> list[Figures]:
    return [
        Figures(
            name=comparison.name,
            metric=comparison.metric,
            unit=comparison.unit,
            before=comparison.estimate.before,
            after=comparison.estimate.after,
            scale=comparison.estimate.scale,
            value=comparison.estimate.value,
            interval=comparison.estimate.interval,
            word=comparison.word,
        )
        for comparison in repetition.comparisons or ()
    ]

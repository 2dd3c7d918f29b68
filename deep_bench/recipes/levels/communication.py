"""The level of a recipe that measures messages and collective operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, NonNegativeInt

from deep_bench import communicators
from deep_bench.distributed.collectives.settings import BenchmarkSettings, CollectiveSettings
from deep_bench.recipes.levels.level import (
    RANK_LABELS,
    SYSTEM_LABELS,
    TIME,
    VERDICTS,
    CommandTask,
    FigureKind,
    Level,
    LevelFields,
    LineFinder,
    Word,
    Words,
    check_registered,
    import_paths,
    is_missing_file,
)
from deep_bench.registry import Registry

if TYPE_CHECKING:
    from deep_bench.graph import Network
    from deep_bench.recipes.cell import Cell


class CommunicationFields(LevelFields, CollectiveSettings):
    """Level ``communication``: messages and collective operations, as `deep-bench communicate` does it.

    Attributes:
        collectives: ``latency``, ``bandwidth``, ``allreduce``, ``broadcast``, …
        over: Communicators; compared within one measurement, taking turns. ``mpi`` by default.
        ranks: How many processes, started by mpirun or srun.
        pair: The two ranks of latency and bandwidths; 0 and 1 by default.
        machine: A file that says what messages cost, instead of measuring it.
        threads: Of each process; the library's own choice by default.
    """

    collectives: Annotated[Words, Field(min_length=1)]
    over: Annotated[Words, Field(min_length=1)] = Field(default_factory=lambda: ["mpi"])
    ranks: Annotated[int, Field(ge=2)]
    pair: Annotated[list[NonNegativeInt], Field(min_length=2, max_length=2)] = Field(default_factory=lambda: [0, 1])
    machine: Word | None = None

    level: ClassVar[Level] = "communication"
    compared: ClassVar[str | None] = "over"
    systems_field: ClassVar[str] = "over"
    registry: ClassVar[Registry] = communicators
    labels: ClassVar = (*SYSTEM_LABELS, *RANK_LABELS, "case", "operator", "dtype", "bytes", "seed")

    def foreign_code(self, cell: Cell, home: Path) -> Iterator[tuple[str, str]]:  # noqa: ARG002
        """See `LevelFields.foreign_code`."""
        yield from import_paths("the communicator", self.over, communicators)

    def check_names(self, cell: Cell, home: Path, line: LineFinder) -> None:  # noqa: ARG002
        """See `LevelFields.check_names`."""
        from deep_bench.distributed.collectives.study import BACKENDS

        for name in self.over:
            if name not in BACKENDS:
                check_registered(communicators, name, line("over"))
        first, second = self.pair
        shared = {name: getattr(self, name) for name in CollectiveSettings.model_fields}
        settings = BenchmarkSettings(**shared, collectives=tuple(self.collectives), pair=(first, second))
        settings.check_ranks(self.ranks)

    def options(self, task: CommandTask) -> Iterator[str]:  # noqa: ARG002
        """See `LevelFields.options`."""
        yield "communicate"
        yield from self.repeated("collective", self.collectives)
        yield from self.repeated("over", self.over)
        yield f"--pair={self.pair[0]},{self.pair[1]}"
        yield from self.settings_of(CollectiveSettings)
        yield from self.with_values("machine")

    def check_fit(self, load: Callable[[str], Network]) -> None:  # noqa: ARG002
        """See `LevelFields.check_fit`."""
        from deep_bench.distributed.machine import load_machine

        if self.machine is not None and not is_missing_file(self.machine):
            load_machine(Path(self.machine))

    def figures(self, cell: Cell, home: Path, metrics: Iterable[str] = ()) -> dict[str, FigureKind]:  # noqa: ARG002
        """See `LevelFields.figures`."""
        from deep_bench.distributed.collectives.operations import KINDS

        sized = any(name not in KINDS or KINDS[name].sized for name in self.collectives)
        bandwidths = ("algorithm bandwidth", "bus bandwidth") if sized else ()
        return {"time": TIME, **dict.fromkeys(bandwidths, FigureKind("B/s", "higher"))}

    @property
    def verdicts(self) -> tuple[str, ...]:
        """See `LevelFields.verdicts`."""
        return VERDICTS

    @property
    def result_systems(self) -> list[str]:
        """See `LevelFields.result_systems`."""
        return [] if any(":" in name for name in self.over) else list(self.over)

    def label_values(self) -> dict[str, Iterable[str]]:
        """See `LevelFields.label_values`."""
        return {**super().label_values(), "operator": self.collectives, "ranks": [str(self.ranks)]}

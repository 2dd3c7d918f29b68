"""The level of a recipe that predicts how training would scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt

from deep_bench.recipes.levels.level import (
    SYSTEM_LABELS,
    TIME,
    CommandTask,
    FigureKind,
    Level,
    LineFinder,
    Word,
    check_frameworks,
    fault_at,
    is_missing_file,
    with_threads,
)
from deep_bench.recipes.levels.training import TrainedFields, check_scheme
from deep_bench.study.settings import Seconds

if TYPE_CHECKING:
    from deep_bench.graph import Network
    from deep_bench.recipes.cell import Cell


class ScalingFields(TrainedFields):
    """Level ``scaling``: how training would scale, predicted from traces, as `deep-bench scale` does it.

    Fields of the training recipe are written as at level ``training``.

    Attributes:
        recipe: A training recipe's name, or its file; none where its fields are all written here.
        on: What computes.
        predicted: Numbers of ranks, ``4..65536`` or ``4,6,12``; ``4..65536`` by default.
        distributed: The scheme with its settings; ``allreduce`` by default.
        scaling: Whether the recipe's batch is that of all ranks together (``strong``, the default) or of each (``weak``).
        machine: What messages cost: a file that `deep-bench communicate` wrote.
        over: The communicator in that file; its first by default.
        latency, bandwidth: Instead of a file: ``1us`` and ``12GB/s``.
        algorithms: Collective to algorithm; the cheapest by default.
        topology: The network of the simulator; ``fat-tree`` by default.
        replay_up_to: Ranks that the simulator replays; 1024 by default, 0 for none.
        budget: Time for measuring what one rank computes; 8 s by default.
        steps: To trace; until the scheme repeats itself by default.
        seed: 0 by default.
        threads: Of the process; the framework's own choice by default.
    """

    on: Word | None = None
    predicted: Word = "4..65536"
    distributed: Word = "allreduce"
    scaling: Literal["strong", "weak"] = "strong"
    machine: Word | None = None
    over: Word | None = None
    latency: Word | None = None
    bandwidth: Word | None = None
    algorithms: dict[Word, Word] = Field(default_factory=dict)
    topology: Literal["fat-tree", "dragonfly", "torus"] = "fat-tree"
    replay_up_to: NonNegativeInt = 1024
    budget: Seconds = 8.0
    steps: Annotated[int, Field(ge=3)] | None = None
    seed: NonNegativeInt = 0

    level: ClassVar[Level] = "scaling"
    labels: ClassVar = (*SYSTEM_LABELS, "ranks", "network", "scheme", "scaling", "machine", "batch")
    needed: ClassVar[Mapping[str, str]] = {"predicted step, simulated": "replay_up_to above 0"}

    def check_names(self, cell: Cell, home: Path, line: LineFinder) -> None:
        """See `LevelFields.check_names`."""
        from deep_bench.training.recipes import Recipe

        check_frameworks(self.systems, line)
        Recipe(self.training_content(cell, home))
        check_scheme(self.distributed, line)
        has_costs = self.latency is not None and self.bandwidth is not None
        if has_costs == (self.machine is not None) or (self.latency is None) != (self.bandwidth is None):
            place, expected = line("machine") or line("latency"), "machine: FILE, or latency with bandwidth"
            raise fault_at(place, "what messages cost is not clear", expected)
        if self.over is not None and self.machine is None:
            raise fault_at(line("over"), "over without machine", "a machine file, whose communicator it is")

    def options(self, task: CommandTask) -> Iterator[str]:  # noqa: ARG002
        """See `LevelFields.options`."""
        yield "scale"
        yield f"--ranks={self.predicted}"
        if self.on is not None:
            yield f"--on={with_threads(self.on, self.threads)}"
        yield from self.repeated("algorithm", (f"{name}={algorithm}" for name, algorithm in self.algorithms.items()))
        yield f"--network={self.topology}"
        yield from self.with_values("distributed", "scaling", "machine", "over", "latency", "bandwidth")
        yield from self.with_values("replay_up_to", "budget", "steps", "seed")

    def check_fit(self, load: Callable[[str], Network]) -> None:  # noqa: ARG002
        """See `LevelFields.check_fit`."""
        from deep_bench.distributed.scaling.study import machine_of_file

        if self.machine is not None and not is_missing_file(self.machine):
            machine_of_file(Path(self.machine), self.over)

    def figures(self, cell: Cell, home: Path, metrics: Iterable[str] = ()) -> dict[str, FigureKind]:  # noqa: ARG002
        """See `LevelFields.figures`."""
        simulated = ("predicted step, simulated",) if self.replay_up_to else ()
        times = dict.fromkeys(("predicted step", "predicted computing", "predicted messages", *simulated), TIME)
        return {**times, **dict.fromkeys(("predicted speed-up", "predicted efficiency"), FigureKind("", "higher"))}

"""The level of a recipe that trains; and what it shares with `ScalingFields`: a training recipe of its own."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import yaml
from pydantic import ConfigDict, Field, PositiveInt

from deep_bench import datasets, distributed_optimizers, networks, optimizers, samplers
from deep_bench.errors import DeepBenchError, InvalidArgument
from deep_bench.recipes.levels.level import (
    RANK_LABELS,
    SYSTEM_LABELS,
    TIME,
    CommandTask,
    FigureKind,
    Level,
    LevelFields,
    LineFinder,
    Word,
    Words,
    check_frameworks,
    check_registered,
    fault_at,
    import_paths,
    plain_number,
    with_threads,
)
from deep_bench.records.store import written
from deep_bench.study.settings import Seconds
from deep_bench.yaml_text import parsed, text_in

if TYPE_CHECKING:
    from deep_bench.recipes.cell import Cell

_CANNOT = ", and cannot be fetched"
"""What a set says whose files are missing and that was given no mirror."""


class TrainedFields(LevelFields):
    """Levels that have the fields of a training recipe as well, or the name of one; a cell has what is changed in it.

    Attributes:
        recipe: A training recipe's name, or its file; none where its fields are all written here.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    file_field: ClassVar[str] = "recipe"
    file_name: ClassVar[str] = "training.yaml"
    trains: ClassVar[bool] = True

    recipe: Word | None = None

    def training_content(self, cell: Cell, home: Path) -> dict[str, Any]:
        """What the training recipe of a cell says, its changes made; it is not checked.

        Args:
            cell: The cell.
            home: The folder that names of files are relative to.

        Raises:
            InvalidArgument: Its file cannot be read, or a change leads nowhere.
        """
        from deep_bench.training.recipes import RECIPES
        from deep_bench.training.recipes import __file__ as package
        from deep_bench.training.recipes.recipe import assigned

        base: Any = {}
        if self.recipe is not None:
            path = Path(package).with_name(f"{self.recipe}.yaml") if self.recipe in RECIPES else home / self.recipe
            description = f"the training recipe {self.recipe!r} (one of {', '.join(RECIPES)}, or a file)"
            base = parsed(text_in(path, description), description)
            if not isinstance(base, Mapping):
                came = f"the training recipe {path} is a {type(base).__name__}"
                raise InvalidArgument(came, "fields such as network and data")
        name = cell.recipe if self.recipe is None else Path(self.recipe).stem
        return assigned({"name": name, **base}, _assignments(cell))

    def foreign_code(self, cell: Cell, home: Path) -> Iterator[tuple[str, str]]:
        """See `LevelFields.foreign_code`."""
        yield from super().foreign_code(cell, home)
        try:
            content = self.training_content(cell, home)
        except DeepBenchError:
            return  # the check of names says what is wrong
        for part, registry in (("network", networks), ("data", datasets), ("sampler", samplers), ("optimizer", optimizers)):
            declared = content.get(part)
            name = declared.get("name") if isinstance(declared, dict) else declared
            if isinstance(name, str):
                yield from import_paths(f"the {registry.kind}", [name], registry)

    def write_file(self, cell: Cell, folder: Path, home: Path) -> Path:
        """See `LevelFields.write_file`."""
        text = yaml.safe_dump(self.training_content(cell, home), sort_keys=False, allow_unicode=True)
        return written(folder / self.file_name, lambda path: path.write_text(text, encoding="utf-8"))

    def arguments(self, task: CommandTask) -> list[str]:
        """See `LevelFields.arguments`."""
        return [str(task.files["recipe"])] if "recipe" in task.files else [str(self.recipe), *_assignments(task.cell)]

    def missing_data(self, cell: Cell) -> Iterator[str]:
        """What the training recipe lacks: a library that prepares samples, or the samples themselves."""
        from deep_bench.training.recipes import Recipe
        from deep_bench.training.recipes.recipe import is_file
        from deep_bench.training.recipes.splits import SPLITS

        try:
            fields = Recipe(self.training_content(cell, Path.cwd())).fields
            if is_file(fields.network.name) and not Path(fields.network.name).is_file():
                yield f"the file {fields.network.name}"
            make, settings = datasets[fields.data.name], dict(fields.data.settings)
            if "mirrors" in inspect.signature(make).parameters:
                settings.setdefault("mirrors", ())  # nothing is fetched while one only looks
            split: Any = fields.data.split
            SPLITS[split.name](partial(make, **settings), **split.settings)
        except DeepBenchError as error:
            subject, fetched, _ = error.came.partition(_CANNOT)
            parts = [f"{subject}, which a run would fetch" if fetched else subject, error.advice]
            yield f"for {self.recipe or cell.recipe}: {' '.join('; '.join(filter(None, parts)).split())}"


class TrainingFields(TrainedFields):
    """Level ``training``: what a training recipe says, on one framework, as `deep-bench train` does it.

    Every field of a training recipe (``network``, ``optimizer``, ``data``, ``epochs``, ``seeds``, …) is a field here too,
    also by a path such as ``optimizer.lr``; it changes the one that ``recipe`` names, or, without one, they are the recipe.

    Attributes:
        recipe: A training recipe's name, or its file; none where its fields are all written here.
        on: The framework with its options; several make cells of their own.
        runs: With the first seeds of the recipe; 1 by default.
        steps: At most.
        limit: At most so long, from the first touch of the data.
        apart: Whether each run gets a fresh process; not by default.
        validate: First see that so many steps are right.
        checkpoints: Whether the state is kept at the ends of epochs, so that a cell that was cut short goes on from there;
            not by default.
        checkpoint_every: Also after so long.
        ranks: Processes that train together, started by mpirun or srun; 1 by default.
        distributed: The scheme that keeps ranks together, with its settings; ``allreduce`` where there are several.
        over: What ranks talk by; ``mpi`` by default.
        scaling: Whether the recipe's batch is that of all ranks together (``strong``, the default) or of each (``weak``).
        samples: Whether each rank has its part of every batch, its part of the set, or all.
        threads: Of each process; the framework's own choice by default.
    """

    on: Words
    runs: PositiveInt = 1
    steps: PositiveInt | None = None
    limit: Seconds | None = None
    apart: bool = False
    validate_steps: Annotated[PositiveInt | None, Field(alias="validate")] = None
    checkpoints: bool = False
    checkpoint_every: Seconds | None = None
    ranks: PositiveInt = 1
    distributed: Word | None = None
    over: Literal["mpi", "torch"] | None = None
    scaling: Literal["strong", "weak"] = "strong"
    samples: Literal["sharded", "reshuffled", "replicated"] = "sharded"

    level: ClassVar[Level] = "training"
    labels: ClassVar = (
        *(*SYSTEM_LABELS, *RANK_LABELS, "network", "data", "batch", "optimizer", "scheme"),
        *("seed", "epochs", "steps", "target"),
    )
    needed: ClassVar[Mapping[str, str]] = {"time to target": "a target, such as {accuracy: 0.9}"}

    def check_names(self, cell: Cell, home: Path, line: LineFinder) -> None:
        """See `LevelFields.check_names`."""
        from deep_bench.training.recipes import Recipe

        if len(self.on) != 1:
            came = f"a training on {', '.join(self.on) or 'nothing'}"
            raise fault_at(line("on"), came, "one framework; several are a factor: matrix.on")
        check_frameworks(self.on, line)
        seeds = Recipe(self.training_content(cell, home)).fields.seeds
        if self.runs > len(seeds):
            came = f"{self.runs} runs with {len(seeds)} seeds"
            raise fault_at(line("runs"), came, "a seed for each: seeds: [0, 1, …]")
        if self.checkpoint_every is not None and not self.checkpoints:
            raise fault_at(line("checkpoint_every"), "checkpoint_every without checkpoints", "checkpoints: true")
        if self.distributed is not None:
            check_scheme(self.distributed, line)

    def options(self, task: CommandTask) -> Iterator[str]:
        """See `LevelFields.options`."""
        yield "train"
        yield from self.repeated("on", (with_threads(variant, self.threads) for variant in self.on))
        yield from self.with_values("runs", "steps", "limit")
        if self.validate_steps is not None:
            yield f"--validate={self.validate_steps}"
        if task.cell.changes.get("target", ...) in (None, {}):
            yield "--no-target"
        if self.checkpoints:
            yield f"--checkpoints={task.folder / 'checkpoints'}"
            yield "--resume"
        if self.checkpoint_every is not None:
            yield f"--checkpoint-every={plain_number(self.checkpoint_every)}s"
        if self.apart:
            yield "--apart"
        if self.ranks > 1 or self.distributed is not None:
            yield f"--distributed={self.distributed or 'allreduce'}"
            yield from self.with_values("over", "scaling", "samples")

    def figures(self, cell: Cell, home: Path, metrics: Iterable[str] = ()) -> dict[str, FigureKind]:  # noqa: ARG002
        """See `LevelFields.figures`."""
        from deep_bench.training.recipes import Recipe

        recipe = Recipe(self.training_content(cell, home))
        scores = {name: FigureKind(score.unit, score.direction) for name, score in recipe.scores.items()}
        target = {"time to target": TIME} if recipe.fields.target else {}
        return {**target, **scores, "throughput": FigureKind("samples/s", "higher"), "time": TIME, "setup": TIME}

    def label_values(self) -> dict[str, Iterable[str]]:
        """See `LevelFields.label_values`."""
        return {**super().label_values(), "ranks": [str(self.ranks)]}


def _assignments(cell: Cell) -> list[str]:
    """The changes of a cell as `deep-bench train` takes them."""
    return [f"{path}={json.dumps(value)}" for path, value in cell.changes.items()]


def check_scheme(text: str, line: LineFinder) -> None:
    """See that there is a scheme, and that it takes its settings."""
    from deep_bench.distributed.training.train import name_of, settings_of

    name = name_of(text)
    check_registered(distributed_optimizers, name, line("distributed"))
    if name in distributed_optimizers:  # others' code is not imported to look at a recipe
        settings_of(text)

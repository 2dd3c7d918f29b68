"""The level of a recipe that measures a network in several frameworks."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field, NonNegativeInt

from deep_bench import networks
from deep_bench.errors import InvalidArgument, UnknownName, nearest
from deep_bench.recipes.levels.level import (
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
    is_file_name,
    is_missing_file,
    with_threads,
)
from deep_bench.records.store import written
from deep_bench.study.settings import MeasurementSettings

if TYPE_CHECKING:
    from deep_bench.graph import Network
    from deep_bench.recipes.cell import Cell


class NetworkFields(LevelFields, MeasurementSettings):
    """Level ``network``: a network in several frameworks, as `deep-bench run` does it.

    Attributes:
        network: An .onnx file, the name of a network that ships, or one of ``db.networks`` with its settings, with fresh
            parameters.
        on: Frameworks with their options; compared within one interleaved measurement. All that are installed by default.
        inputs: An .npz file; drawn by the seed by default.
        batch: Size of the open first dimensions.
        sizes: Open dimension to size.
        transform: Transformations that come first, as `deep-bench transform` names them.
        threads: Of each framework and of the process; the framework's own choice by default.
    """

    network: Word | dict[str, Any]
    on: Words = Field(default_factory=list)
    inputs: Word | None = None
    batch: NonNegativeInt | None = None
    sizes: dict[Word, NonNegativeInt] = Field(default_factory=dict)
    transform: Words = Field(default_factory=list)

    level: ClassVar[Level] = "network"
    compared: ClassVar[str | None] = "on"
    file_field: ClassVar[str] = "network"
    file_name: ClassVar[str] = "network.onnx"
    labels: ClassVar = (*SYSTEM_LABELS, "network", "size.", "dtype", "seed")

    def foreign_code(self, cell: Cell, home: Path) -> Iterator[tuple[str, str]]:
        """See `LevelFields.foreign_code`."""
        if isinstance(self.network, dict):
            yield from import_paths("the network", [str(self.network.get("name", ""))], networks)
        yield from super().foreign_code(cell, home)

    def check_names(self, cell: Cell, home: Path, line: LineFinder) -> None:  # noqa: ARG002
        """See `LevelFields.check_names`."""
        from deep_bench.graph.load import DATA
        from deep_bench.network.transform.steps import TransformStep

        check_frameworks(self.on, line)
        if isinstance(self.network, dict):
            _check_settings(self.network, line("network"))
        else:  # a word that looks like no file is the name of a network that ships
            shipped = sorted(file.stem for file in DATA.glob("*.onnx"))
            named = self.network in shipped or is_file_name(self.network) or (home / self.network).exists()
            if not named:
                error = UnknownName("network", self.network, shipped, "or name an .onnx file")
                raise fault_at(line("network"), error.came, f"{error.expected}, or an .onnx file", error.advice)
        for text in self.transform:
            TransformStep.parse(text)

    def write_file(self, cell: Cell, folder: Path, home: Path) -> Path:  # noqa: ARG002
        """The network with fresh parameters, made once for all cells that have the same."""
        assert isinstance(self.network, dict)
        sha256 = hashlib.sha256(json.dumps(self.network, sort_keys=True).encode()).hexdigest()
        name = re.sub(r"[^A-Za-z0-9-]", "-", str(self.network["name"]))
        file = folder.parent / "networks" / sha256[:12] / f"{name}.onnx"
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            written(file, made_network(self.network).save)
        return file

    def options(self, task: CommandTask) -> Iterator[str]:  # noqa: ARG002
        """See `LevelFields.options`."""
        yield "run"
        yield from self.repeated("on", (with_threads(variant, self.threads) for variant in self.on))
        yield from self.repeated("size", (f"{name}={size}" for name, size in self.sizes.items()))
        yield from self.repeated("transform", self.transform)
        if self.inputs is not None:
            yield f"--input={self.inputs}"
        yield from self.with_values("batch")
        yield from self.settings_of(MeasurementSettings, "seed", "launches", "check", "budget", "ci_width")

    def arguments(self, task: CommandTask) -> list[str]:
        """See `LevelFields.arguments`."""
        return [str(task.files.get("network", self.network))]

    def files(self) -> Iterator[str]:
        """See `LevelFields.files`."""
        if isinstance(self.network, str) and is_file_name(self.network):
            yield self.network
        if self.inputs is not None:
            yield self.inputs

    def check_fit(self, load: Callable[[str], Network]) -> None:
        """See `LevelFields.check_fit`."""
        from deep_bench.graph.drawing import choose_sizes
        from deep_bench.network.problem import make_problem

        if any(isinstance(file, str) and is_missing_file(file) for file in (self.network, self.inputs)):
            return
        network = load(json.dumps(self.network, sort_keys=True, default=str))
        if self.inputs is None:
            choose_sizes(network, self.sizes, batch=self.batch)
        else:
            make_problem(network, inputs=self.inputs, sizes=self.sizes, batch=self.batch, seed=self.seed)

    def figures(self, cell: Cell, home: Path, metrics: Iterable[str] = ()) -> dict[str, FigureKind]:  # noqa: ARG002
        """See `LevelFields.figures`."""
        times = dict.fromkeys(("forward", "from NumPy", "first call", "setup"), TIME)
        return {**times, "peak memory": FigureKind("B", "lower")}

    def data_types(self, cell: Cell) -> Iterable[np.dtype]:  # noqa: ARG002
        """See `LevelFields.data_types`."""
        from deep_bench.graph import load

        if not isinstance(self.network, str) or self.transform or is_file_name(self.network):
            return ()
        network = load(self.network)
        return [spec.dtype for spec in (*network.inputs, *network.outputs)]


def made_network(stated: dict[str, Any]) -> Network:
    """A network with fresh parameters.

    Args:
        stated: Its name in ``db.networks``, and its settings.

    Raises:
        InvalidArgument: It does not take these settings.

    Example:
        >>> made_network({"name": "mlp", "hidden": [4]}).name
        'mlp'
    """
    name = str(stated["name"])
    try:
        return networks[name](**{key: value for key, value in stated.items() if key != "name"})
    except TypeError as error:
        raise InvalidArgument(f"the network {stated}: {error}", f"settings of db.networks[{name!r}]") from error


def _check_settings(settings: dict[str, Any], line: int | None) -> None:
    """See that there is what makes a network, and that it takes these settings."""
    name = settings.get("name")
    if not isinstance(name, str):
        raise fault_at(line, f"the network {settings}", "its name in db.networks, and its settings")
    check_registered(networks, name, line)
    if name not in networks:
        return  # others' code is not imported to look at a recipe
    parameters = list(inspect.signature(networks[name]).parameters)
    for setting in settings:
        if setting != "name" and setting not in parameters:
            came = f"the network {name} has no setting {setting!r}"
            raise fault_at(line, came, f"one of {', '.join(parameters)}", nearest(setting, parameters))

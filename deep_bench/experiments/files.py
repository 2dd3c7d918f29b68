"""What a cell needs as a file before it starts: a suite, a network or a training recipe that the recipe writes out."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from deep_bench import networks
from deep_bench.errors import InvalidArgument
from deep_bench.experiments.cell import Cell
from deep_bench.experiments.fields import NetworkFields, OperatorsFields, ScalingFields, TrainingFields
from deep_bench.experiments.training import training_content
from deep_bench.measure.storage import written

if TYPE_CHECKING:
    from deep_bench.graph import Network
    from deep_bench.operators.suites.suite import Suite


def suite_of_cases(cell: Cell) -> Suite:
    """The cases that a recipe of operators writes out.

    Raises:
        InvalidArgument: One is no case of its operator.
    """
    from deep_bench.operators.case import Case
    from deep_bench.operators.suites.suite import Suite

    fields = cell.fields
    assert isinstance(fields, OperatorsFields)
    cases = []
    for number, case in enumerate(fields.cases):
        assert not isinstance(case, str)
        try:
            inputs = [shape if isinstance(shape, str) else tuple(shape) for shape in case.inputs]
            cases.append(
                Case.of(
                    case.operator, *inputs, dtype=case.dtype, label=case.label, count=case.count, settings=case.attributes
                )
            )
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"cases[{number}]: {error}", "a case of this operator") from error
    return Suite(cell.recipe, cases)


def prepared(cell: Cell, folder: Path, home: Path) -> dict[str, Path]:
    """Write what the cell needs as a file.

    Args:
        cell: The cell.
        folder: Its own, which exists.
        home: The folder that names of files are relative to.

    Returns:
        ``suite``, ``network`` or ``recipe`` to a file; nothing where the recipe names one itself.
    """
    fields = cell.fields
    if isinstance(fields, OperatorsFields) and fields.suite is None:
        return {"suite": suite_of_cases(cell).save(folder / "suite.toml")}
    if isinstance(fields, NetworkFields) and isinstance(fields.network, dict):
        return {"network": _network(fields.network, folder.parent)}
    if isinstance(fields, TrainingFields | ScalingFields) and fields.recipe is None:
        text = yaml.safe_dump(training_content(cell, home), sort_keys=False, allow_unicode=True)
        return {"recipe": written(folder / "training.yaml", lambda path: path.write_text(text, encoding="utf-8"))}
    return {}


def is_file_name(name: str) -> bool:
    """Whether a name is that of a file, and not of something that ships.

    Example:
        >>> is_file_name("mine.onnx"), is_file_name("models/mine"), is_file_name("digits-cnn")
        (True, True, False)
    """
    return bool(Path(name).suffix) or "/" in name


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


def _network(settings: dict[str, Any], folder: Path) -> Path:
    """A network with fresh parameters, made once for all cells that have the same."""
    sha256 = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    file = folder / "networks" / sha256[:12] / f"{re.sub(r'[^A-Za-z0-9-]', '-', str(settings['name']))}.onnx"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        written(file, made_network(settings).save)
    return file

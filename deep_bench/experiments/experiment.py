"""``Experiment``: a recipe that was read and found to be sound, with its cells."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from deep_bench.errors import InvalidArgument
from deep_bench.experiments.acceptance import Rule, rules_of
from deep_bench.experiments.accepting import check_accepted
from deep_bench.experiments.cell import Cell
from deep_bench.experiments.changing import changed
from deep_bench.experiments.code import code_in
from deep_bench.experiments.expected import figures_of
from deep_bench.experiments.fields import LEVELS, TOGETHER, Level, Part
from deep_bench.experiments.matrix import combinations, measurements
from deep_bench.experiments.naming import check_names
from deep_bench.experiments.plain import check_plain
from deep_bench.experiments.refusal import at_line, kind_of, line_of, names, refusal, unknown_field
from deep_bench.experiments.schema import NOTICE_S, ExperimentModel
from deep_bench.yaml_text import Place

WITH_TRAINING = ("training", "scaling")
"""The levels that have the fields of a training recipe as well."""


class Experiment:
    """A recipe: what is fixed, what varies, what is accepted.

    Args:
        content: As a YAML file has it.
        name: What it is called where it does not say so itself.
        home: The folder that names of files are relative to; the current one by default.
        lines: Where each value of the file is, for messages.
        allow_code: Whether it may name code that is not part of deep_bench or registered with it.
        checked: False to leave the names in it, and code, unlooked at: for one that is only shown.

    Attributes:
        fields: All of it.
        rules: What is accepted.
        cells: One measurement each.
        code: Which code it names; empty for most.

    Raises:
        InvalidArgument: A field that is unknown, missing or of another kind, named with its line and the nearest known one;
            a matrix that is none; a condition that nothing can meet; or it names code, and that is not allowed.
        UnknownName: A framework, suite, network, … that there is not.

    Example:
        >>> recipe = Experiment({"name": "sizes", "level": "network", "fixed": {"network": "digits-cnn"},
        ...                      "matrix": {"on": ["reference", "onnxruntime"], "batch": [1, 64]}})
        >>> [(cell.name, cell.together) for cell in recipe.cells]
        [('batch=1', ('reference', 'onnxruntime')), ('batch=64', ('reference', 'onnxruntime'))]
    """

    def __init__(
        self,
        content: Mapping[str, Any],
        name: str = "recipe",
        *,
        home: Path | None = None,
        lines: Mapping[Place, int] | None = None,
        allow_code: bool = False,
        checked: bool = True,
    ) -> None:
        if not isinstance(content, Mapping):
            raise InvalidArgument(f"the recipe {name} is {kind_of(content)}", "fields, such as level and fixed")
        self.home = Path.cwd() if home is None else home.absolute()
        self._lines = lines or {}
        check_plain(content, self._lines)
        try:
            self.fields = ExperimentModel.model_validate({"name": name, **content})
        except ValidationError as error:
            raise refusal(ExperimentModel, "a recipe", error, self._lines, ()) from error
        self.rules: tuple[Rule, ...] = rules_of(self.fields.accept, self._lines)
        self.cells: Sequence[Cell] = self._made()
        self.code: Sequence[str] = ()
        if not checked:
            return
        self.code = code_in(self.fields, self.cells, self.home)
        if self.code and not allow_code:
            raise InvalidArgument(
                f"the recipe {self.name!r} runs code: {'; '.join(self.code)}",
                "a recipe of data only",
                "look at that code; then say --allow-code (allow_code=True)",
            )
        self._check_time()
        check_names(self.cells, self.fields, self.home, self._line)
        metrics = self.fields.metrics
        if self.rules or metrics:
            figures = [(cell, figures_of(cell, self.home, metrics)) for cell in self.cells]
            check_accepted(self.rules, metrics, figures, self._lines)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.fields.name

    @property
    def level(self) -> Level:
        """What it measures."""
        return self.fields.level

    @cached_property
    def factors(self) -> dict[str, list[Any]]:
        """Factor of cells to its values, those of ``include`` too."""
        factors: dict[str, list[Any]] = {}
        for cell in self.cells:
            for name, value in cell.factors.items():
                values = factors.setdefault(name, [])
                if value not in values:
                    values.append(value)
        return factors

    def changed(self, *assignments: str) -> Experiment:
        """The recipe with some fields set to other values.

        Args:
            *assignments: ``path=value`` each, such as ``fixed.budget=1s`` or ``limits.cell=5min``; the value as in YAML.

        Raises:
            InvalidArgument: No ``path=value``, or what it gives is no recipe.
        """
        return Experiment(
            changed(self.content, assignments), self.name, home=self.home, lines=self._lines, allow_code=bool(self.code)
        )

    @property
    def content(self) -> dict[str, Any]:
        """All that it states, as plain data."""
        return self.fields.model_dump(exclude_unset=True)

    def to_yaml(self) -> str:
        """The recipe as a file."""
        return yaml.safe_dump(self.content, sort_keys=False, allow_unicode=True, width=120)

    def __repr__(self) -> str:
        return f"Experiment({self.name!r}, {self.level}, {len(self.cells)} cells)"

    # Cells

    def _made(self) -> list[Cell]:
        fields = self.fields
        both = [name for name in fields.matrix if name in fields.fixed]
        if both:
            line = at_line(line_of(self._lines, ("matrix", both[0])))
            raise InvalidArgument(f"{line}{both[0]!r} is fixed and varies", "one of the two")
        for place in ("fixed", "matrix", "exclude", "include"):
            self._check_known(place)
        inner = TOGETHER.get(fields.level)
        return [
            self._cell(factors, values, inner) for factors, values in measurements(combinations(fields, self._lines), inner)
        ]

    def _check_time(self) -> None:
        """Whether a job has the time that its cell may take."""
        limit, time = self.fields.limits.cell, self.fields.slurm.time
        if time is not None and time < limit + NOTICE_S:
            raise InvalidArgument(
                f"{at_line(line_of(self._lines, ('slurm', 'time')))}jobs of {time:g} s for cells that may take {limit:g} s",
                f"slurm.time of at least {limit + NOTICE_S:g} s, or a shorter limits.cell",
            )

    def _check_known(self, place: str) -> None:
        """Whether there is a field for everything that is fixed or varies."""
        declared = getattr(self.fields, place)
        groups = (
            [((place,), declared)]
            if isinstance(declared, dict)
            else [((place, n), entry) for n, entry in enumerate(declared)]
        )
        field_names = [*names(LEVELS[self.level]), *(self._training if self.level in WITH_TRAINING else ())]
        for at, group in groups:
            for name in group:
                if str(name).partition(".")[0] not in field_names:
                    raise unknown_field(self.level, str(name), field_names, line_of(self._lines, (*at, name)))

    @property
    def _training(self) -> list[str]:
        from deep_bench.training.recipes.schema import RecipeModel

        field_names = names(LEVELS[self.level])
        return [name for name in RecipeModel.model_fields if name not in (*field_names, "frameworks", "name")]

    def _cell(self, factors: Mapping[str, Any], together: tuple[Any, ...], inner: str | None) -> Cell:
        values = {**self.fields.fixed, **factors, **({inner: list(together)} if inner is not None and together else {})}
        ordered = {name: values[name] for name in sorted(values, key=lambda name: name.count("."))}
        options, changes = self._split(ordered)
        model = LEVELS[self.level]
        try:
            fields: Any = model.model_validate(options)
        except ValidationError as error:
            raise self._refused(model, error, factors, inner) from error
        return Cell(self.name, self.level, factors, together, ordered, fields, changes)

    def _split(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields of the level, paths followed; and the changes of the training recipe, in their order."""
        field_names = names(LEVELS[self.level])
        options: dict[str, Any] = {name: value for name, value in values.items() if name in field_names}
        for path, value in values.items():
            if path.partition(".")[0] in field_names and path not in field_names:
                options = followed(options, path, value)
        return options, {path: value for path, value in values.items() if path.partition(".")[0] not in field_names}

    def _refused(
        self, model: type[Part], error: ValidationError, factors: Mapping[str, Any], inner: str | None
    ) -> InvalidArgument:
        """The error at the line of the factor that brought the value about, or at that of what is fixed."""
        first = str(error.errors()[0]["loc"][0])
        varied = next((name for name in (*factors, inner) if name and name.partition(".")[0] == first), None)
        if varied is None or varied not in self.fields.matrix:
            return refusal(model, self.level, error, self._lines, ("fixed",))
        values = self.fields.matrix[varied]
        number = values.index(factors[varied]) if varied in factors and factors[varied] in values else 0
        place = ("matrix", varied, number)
        line = line_of(self._lines, place)
        return refusal(model, self.level, error, {} if line is None else {(first,): line}, ())

    def _line(self, *path: Any) -> int | None:
        """The line of what is fixed, or else varies, under a name."""
        return next((line for part in ("fixed", "matrix") if (line := self._lines.get((part, *path))) is not None), None)


def followed(content: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A mapping with the value at a path of it set to another.

    Args:
        content: The mapping.
        path: As in ``sizes.seq``.
        value: Any plain data.

    Example:
        >>> followed({"sizes": {"seq": 8}}, "sizes.batch", 2)
        {'sizes': {'seq': 8, 'batch': 2}}
    """
    from deep_bench.training.recipes.assignment import assigned

    return assigned(content, [f"{path}={json.dumps(value)}"])

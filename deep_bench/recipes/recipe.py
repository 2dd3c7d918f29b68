"""`Experiment`: a recipe that was read, found to be sound, and laid out as cells.

Recipes that ship are found by name, others in files; fields may be set from outside, as on a command line. The matrix of a
recipe says which combinations of factors there are, and which of them are one measurement.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, PositiveInt, ValidationError

from deep_bench.environments import Declarations
from deep_bench.errors import DeepBenchError, FrameworkMissing, InvalidArgument, nearest
from deep_bench.recipes.acceptance import Rule, check_accepted, rules_of
from deep_bench.recipes.cell import Cell, Level, Word, matching
from deep_bench.recipes.faults import at_line, check_plain, in_file, kind_of, line_of, names, refusal, unknown_field
from deep_bench.recipes.levels import LEVELS
from deep_bench.study.settings import Seconds
from deep_bench.yaml_text import Place, RecipePart, parsed, parsed_with_lines, text_in

Parameter = Annotated[
    str, matching(r"[A-Za-z0-9_][\w.,:+=/@%-]{0,199}", "a word of up to 200 letters, digits and . , : + = / @ % - _")
]
"""A value of an ``#SBATCH`` line: without what a shell takes for more than a word."""


_Option = Annotated[str, matching(r"[a-z][a-z-]*", "an option of sbatch without its dashes, such as exclusive")]
_Name = Annotated[
    str,
    matching(r"[^/\\.\x00-\x1f][^/\\\x00-\x1f]{0,79}", "up to 80 letters without / or \\ that do not begin with a dot"),
]


NOTICE_S = 60
"""So long before a job's end SLURM tells it."""


class CellLimits(RecipePart):
    """How long things may take.

    Attributes:
        cell: One cell; what takes longer hangs, and is ended. 1 h by default.
        whole: All cells; none is begun later. None by default.
    """

    cell: Seconds = 3600.0
    whole: Seconds | None = None


class Slurm(RecipePart):
    """How cells run as SLURM jobs.

    Attributes:
        account, partition, qos, constraint: As ``sbatch`` takes them; none by default.
        time: Of a job; the limit of a cell and five minutes by default.
        nodes: 1 by default.
        tasks_per_node: The cell's ranks divided among the nodes by default.
        cpus_per_task: SLURM's own choice by default.
        gpus_per_node: None by default.
        memory: Of a node, such as ``64GB``; SLURM's own choice by default.
        at_once: Jobs of an array that may run at the same time; 16 by default.
        mpi: What srun starts ranks by (``srun --mpi``); ``pmix`` by default.
        parameters: Further options of ``sbatch``; none by default.
        setup: Lines of shell before each cell, such as ``module load openmpi``; they are code, and need --allow-code.
    """

    account: Parameter | None = None
    partition: Parameter | None = None
    qos: Parameter | None = None
    constraint: Parameter | None = None
    time: Seconds | None = None
    nodes: PositiveInt = 1
    tasks_per_node: PositiveInt | None = None
    cpus_per_task: PositiveInt | None = None
    gpus_per_node: PositiveInt | None = None
    memory: Parameter | None = None
    at_once: PositiveInt = 16
    mpi: Parameter = "pmix"
    parameters: dict[_Option, Parameter | int] = Field(default_factory=dict)
    setup: list[Word] = Field(default_factory=list)


class ExperimentModel(RecipePart):
    """All of a recipe.

    Attributes:
        name: What it is called; the file's name by default.
        title: In a few words; nothing by default.
        notes: Further sentences; none by default.
        level: ``operators``, ``network``, ``training``, ``communication`` or ``scaling``.
        fixed: What all cells have in common: fields of the level.
        matrix: Factor to its values. A factor is a field of the level, or a path such as ``optimizer.lr``.
        exclude: Combinations that are left out; each fits all that have its values.
        include: Combinations that are added; a factor that one leaves out takes each of its values.
        metrics: Figures in the final table; what an operator does not measure by default (``peak memory``) is measured.
        accept: Figure to condition, such as ``forward: "<= 5 ms"``; or a list of such, each with ``where``: the labels of
            the results that it is about. Without any, nothing may be wrong or fail.
        limits: How long things may take.
        slurm: How cells run as SLURM jobs.
        environments: Name to a Python environment, with ``requirements``, ``modules``, ``container``, … as in
            environments.yaml; built once, and named after an ``@``: ``torch@old``. They are code, and need --allow-code.
    """

    name: _Name
    title: str = ""
    notes: list[str] = Field(default_factory=list)
    level: Level
    fixed: dict[str, Any] = Field(default_factory=dict)
    matrix: dict[str, list[Any]] = Field(default_factory=dict)
    exclude: list[dict[str, Any]] = Field(default_factory=list)
    include: list[dict[str, Any]] = Field(default_factory=list)
    metrics: list[Word] = Field(default_factory=list)
    accept: dict[str, Any] | list[dict[str, Any]] = Field(default_factory=dict)
    limits: CellLimits = CellLimits()
    slurm: Slurm = Slurm()
    environments: dict[Word, dict[str, Any]] = Field(default_factory=dict)


def with_assignments(content: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """A recipe's content with some fields set to other values.

    What is set in ``fixed`` and ``matrix`` is a field or a factor, whose name may be a path of its own.

    Args:
        content: As a YAML file has it.
        assignments: ``path=value`` each, the value as in YAML.

    Raises:
        InvalidArgument: No ``path=value``, or a path into what has no fields.

    Example:
        >>> content = {"level": "training", "fixed": {"recipe": "digits", "sampler.batch": 64, "network": {"name": "mlp"}}}
        >>> words = ["fixed.sampler.batch=32", "fixed.optimizer.lr=0.1", "fixed.network.hidden=[8]"]
        >>> with_assignments(content, words)["fixed"]
        {'recipe': 'digits', 'sampler.batch': 32, 'network': {'name': 'mlp', 'hidden': [8]}, 'optimizer.lr': 0.1}
    """
    result = deepcopy(dict(content))
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        part, _, name = path.partition(".")
        within = result.get(part, {})
        direct = bool(equals and name) and part in ("fixed", "matrix") and isinstance(within, dict)
        if not direct or (part == "fixed" and _leads_into(within, name)):
            from deep_bench.training.recipes.recipe import assigned

            result = assigned(result, [assignment])
        else:
            remaining = {key: value for key, value in within.items() if not str(key).startswith(f"{name}.")}
            result[part] = {**remaining, name: parsed(text, f"the value of {path}")}
    return result


def _leads_into(fixed: Mapping[str, Any], name: str) -> bool:
    """Whether a path leads into what is fixed under its first word, and is not itself what is fixed."""
    first, dot, _ = name.partition(".")
    return bool(dot) and first in fixed and name not in fixed


MOST_CELLS = 10_000

Combination = Mapping[str, Any]


def combinations(model: ExperimentModel, lines: Mapping[Place, int]) -> list[Combination]:
    """All combinations of the factors, without those that are excluded and with those that are included; each once.

    Raises:
        InvalidArgument: They are too many or none; a factor has no values, or one twice; or ``exclude`` names a factor or
            value that there is not.
    """
    for name, values in model.matrix.items():
        if not values:
            line = at_line(line_of(lines, ("matrix", name)))
            raise InvalidArgument(f"{line}the factor {name!r} has no values", "one value at least")
        visited: set[str] = set()
        for number, value in enumerate(values):
            if canonical(value) in visited:
                line = at_line(line_of(lines, ("matrix", name, number)))
                raise InvalidArgument(
                    f"{line}the factor {name!r} has the value {_value_word(value)} twice", "each value once"
                )
            visited.add(canonical(value))
    count = prod(len(values) for values in model.matrix.values())
    if count > MOST_CELLS:
        raise InvalidArgument(f"the matrix of {model.name!r} has {count} combinations", f"at most {MOST_CELLS}")
    _check_excluded(model, lines)
    remaining = [
        combination for combination in _product(model.matrix) if not any(_fits(combination, rule) for rule in model.exclude)
    ]
    added = [
        {**combination, **entry}
        for entry in model.include
        for combination in _product({name: values for name, values in model.matrix.items() if name not in entry})
    ]
    unique: list[Combination] = list({canonical(combination): combination for combination in [*remaining, *added]}.values())
    if not 0 < len(unique) <= MOST_CELLS:
        raise InvalidArgument(f"the matrix of {model.name!r} leaves {len(unique)} combinations", f"1 to {MOST_CELLS}")
    return unique


def measurements(combined: Iterable[Combination], together: str | None) -> list[tuple[Combination, tuple[Any, ...]]]:
    """Combinations that differ in nothing but the factor that is compared within one measurement, put together.

    Args:
        combined: The combinations.
        together: That factor; ``None`` if it does not vary.

    Returns:
        The other factors, and the values of that one.

    Example:
        >>> combinations = [{"on": "torch", "batch": 1}, {"on": "onnxruntime", "batch": 1}, {"on": "torch", "batch": 8}]
        >>> measurements(combinations, "on")
        [({'batch': 1}, ('torch', 'onnxruntime')), ({'batch': 8}, ('torch',))]
    """
    groups: dict[str, tuple[Combination, dict[str, Any]]] = {}
    for combination in combined:
        remaining = {name: value for name, value in combination.items() if name != together}
        _, values = groups.setdefault(canonical(remaining), (remaining, {}))
        if together is not None and together in combination:
            values[canonical(combination[together])] = combination[together]
    return [(remaining, tuple(values.values())) for remaining, values in groups.values()]


def select_cells(cells: Sequence[Any], choices: Sequence[str], factors: Mapping[str, Sequence[Any]]) -> list[Any]:
    """The cells that have these values of factors.

    Args:
        cells: Of a recipe.
        choices: ``factor=value`` each; of several values of one factor, any.
        factors: Factor to its values.

    Raises:
        InvalidArgument: No ``factor=value``, or none that there is.
    """
    requested: dict[str, set[str]] = {}
    for text in choices:
        name, equals, value = text.partition("=")
        if not equals or name not in factors:
            raise InvalidArgument(
                f"--only {text!r}", f"factor=value of {', '.join(factors) or '(nothing varies)'}", nearest(name, factors)
            )
        values = [_value_word(option) for option in factors[name]]
        if value not in values:
            raise InvalidArgument(f"--only {text!r}", f"{name} is one of {', '.join(values)}", nearest(value, values))
        requested.setdefault(name, set()).add(value)
    return [c for c in cells if all(_value_word(c.factors.get(name)) in values for name, values in requested.items())]


def canonical(value: Any) -> str:
    """The same text for the same value."""
    return json.dumps(value, sort_keys=True, default=str)


def _value_word(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)


def _product(matrix: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for values in product(*matrix.values()):
        yield dict(zip(matrix, values, strict=True))


def _fits(combination: Combination, rule: Combination) -> bool:
    return all(canonical(combination.get(name)) == canonical(value) for name, value in rule.items())


def _check_excluded(model: ExperimentModel, lines: Mapping[Place, int]) -> None:
    for number, rule in enumerate(model.exclude):
        line = at_line(line_of(lines, ("exclude", number)))
        if not rule:
            raise InvalidArgument(f"{line}an exclusion without factors, which leaves nothing", "factor: value")
        for name, value in rule.items():
            if name not in model.matrix:
                raise InvalidArgument(
                    f"{line}{name!r} is excluded, which does not vary",
                    f"one of {', '.join(model.matrix) or '(nothing varies)'}",
                    nearest(name, model.matrix),
                )
            if canonical(value) not in map(canonical, model.matrix[name]):
                values = ", ".join(_value_word(option) for option in model.matrix[name])
                raise InvalidArgument(
                    f"{line}{name}={_value_word(value)} is excluded, which there is not", f"one of {values}"
                )


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
        self.code = self._code()
        if self.code and not allow_code:
            raise InvalidArgument(
                f"the recipe {self.name!r} runs code: {'; '.join(self.code)}",
                "a recipe of data only",
                "look at that code; then say --allow-code (allow_code=True)",
            )
        # whether a job has the time that its cell may take
        limit, time = self.fields.limits.cell, self.fields.slurm.time
        if time is not None and time < limit + NOTICE_S:
            raise InvalidArgument(
                f"{at_line(line_of(self._lines, ('slurm', 'time')))}jobs of {time:g} s for cells that may take {limit:g} s",
                f"slurm.time of at least {limit + NOTICE_S:g} s, or a shorter limits.cell",
            )
        self._check_names()
        metrics = self.fields.metrics
        if self.rules or metrics:
            figures = [(cell, cell.fields.figures(cell, self.home, metrics)) for cell in self.cells]
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
            with_assignments(self.content, assignments),
            self.name,
            home=self.home,
            lines=self._lines,
            allow_code=bool(self.code),
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
        inner = LEVELS[fields.level].compared
        return [
            self._cell(factors, values, inner) for factors, values in measurements(combinations(fields, self._lines), inner)
        ]

    def _code(self) -> list[str]:
        """What would run that is neither deep_bench's nor registered with it, in words; nothing of it is imported."""
        phrases = [f"slurm.setup: {line}" for line in self.fields.slurm.setup]
        phrases += [f"the environment {name}, whose packages are installed" for name in self.fields.environments]
        for cell in self.cells:
            phrases += [f"{kind} {name}" for kind, name in cell.fields.foreign_code(cell, self.home)]
        return list(dict.fromkeys(phrases))

    def _check_names(self) -> None:
        """See that all cells name what there is; whether it is installed is a matter of where they run."""
        metrics = self.fields.metrics
        if len(set(metrics)) < len(metrics):
            raise InvalidArgument(f"metrics {', '.join(metrics)}", "each once")
        Declarations(self.fields.environments)
        for cell in self.cells:
            try:
                cell.fields.check_names(cell, self.home, self._line)
            except FrameworkMissing:
                continue  # such as the optimizer of a framework that is not here
            except DeepBenchError as error:
                # The line of the change of a training recipe that the message is about, and the cell.
                changed = next((path for path in cell.changes if repr(path.rpartition(".")[2]) in error.came), None)
                where = "" if changed is None else at_line(self._line(changed))
                if cell.factors and not error.came.startswith("line "):
                    where += f"the cell {cell.name}: "
                raise InvalidArgument(f"{where}{error.came}", error.expected, error.advice) from error

    def _check_known(self, place: str) -> None:
        """Whether there is a field for everything that is fixed or varies."""
        declared = getattr(self.fields, place)
        groups = (
            [((place,), declared)]
            if isinstance(declared, dict)
            else [((place, n), entry) for n, entry in enumerate(declared)]
        )
        field_names = [*names(LEVELS[self.level]), *self._training]
        for at, group in groups:
            for name in group:
                if str(name).partition(".")[0] not in field_names:
                    raise unknown_field(self.level, str(name), field_names, line_of(self._lines, (*at, name)))

    @property
    def _training(self) -> list[str]:
        """The fields of a training recipe, at the levels that have them."""
        if not LEVELS[self.level].trains:
            return []
        from deep_bench.training.recipes.recipe import RecipeModel

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
                options = with_value_at(options, path, value)
        return options, {path: value for path, value in values.items() if path.partition(".")[0] not in field_names}

    def _refused(
        self, model: type[RecipePart], error: ValidationError, factors: Mapping[str, Any], inner: str | None
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


def with_value_at(content: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A mapping with the value at a path of it set to another.

    Args:
        content: The mapping.
        path: As in ``sizes.seq``.
        value: Any plain data.

    Example:
        >>> with_value_at({"sizes": {"seq": 8}}, "sizes.batch", 2)
        {'sizes': {'seq': 8, 'batch': 2}}
    """
    from deep_bench.training.recipes.recipe import assigned

    return assigned(content, [f"{path}={json.dumps(value)}"])


_FOLDER = Path(__file__).parent / "ready"

READY = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))
"""Names of the recipes that ship."""


_PYTHON = "recipe"
"""What a Python file calls the recipe that it makes."""


def load_experiment(source: str | Path, *assignments: str, allow_code: bool = False) -> Experiment:
    """Read a recipe.

    Args:
        source: The name of one that ships (`READY`), a YAML file, or a Python file that makes one: a mapping ``recipe``, or
            a function of that name without arguments that returns one.
        *assignments: What to change in it, ``path=value`` each, such as ``fixed.budget=1s``.
        allow_code: Whether code may run: a Python file, or what a recipe names that is no part of deep_bench.

    Raises:
        InvalidArgument: There is none of this name, it cannot be read, is no recipe, or runs code without being allowed to;
            with the file's name, and the line where it has one.

    Example:
        >>> recipe = load_experiment("small-network", "matrix.batch=[1, 8, 64]")
        >>> recipe.name, recipe.level, len(recipe.cells)
        ('small-network', 'network', 3)
    """
    if not isinstance(source, str | Path):
        choices = f"a file's path, or one of {', '.join(READY)}"
        raise InvalidArgument(f"a recipe from {kind_of(source)}", choices, "of a mapping, Experiment(…) makes one")
    path = _FOLDER / f"{source}.yaml" if source in READY else Path(source)
    lines: Mapping[Place, int] = {}
    if path.suffix in (".yaml", ".yml"):
        content, lines = parsed_with_lines(text_in(path, f"the recipe {path}"), f"the recipe {path}")
    elif path.suffix == ".py":
        if not allow_code:
            raise InvalidArgument(
                f"the recipe {path} is a program, which reading it would run",
                "a YAML file, or your consent",
                "look at the file; then say --allow-code (allow_code=True)",
            )
        if not path.is_file():
            raise InvalidArgument(f"the recipe {path} cannot be read: there is no such file", "a Python file")
        recipe = runpy.run_path(str(path)).get(_PYTHON)
        if recipe is None:
            raise InvalidArgument(
                f"the program {path} makes no {_PYTHON!r}", f"{_PYTHON} = {{…}}, or def {_PYTHON}(): return {{…}}"
            )
        content = recipe() if callable(recipe) else recipe
    else:
        raise InvalidArgument(
            f"no recipe {str(source)!r}",
            f"one of {', '.join(READY)}, or a file that ends in .yaml or .py",
            nearest(str(source), READY),
        )
    if not isinstance(content, Mapping):
        raise InvalidArgument(f"the recipe {path} is {kind_of(content)}", "fields, such as level and fixed")
    home = Path.cwd() if source in READY else path.parent
    try:
        return Experiment(with_assignments(content, assignments), path.stem, home=home, lines=lines, allow_code=allow_code)
    except DeepBenchError as error:
        raise in_file(str(source), error) from error

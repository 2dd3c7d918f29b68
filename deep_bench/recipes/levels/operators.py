"""The level of a recipe that measures operators: kernels on the cases of a suite."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from deep_bench import suites
from deep_bench.errors import InvalidArgument
from deep_bench.operators.studies import settings as q
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
    is_missing_file,
    matching,
    with_threads,
)
from deep_bench.yaml_text import RecipePart

if TYPE_CHECKING:
    from deep_bench.graph import Network
    from deep_bench.operators.suites.suite import Suite
    from deep_bench.recipes.cell import Cell


class CaseFields(RecipePart):
    """One problem for operators, written in the recipe.

    Attributes:
        operator: As ONNX spells it.
        inputs: Sizes of each input, ``[4, 8]``, or with its type, ``"int64[4]"``.
        attributes: Of the operator.
        dtype: Of its floating-point inputs; float32 by default.
        label: Its name; by default made from its sizes.
        count: How often it occurs; 1 by default.
    """

    operator: Annotated[str, matching(r"\w+", "the name of an operator of ONNX, such as MatMul")]
    inputs: list[list[NonNegativeInt] | str]
    attributes: dict[str, Any] = Field(default_factory=dict)
    dtype: str | None = None
    label: str | None = None
    count: PositiveInt = 1


class OperatorsFields(LevelFields, q.OperatorSettings):
    """Level ``operators``: kernels on the cases of a suite, as `deep-bench operators` does it.

    Attributes:
        suite: A suite's name, or a .toml or .onnx file; none where ``cases`` are written out.
        cases: Labels of the suite's cases, or cases written out; all of the suite by default.
        sample: Only so many cases, drawn by the seed.
        dtype: The suite's cases in another floating-point type.
        on: Frameworks with their options; compared within one interleaved measurement.
        kernels: Operators of your own, FILE.py:CLASS, in the same measurement; they are code, and need --allow-code.
        base: The contestant that others are compared with; the first framework by default.
        threads: Of each framework and of the process; the framework's own choice by default.
    """

    suite: Word | None = None
    cases: list[Word | CaseFields] = Field(default_factory=list)
    sample: PositiveInt | None = None
    dtype: Word | None = None
    on: Words = Field(default_factory=list)
    kernels: Words = Field(default_factory=list)
    base: Word | None = None

    level: ClassVar[Level] = "operators"
    compared: ClassVar[str | None] = "on"
    file_field: ClassVar[str] = "suite"
    file_name: ClassVar[str] = "suite.toml"
    labels: ClassVar = (*SYSTEM_LABELS, "suite", "case", "operator", "dtype", "seed")
    needed: ClassVar[Mapping[str, str]] = {
        "forward and backward": "backward: true",
        "backward": "backward: true",
        "forward, cold caches": "cold: true",
        "from NumPy": "numpy: true",
    }

    @property
    def cases_written(self) -> list[CaseFields]:
        """The cases that are written out."""
        return [case for case in self.cases if isinstance(case, CaseFields)]

    @property
    def suite_file(self) -> str | None:
        """The suite, if it is a file."""
        return self.suite if self.suite is not None and Path(self.suite).suffix in (".toml", ".onnx") else None

    def suite_of_cases(self, name: str) -> Suite:
        """The cases that are written out, as a suite.

        Raises:
            InvalidArgument: One is no case of its operator.
        """
        from deep_bench.operators.case import Case
        from deep_bench.operators.suites.suite import Suite

        cases = []
        for number, case in enumerate(self.cases_written):
            inputs = [shape if isinstance(shape, str) else tuple(shape) for shape in case.inputs]
            options: dict[str, Any] = {"dtype": case.dtype, "label": case.label, "count": case.count}
            try:
                cases.append(Case.of(case.operator, *inputs, **options, settings=case.attributes))
            except (TypeError, ValueError) as error:
                raise InvalidArgument(f"cases[{number}]: {error}", "a case of this operator") from error
        return Suite(name, cases)

    def foreign_code(self, cell: Cell, home: Path) -> Iterator[tuple[str, str]]:
        """See `LevelFields.foreign_code`."""
        yield from (("the operator", kernel) for kernel in self.kernels)
        if self.suite_file is not None:
            yield from _functions_in(home / self.suite_file, self.suite_file)
        elif self.suite is not None:
            yield from import_paths("the suite", [self.suite], suites)
        yield from super().foreign_code(cell, home)

    def check_names(self, cell: Cell, home: Path, line: LineFinder) -> None:  # noqa: ARG002
        """See `LevelFields.check_names`."""
        written = self.cases_written
        if not self.on and not self.kernels:
            expected = "frameworks (on: [torch]), or kernels of your own"
            raise fault_at(line("on") or line("suite"), "nobody takes part", expected)
        check_frameworks(self.on, line)
        if written and (self.suite is not None or len(written) < len(self.cases)):
            raise fault_at(line("cases"), "cases written out beside a suite or labels", "one or the other")
        if not written and self.suite is None:
            raise fault_at(None, "a recipe of operators without cases", "a suite, or cases written out")
        if written:
            self.suite_of_cases(cell.recipe)
        elif self.suite is not None and self.suite_file is None:
            check_registered(suites, self.suite, line("suite"))
            if ":" not in self.suite:
                suite = suites[self.suite]
                for label in self.cases:
                    suite.case(label)

    def write_file(self, cell: Cell, folder: Path, home: Path) -> Path:  # noqa: ARG002
        """See `LevelFields.write_file`."""
        return self.suite_of_cases(cell.recipe).save(folder / self.file_name)

    def options(self, task: CommandTask) -> Iterator[str]:
        """See `LevelFields.options`."""
        from deep_bench.measure.metrics import builtin_metrics

        yield "operators"
        yield f"--suite={task.files.get('suite', self.suite)}"
        yield from self.repeated("on", (with_threads(variant, self.threads) for variant in self.on))
        yield from self.repeated("case", (case for case in self.cases if isinstance(case, str)))
        yield from self.repeated("metric", (name for name in task.metrics if name in builtin_metrics()))
        yield from self.with_values("sample", "dtype", "base")
        numbers = ("seed", "launches", "check", "budget", "limit", "ci_width")
        yield from self.settings_of(q.OperatorSettings, *numbers, "backward", "cold", "numpy", "isolate")

    def arguments(self, task: CommandTask) -> list[str]:  # noqa: ARG002
        """See `LevelFields.arguments`."""
        return list(self.kernels)

    def files(self) -> Iterator[str]:
        """See `LevelFields.files`."""
        if self.suite_file is not None:
            yield self.suite_file
        yield from (kernel.rpartition(":")[0] for kernel in self.kernels)

    def check_fit(self, load: Callable[[str], Network]) -> None:  # noqa: ARG002
        """See `LevelFields.check_fit`."""
        from deep_bench.operators.suites.from_network import suite_of

        if self.suite_file is not None and not is_missing_file(self.suite_file):
            suite = suite_of(self.suite_file)
            for label in self.cases:
                suite.case(str(label))

    def figures(self, cell: Cell, home: Path, metrics: Iterable[str] = ()) -> dict[str, FigureKind]:  # noqa: ARG002
        """See `LevelFields.figures`."""
        from deep_bench.measure.metrics import builtin_metrics

        timed = {q.FORWARD, q.DISPATCH, "first call", "setup"}
        timed |= {q.BOTH, q.BACKWARD} if self.backward else set()
        timed |= {q.COLD} if self.cold else set()
        timed |= {q.NUMPY} if self.numpy else set()
        classes = builtin_metrics()
        figures = dict.fromkeys(timed, TIME)
        for metric in (classes[name]() for name in metrics if name in classes):
            figures[metric.name] = FigureKind("s" if metric.unit == "ns" else metric.unit, metric.direction)
        return figures

    @classmethod
    def what_is_needed(cls, figure: str) -> str:
        """See `LevelFields.what_is_needed`."""
        from deep_bench.measure.metrics import builtin_metrics

        return f"metrics: [{figure}]" if figure in builtin_metrics() else super().what_is_needed(figure)

    @property
    def result_systems(self) -> list[str]:
        """See `LevelFields.result_systems`."""
        return [] if self.kernels else super().result_systems

    def label_values(self) -> dict[str, Iterable[str]]:
        """See `LevelFields.label_values`."""
        labels, written = super().label_values(), self.cases_written
        if written:
            labels["operator"] = [case.operator for case in written]
            if all(case.label for case in written):
                labels["case"] = [str(case.label) for case in written]
        return labels

    def data_types(self, cell: Cell) -> Iterable[np.dtype]:
        """See `LevelFields.data_types`."""
        from deep_bench.operators.suites.from_network import suite_of

        if self.suite is not None and Path(self.suite).suffix:
            return ()
        suite = self.suite_of_cases(cell.recipe) if self.suite is None else suite_of(self.suite)
        suite = suite if self.dtype is None else suite.with_dtype(self.dtype)
        return [argument.dtype for case in suite for argument in case.arguments if argument is not None]


def _functions_in(path: Path, suite: str) -> Iterator[tuple[str, str]]:
    """Functions of a network's own that the cases of a file name by an import path."""
    if path.suffix != ".toml" or not path.is_file():
        return
    try:
        cases = tomllib.loads(path.read_text(encoding="utf-8")).get("cases", [])
    except (OSError, ValueError):
        return  # whoever reads it says why
    for case in cases if isinstance(cases, list) else ():
        operator = case.get("operator") if isinstance(case, dict) else None
        if isinstance(operator, str) and ":" in operator.replace("::", ""):
            yield f"the function of {suite}", operator

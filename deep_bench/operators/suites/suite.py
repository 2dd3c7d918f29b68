"""The suite: a named list of cases, read from TOML and written as such."""

from __future__ import annotations

import difflib
import fnmatch
import json
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, get_args, overload

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deep_bench.errors import DeepBenchError, InvalidArgument, UnknownName
from deep_bench.operators.argument import Argument, element_type
from deep_bench.operators.case import Case
from deep_bench.operators.case_schema import SEPARATOR, input_names
from deep_bench.operators.draws import check_draw
from deep_bench.records.store import replace as store_replace
from deep_bench.tensor import STRING, is_float


def function_of(written: str) -> str | Callable[..., Any]:
    """An operator's name as it is; the function behind an import path (``"package.module:function"``).

    Raises:
        InvalidArgument: There is no such module or function.

    Example:
        >>> function_of("com.microsoft::BiasGelu"), function_of("numpy:tanh")
        ('com.microsoft::BiasGelu', <ufunc 'tanh'>)
    """
    module, colon, name = written.partition(":")
    if not colon or SEPARATOR in written:
        return written
    try:
        function = attrgetter(name)(import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgument(
            f"the operator {written!r}: {error}", "an ONNX operator, or package.module:function"
        ) from error
    if not callable(function):
        raise InvalidArgument(f"the operator {written!r} is a {type(function).__name__}", "a function")
    return function


def path_of(function: Callable[..., Any]) -> str:
    """The import path of a function.

    Raises:
        InvalidArgument: It is not to be found there.

    Example:
        >>> import statistics
        >>> path_of(statistics.fmean)
        'statistics:fmean'
    """
    path = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    try:
        named_function = function_of(path)
    except (InvalidArgument, TypeError):
        named_function = path
    if named_function is not function:
        raise InvalidArgument(
            f"the function {getattr(function, '__name__', function)!r} cannot be written down",
            "one that a module has under its own name",
            "move it into a module that can be imported",
        )
    return path


_SHOWN = 12
"""How many labels a message names, the nearest ones."""


@dataclass(frozen=True)
class Suite(Sequence[Case]):
    """Cases under one name, in order.

    Labels in a suite differ: where cases of several operators have the same, the operator's name is put before it, and where
    cases of one operator have, ``#2``, ``#3`` and so on after it.

    Args:
        name: How reports call it.
        cases: The cases.
        source: Where the sizes come from.
        licence: Under which they are published, where that is stated.
        notes: What a reader should know, such as what was left out and why.

    Example:
        >>> suite = Suite("mine", [Case.of("Gelu", (2, 3)), Case.of("Softmax", (2, 3)), Case.of("Softmax", (4, 5))])
        >>> suite.labels
        ('Gelu 2x3', 'Softmax 2x3', '4x5')
        >>> suite.case("4x5").op_type, len(suite.filter("Gelu*")), len(suite + suite[:1])
        ('Softmax', 1, 4)
    """

    name: str
    cases: Sequence[Case] = ()
    source: str = ""
    licence: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for case in self.cases:
            if not isinstance(case, Case):
                raise InvalidArgument(
                    f"{case!r} in the suite {self.name!r}", "cases; Case.of(operator, shapes...) makes one"
                )
        object.__setattr__(self, "cases", _distinct_labels(tuple(self.cases)))
        object.__setattr__(self, "notes", tuple(self.notes))

    @overload
    def __getitem__(self, index: int) -> Case: ...
    @overload
    def __getitem__(self, index: slice) -> Suite: ...
    def __getitem__(self, index: int | slice) -> Case | Suite:
        selection = self.cases[index]
        return selection if isinstance(selection, Case) else replace(self, cases=selection)

    def __len__(self) -> int:
        return len(self.cases)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each case, in order."""
        return tuple(case.label for case in self.cases)

    @property
    def tags(self) -> frozenset[str]:
        """All words that its cases are tagged with."""
        return frozenset().union(*(case.tags for case in self.cases))

    def case(self, label: str) -> Case:
        """The case of a label, with or without its operator's name.

        Raises:
            UnknownName: There is none; the nearest label is suggested.
        """
        for case in self.cases:
            if label in (case.label, case.name):
                return case
        near = difflib.get_close_matches(label, self.labels, n=_SHOWN, cutoff=0.0)
        raise UnknownName(f"case of {self.name}", label, near, f"its {len(self)} labels are listed by suite.labels")

    def filter(
        self,
        label: str | None = None,
        *,
        tags: str | Iterable[str] = (),
        operator: str | None = None,
        where: Callable[[Case], bool] | None = None,
    ) -> Suite:
        """The cases that fulfil all that is asked for.

        Args:
            label: A pattern as file names have it (``"5124x*"``), for the label with or without the operator's name.
            tags: Words that a case must all have.
            operator: The operator's name.
            where: A function that is true for them.

        Raises:
            InvalidArgument: There is no such case.

        Example:
            >>> import deep_bench as db
            >>> db.suites["deepbench/gemm/device"].filter("3072x*", where=lambda case: 1 not in case.results[0].shape).labels
            ('3072x1500x1024', '3072x1500x128')
        """
        words = {tags} if isinstance(tags, str) else set(tags)

        def fits(case: Case) -> bool:
            return (
                (label is None or fnmatch.fnmatchcase(case.label, label) or fnmatch.fnmatchcase(case.name, label))
                and words <= case.tags
                and operator in (None, case.operator, case.op_type)
                and (where is None or where(case))
            )

        matches = [case for case in self.cases if fits(case)]
        if not matches:
            criteria = [f"the label {label!r}"] if label is not None else []
            criteria += [f"the tags {', '.join(sorted(words))}"] if words else []
            criteria += [f"the operator {operator}"] if operator is not None else []
            choices = f"labels such as {', '.join(self.labels[:3])}; tags {', '.join(sorted(self.tags)) or '(none)'}"
            raise InvalidArgument(f"no case of {self.name} has {' and '.join(criteria) or 'what is asked for'}", choices)
        return replace(self, cases=matches)

    def sample(self, n: int, seed: int = 0) -> Suite:
        """``n`` of its cases, drawn by a seed without repetition, in its own order; all of them if it has no more.

        Raises:
            InvalidArgument: ``n`` is below 1.
        """
        if n < 1:
            raise InvalidArgument(f"a sample of {n} cases", "at least 1")
        chosen = np.random.default_rng(seed).permutation(len(self.cases))[:n]
        return replace(self, cases=[self.cases[i] for i in sorted(chosen)])

    def with_dtype(self, dtype: str | np.dtype | type) -> Suite:
        """Its cases in another floating-point type.

        Example:
            >>> [str(a) for a in Suite("x", [Case.of("Gelu", (2,))]).with_dtype("bfloat16")[0].arguments]
            ['X: bfloat16[2]']
        """
        from deep_bench.operators.case import with_dtype

        return replace(self, cases=[with_dtype(case, dtype) for case in self.cases])

    def __add__(self, other: Iterable[Case]) -> Suite:
        if not isinstance(other, Suite):
            return replace(self, cases=(*self.cases, *other))
        return Suite(
            _joined(" + ", self.name, other.name),
            (*self.cases, *other.cases),
            _joined("; ", self.source, other.source),
            _joined("; ", self.licence, other.licence),
            tuple(dict.fromkeys((*self.notes, *other.notes))),
        )

    @classmethod
    def from_toml(cls, path: str | Path) -> Suite:
        """A suite that somebody has written down.

        ::

            name = "mine"
            source = "our own network"

            [[cases]]
            operator = "Gemm"
            inputs = [[35, 2048], [2048, 700]]          # shapes; also "int64[4]", {shape = [4], draw = "below:9"},
            attributes = {transB = 0}                   # {value = [2, 3], dtype = "int64"} and {omitted = true}
            dtype = "float16"
            tags = ["speech"]

        Raises:
            InvalidArgument: It cannot be read, is no TOML, or has a field that does not exist or holds something else than
                it should: the place is named, and the nearest field.
        """

        return read_suite(Path(path))

    def save(self, path: str | Path) -> Path:
        """Write it as TOML, so that `from_toml` gives the same suite.

        Raises:
            InvalidArgument: A case holds a function that no module has under its name, or complex constants.
        """

        return write_suite(self, Path(path))

    def __repr__(self) -> str:
        return f"Suite({self.name!r}, {len(self.cases)} cases)"


def _joined(between: str, *parts: str) -> str:
    return between.join(dict.fromkeys(part for part in parts if part))


def _distinct_labels(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """The cases with labels that differ."""
    operators = defaultdict(set)
    for case in cases:
        operators[case.label].add(case.op_type)
    named = [replace(case, label=case.name) if len(operators[case.label]) > 1 else case for case in cases]
    counts, distinct_cases = Counter[str](), list[Case]()
    for case in named:
        counts[case.label] += 1
        place = counts[case.label]
        distinct_cases.append(replace(case, label=f"{case.label} #{place}") if place > 1 else case)
    return tuple(distinct_cases)


Size = Annotated[int, Field(ge=0)]


class _TomlModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class InputModel(_TomlModel):
    """An input: drawn if it has no value."""

    shape: list[Size] | None = None
    dtype: str | None = None
    draw: str | None = None
    value: Any = None
    omitted: bool = False


class CaseModel(_TomlModel):
    """A case."""

    operator: str
    inputs: list[list[Size] | str | InputModel] = []
    attributes: dict[str, Any] = {}
    dtype: str | None = None
    label: str | None = None
    tags: list[str] = []
    count: int = 1
    source: str = ""
    outputs: int | None = None


class SuiteModel(_TomlModel):
    """A suite."""

    name: str | None = None
    source: str = ""
    licence: str = ""
    notes: list[str] = []
    cases: Annotated[list[CaseModel], Field(min_length=1)]


def read_suite(path: Path) -> Suite:
    """See `Suite.from_toml`."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        model = SuiteModel.model_validate(content)
    except OSError as error:
        raise InvalidArgument(f"the suite {path} cannot be read: {error.strerror}", "a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"the suite {path} is no TOML: {error}", "see https://toml.io") from error
    except ValidationError as error:
        raise _refusal(path, error) from error
    cases = [_read_case(path, i, case) for i, case in enumerate(model.cases)]
    return Suite(model.name or path.stem, cases, model.source, model.licence, tuple(model.notes))


def _read_case(path: Path, index: int, model: CaseModel) -> Case:
    try:
        operator = function_of(model.operator)
        names = input_names(operator, len(model.inputs))
        draws = {n: i.draw for n, i in zip(names, model.inputs, strict=True) if isinstance(i, InputModel) and i.draw}
        for draw in draws.values():
            check_draw(draw)
        return Case.of(
            operator,
            *map(_read_input, model.inputs),
            dtype=model.dtype,
            label=model.label,
            tags=model.tags,
            count=model.count,
            source=model.source,
            outputs=model.outputs,
            draws=draws,
            settings={name: _read_attribute(value) for name, value in model.attributes.items()},
        )
    except DeepBenchError as error:
        raise InvalidArgument(f"{path}, cases[{index}]: {error.came}", error.expected, error.advice) from error


def _read_input(entry: list[int] | str | InputModel) -> Any:
    """What `Case.of` takes for it."""
    if isinstance(entry, list):
        return tuple(entry)
    if isinstance(entry, str):
        return entry
    if entry.omitted:
        return None
    if entry.value is not None:
        return _read_array(entry.value, entry.dtype, entry.shape)
    if entry.shape is None:
        raise InvalidArgument("an input without shape and value", "one of the two, or omitted = true")
    shape = tuple(entry.shape)
    return f"{entry.dtype}{list(shape)}" if entry.dtype else shape


def _read_array(value: Any, dtype: str | None, shape: Sequence[int] | None) -> Any:
    if dtype is None:
        return value
    kind = element_type(dtype)
    return np.asarray(value, dtype=object).astype(kind).reshape(np.shape(value) if shape is None else tuple(shape))


def _read_attribute(value: Any) -> Any:
    if isinstance(value, dict):
        unknown = sorted(set(value) - {"value", "dtype", "shape"})
        if unknown or "value" not in value:
            raise InvalidArgument(f"an attribute {value}", 'an array as {value = [...], dtype = "..."}')
        return np.asarray(_read_array(value["value"], value.get("dtype"), value.get("shape")))
    return value


def _refusal(path: Path, error: ValidationError) -> InvalidArgument:
    """The first thing that is wrong, with its place and, for a field that does not exist, the nearest one that does."""
    first = next((e for e in error.errors() if e["type"] == "extra_forbidden"), error.errors()[0])
    place = _place(first["loc"])
    if first["type"] == "extra_forbidden":
        location = first["loc"]
        model = InputModel if "inputs" in location else CaseModel if "cases" in location else SuiteModel
        fields = list(model.model_fields)
        near = difflib.get_close_matches(str(first["loc"][-1]), fields, n=1)
        advice = f"did you mean {near[0]!r}?" if near else ""
        return InvalidArgument(f"{path}: there is no field {place!r}", f"one of {', '.join(fields)}", advice)
    if first["type"] == "missing":
        return InvalidArgument(f"{path} has no {place!r}", "this field")
    return InvalidArgument(f"{path}: {place} is {first['input']!r}", first["msg"].removeprefix("Input should be "))


def _place(location: Sequence[int | str]) -> str:
    """``cases[2].inputs[0].shape``; the names that pydantic gives the kinds of an input are left out."""
    kinds = {"str", "InputModel", *(str(t) for t in get_args(CaseModel.model_fields["inputs"].annotation))}
    parts = [p for p in location if p not in kinds and not re.match(r"list\[|str$|InputModel", str(p))]
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in parts).removeprefix(".")


def write_suite(suite: Suite, path: Path) -> Path:
    """See `Suite.save`."""
    head = {"name": suite.name, "source": suite.source, "licence": suite.licence, "notes": list(suite.notes)}
    lines = [f"{key} = {_written_text(value)}" for key, value in head.items() if value]
    for case in suite:
        lines += ["", "[[cases]]", *(f"{key} = {_written_text(value)}" for key, value in _written_case(case).items())]
    if not path.parent.is_dir():
        raise InvalidArgument(
            f"no folder {str(path.parent)!r} for the suite", "a folder that exists", "create it, or name another"
        )
    store_replace(path, lambda temporary: temporary.write_text("\n".join(lines) + "\n", encoding="utf-8"))
    return path


def _written_case(case: Case) -> dict[str, Any]:
    fields = {
        "operator": case.operator if isinstance(case.operator, str) else path_of(case.operator),
        "label": case.label,
        "inputs": [_written_input(case, a) for a in case.arguments],
        "outputs": case.outputs,
    }
    if case.attributes:
        fields["attributes"] = {name: _written_attribute(value) for name, value in case.attributes.items()}
    optional = {"tags": sorted(case.tags), "source": case.source, "count": case.count if case.count != 1 else None}
    return {**fields, **{key: value for key, value in optional.items() if value}}


def _written_input(case: Case, argument: Argument | None) -> Any:
    if argument is None:
        return {"omitted": True}
    if argument.value is not None:
        return _written_array(argument.value)
    if callable(argument.draw):
        raise InvalidArgument(
            f"{case.name} draws {argument.spec.name} by a function, which cannot be written down", "a named draw"
        )
    dtype = "string" if argument.dtype == STRING else str(argument.dtype)
    return {"shape": list(argument.shape), "dtype": dtype, "draw": argument.draw}


def _written_array(array: np.ndarray) -> dict[str, Any]:
    if array.dtype.kind == "c":
        raise InvalidArgument(f"a constant of {array.dtype}", "real numbers, which TOML can hold")
    dtype = "string" if array.dtype == STRING else str(array.dtype)
    plain = array.astype(np.float64) if is_float(array.dtype) else array
    listed = plain.tolist() if plain.dtype.kind in "fiubO" else plain.astype(np.int64).tolist()
    return {"value": listed, "dtype": dtype, "shape": list(array.shape)}


def _written_attribute(value: Any) -> Any:
    return _written_array(value) if isinstance(value, np.ndarray) else value


def _written_text(value: Any) -> str:
    """A value in TOML's own notation, on one line."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return repr(float(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_written_key(k)} = {_written_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_written_text, value)) + "]"
    raise InvalidArgument(f"{value!r} in a suite", "numbers, strings, lists and arrays, which TOML can hold")


def _written_key(name: str) -> str:
    return name if name.replace("_", "").isalnum() and name.isascii() else json.dumps(name, ensure_ascii=False)

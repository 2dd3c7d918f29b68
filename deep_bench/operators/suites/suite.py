"""The suite: a named list of cases."""

from __future__ import annotations

import difflib
import fnmatch
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

import numpy as np

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.operators.case import Case

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
        object.__setattr__(self, "cases", _told_apart(tuple(self.cases)))
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
            self._refuse_filter(label, words, operator)
        return replace(self, cases=matches)

    def _refuse_filter(self, label: str | None, words: set[str], operator: str | None) -> None:
        criteria = [f"the label {label!r}"] if label is not None else []
        criteria += [f"the tags {', '.join(sorted(words))}"] if words else []
        criteria += [f"the operator {operator}"] if operator is not None else []
        choices = f"labels such as {', '.join(self.labels[:3])}; tags {', '.join(sorted(self.tags)) or '(none)'}"
        raise InvalidArgument(f"no case of {self.name} has {' and '.join(criteria) or 'what is asked for'}", choices)

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
        from deep_bench.operators.case_dtype import with_dtype

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
        from deep_bench.operators.suites.toml import read_suite

        return read_suite(Path(path))

    def save(self, path: str | Path) -> Path:
        """Write it as TOML, so that `from_toml` gives the same suite.

        Raises:
            InvalidArgument: A case holds a function that no module has under its name, or complex constants.
        """
        from deep_bench.operators.suites.toml_write import write_suite

        return write_suite(self, Path(path))

    def __repr__(self) -> str:
        return f"Suite({self.name!r}, {len(self.cases)} cases)"


def _joined(between: str, *parts: str) -> str:
    return between.join(dict.fromkeys(part for part in parts if part))


def _told_apart(cases: tuple[Case, ...]) -> tuple[Case, ...]:
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

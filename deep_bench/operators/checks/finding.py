"""What a check says of a kernel, and what a user's code raised, in one line."""

from __future__ import annotations

import dataclasses
import json
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Literal, overload

import deep_bench
from deep_bench.errors import DeepBenchError, InvalidArgument

_OURS = str(Path(deep_bench.__file__).parent)
_LONGEST = 500


class KernelFailure(DeepBenchError):
    """A kernel raised, or returned something that cannot be read."""


def in_a_line(error: BaseException) -> str:
    """An error with what was expected, or its kind and the last place outside of deep_bench.

    Example:
        >>> in_a_line(ValueError("no such size\\nsecond line"))
        'ValueError: no such size'
    """
    if isinstance(error, DeepBenchError):
        return f"{error.came}{f'; expected: {error.expected}' if error.expected else ''}"
    first = next(iter(str(error).strip().splitlines()), "")[:_LONGEST]
    return f"{type(error).__name__}{f': {first}' if first else ''}{_place(error)}"


def _place(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((_OURS, "<"))]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


Word = Literal[
    "right", "reduced precision", "wrong", "cannot tell", "no information", "not applicable", "not checked", "failed"
]

FAULTS: tuple[Word, ...] = ("failed", "wrong", "reduced precision")
"""The words that say that something is the matter with the kernel, the worst first."""


_DECIDING: tuple[Word, ...] = (*FAULTS, "cannot tell", "not checked", "right", "no information", "not applicable")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check says of a kernel on one case.

    Args:
        name: The check.
        case: The case, as tables call it.
        word: *right*; *reduced precision*; *wrong*; *cannot tell*; *no information* (there was nothing to compare);
            *not applicable*; *not checked* (an earlier check of the case ended its process); *failed* (the kernel raised,
            crashed, took too long, or returned something that is no array).
        reason: Why, in one sentence; of what is right, what was not asked; empty where it is simply right.
        bits: The significant bits of the worst result, where results were compared.
        place: Where: the output or gradient, the element, the kind of inputs.
        figures: What was measured, each under its name.
        parts: What it is made of, where it is made of several.

    Example:
        >>> Finding("forward", "Gelu 2x3", "right", bits=24.1).fault
        False
    """

    name: str
    case: str
    word: Word
    reason: str = ""
    bits: float | None = None
    place: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    parts: tuple[Finding, ...] = ()

    @property
    def fault(self) -> bool:
        """Whether something is the matter with the kernel."""
        return self.word in FAULTS

    def __str__(self) -> str:
        place = f" ({self.place})" if self.place else ""
        return f"{self.name}, {self.case}: {self.word}{f': {self.reason}' if self.reason else ''}{place}"

    def as_dict(self) -> dict[str, Any]:
        """It in plain types, ready for JSON."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {
            **plain,
            "bits": None if self.bits is None or self.bits != self.bits else float(self.bits),
            "figures": {name: float(v) if abs(v) < float("inf") else None for name, v in self.figures.items()},
            "parts": [part.as_dict() for part in self.parts],
        }


def combined(name: str, case: str, parts: Sequence[Finding], nothing: str = "") -> Finding:
    """The finding of a check that is made of several: the worst decides, and what was not asked is said.

    Args:
        name: The check.
        case: The case.
        parts: What it is made of.
        nothing: The reason if there are none.

    Example:
        >>> right, wrong = Finding("a", "c", "right"), Finding("a", "c", "wrong", "is off", place="huge")
        >>> parts = [right, wrong, right]
        >>> print(combined("forward", "Gelu 2x3", parts))
        forward, Gelu 2x3: wrong: is off, and 2 of 3 are right (huge)
    """
    if not parts:
        return Finding(name, case, "not applicable", nothing)
    worst = min(parts, key=lambda part: (_DECIDING.index(part.word), float("inf") if part.bits is None else part.bits))
    bits = [part.bits for part in parts if part.bits is not None and part.bits == part.bits]
    right = sum(part.word == "right" for part in parts)
    remark = f", and {right} of {len(parts)} are right" if worst.word not in ("right", "not applicable") and right else ""
    unasked = dict.fromkeys(p.reason for p in parts if p.word == "not applicable" and p is not worst)
    remark += f"{'; ' * bool(worst.reason)}not asked: {', '.join(unasked)}" if unasked and worst.word == "right" else ""
    figures: dict[str, float] = {}
    for part in parts:
        for key, value in part.figures.items():
            figures[key] = max(value, figures.get(key, value))
    return Finding(
        name,
        case,
        worst.word,
        f"{worst.reason}{remark}",
        worst.bits if worst.fault else min(bits, default=None),
        worst.place if worst.word != "right" or worst.reason else "",
        figures,
        tuple(parts),
    )


class Findings(Sequence[Finding]):
    """What all checks say of a kernel.

    Args:
        operator: The kernel's name.
        found: The findings, in the order of the cases and the checks.

    Example:
        >>> found = Findings("Mine", [Finding("forward", "Gelu 2x3", "right", bits=24.1)])
        >>> found.ok, len(found), found.of("forward")[0].word
        (True, 1, 'right')
    """

    def __init__(self, operator: str, found: Sequence[Finding]) -> None:
        self.operator = operator
        self._found = tuple(found)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | Sequence[Finding]:
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found)

    @property
    def ok(self) -> bool:
        """Whether no check found a fault, and at least one found something right."""
        return not self.faults and any(f.word == "right" for f in self)

    @property
    def faults(self) -> list[Finding]:
        """The findings that say that something is the matter."""
        return [f for f in self if f.fault]

    def of(self, check: str) -> list[Finding]:
        """The findings of one check."""
        return [f for f in self if f.name == check]

    def table(self, *, every: bool = True) -> str:
        """The findings as text, one line each.

        Args:
            every: False leaves out what is right or does not apply.
        """
        from rich.console import Console
        from rich.table import Table

        from deep_bench.records.table import columns, print_table

        shown = [f for f in self if every or f.word not in ("right", "not applicable")]
        table = Table("case", "check", "finding", title=self._title())
        table.add_column("bits", justify="right")
        table.add_column("why")
        for f in shown:
            reason = f"{f.reason} ({f.place})" if f.reason and f.place else f.reason or f.place
            table.add_row(f.case, f.name, f.word, "" if f.bits is None or f.bits != f.bits else f"{f.bits:.1f}", reason)
        text = StringIO()
        print_table(Console(file=text, width=columns(), color_system=None), table)
        return text.getvalue()

    def _title(self) -> str:
        words = [f.word for f in self]
        counts = ", ".join(f"{words.count(word)} {word}" for word in _DECIDING if word in words)
        return f"{self.operator}: {counts or 'nothing was checked'}"

    def __str__(self) -> str:
        return self.table()

    def as_dict(self) -> dict[str, Any]:
        """They in plain types, ready for JSON."""
        return {"operator": self.operator, "ok": self.ok, "findings": [f.as_dict() for f in self]}

    def to_json(self, file: str | Path | None = None) -> str:
        """They as JSON.

        Args:
            file: Where to write it as well; it is written whole or not at all.

        Raises:
            InvalidArgument: The file cannot be written.
        """
        from deep_bench.records.store import replace

        text = json.dumps(self.as_dict(), indent=1, allow_nan=False, ensure_ascii=False)
        if file is not None:
            try:
                replace(Path(file), lambda part: part.write_text(text + "\n", encoding="utf-8"))
            except OSError as error:
                raise InvalidArgument(f"{file} cannot be written: {error}", "a path in an existing folder") from error
        return text

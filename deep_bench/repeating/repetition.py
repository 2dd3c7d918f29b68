"""``Repetition``: what came of repeating a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from deep_bench.repeating.bits import Bits
from deep_bench.repeating.manifest import Manifest
from deep_bench.results import Result
from deep_bench.results.comparing.comparison import severity
from deep_bench.results.comparing.comparisons import Comparisons

LOG = "repeated.log"
"""What the run printed, in the bundle's folder."""

_TAIL_BYTES = 16 * 2**10

Word: TypeAlias = Literal["repeated to the last bit", "repeated", "not repeated", "cannot tell"]


@dataclass(frozen=True)
class Repetition:
    """A run and its repetition. Printing it shows the report.

    Args:
        manifest: The bundle's.
        folder: Where it was unpacked and run.
        command: What was run.
        status: Its exit status; ``None`` if it took too long and was ended.
        clean: Whether the environment was built from the lock.
        before, after: The results of both.
        given: What it was given, compared.
        bits: What was computed, compared to the last bit.
        comparisons: All figures of both, compared; ``None`` where there is nothing to compare, which ``why`` tells.
        differences: What is another in the environment now: name to both values.
        why: Why figures were not compared.
        unread: Records of the repetition that cannot be read, with the reason.
        not_set: Environment variables of the run that a stranger's bundle may not set.
        dropped: Environment variables of this machine that a clean environment was not given.
    """

    manifest: Manifest
    folder: Path
    command: tuple[str, ...]
    status: int | None
    clean: bool
    before: tuple[Result, ...]
    after: tuple[Result, ...]
    given: Bits
    bits: Bits
    comparisons: Comparisons | None
    differences: Mapping[str, tuple[str, str]]
    why: str = ""
    unread: tuple[str, ...] = ()
    not_set: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def log(self) -> Path:
        """What the run printed."""
        return self.folder / LOG

    def last_lines(self, most: int = 12) -> list[str]:
        """The end of what the run printed, without empty lines."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
        return [line for line in text.splitlines() if line.strip()][-most:]

    @cached_property
    def verdict(self) -> Word:
        """Whether it was repeated, as `reasons` explains."""
        if self.failures:
            return "not repeated"
        if not self.checked:
            return "cannot tell"
        return "repeated to the last bit" if self.bits.same and not self.bits.differ else "repeated"

    @property
    def failures(self) -> list[str]:
        """What did not come out as before."""
        failures = []
        if self.status is None:
            failures.append("it took too long, and was ended")
        if not self.after:
            failures.append(f"it left no record; exit status {self.status}")
        elif self.comparisons is not None:
            failures += [
                f"{c.name}: {c.before} before, {c.after} now: {c.reason}" for c in self.comparisons.changes if c.worse
            ]
            failures += [f"{result.name}: there is no result now" for result in self.comparisons.left[0]]
        failures += [f"a record cannot be read: {refusal}" for refusal in self.unread]
        failures += [f"{name} is another one now" for name in self.given.differ] if self.after else []
        failures += [f"{name}: nothing now" for name in self.bits.missing] if self.after else []
        return failures

    @property
    def checked(self) -> bool:
        """Whether something in it says that the results are right, or are those of before."""
        judged = any(result.verdict is not None and not severity(result.outcome) for result in self.after)
        return judged or bool(self.bits.same)

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Why the verdict is what it is."""
        if self.failures:
            return tuple(self.failures)
        reasons = []
        if self.bits.same or self.bits.differ:
            reasons.append(
                f"{len(self.bits.same)} of {len(self.bits.same) + len(self.bits.differ)} results are equal to the last bit"
            )
        if self.bits.differ:
            reasons.append(
                "the others were judged again, and are as right as before" if self.comparisons is not None else ""
            )
        if not self.checked:
            reasons.append("nothing in the records tells whether results are right")
        return tuple(filter(None, reasons))

    def report(self, width: int | None = None) -> str:
        """All of it as text.

        Args:
            width: Characters in a line; by default those of the terminal.
        """
        from deep_bench.repeating.report import as_text

        return as_text(self, width)

    def __str__(self) -> str:
        return self.report()

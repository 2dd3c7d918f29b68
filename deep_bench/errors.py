"""The exceptions that deep_bench raises on purpose.

Each message says what came, what was expected and what to do about it. Anything else that escapes is a bug in deep_bench.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

_LONGEST = 4_000
"""So many characters of what came are told: it may quote an exception of others, whose message may have any length."""

_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


def shortened(text: str, most: int) -> str:
    """A text, or its begin and its end and how much was left out between them, if it is longer than it may be.

    Args:
        text: Any.
        most: The most characters that are kept of it.

    Example:
        >>> shortened("a" * 100_000, 20)
        'aaaaaaaaaaaaaaa [… 99980 characters left out …] aaaaa'
    """
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end]} [… {len(text) - most} characters left out …] {text[-end:]}"


def short_digests(text: str) -> str:
    """A text with twelve digits of each SHA-256 in it.

    Example:
        >>> short_digests("network " + "0123456789abcdef" * 4)
        'network 0123456789ab'
    """
    return _DIGEST.sub(lambda match: match[0][:12], text)


def printable(text: str) -> str:
    """A text without characters that would move a terminal's cursor or change its colours; lines stay lines.

    Args:
        text: Any, such as a name in a file from elsewhere.

    Example:
        >>> printable("a\\x1b[2Jb")
        'a\\\\x1b[2Jb'
    """
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def on_a_line(text: object) -> str:
    """The same for a name, in which a line's end is shown as well.

    Example:
        >>> on_a_line("a\\nb.json")
        'a\\\\nb.json'
    """
    return printable(str(text)).replace("\n", "\\n")


def nearest(name: str, known: Iterable[str]) -> str:
    """A question that names the known word nearest to this one, if one is near.

    Example:
        >>> nearest("optimiser", ["optimizer", "data"]), nearest("x", ["optimizer"])
        ("did you mean 'optimizer'?", '')
    """
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else ""


class DeepBenchError(Exception):
    """Base of every error that a user can cause and mend.

    Args:
        came: What was found, with the offending name or value.
        expected: What would have been right.
        advice: What to do now.
    """

    def __init__(self, came: str, expected: str = "", advice: str = "") -> None:
        super().__init__(came, expected, advice)
        self.came = came
        self.expected = expected
        self.advice = advice

    def __str__(self) -> str:
        parts = [shortened(self.came, _LONGEST)]
        if self.expected:
            parts.append(f"Expected: {self.expected}")
        if self.advice:
            parts.append(f"What to do: {self.advice}")
        return "\n".join(parts)


class InvalidArgument(DeepBenchError):
    """An argument, option or command-line value that deep_bench cannot use."""


class NotKept(InvalidArgument):
    """What was measured is here, but could not be written.

    Args:
        came: See `DeepBenchError`.
        expected: See `DeepBenchError`.
        advice: See `DeepBenchError`.
        found: What was measured; it can be shown, or saved to another folder.
    """

    def __init__(
        self,
        came: str,
        expected: str = "",
        advice: str = "free some space, or name another folder, and measure again: the figures shown are all that is left",
        found: Any = None,
    ) -> None:
        super().__init__(came, expected, advice)
        self.args = (came, expected, advice, found)  # so that the error survives pickling
        self.found = found


class InvalidInput(DeepBenchError):
    """Data fed to a network does not fit its declared inputs."""


class InvalidNetwork(DeepBenchError):
    """A file that is not a usable ONNX network."""


class UnknownName(DeepBenchError, KeyError):
    """A name that is in no registry, with the nearest known one suggested."""

    def __init__(self, kind: str, name: str, known: Iterable[str], otherwise: str = "pick one of these") -> None:
        known = sorted(known)
        near = difflib.get_close_matches(name, known, n=1)
        advice = f"did you mean {near[0]!r}?" if near else otherwise
        super().__init__(f"unknown {kind} {name!r}", f"one of {', '.join(known) or '(none)'}", advice)
        self.args = (kind, name, known, otherwise)  # so that the error survives pickling

    __str__ = DeepBenchError.__str__  # KeyError would print the repr of the message


class FrameworkMissing(DeepBenchError, ImportError):
    """A framework that is known but not installed here."""


class Unsupported(DeepBenchError):
    """A request that a framework, adapter or device cannot fulfil, refused instead of done differently."""


class UnsupportedOperator(Unsupported):
    """A node that an adapter cannot run, refused in ``prepare``.

    Args:
        node: The node's name.
        operator: Its ONNX operator, with the domain unless that is the default one.
        opset: The opset version it is written in.
        reason: Why it cannot run here.
    """

    def __init__(self, node: str, operator: str, opset: int | None, reason: str) -> None:
        where = f"node {node!r} ({operator}, opset {opset})"
        super().__init__(f"{where} cannot run here: {reason}")
        self.args = (node, operator, opset, reason)  # so that the error survives pickling
        self.node, self.operator, self.opset, self.reason = node, operator, opset, reason


class Stopped(DeepBenchError):
    """A callback asked a run to stop."""


class WorkerError(DeepBenchError):
    """A system under test failed in its own process; ``details`` holds that process's traceback."""

    details: str = ""


class WorkerDied(WorkerError):
    """The process of a system under test ended unexpectedly (killed, out of memory, crashed)."""


class CommunicationFailed(DeepBenchError):
    """Ranks that cannot reach each other, wait for each other for ever, or were ended because another one failed."""


class RanksAbsent(CommunicationFailed):
    """Ranks of a run that did not come in time.

    Args:
        came: See `DeepBenchError`.
        expected: See `DeepBenchError`.
        advice: See `DeepBenchError`.
        teller: The rank that tells it, of all those that find the same.
    """

    def __init__(self, came: str, expected: str = "", advice: str = "", teller: int = 0) -> None:
        super().__init__(came, expected, advice)
        self.args = (came, expected, advice, teller)  # so that the error survives pickling
        self.teller = teller


class InvalidRecord(DeepBenchError):
    """A file that is not a record that this version can read."""


class InvalidData(DeepBenchError):
    """A data set's file or sample that is missing, damaged, or not what it claims to be."""


class Incomparable(DeepBenchError):
    """Results that differ in more than what is compared.

    Args:
        came: What was to be compared.
        differences: Name of a label or fact to its values on both sides.
        advice: What to do now.
    """

    def __init__(self, came: str, differences: Mapping[str, tuple[str, str]], advice: str = "") -> None:
        shown = {name: [shortened(short_digests(value), 80) for value in both] for name, both in differences.items()}
        lines = [f"  {name}: {first} | {second}" for name, (first, second) in shown.items()]
        super().__init__(printable("\n".join([came, *lines])), "results that differ in one factor only", advice)
        self.args = (came, differences, advice)  # so that the error survives pickling
        self.differences = differences
